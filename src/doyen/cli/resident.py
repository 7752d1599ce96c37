"""The processes of `doyen agent` and `doyen run`: what a command line came to, in an interpreter of its own.

A node stays for months, and a command line is read once.  So the command that has read it becomes a fresh
interpreter (`exec`: the same process id, the same files) which gets the finished configuration through a file in
memory, and never loads the flags, click or the package metadata (decision 103).

asyncio loads OpenSSL for TLS, msgspec typing_extensions for older Pythons: together 6 of 33 MB.  Each does without
where the import fails, so it fails while these two are imported.  A later import gets them; only asyncio's
own TLS stays off, and a node's process has no use for it.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from doyen.node.config import NodeConfig

UNUSED: Final = ("ssl", "_ssl", "typing_extensions")
MODULES: Final = {"agent": "doyen.node.process", "run": "doyen.runner.runner"}


class Resident:
    """The process that a command line asks for: its command, the configuration of its node, and further arguments."""

    def __init__(self, command: str, config: "NodeConfig", **arguments: Any) -> None:
        self.command, self.config, self.arguments = command, config, arguments

    def stay(self) -> int:
        """Run it in this process; return its exit code."""
        from doyen.cli.naming import named_by_flag

        with named_by_flag():
            code: int = import_module(MODULES[self.command]).stay(self.config, **self.arguments)
            return code

    def become(self) -> None:
        """Replace this process by it; return only where that cannot be done."""
        if "frozen" in vars(sys) or not sys.executable:
            return
        file = os.memfd_create("doyen", 0)  # It outlives exec.
        os.write(file, self.packed())
        os.lseek(file, 0, os.SEEK_SET)
        sys.stdout.flush()
        sys.stderr.flush()
        # Not what lies around in the working directory, unless this package is there itself.
        at_home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) == os.getcwd()
        flags = [] if at_home else ["-P"]
        os.execv(sys.executable, [sys.executable, *flags, "-m", "doyen.cli.stay", str(file), *sys.argv[1:]])

    def packed(self) -> bytes:
        import msgspec

        config = self.config
        kinds = [("election", kind) for kind in config.election_kinds().values()]
        membership = config.membership_kind()
        used: list[Any] = kinds if membership is None else [*kinds, ("membership", membership)]
        tables = {kind.table.name: config.tables[kind.table.name] for _, kind in used}
        names = [(what, kind.name) for what, kind in used]
        return msgspec.msgpack.encode(
            (self.command, names, msgspec.structs.replace(config, tables=tables), self.arguments)
        )


def unpacked(data: bytes) -> Resident:
    """Return what `become` wrote; only the kinds that this node runs are loaded."""
    import msgspec

    from doyen.node.config import NodeConfig
    from doyen.node.registry import find_election, find_membership

    command, names, fields, arguments = msgspec.msgpack.decode(data)
    for what, name in names:
        table = (find_election(name) if what == "election" else find_membership(name)).table
        given = fields["tables"][table.name]
        fields["tables"][table.name] = msgspec.convert(given, table.config) if isinstance(given, dict) else given
    return Resident(command, msgspec.convert(fields, NodeConfig), **arguments)


class _Without:
    """Lets the imports of a few modules fail while it is among the finders."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name in UNUSED:
            raise ModuleNotFoundError(f"{name} is left out here", name=name)
        return None


def lean() -> None:
    """Import asyncio and msgspec without what a node never uses; what is there already stays."""
    without: Any = _Without()
    sys.meta_path.insert(0, without)
    try:
        for module in ("asyncio", "msgspec"):
            import_module(module)
    finally:
        sys.meta_path.remove(without)
