"""A mutation campaign: small changes to protocol code, one at a time, each against the tests that run its line.

    python scripts/mutants.py                 gather which test runs which line, and go on with the campaign
    python scripts/mutants.py --minutes 30    … and stop after so long; the next call goes on where this one stopped
    python scripts/mutants.py --only pole     … on files whose path matches this expression
    python scripts/mutants.py --of third      … on another sample: second, fresh, third, …, each run before it was looked at
    python scripts/mutants.py --left --tests FILE …    those that nobody noticed yet, against a few seconds of these
    python scripts/mutants.py --whole         survivors, against every fast test of `make test` that runs their line
    python scripts/mutants.py --again ID …    those mutants anew
    python scripts/mutants.py --again ID … --tests FILE …    … against the new tests of these files alone
    python scripts/mutants.py --only pole --tests FILE …     all that nobody noticed yet, against these files, new or not
    python scripts/mutants.py --fresh         take the last commit anew, and gather anew
    python scripts/mutants.py --show ID …     the changes of some mutants
    python scripts/mutants.py --draw NAME SEED EACH    name a new sample: so many of each folder that are in none yet
    python scripts/mutants.py --page          only write the figures into the page "mutants"

Nothing of the tree is changed but `tests/mutants/results.jsonl` and the page: all runs are in a copy of the last
commit in `build/mutants`, or with `--tests` of the tree in `build/again`.  A mutant is named by its file, function,
operator and the text of its line, so that results stay true while other lines change.
"""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from mutants_run import CHOSEN, ON_REAL_TIME, QUIET, Changed, End, Loaded, restore, run_anew
from mutants_sites import PARTS, Mutant, Sites, all_mutants, drawn

HERE = Path(__file__).parents[1]
# Another folder for a second run beside the first.
WORK = GATHERED = HERE / os.environ.get("MUTANTS", "build/mutants")
TREE = WORK / "tree"
RESULTS = HERE / "tests/mutants/results.jsonl"
JUDGED = HERE / "tests/mutants/judged.json"
PAGE = HERE / "docs/explanation" / "mutants.md"
BASE = "3e5b4f3"  # The commit before which no test was written for the mutants that were run since.
LATER = "aeb8e7d"  # The same for those that were run with `--left` first: of `net`, and the second sample;
LAST = "939134f"  # for the third;
THEN = {"third": "a5ada39f", "fourth": "67b94058", "fifth": "3d2b3ca1", "sixth": "fc6ba143"}  # and for those after it.
THEN |= {"seventh": "6fbf328b"}
NAMES = {
    "sample": "1,000",
    "second": "100 others",
    "fresh": "120 new ones, half of them of `net`",
    "third": "100 further ones, 20 of each folder",
    "fourth": "60 after them, 12 of each folder",
    "fifth": "fifth sample of 60, 24 of them of `net`",
    "sixth": "sixth sample of 60, 12 of each folder",
    "seventh": "seventh sample of 60, 12 of each folder",
}
# Those of `make test` that are about these parts, without what is live; the slow ones run on what the others let pass.
FOLDERS = ("core", "score", "election", "membership", "transcripts", "property", "check", "holds", "net")
SLOW = ("sim", "node")
# What `make test` has beside these; with `--whole` survivors see these too.
WIDE = (
    "audit",
    "cli",
    "testing",
    "postmortem",
    "eyes",
    "contrib",
    "first",
    "engines",
    "analysis",
    "examples",
    "papers",
)
LIMITS = "tests/holds/test_limits.py"  # It holds what is made at import.
TESTS_S, SLOW_S = 5, 30  # Of the tests that are chosen, as they took while it was gathered what they run.
LEFT_S = 3  # With `--left`: of processor, for each of three lists of tests.
WHOLE_S = 600  # With `--whole`: of the tests, as they took.


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
    """Which tests run a line, and in which order they are worth their time."""

    def __init__(self, folders: tuple[str, ...], known: dict[str, list[dict[str, Any]]]) -> None:
        self.seconds: dict[str, float] = {}
        self.lines: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.files: dict[str, set[str]] = defaultdict(set)
        self.noticed = Counter(str(row["by"]) for rows in known.values() for row in rows if row["by"])
        for folder in folders:
            told = json.loads((GATHERED / f"{folder}.json").read_text())
            tests = [test for test, _ in told["tests"]]
            self.seconds |= dict(told["tests"])
            for path, lines in told["lines"].items():
                for line, indices in lines.items():
                    self.lines[path, int(line)] |= {tests[i] for i in indices}
                    self.files[path] |= {tests[i] for i in indices}

    def of(
        self, mutant: Mutant, folders: tuple[str, ...], seconds_max: float, at_import: bool, count_max: int = 100
    ) -> list[str]:
        """Return the tests to run; where the line runs at import alone, tests that run the file."""
        found = set().union(*(self.lines[mutant.path, line] for line in lines_of(mutant)))
        if at_import or not found:
            found |= self.files[mutant.path]
        found = {test for test in found if test.split("/")[1] in folders}
        words = words_of(mutant.path)

        def worth(test: str) -> float:
            own = len(words & words_of(test.partition("::")[0]))
            return (0.3 + own + self.noticed[test]) / (0.02 + self.seconds[test])

        chosen, total = [], 0.0
        for test in sorted(found, key=lambda test: (-worth(test), test)):
            total += self.seconds[test] + 0.005
            if total > seconds_max and chosen:
                continue
            chosen.append(test)
        return chosen[:count_max]


