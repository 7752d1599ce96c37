"""Where tests reach into private names of the product: read, set, patched, imported or overridden.

A private name is one with a single underscore that a module of the product defines: a function, a class, a method, an
attribute of `self` or a global.  What `self` has is the test's own, unless its class derives from one of the product.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from reader import parsed

KINDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Attribute, ast.Name, ast.ImportFrom, ast.Call)
SETTERS = ("setattr", "getattr", "delattr", "hasattr", "patch.object")


class Reach(NamedTuple):
    path: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}"


def is_private(name: str) -> bool:
    """Return whether a name is private; `_replace` is what a NamedTuple offers to all."""
    return name.startswith("_") and not name.startswith("__") and name not in ("_", "_replace")


@cache
def walked(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a file that define or use names."""
    return tuple(node for node in ast.walk(parsed(path)) if isinstance(node, KINDS))


def defined(roots: Mapping[str, Path]) -> set[str]:
    """Return the private names that the modules of the packages define."""
    found = set()
    for root in roots.values():
        for path in root.rglob("*.py"):
            for node in walked(path):
                match node:
                    case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                        found.add(name)
                    case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()):
                        found.add(name)
                    case ast.Name(id=name, ctx=ast.Store()):
                        found.add(name)
    return set(filter(is_private, found))


def reaches(tests: Path, private: set[str]) -> list[Reach]:
    """Return every use of one of these names in the tests, in the order of the text."""
    found = []
    for path in sorted(tests.rglob("*.py")):
        if private.isdisjoint(re.findall(r"_\w+", path.read_text())):  # Most: reading is cheaper than parsing.
            continue
        for line, name in _reaches(walked(path)):
            if name in private:
                found.append(Reach(str(path.relative_to(tests)), line, name))
    return sorted(found)


def reaches_across(roots: Mapping[str, Path], private: set[str]) -> list[Reach]:
    """Return where a module of the product uses a private name that another one defines."""
    found = []
    for root in roots.values():
        for path in sorted(root.rglob("*.py")):
            used = [(line, name) for line, name in _reaches(walked(path)) if name in private]
            own = _own(walked(path)) if used else set()
            place = str(path.relative_to(root.parent))
            found += [Reach(place, line, name) for line, name in used if name not in own]
    return found


def _own(nodes: tuple[ast.AST, ...]) -> set[str]:
    """Return the names that a module defines itself."""
    found = set()
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Attribute(value=value, attr=name) if _is_self(value):
                found.add(name)
    return found


def _reaches(nodes: tuple[ast.AST, ...]) -> Iterator[tuple[int, str]]:
    imported = set()
    for node in nodes:
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0].startswith("doyen"):
                imported |= {alias.asname or alias.name for alias in names}
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.Attribute(value=value, attr=name) if not _is_self(value):
                yield node.lineno, name
            case ast.Call(func=func, args=args) if _last_two(func).endswith(SETTERS):
                texts = (arg.value for arg in args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
                yield from ((node.lineno, text.rpartition(".")[2]) for text in texts)
    for node in nodes:
        if isinstance(node, ast.ClassDef) and any(_root(base) in imported for base in node.bases):
            yield from _overrides(node)


def _overrides(derived: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Yield what a class that is derived from one of the product defines anew, or finds in itself."""
    for node in ast.walk(derived):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.Attribute(value=value, attr=name) if _is_self(value):
                yield node.lineno, name


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _last_two(func: ast.expr) -> str:
    """Return the last two names of what is called: `patch.object` of `mock.patch.object(…)`."""
    match func:
        case ast.Attribute(value=ast.Attribute(attr=owner) | ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
