"""Orders names: digits within names count as numbers, so that 2 is below 10, and n2 below n10."""

import re
from functools import lru_cache
from typing import Final, TypeAlias

Order: TypeAlias = tuple[tuple[tuple[str, int], ...], str]

_PARTS: Final = re.compile(r"(\D*)(\d*)", re.ASCII)
_KEPT: Final = 1 << 16


@lru_cache(_KEPT)
def order(name: str) -> Order:
    """A key to compare names by; the name itself comes last, so that `01` and `1` differ too."""
    parts = tuple((text, int(digits) if digits else -1) for text, digits in _PARTS.findall(name) if text or digits)
    return parts, name