def words_of(path: str) -> set[str]:
    """Return the words of a path that tell what it is about."""
    return set(re.findall(r"[a-z]{3,}", path)) - {"src", "doyen", "tests", "test", "machine", "election", "membership"}


def lines_of(mutant: Mutant) -> range:
    return range(mutant.line, (TREE / mutant.path).read_bytes()[: mutant.end].count(b"\n") + 2)


# The campaign.


def results() -> dict[str, list[dict[str, Any]]]:
    """Return the results of each mutant, the last one last."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else []:
        row = json.loads(line)
        found[row["name"]].append(row)
    return found


class Campaign:
    """Runs mutants one by one, and writes how each ended."""

    def __init__(self, mutants: list[Mutant], cover: Cover, ends_at: float, anew: Callable[[list[str]], End]) -> None:
        self.mutants, self.cover, self.ends_at, self.anew = mutants, cover, ends_at, anew
        self.outside: dict[str, set[int]] = {}  # Lines that run at import or while tests are collected.
        self.cpu_max = 60.0  # Of each list of tests.
        self.first = True  # The tests are those that were there before a result was looked at.

    def __call__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        say.write(f"{len(loaded.items)} tests, {len(self.mutants)} mutants to run\n")
        for mutant in self.mutants:
            if time.monotonic() > self.ends_at:
                return
            self.write(mutant, *self.judge(mutant))

    def choose(self, mutant: Mutant, at_import: bool) -> list[list[str]]:
        """Return the tests for a mutant, those of the slow folders apart."""
        return [
            [test for test in self.cover.of(mutant, folders, seconds, at_import) if test in self.loaded.items]
            for folders, seconds in ((FOLDERS, TESTS_S), (SLOW, SLOW_S))
        ]

    def judge(self, mutant: Mutant) -> tuple[End, int]:
        at_import = bool(self.outside.get(mutant.path, set()) & set(lines_of(mutant)))
        count, cpu_s = 0, 0.0
        with Changed(TREE, WORK / "kept", mutant) as changed:
            replaced = self.loaded.replacements(changed) is not None
            for tests in self.choose(mutant, not replaced):
                count += len(tests)
                while replaced and tests:
                    end = self.loaded.run(changed, tests, self.cpu_max)
                    cpu_s += end.cpu_s
                    if end.how == "survived":
                        break
                    if self.confirmed(changed, end):
                        return end._replace(cpu_s=cpu_s), count
                    tests = tests[tests.index(end.by) + 1 :]  # The test fails by itself now and then.
            if at_import or not replaced:
                for tests in ([LIMITS], *self.choose(mutant, True)):
                    tests = self.few_files(tests)
                    if tests:
                        end = self.anew(tests)
                        cpu_s += end.cpu_s
                        if end.how != "survived":
                            return end._replace(cpu_s=cpu_s), count
        return End("survived" if count else "uncovered", "", "", cpu_s), count

    files_max = 3

    def few_files(self, tests: list[str]) -> list[str]:
        """Return the tests of the files that come first: each file costs its import."""
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))[: self.files_max]
        return [test for test in tests if test.partition("::")[0] in files]

    def confirmed(self, changed: Changed, end: End) -> bool:
        """Return whether a test notices the mutant once more, and passes without it where it runs on real time."""
        if not end.by or (end.how == "time" and end.by in self.loaded.seconds):
            return True
        if self.loaded.run(changed, [end.by]).how == "survived":
            return False
        if end.how == "killed" and not end.by.startswith(ON_REAL_TIME):
            return True
        changed.__exit__()
        try:
            return self.loaded.run(None, [end.by]).how == "survived"
        finally:
            changed.__enter__()

    def write(self, mutant: Mutant, end: End, count: int) -> None:
        self.cover.noticed[end.by] += 1
        if end.how in ("survived", "uncovered") and isinstance(self, NewTests):
            say.write(f"survived  {mutant.name} {mutant.path}:{mutant.line} {mutant.operator}\n")
            return
        row = {"name": mutant.name, "path": mutant.path, "line": mutant.line, "function": mutant.function}
        row |= {"operator": mutant.operator, "part": mutant.part, "ended": "time" if end.how == "wall" else end.how}
        row |= {"by": end.by, "told": end.told[:160], "tests": count, "cpu_s": round(end.cpu_s, 2), "first": self.first}
        row |= {"left": True} if isinstance(self, Left) else {}
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        what = f"{end.how:9} {mutant.name} {mutant.path}:{mutant.line} {mutant.operator}"
        say.write(f"{what} ({end.cpu_s:.1f} s) {end.by} {end.told[:100]}\n")


class Left(Campaign):
    """Runs what nobody noticed against the tests whose files are named after its part, and the held runs of its kind."""

    def __call__(self, loaded: Loaded) -> None:
        self.cpu_max = float(os.environ.get("LEFT_S", LEFT_S))
        super().__call__(loaded)

    def choose(self, mutant: Mutant, at_import: bool) -> list[list[str]]:
        own, kinds = words_of(mutant.path), stacks_of(mutant.path)
        tests = list(self.loaded.items)
        held = [test for test in tests if "test_machines_do_what" in test and re.search(kinds, test)]
        Random(mutant.name).shuffle(held)
        own |= {"presets", "worst"} if mutant.path.endswith(("kind.py", "config.py")) else set()

        def shared(test: str, words: set[str]) -> int:
            return len(words & words_of(test.partition("::")[0].rpartition("/")[2]))

        near = [test for test in tests if test not in held and shared(test, own - {"net", "core", "score"})]
        near.sort(key=lambda test: -shared(test, own))  # Stable: then as they stand.
        rest = [test for test in tests if "test_machines" not in test and test not in near]
        Random(mutant.name).shuffle(rest)
        return [near, rest, held]

    def write(self, mutant: Mutant, end: End, count: int) -> None:
        since = LATER if mutant.part == "net" or mutant.name in file_of("second").read_text() else BASE
        since = LAST if mutant.name in file_of("fresh").read_text() else since
        since = next((at for name, at in THEN.items() if mutant.name in file_of(name).read_text()), since)
        known = bool(end.by) and name_of(end.by) in names_at(since, end.by.partition("::")[0])
        self.first = known or end.by == "pytest cannot begin"  # It cannot even be imported.
        super().write(mutant, end, count)


def stacks_of(path: str) -> str:
    """Return an expression for the held runs that run a file."""
    part = path.split("/")[3]
    kinds = {"announce": r"\[(announce|le-)", "churn": r"\[(base|optimistic|preferred|hybrid|local)"}
    return kinds.get(part, "long|forgetful|oracle|far" if part.endswith(".py") else part.replace("_", "-"))


class Whole(Left):
    """Runs what nobody noticed against every test that runs its line, whichever folder that is in."""

    files_max = 30

    def __call__(self, loaded: Loaded) -> None:
        self.cpu_max = WHOLE_S
        Campaign.__call__(self, loaded)

    def choose(self, mutant: Mutant, at_import: bool) -> list[list[str]]:
        gathered = {test.split("/")[1] for test in self.cover.seconds}
        found = self.cover.of(mutant, tuple(gathered), WHOLE_S, at_import, 100_000)
        return [[test for test in found if test in self.loaded.items]]


class NewTests(Campaign):
    """Runs some test files on some mutants: first the tests that were there before, by their lines, then new ones."""

    only_new = False

    def __call__(self, loaded: Loaded) -> None:
        self.cpu_max = float(os.environ.get("LEFT_S", LEFT_S))
        self.earlier = {test for test in loaded.items if name_of(test) in names_at(BASE, test.partition("::")[0])}
        end = loaded.run(None, [test for test in loaded.items if test not in self.earlier])
        if end.how != "survived":
            raise RuntimeError(f"{end.by} fails without any mutant: {end.told}")
        super().__call__(loaded)

    def choose(self, mutant: Mutant, at_import: bool) -> list[list[str]]:
        known = [] if self.only_new else self.cover.of(mutant, FOLDERS, TESTS_S, at_import)
        known = [test for test in known if test in self.earlier]
        own = words_of(mutant.path)
        own |= {"presets", "worst"} if mutant.path.endswith(("kind.py", "config.py")) else set()
        near = [test for test in self.loaded.items if own & words_of(test.partition("::")[0])]
        apart = [test for test in self.loaded.items if test in self.earlier and test not in self.cover.seconds]
        new = [test for test in self.loaded.items if test not in self.earlier]
        return [known, *(sorted(tests, key=lambda test: test not in near) for tests in (apart, new))]

    def write(self, mutant: Mutant, end: End, count: int) -> None:
        self.first = end.by in self.earlier
        super().write(mutant, end, count)


def name_of(test: str) -> str:
    return test.partition("::")[2].partition("[")[0].rpartition("::")[2]


@cache
def names_at(commit: str, file: str) -> frozenset[str]:
    """Return the names of the tests that a file had at a commit."""
    told = subprocess.run(["git", "show", f"{commit}:{file}"], cwd=HERE, capture_output=True, text=True)
    return frozenset(re.findall(r"^\s*(?:async )?def (test_\w+)", told.stdout, re.M))


say = os.fdopen(os.dup(1), "w", buffering=1)  # What pytest does not capture.


def run_campaign(
    campaign: type[Campaign], mutants: list[Mutant], cover: Cover, minutes: float, files: list[str]
) -> None:
    """Fork a process that loads all and runs the campaign; this one, without doyen, runs what must be imported anew."""
    import hypothesis
    import msgspec  # noqa: F401
    import pytest

    hypothesis.settings.register_profile("mutants", deadline=None)  # A busy machine is no failure.
    hypothesis.settings.load_profile("mutants")
    os.chdir(TREE)
    sys.path.insert(0, str(TREE / "src"))
    os.environ |= {"PYTHONPATH": str(TREE / "src"), "HYPOTHESIS_STORAGE_DIRECTORY": str(WORK / "hypothesis")}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # Else every run would compile all that it imports.
    sys.dont_write_bytecode = False
    (to_anew, to_loop), (to_campaign, from_loop) = os.pipe(), os.pipe()

    def anew(tests: list[str]) -> End:
        asks.write(json.dumps(tests) + "\n")
        asks.flush()
        return End(*json.loads(answers.readline()))

    child = os.fork()
    if child == 0:
        import coverage

        os.close(to_anew)
        os.close(from_loop)
        asks, answers = os.fdopen(to_loop, "w"), os.fdopen(to_campaign)
        code = 98
        try:
            work = campaign(mutants, cover, time.monotonic() + 60 * minutes, anew)
            watched = coverage.Coverage(data_file=None, include=[f"{TREE}/src/doyen/*"], config_file=False)

            def begin(loaded: Loaded) -> None:
                watched.stop()
                data = watched.get_data()
                work.outside = {
                    str(Path(file).relative_to(TREE)): set(data.lines(file) or []) for file in data.measured_files()
                }
                work(loaded)

            if campaign is Campaign:  # Else only what runs in no function is imported anew.
                watched.start()
            code = int(pytest.main([*QUIET, *CHOSEN, *files], plugins=[Loaded(TREE, cover.seconds, begin)]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(to_loop)
    os.close(to_campaign)
    with os.fdopen(to_anew) as asked, os.fdopen(from_loop, "w") as told:
        for line in asked:
            told.write(json.dumps(run_anew(json.loads(line), WORK / "output")) + "\n")
            told.flush()
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the campaign ended with {status}")


def shown(mutant: Mutant) -> str:
    """Return a mutant as a reader would write it."""
    source = (TREE / mutant.path).read_bytes()
    begin = source.rfind(b"\n", 0, mutant.start) + 1
    end = source.find(b"\n", mutant.end)
    before = source[begin:end].decode()
    after = (source[begin : mutant.start] + mutant.text.encode() + source[mutant.end : end]).decode()
    head = f"{mutant.name} {mutant.path}:{mutant.line} {mutant.function}, {mutant.operator}"
    return "\n".join(
        [head, *(f"- {line}" for line in before.split("\n")), *(f"+ {line}" for line in after.split("\n"))]
    )


# The figures.

NOTICED = ("killed", "time")
MARK = "<!-- figures: made by scripts/mutants.py -->"


class Figures:
    """How the mutants of a sample ended, by part."""

    def __init__(self, sample: list[Mutant]) -> None:
        known = results()
        self.judged: dict[str, str] = json.loads(JUDGED.read_text()) if JUDGED.exists() else {}
        self.rows: dict[str, Counter[str]] = defaultdict(Counter)
        self.left: list[Mutant] = []
        for mutant in sample:
            count, runs = self.rows[mutant.part], known.get(mutant.name, [])
            noticed = [run for run in runs if run["ended"] in NOTICED]
            count["drawn"] += 1
            count["run"] += bool(runs)
            count["noticed at first"] += any(run.get("first", run is runs[0]) for run in noticed)
            count["noticed now"] += bool(noticed)
            if runs and not noticed:
                self.left.append(mutant)
                equivalent = self.judged.get(mutant.name, "").startswith("equivalent")
                count["equivalent" if equivalent else "survived"] += 1
        self.all = sum(self.rows.values(), Counter())

    def table(self) -> list[str]:
        columns = ("drawn", "run", "noticed at first", "noticed now", "equivalent", "survived")
        lines = [f"| part | {' | '.join(columns)} | share at first | share now |", "|---" * (len(columns) + 3) + "|"]
        for part, count in [*sorted(self.rows.items()), ("**all**", self.all)]:
            shares = [share(count, when) for when in ("noticed at first", "noticed now")]
            lines.append(f"| {' | '.join([part, *(str(count[column]) for column in columns), *shares])} |")
        return lines

    def survivors(self) -> list[str]:
        lines = ["| mutant | where | change | judged |", "|---|---|---|---|"]
        for mutant in sorted(self.left, key=lambda mutant: (mutant.path, mutant.line)):
            source = (HERE / mutant.path).read_bytes()
            was = " ".join(source[mutant.start : mutant.end].decode().split()) or "…"
            change = f"{was} → {' '.join(mutant.text.split())}".replace("|", "\\|").replace("`", "'")
            where = f"{mutant.path.removeprefix('src/doyen/')}:{mutant.line} {mutant.function}"
            lines.append(f"| {mutant.name} | {where} | `{change[:80]}` | {self.judged.get(mutant.name, 'open')} |")
        return lines


def nobody_noticed(sample: list[Mutant], known: dict[str, list[dict[str, Any]]]) -> list[Mutant]:
    """Return those that no test noticed yet, without those that are judged equivalent."""
    judged = json.loads(JUDGED.read_text())
    return [
        mutant
        for mutant in sample
        if not any(run["ended"] in NOTICED for run in known.get(mutant.name, []))
        and not judged.get(mutant.name, "").startswith("equivalent")
    ]


def file_of(name: str) -> Path:
    return HERE / f"tests/mutants/{name}.txt"


def named(file: Path, mutants: dict[str, Mutant]) -> list[Mutant]:
    """Return the mutants that a file names, but for those whose code is gone."""
    return [mutants[name] for name in file.read_text().split() if name in mutants]


def draw(name: str, seed: int, each: int) -> None:
    """Write the names of a new sample: so many mutants of each folder, of those that no sample has yet."""
    had = {word for file in file_of("sample").parent.glob("*.txt") for word in file.read_text().split()}
    left = [mutant for mutant in all_mutants(HERE) if mutant.name not in had]
    parts = [[mutant for mutant in left if mutant.path.startswith(f"src/doyen/{part}/")] for part in PARTS]
    found = [mutant for part in parts for mutant in drawn(part, seed, each)]
    file_of(name).write_text("".join(f"{mutant.name}\n" for mutant in found))


def share(count: Counter[str], noticed: str) -> str:
    unlike = count["run"] - count["equivalent"]
    return f"{count[noticed] / unlike:.0%}" if unlike else "–"


def page() -> None:
    """Write the figures by part, and the survivors, below the mark of the page."""
    mutants = {mutant.name: mutant for mutant in all_mutants(HERE)}
    figures = {what: Figures(named(file_of(name), mutants)) for name, what in NAMES.items()}
    lines = [MARK, ""]
    lines += ["| sample | run | equivalent | noticed of the others |", "|---|---|---|---|"]
    for what, found in figures.items():
        for told, when in (("before any test was written for one", "noticed at first"), ("now", "noticed now")):
            count = found.all
            noticed = f"{count[when]} ({share(count, when)})"
            lines.append(f"| {what}, {told} | {count['run']} | {count['equivalent']} | {noticed} |")
    for what, found in figures.items():
        if what != NAMES["second"]:
            lines += ["", f"By part, of the {what}:", "", *found.table()]
    for what, found in figures.items():
        lines += ["", f"## Those of the {what} that no test notices", "", *found.survivors()]
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(MARK)] + "\n".join(lines) + "\n")


def copy_of_this() -> None:
    """Put the tree as it is, with what is not committed, beside the campaign's own."""
    global WORK, TREE
    WORK = HERE / os.environ.get("AGAIN", "build/again")  # Another folder for a second run beside the first.
    TREE = WORK / "tree"
    TREE.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        f"git ls-files -z --cached --others --exclude-standard | tar c --null -T - | tar x -C {TREE}",
        shell=True,
        cwd=HERE,
        check=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=24 * 60)
    parser.add_argument("--only", default="")
    parser.add_argument("--of", choices=NAMES, default="sample")
    parser.add_argument("--left", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--again", nargs="*", default=[])
    parser.add_argument("--tests", nargs="*", default=[])
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--show", nargs="*", default=[])
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--draw", nargs=3, metavar=("NAME", "SEED", "EACH"))
    parser.add_argument("--gather", default="", help=argparse.SUPPRESS)
    parser.add_argument("--as-gathered", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only-gather", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.gather:
        gather(given.gather)
        return
    if given.page:
        page()
        return
    if given.draw:
        draw(given.draw[0], int(given.draw[1]), int(given.draw[2]))
        return
    if given.whole:
        check_out(given.fresh)
    if given.tests or given.whole:
        copy_of_this()
    else:
        check_out(given.fresh)
    if not given.show:
        restore(TREE, WORK / "kept")
    known = results()
    if given.again and given.tests and not given.left:  # Only their files are looked through, and no figures are made.
        paths = {known[name][-1]["path"] for name in given.again}
        found = [mutant for path in paths for mutant in Sites(path, (TREE / path).read_bytes()).found]
        chosen = sorted(
            (mutant for mutant in found if mutant.name in given.again), key=lambda mutant: not mutant.function
        )
        NewTests.only_new = True
        run_campaign(NewTests, chosen, Cover((), {}), given.minutes, given.tests)
        return
    mutants = {mutant.name: mutant for mutant in all_mutants(TREE)}
    sample = named(file_of(given.of), mutants)
    if given.show:
        print("\n".join(shown(mutant) for mutant in mutants.values() if mutant.name in given.show))
        return
    if given.whole:
        missing = [folder for folder in (*FOLDERS, *SLOW, *WIDE) if not (GATHERED / f"{folder}.json").exists()]
        missing = [] if given.as_gathered else missing
        for folder in missing:
            print(f"tests/{folder}: which test runs which line", flush=True)
            line = [sys.executable, __file__, "--gather", folder]
            if subprocess.run(line, stdout=subprocess.DEVNULL).returncode:
                print(f"tests/{folder}: left out", flush=True)
        folders = tuple(f for f in (*FOLDERS, *SLOW, *WIDE) if (GATHERED / f"{f}.json").exists())
        chosen = [
            mutant
            for mutant in nobody_noticed(sample, known)
            if re.search(given.only, mutant.path) and (not given.again or mutant.name in given.again)
        ]
        run_campaign(Whole, chosen, Cover(folders, known), given.minutes, [f"tests/{folder}" for folder in folders])
    elif given.tests:
        folders = tuple(f for f in FOLDERS if (GATHERED / f"{f}.json").exists())
        chosen = [
            mutant
            for mutant in nobody_noticed(sample, known)
            if re.search(given.only, mutant.path)
            and (not given.again or mutant.name in given.again)
            and not (given.left and not given.again and any(run.get("left") for run in known.get(mutant.name, [])))
        ]
        run_campaign(Left if given.left else NewTests, chosen, Cover(folders, known), given.minutes, given.tests)
    else:
        for folder in (*FOLDERS, *SLOW):
            if not (WORK / f"{folder}.json").exists() and not given.as_gathered:
                print(f"tests/{folder}: which test runs which line", flush=True)
                subprocess.run([sys.executable, __file__, "--gather", folder], check=True, stdout=subprocess.DEVNULL)
        if given.only_gather:
            return
        chosen = [
            mutant
            for mutant in sample
            if re.search(given.only, mutant.path)
            and (mutant.name in given.again if given.again else mutant.name not in known)
        ]
        folders = tuple(f for f in (*FOLDERS, *SLOW) if (WORK / f"{f}.json").exists())
        files = [f"tests/{folder}" for folder in folders]
        run_campaign(Campaign, chosen, Cover(folders, known), given.minutes, files)
    if PAGE.exists():
        page()


if __name__ == "__main__":
    main()
