"""The files of the page, as they are in the wheel: `text` for a file that holds everything, `found` to serve them."""

from pathlib import Path
from typing import Final

_PLACE: Final = Path(__file__).with_name("static")
_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def text(name: str) -> str:
    """Return one file of the page, such as lanes.js."""
    return (_PLACE / name).read_text(encoding="utf-8")


def found(name: str) -> tuple[str, bytes] | None:
    """Return the content type and the bytes of that file; None where the page has no file of that name."""
    path = _PLACE / name
    if path.parent != _PLACE or path.suffix not in _KINDS or not path.is_file():
        return None
    return _KINDS[path.suffix], path.read_bytes()
