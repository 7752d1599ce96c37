"""Golden files: what held when they were written, one line for each thing that holds.

`HOLDS_REWRITE=1 pytest tests/holds` writes all of them anew (one of them: name its test file).  Do so only for a change
that is meant, and say in the commit what changed and why.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
REWRITE: Final = os.environ.get("HOLDS_REWRITE") == "1"


def read(name: str) -> dict[str, Any]:
    """Return what a golden file holds; nothing where there is none yet."""
    path = HERE / name
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def write(name: str, holds: dict[str, Any]) -> None:
    """Write a golden file: sorted, one line for each key."""
    lines = (f"{json.dumps(key)}: {json.dumps(holds[key], separators=(',', ':'))}" for key in sorted(holds))
    (HERE / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def lost(golden: Any, found: Any, where: str = "") -> list[str]:
    """Return what the golden file has and `found` has not, or has otherwise; what is new is no loss."""
    if isinstance(golden, dict) and isinstance(found, dict):
        return [text for key in golden for text in lost(golden[key], found.get(key), f"{where} {key}".strip())]
    if isinstance(golden, list) and isinstance(found, list):
        return [f"{where}: {item!r} is gone" for item in golden if item not in found]
    return [] if golden == found else [f"{where}: was {golden!r}, is {found!r}"]


def changed(golden: Any, found: Any, where: str = "") -> list[str]:
    """Return what is other than it was; a new key of a dictionary is no change, a new item of a list is one."""
    if isinstance(golden, dict) and isinstance(found, dict):
        return [text for key in golden for text in changed(golden[key], found.get(key), f"{where} {key}".strip())]
    if isinstance(golden, list) and isinstance(found, list) and len(golden) == len(found):
        pairs = zip(golden, found, strict=True)
        return [text for i, (a, b) in enumerate(pairs) for text in changed(a, b, f"{where}[{i}]")]
    return [] if golden == found else [f"{where}: was {golden!r}, is {found!r}"]
