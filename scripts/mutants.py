"""A mutation campaign: small changes to protocol code, one at a time, each against the tests that run its line.

    python scripts/mutants.py                 draw the sample, gather which test runs which line, go on with the campaign
    python scripts/mutants.py --minutes 30    … and stop after so long; the next call goes on where this one stopped
    python scripts/mutants.py --only pole     … on files whose path matches this expression
    python scripts/mutants.py --seconds 10    … with at most so many seconds of tests for each, as they take alone
    python scripts/mutants.py --again ID … --tests FILE …    those mutants anew, against these tests, too
    python scripts/mutants.py --fresh         take the last commit anew, and gather anew
    python scripts/mutants.py --show ID       the change of one mutant
    python scripts/mutants.py --page          only write the figures into the page "mutants"

Nothing of the tree is changed but `tests/mutants/results.jsonl`: all runs are in a copy of the last commit in
`build/mutants`.  A mutant is named by its file, function, operator and the text of its line, so that results stay true
while other lines change.  A worker forks for each mutant, with pytest loaded and doyen not.
"""

import argparse
import ast
import io
import json
import os
import random
import re
import resource
import subprocess
import sys
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parents[1]
WORK = HERE / "build/mutants"
TREE = WORK / "tree"
RESULTS = HERE / "tests/mutants/results.jsonl"
JUDGED = HERE / "tests/mutants/judged.json"
PAGE = HERE / "docs/explanation" / "mutants.md"
PARTS = ("core", "election", "membership", "score", "net")
SEED, SAMPLE = 16, 1000
# Those of `make test` that are about these parts.  Not among them: tests/sim, tests/node, and what is live: too slow.
FOLDERS = ("core", "score", "election", "membership", "transcripts", "property", "check", "holds", "net")
TESTS_S, CPU_S, WALL_S = 25, 60, 240  # Of the tests that are chosen, as they took alone; limits of one mutant.

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


def drawn(mutants: list[Mutant]) -> list[Mutant]:
    """Return the sample: by turns of the operators, within one by turns of the parts, within one of the files."""
    rng = random.Random(SEED)
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

    return [mutant for mutant, _ in zip(turns(stacks), range(SAMPLE), strict=False)]


# Which test runs which line.


