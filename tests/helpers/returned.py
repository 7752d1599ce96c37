"""Watches what functions return while a test runs: None only where their types say so."""

import ast
import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SOURCES = Path(__file__).parents[2] / "src/doyen"
PARTS = ("core", "election", "membership", "score", "net")
MAY_BE_NONE = {"None", "Any", "object", "NoReturn", "Never"}


@cache
def promising() -> dict[tuple[str, int], str]:
    """Return the functions that return something by their types, by file and first line."""
    found = {}
    for path in (path for part in PARTS for path in (SOURCES / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.returns is None:
                continue
            words = {word.id for word in ast.walk(node.returns) if isinstance(word, ast.Name)}
            words |= {str(word.value) for word in ast.walk(node.returns) if isinstance(word, ast.Constant)}
            yields = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))
            if not words & MAY_BE_NONE and not yields:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found[str(path), first] = f"{path.relative_to(SOURCES)}: {node.name}"
    return found


class Returned:
    """What was seen: the functions that returned, and those of them that returned None."""

    def __init__(self) -> None:
        self.names: dict[CodeType, str | None] = {}
        self.nothing: set[str] = set()

    @property
    def seen(self) -> set[str]:
        return set(filter(None, self.names.values()))

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        if event != "return":
            return
        code = frame.f_code
        if code not in self.names:
            self.names[code] = promising().get((code.co_filename, code.co_firstlineno))
        name = self.names[code]
        # A function that ends by an exception, or waits, is told in the same way.
        if name is not None and value is None and dis.opname[code.co_code[frame.f_lasti]].startswith("RETURN"):
            self.nothing.add(name)


@contextmanager
def watched() -> Iterator[Returned]:
    found, before = Returned(), sys.getprofile()
    sys.setprofile(found)
    try:
        yield found
    finally:
        sys.setprofile(before)
