"""Read what a source file imports and what it asks of the world, from its syntax tree alone.

A layer is a folder of a package ("doyen.core").  The modules beside the folders are one layer together, named as their
package; those of `doyen` itself are a layer each ("doyen.errors").
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE_METHODS = frozenset(
    """
    read_text read_bytes write_text write_bytes open touch mkdir rmdir unlink rename iterdir glob rglob
    stat exists is_file is_dir symlink_to hardlink_to chmod
    """.split()  # noqa: SIM905
)  # Of a path, whoever gave the path.  Not `replace`: strings have it too.
CLOCKS = frozenset({"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "clock_gettime"})
NOWS = frozenset({"now", "utcnow", "today"})


class Use(NamedTuple):
    """One thing that a line of a layer uses."""

    layer: str
    path: str  #: Of the file, from the root of its package's sources: `doyen/core/clock.py`.
    line: int
    sort: str  #: "ours", "typing" (ours, for a type checker only), "outside" (a module of others) or "world".
    name: str  #: A layer, a top-level module of others, or a power: "files", "clock", "chance", ….

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.layer} uses {self.sort} {self.name}"


class Module(NamedTuple):
    name: str
    is_package: bool
    path: Path
    relative: str
    tree: ast.Module


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a file, once for all tests: no test changes a file that it has read."""
    return ast.parse(path.read_text())


def modules(roots: Mapping[str, Path]) -> dict[str, Module]:
    """Parse every module of the packages, by dotted name."""
    found = {}
    for package, root in roots.items():
        for path in sorted(root.rglob("*.py")):
            parts = [package, *path.relative_to(root).with_suffix("").parts]
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            relative = f"{package}/{path.relative_to(root)}"
            found[name] = Module(name, is_package, path, relative, parsed(path))
    return found


def layer_of(module: str, known: Mapping[str, Module]) -> str:
    """Return the layer that holds the module."""
    parts = module.split(".")
    if len(parts) == 2 and parts[0] != "doyen" and module in known and not known[module].is_package:
        return parts[0]
    return ".".join(parts[:2])


def uses(roots: Mapping[str, Path]) -> list[Use]:
    """Return everything that the modules of the packages use, in the order of the text."""
    known = modules(roots)
    return [use for module in known.values() for use in _Reader(module, known).read()]


