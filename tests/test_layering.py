"""The folder tree is the architecture: imports point up, and the upper half has no clock, socket or chance."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "doyen"
SANS_IO = {"core", "membership", "election", "score"}
FORBIDDEN = {"asyncio", "socket", "time", "threading", "os", "subprocess", "selectors", "secrets", "datetime"}
MAY_IMPORT = {  # Of doyen, besides errors and itself.
    "core": set(),
    "membership": {"core"},
    "election": {"core", "membership"},
    "score": {"core"},
    "net": {"core"},
    "node": {"core", "membership", "election", "score", "net"},
    "runner": {"core", "node"},
    "sim": {"core", "membership", "election", "score", "node"},
    "testing": {"core", "sim", "membership", "election", "net", "node"},  # A cluster takes what `doyen.join` takes.
}


def imports(path: Path) -> list[tuple[str, str]]:
    """(module, name) for every import, also those within functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
    return found


def test_protocols_have_no_clock_socket_thread_or_global_chance() -> None:
    seen = 0
    for folder in SANS_IO:
        for path in (SOURCE / folder).rglob("*.py"):
            for module, name in imports(path):
                seen += 1
                assert module.split(".")[0] not in FORBIDDEN, f"{path.name} imports {module}"
                assert module != "random" or name == "Random", f"{path.name}: from random only the type Random"
    assert seen > 50


def test_imports_point_up() -> None:
    seen = 0
    for folder, allowed in MAY_IMPORT.items():
        for path in (SOURCE / folder).rglob("*.py"):
            for module, _ in imports(path):
                parts = module.split(".")
                if parts[0] == "doyen" and len(parts) > 1:
                    seen += 1
                    assert parts[1] in {"errors", folder, *allowed}, f"{path.relative_to(SOURCE)} imports {module}"
    assert seen > 100
