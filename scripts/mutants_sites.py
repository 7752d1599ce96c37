"""Small changes to source (mutants): where the operators allow one, and how a sample of them is drawn."""

import ast
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

PARTS = ("core", "election", "membership", "score", "net")

COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
ARITHMETIC = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.Pow: "*",
}


class Mutant(NamedTuple):
    name: str  # A short hash.
    path: str
    function: str
    line: int
    operator: str
    start: int  # Bytes of the source that are replaced.
    end: int
    text: str

    @property
    def part(self) -> str:
        """Return the part of the tree: a folder of an election or a membership, or a package."""
        rest = Path(self.path).relative_to("src/doyen").parts
        return "/".join(rest[:2]) if rest[0] in ("election", "membership") and len(rest) > 2 else rest[0]


class Sites(ast.NodeVisitor):
    """Finds all changes of one file that the operators allow."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Mutant] = []
        self.functions: list[str] = []
        self.seen: Counter[str] = Counter()
        self.visit(ast.parse(source))

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def of(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def add(self, operator: str, node: ast.AST, text: str, span: tuple[int, int] | None = None) -> None:
        start, end = span or self.span(node)
        line: int = node.lineno  # type: ignore[attr-defined]
        function = ".".join(self.functions)
        key = f"{self.path} {function} {operator} {self.lines[line - 1].strip().decode()} {text}"
        self.seen[key] += 1
        name = sha256(f"{key} {self.seen[key]}".encode()).hexdigest()[:10]
        self.found.append(Mutant(name, self.path, function, line, operator, start, end, text))

    def between(self, left: ast.AST, right: ast.AST, word: str, other: str, operator: str) -> None:
        """Replace the operator that stands between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        gap = self.source[start:end].decode()
        if gap.count(word) == 1 and "#" not in gap:
            self.add(operator, left, gap.replace(word, other), (start, end))

    # What is passed over: types, texts for people, and what only editors and checkers read.

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in (*node.defaults, *filter(None, node.kw_defaults)):
            self.visit(default)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name == "__repr__":
            return
        self.functions.append(node.name)
        self.visit(node.args)
        for statement in node.body:
            self.visit(statement)
        self.functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(self.of(base).startswith("Protocol") for base in node.bases):
            return
        self.functions.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.functions.pop()

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self.of(node.value).split(".")[-1] not in ("Annotated", "Final", "ClassVar", "Callable"):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self.of(node.func)
        if called.startswith(("log.", "Doc", "TypeVar", "cast", "struct.")) or called.endswith("Error"):
            return
        if called in ("min", "max"):
            self.add("extreme", node.func, "max" if called == "min" else "min")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if self.of(node.test) == "TYPE_CHECKING":
            return
        self.add("condition", node.test, f"not ({self.of(node.test)})")
        self.generic_visit(node)

    # Operators.

    def visit_While(self, node: ast.While) -> None:
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.add("condition", node.test, f"not ({self.of(node.test)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, right, op in zip(operands, operands[1:], node.ops, strict=False):
            word = {"Is": "is", "In": "in", "NotIn": "not in", "IsNot": "is not"}.get(type(op).__name__)
            word = word or {v: k for k, v in _WORDS.items()}[type(op)]
            self.between(left, right, word, COMPARISONS[type(op)], "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, word, other, "and/or")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.add("not", node, f"({self.of(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        words = {v: k for k, v in _SIGNS.items()}
        self.between(node.left, node.right, words[type(node.op)], ARITHMETIC[type(node.op)], "arithmetic")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.add("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self.add("constant", node, str(node.value + 1))
        elif isinstance(node.value, float):
            self.add("constant", node, str(node.value * 2 or 1.0))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.add("return", node, "return None")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call | ast.Await) and not self.of(node).startswith(("log.", "super()")):
            self.add("statement", node, "pass")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        named = self.of(node.targets[0])
        if self.functions and named.startswith("self.") and self.functions[-1] != "__init__":
            self.add("statement", node, "pass")
        if named not in ("__slots__", "__all__", "HEARS"):
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add("statement", node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.add("statement", node, "pass")

    def visit_Delete(self, node: ast.Delete) -> None:
        self.add("statement", node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.add("jump", node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self.add("jump", node, "continue")


_WORDS = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq}
_SIGNS = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "//": ast.FloorDiv, "/": ast.Div, "%": ast.Mod, "&": ast.BitAnd}
_SIGNS |= {"|": ast.BitOr, "<<": ast.LShift, ">>": ast.RShift, "**": ast.Pow, "^": ast.BitXor, "@": ast.MatMult}
ARITHMETIC |= {ast.BitXor: "|", ast.MatMult: "*"}


def all_mutants(tree: Path) -> list[Mutant]:
    found: list[Mutant] = []
    for part in PARTS:
        for path in sorted((tree / "src/doyen" / part).rglob("*.py")):
            found += Sites(str(path.relative_to(tree)), path.read_bytes()).found
    return found


def drawn(mutants: list[Mutant], seed: int, count: int) -> list[Mutant]:
    """Return the sample: by turns of the operators, within one by turns of the parts, within one of the files."""
    rng = random.Random(seed)
    stacks: dict[str, dict[str, dict[str, list[Mutant]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for mutant in sorted(mutants):
        stacks[mutant.operator][mutant.part][mutant.path].append(mutant)

    def turns(level: object) -> Iterator[Mutant]:
        if isinstance(level, list):
            rng.shuffle(level)
            yield from level
            return
        assert isinstance(level, dict)
        waiting = [turns(level[key]) for key in sorted(level)]
        rng.shuffle(waiting)
        while waiting:
            for one in [*waiting]:
                found = next(one, None)
                if found is None:
                    waiting.remove(one)
                else:
                    yield found

    return [mutant for mutant, _ in zip(turns(stacks), range(count), strict=False)]
