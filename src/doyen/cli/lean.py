"""A node's process without what it never uses.

asyncio loads OpenSSL for TLS, msgspec typing_extensions for older Pythons: together 6 of 33 MB.  Each does without
where the import fails, so for a moment it does.  Whoever imports them later gets them; only asyncio's own TLS stays
off, and a node's process has no use for it.

The command line is read once.  So a command that stays for good returns a `Resident`, what it has to run; the flags
and click are let go of, and what the node needs is loaded where they were: 2 MB.
"""

import gc
import sys
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

UNUSED = ("ssl", "_ssl", "typing_extensions")
WITHOUT_THEM = ("asyncio", "msgspec")


READ_ONCE = ("click", "gettext")  # And the commands themselves.


class Resident:
    """What a command line came to: a function, by the name of its module so that it loads late, and its arguments."""

    def __init__(self, module: str, **arguments: Any) -> None:
        self.module, self.arguments = module, arguments

    def stay(self) -> int:
        """Its exit code, in the end."""
        from doyen.cli.naming import named_by_flag  # Also where the command line has been let go of.

        with named_by_flag():
            code: int = import_module(self.module).stay(**self.arguments)
            return code


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


def shed() -> None:
    """Lets go of the command line.  Whoever imports any of it again gets it afresh."""
    for name in list(sys.modules):
        if name.partition(".")[0] in READ_ONCE or name.startswith("doyen.cli."):
            del sys.modules[name]
    kept = sys.modules["doyen.cli"]
    for name in [name for name in vars(kept) if isinstance(vars(kept)[name], type(sys))]:
        if vars(kept)[name].__name__.startswith("doyen.cli."):
            delattr(kept, name)
    typing.clear_overloads()  # It remembers functions, these their modules.
    for forget in getattr(typing, "_cleanups", ()):
        forget()
    gc.collect()
