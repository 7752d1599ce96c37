"""Text that others chose, as a terminal may show it: names, metadata and reasons come from the network."""

import re
from typing import Any, Final

# DEL, C1 controls and the marks that turn the direction of text, in UTF-8: JSON needs no escape for them.
_RAW_IN_JSON: Final = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")


def plain(text: str) -> str:
    r"""Return the text in one line that moves no cursor: what cannot be printed is written as `\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def plain_values(value: Any) -> Any:
    """Return a value of JSON with all texts in it plain."""
    match value:
        case str():
            return plain(value)
        case list():
            return [plain_values(item) for item in value]
        case dict():
            return {plain_values(key): plain_values(item) for key, item in value.items()}
    return value


def plain_json(data: bytes) -> bytes:
    """Return encoded JSON with the same values, in bytes that a terminal takes for nothing but text."""
    return _RAW_IN_JSON.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)
