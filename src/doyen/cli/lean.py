"""A node's process without what it never uses.

asyncio loads OpenSSL for TLS, msgspec typing_extensions for older Pythons: together 6 of 33 MB.  Each does without
where the import fails, so for a moment it does.  Whoever imports them later gets them; only asyncio's own TLS stays
off, and a node's process has no use for it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

UNUSED = ("ssl", "_ssl", "typing_extensions")
WITHOUT_THEM = ("asyncio", "msgspec")


def lean() -> None:
    """Before anything else imports them; what is there already stays."""
    with _hidden():
        for module in WITHOUT_THEM:
            import_module(module)


@contextmanager
def _hidden() -> Iterator[None]:
    modules: dict[str, Any] = sys.modules
    hidden = [name for name in UNUSED if name not in modules]
    for name in hidden:
        modules[name] = None
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]