def check_out(fresh: bool) -> None:
    """Put a copy of the last commit into the working folder, if there is none, or if it is to be a fresh one."""
    if fresh or not TREE.exists():
        subprocess.run(["rm", "-rf", str(WORK)], check=True)
        TREE.mkdir(parents=True)
        packed = subprocess.run(["git", "archive", "HEAD"], cwd=HERE, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(TREE, filter="data")


class Contexts:
    """A pytest plugin that notes the lines and the seconds of each test."""

    def __init__(self, coverage: object) -> None:
        self.coverage, self.seconds = coverage, {}  # type: ignore[var-annotated]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: object) -> None:
        nodeid, ok = report.nodeid, report.outcome == "passed"  # type: ignore[attr-defined]
        self.seconds[nodeid] = self.seconds.get(nodeid, 0) + report.duration if ok else -1e9  # type: ignore[attr-defined]


def gather(folder: str) -> None:
    """Run one folder of tests with contexts, in this process, and write what ran which line."""
    import coverage
    import pytest

    os.chdir(TREE)
    sys.path.insert(0, str(TREE / "src"))
    sources = [str(TREE / "src/doyen" / part) for part in PARTS]
    watched = coverage.Coverage(data_file=None, include=[f"{source}/*" for source in sources], config_file=False)
    plugin = Contexts(watched)
    watched.start()
    pytest.main(
        ["-m", "not soak and not live and not alone", "-p", "no:cacheprovider", "-p", "no:xdist", f"tests/{folder}"],
        plugins=[plugin],
    )
    watched.stop()
    data = watched.get_data()
    tests = sorted(test for test, took in plugin.seconds.items() if took >= 0)
    index = {test: i for i, test in enumerate(tests)}
    lines: dict[str, dict[int, list[int]]] = {}
    for file in data.measured_files():
        by_line = data.contexts_by_lineno(file)
        path = str(Path(file).relative_to(TREE))
        lines[path] = {line: [index[name] for name in names if name in index] for line, names in by_line.items()}
    told = {"tests": [(test, round(plugin.seconds[test], 3)) for test in tests], "lines": lines}
    (WORK / f"{folder}.json").write_text(json.dumps(told))


class Cover:
    """Which tests run a line, the shortest first."""

    def __init__(self, seconds_max: float) -> None:
        self.seconds_max = seconds_max
        self.seconds: dict[str, float] = {}
        self.lines: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.files: dict[str, set[str]] = defaultdict(set)
        for folder in FOLDERS:
            file = WORK / f"{folder}.json"
            if file.exists():
                told = json.loads(file.read_text())
                tests = [test for test, _ in told["tests"]]
                self.seconds |= dict(told["tests"])
                for path, lines in told["lines"].items():
                    for line, indices in lines.items():
                        self.lines[path, int(line)] |= {tests[i] for i in indices}
                        self.files[path] |= {tests[i] for i in indices}

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests to run; where the line runs at import alone, tests that run the file."""
        source = (TREE / mutant.path).read_bytes()
        last = source[: mutant.end].count(b"\n") + 1
        found = set().union(*(self.lines[mutant.path, line] for line in range(mutant.line, last + 1)))
        found = found or self.files[mutant.path]
        chosen, total = [], 0.0
        for test in sorted(found, key=lambda test: (self.seconds[test], test)):
            total += self.seconds[test] + 0.01
            if total > self.seconds_max and chosen:
                break
            chosen.append(test)
        return chosen


# A mutant's run.


def run(mutant: Mutant, tests: list[str]) -> tuple[str, str]:
    """Run tests with the mutant in place; return how it ended, and the test that noticed it."""
    path = TREE / mutant.path
    source, stat = path.read_bytes(), path.stat()
    path.write_bytes(source[: mutant.start] + mutant.text.encode() + source[mutant.end :])
    run.count += 1  # type: ignore[attr-defined]
    unlike = stat.st_mtime + 100_000 + run.count * 10  # type: ignore[attr-defined]
    os.utime(path, (unlike, unlike))  # Bytecode of the file as it was must not pass for this one's.
    output, kept = WORK / "output", WORK / "kept"
    kept.write_text(json.dumps([mutant.path, source.decode(), stat.st_mtime]))  # For a run that is ended meanwhile.
    try:
        child = os.fork()
        if child == 0:
            _in_child(tests, output)
        ends_at = time.monotonic() + WALL_S
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > ends_at:
                os.killpg(child, 9)
                os.waitpid(child, 0)
                return "time", ""
            time.sleep(0.02)
    finally:
        path.write_bytes(source)
        os.utime(path, (stat.st_atime, stat.st_mtime))
        kept.unlink()
    if os.WIFSIGNALED(status):
        return "time" if os.WTERMSIG(status) in (9, 24) else "killed", ""
    code = os.WEXITSTATUS(status)
    if code == 0:
        return "survived", ""
    told = output.read_text(errors="replace")
    noticed = [line for line in told.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if not noticed and "rror" not in told:
        raise RuntimeError(f"pytest ended with {code} and no word: look into {output}")
    return "killed", noticed[0].split(" - ")[0].split(" ", 1)[1] if noticed else "pytest cannot begin"


run.count = 0  # type: ignore[attr-defined]


def _in_child(tests: list[str], output: Path) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    opened = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(opened, 1)
    os.dup2(opened, 2)
    code = 99
    try:
        import pytest

        # Hypothesis is loaded already: its own asserts are of no interest.
        quiet = ["-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = int(pytest.main(["-x", "--tb=no", *quiet, *tests]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def results() -> dict[str, dict[str, object]]:
    """Return the last result of each mutant."""
    told = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {row["name"]: row for row in map(json.loads, told)}


def campaign(sample: list[Mutant], cover: Cover, minutes: float, again: set[str], further: list[str]) -> None:
    import hypothesis  # noqa: F401  (loaded once, for all that are forked)
    import msgspec  # noqa: F401
    import pytest  # noqa: F401

    os.chdir(TREE)
    sys.path.insert(0, str(TREE / "src"))
    os.environ |= {"PYTHONPATH": str(TREE / "src"), "HYPOTHESIS_STORAGE_DIRECTORY": str(WORK / "hypothesis")}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # Else every run would compile all that it imports.
    sys.dont_write_bytecode = False
    for test in further:  # As it is in the tree now.
        (TREE / test.partition("::")[0]).write_bytes((HERE / test.partition("::")[0]).read_bytes())
    known, ends_at = results(), time.monotonic() + 60 * minutes
    RESULTS.parent.mkdir(exist_ok=True)
    unchanged = sample[0]._replace(end=sample[0].start, text="")
    ended, by = run(unchanged, cover.of(sample[0]))
    if ended != "survived":
        raise RuntimeError(f"tests fail without any mutant: {ended} {by}: look into {WORK / 'output'}")
    for mutant in sample:
        if mutant.name in again or (mutant.name not in known and not again):
            if time.monotonic() > ends_at:
                return
            tests = [*further, *cover.of(mutant)]
            began = time.monotonic()
            ended, by = run(mutant, tests) if tests else ("uncovered", "")
            took = round(time.monotonic() - began, 1)
            row = {"name": mutant.name, "path": mutant.path, "line": mutant.line, "function": mutant.function}
            row |= {"operator": mutant.operator, "part": mutant.part, "ended": ended, "by": by, "tests": len(tests)}
            with RESULTS.open("a") as file:
                file.write(json.dumps(row | {"seconds": took}) + "\n")
            print(f"{ended:9} {mutant.name} {mutant.path}:{mutant.line} {mutant.operator} ({took} s) {by}", flush=True)


def shown(mutant: Mutant) -> str:
    """Return a mutant as a reader would write it."""
    source = (TREE / mutant.path).read_bytes()
    begin = source.rfind(b"\n", 0, mutant.start) + 1
    end = source.find(b"\n", mutant.end)
    before = source[begin:end].decode()
    after = (source[begin : mutant.start] + mutant.text.encode() + source[mutant.end : end]).decode()
    head = f"{mutant.name} {mutant.path}:{mutant.line} {mutant.function}, {mutant.operator}"
    return "\n".join([head, *(f"- {line}" for line in before.split("\n")), *(f"+ {line}" for line in after.split("\n"))])


# The figures.

NOTICED = ("killed", "time")
MARK = "<!-- figures: made by scripts/mutants.py -->"


def page(sample: list[Mutant]) -> None:
    """Write the figures by part, and the survivors, below the mark of the page."""
    known = results()
    judged: dict[str, str] = json.loads(JUDGED.read_text()) if JUDGED.exists() else {}
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    left: list[Mutant] = []
    for mutant in sample:
        ended = known.get(mutant.name, {}).get("ended")
        count = rows[mutant.part]
        count["drawn"] += 1
        if ended is None:
            continue
        count["run"] += 1
        if ended in NOTICED:
            count["noticed"] += 1
        elif judged.get(mutant.name, "").startswith("equivalent"):
            count["equivalent"] += 1
        else:
            count["survived"] += 1
        if ended not in NOTICED:
            left.append(mutant)
    whole = sum(rows.values(), Counter())
    lines = [MARK, "", "| part | drawn | run | noticed | equivalent | survived | noticed of those that differ |"]
    lines.append("|---|---|---|---|---|---|---|")
    for part, count in [*sorted(rows.items()), ("**all**", whole)]:
        unlike = count["run"] - count["equivalent"]
        share = f"{count['noticed'] / unlike:.0%}" if unlike else "–"
        cells = [part, *(str(count[key]) for key in ("drawn", "run", "noticed", "equivalent", "survived")), share]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Those that no test noticed", "", "| mutant | where | change | judged |", "|---|---|---|---|"]
    for mutant in sorted(left, key=lambda mutant: (mutant.path, mutant.line)):
        source = (TREE / mutant.path).read_bytes()
        was = " ".join(source[mutant.start : mutant.end].decode().split()) or "…"
        change = f"{was} → {' '.join(mutant.text.split())}".replace("|", "\\|")
        where = f"{mutant.path.removeprefix('src/doyen/')}:{mutant.line} {mutant.function}"
        lines.append(f"| {mutant.name} | {where} | `{change[:90]}` | {judged.get(mutant.name, 'open')} |")
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(MARK)] + "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=24 * 60)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=TESTS_S)
    parser.add_argument("--again", nargs="*", default=[])
    parser.add_argument("--tests", nargs="*", default=[])
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--show", default="")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--gather", default="", help=argparse.SUPPRESS)
    parser.add_argument("--only-gather", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.gather:
        gather(given.gather)
        return
    check_out(given.fresh)
    if (kept := WORK / "kept").exists() and not given.page and not given.show:
        path, source, at = json.loads(kept.read_text())
        (TREE / path).write_text(source)
        os.utime(TREE / path, (at, at))
    mutants = all_mutants(TREE)
    sample = drawn(mutants)
    if given.show:
        print("\n".join(shown(mutant) for mutant in mutants if mutant.name.startswith(given.show)))
        return
    if not given.page:
        for folder in FOLDERS:
            if not (WORK / f"{folder}.json").exists():
                print(f"tests/{folder}: which test runs which line", flush=True)
                subprocess.run([sys.executable, __file__, "--gather", folder], check=True, stdout=subprocess.DEVNULL)
        if given.only_gather:
            return
        chosen = [mutant for mutant in sample if re.search(given.only, mutant.path)]
        campaign(chosen, Cover(given.seconds), given.minutes, set(given.again), given.tests)
    if PAGE.exists():
        page(sample)


if __name__ == "__main__":
    main()