class _Reader:
    def __init__(self, module: Module, known: Mapping[str, Module]) -> None:
        self._module, self._known = module, known
        self._layer = layer_of(module.name, known)
        self._packages = {name.split(".")[0] for name in known}
        self._aliases: dict[str, str] = {}  # What a name of this file stands for: `t` for `time`.
        self._found: list[Use] = []

    def read(self) -> list[Use]:
        nodes = list(_nodes(self._module.tree, typing=False))
        for node, typing in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._aliases[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else ""
                    self._import(alias.name, node.lineno, typing)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node, typing)
        dynamic = False
        for node, _ in nodes:
            if isinstance(node, ast.Call):
                dynamic |= self._call(node)
            elif isinstance(node, ast.Attribute) and self._dotted(node) in {"os.environ", "os.environb"}:
                self._world("environment", node.lineno)
        if dynamic:  # Its module's name may come from any text here that is one.
            self._world("dynamic", 1)
            for node, _ in nodes:
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in self._known:
                    self._import(node.value, node.lineno, typing=False)
        return self._found

    def _import_from(self, node: ast.ImportFrom, typing: bool) -> None:
        base = node.module or ""
        if node.level:
            here = self._module.name.split(".")
            here = here[: len(here) - node.level + self._module.is_package]
            base = ".".join([*here, base] if base else here)
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            self._aliases[alias.asname or alias.name] = whole
            if base == "random" and alias.name == "Random":
                continue  # The type; whoever makes one without a seed is seen below.
            if whole in {"os.environ", "os.getenv"}:
                self._world("environment", node.lineno)
            self._import(whole if base.split(".")[0] in self._packages else base, node.lineno, typing)

    def _import(self, name: str, line: int, typing: bool) -> None:
        top = name.split(".")[0]
        if top not in self._packages:
            self._use("outside", top, line)
            return
        while name not in self._known and "." in name:
            name = name.rpartition(".")[0]  # A name out of a module.
        layer = layer_of(name, self._known)
        if layer != self._layer:
            self._use("typing" if typing else "ours", layer, line)

    def _call(self, node: ast.Call) -> bool:
        """Record what a call asks of the world; return whether it imports a module that is not written out."""
        name, line = self._dotted(node.func), node.lineno
        last = name.rpartition(".")[2]
        if name in {"open", "io.open", "builtins.open"} or _is_of_a_path(node):
            self._world("files", line)
        elif (name.startswith("time.") and last in CLOCKS) or (name.startswith("datetime.") and last in NOWS):
            self._world("clock", line)
        elif name.startswith("random.") and (name != "random.Random" or not (node.args or node.keywords)):
            self._world("chance", line)
        elif name == "os.getenv":
            self._world("environment", line)
        elif name in {"print", "input"}:
            self._world("console", line)
        elif name in {"eval", "exec"}:
            self._world("dynamic", line)
        elif name in {"importlib.import_module", "__import__", "builtins.__import__"} and node.args:
            return self._import_call(node.args[0], line)
        return False

    def _import_call(self, argument: ast.expr, line: int) -> bool:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            self._import(argument.value, line, typing=False)
            return False
        if isinstance(argument, ast.JoinedStr) and isinstance(first := argument.values[0], ast.Constant):
            self._import(str(first.value).rpartition(".")[0], line, typing=False)
            return False
        return True

    def _dotted(self, node: ast.expr) -> str:
        """Return `a.b.c` with what `a` stands for here, or the attributes alone where they hang on an expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        first = (self._aliases.get(node.id) or node.id) if isinstance(node, ast.Name) else ""
        return ".".join([first, *reversed(parts)])

    def _world(self, power: str, line: int) -> None:
        self._use("world", power, line)

    def _use(self, sort: str, name: str, line: int) -> None:
        self._found.append(Use(self._layer, self._module.relative, line, sort, name))


def _is_of_a_path(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in FILE_METHODS:
        return False
    if node.func.attr != "open" or not node.args:
        return True
    return isinstance(node.args[0], ast.Constant)  # A path is opened in a mode; whatever else is opened takes values.


def _nodes(tree: ast.AST, typing: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Walk the tree in the order of the text, and tell what only a type checker reads."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for part in child.body:
                yield part, True
                yield from _nodes(part, True)
            for part in child.orelse:
                yield part, typing
                yield from _nodes(part, typing)
            continue
        yield child, typing
        yield from _nodes(child, typing)


def cycles(roots: Mapping[str, Path]) -> list[list[str]]:
    """Return the groups of modules that import each other while they are being imported."""
    known = modules(roots)
    edges = {name: _imported_at_once(module, known) - {name} for name, module in known.items()}
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    waiting: list[str] = []

    def visit(name: str) -> None:  # Tarjan's strongly connected components.
        number[name] = lowest[name] = len(number)
        waiting.append(name)
        for other in sorted(edges[name]):
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in waiting:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            place = waiting.index(name)
            group = waiting[place:]
            del waiting[place:]
            if len(group) > 1:
                found.append(sorted(group))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 10 * len(edges))
    for name in edges:
        if name not in number:
            visit(name)
    sys.setrecursionlimit(limit)
    return found


def _imported_at_once(module: Module, known: Mapping[str, Module]) -> set[str]:
    """Return the modules of ours that importing this one imports: outside functions, and not for a type checker."""
    found = set()
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            here = module.name.split(".")
            here = here[: len(here) - node.level + module.is_package] if node.level else []
            base = ".".join([*here, *([node.module] if node.module else [])])
            wholes = {f"{base}.{alias.name}" for alias in node.names}
            found |= {whole if whole in known else base for whole in wholes}
        waiting += ast.iter_child_nodes(node)
    return found & set(known)
