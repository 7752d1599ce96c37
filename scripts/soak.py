"""Runs the long tests, file by file, and goes on where it stopped.

    python scripts/soak.py                all that have not passed on the code as it is
    python scripts/soak.py --anew         all, whatever has passed
    python scripts/soak.py --only ring    … of files whose path matches this expression
    python scripts/soak.py --minutes 60   … and begin no further file after so long
    python scripts/soak.py --left         run nothing: say what has passed on this code, and what is left
    python scripts/soak.py --page         write that into docs/explanation/soak.md

`tests/soak/passed.json` says which test passed on which code, and how often it failed there (decision 180).  A file's
code is every file of the folders that it has imported, its own and the helpers' included, without comments and
docstrings; where it starts programs, also all that it names or that a node or a runner may import.  Tests in made-up
time run as many files at a time as there are processors, and give way to those on real time, which run one by one
beside them.  What fails on real time is run once more when nothing else runs, and that counts.
"""

import argparse
import ast
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
LEDGER = HERE / "tests/soak/passed.json"
LOCK = HERE / "build/soak.lock"
PAGE = HERE / "docs/explanation/soak.md"
DECISION = "../decisions/0180-the-soak-goes-on-where-it-stopped.md"
HEAD = f"""# What the long tests said

<!-- Made by `make soak ARGS=--page`. -->

`make soak` runs the tests that need hours, and goes on where it stopped.
What passed is written down with a digest of the code that it ran on.
A test whose code has changed since counts as not run: [decision 180]({DECISION}).

"""
PACKAGES = {
    "doyen": HERE / "src/doyen",
    "doyen_papers": HERE / "packages/doyen-papers/src/doyen_papers",
    "doyen_lab": HERE / "packages/doyen-lab/src/doyen_lab",
}
NICE = ("nice", "-n", "19")
SEEDS = 10_000  # As `tests/helpers/storms.py` has it: what passed with fewer has not passed.
PAGES = ("tests/docs/", "tests/deploy/", "tests/engines/", "tests/contrib/")  # They run what pages say.
# What no node and no runner imports, and the tests that may run it without naming it.
UNSEEN = {"doyen.audit": PAGES, "doyen.check": PAGES, "doyen.postmortem": PAGES}
UNSEEN |= {"doyen_papers": ("tests/docs/", "tests/papers/")}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
TEST = re.compile(r"mark\.soak")


# What a file depends on.


@cache
def _meaning(path: Path, changed_at: int) -> bytes:
    """Return what a source file says to Python, without comments and docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return ast.dump(tree).encode()


def _folder(name: str) -> Path:
    first, _, rest = name.partition(".")
    return PACKAGES[first].joinpath(*rest.split(".")) if rest else PACKAGES[first]


def code(file: str, folders: Sequence[str]) -> str:
    """Return a digest of what a file of tests depends on."""
    digest = blake2b(f"Python {sys.version_info[:2]}".encode(), digest_size=8)
    for path in _files(file, folders):
        digest.update(str(path.relative_to(HERE)).encode())
        digest.update(_meaning(path, path.stat().st_mtime_ns) if path.suffix == ".py" else path.read_bytes())
    return digest.hexdigest()


def _files(file: str, folders: Sequence[str]) -> list[Path]:
    """Return the files of the code: what was imported or may be started, the tests beside, and what all depend on."""
    own = (HERE / file).parent
    places = {_folder(name) for name in folders}
    if not folders or starts_programs(file):
        places |= {*_all_folders(file)}
    found = {path for place in (*places, own, HERE / "tests/helpers") for path in place.glob("*")}
    found -= {path for path in own.glob("test_*.py") if path != HERE / file}  # No test imports another one.
    found |= {HERE / "pyproject.toml", *(HERE / "scenarios").glob("*"), *(HERE / "tests").glob("conftest.py")}
    for name in ("docs", "deploy", "examples") if file.startswith(PAGES) else ():
        found |= {*(HERE / name).rglob("*")} - {PAGE}
    return sorted(path for path in found if path.is_file() and path.suffix != ".pyc" and path != LEDGER)


def _all_folders(file: str) -> list[Path]:
    """Return the folders of what a file that starts programs may run: not what it never names and no node runs."""
    text = (HERE / file).read_text()
    spared = [
        place
        for place, runs in UNSEEN.items()
        if place.partition(".")[0] in PACKAGES and not file.startswith(runs) and place.rpartition(".")[2] not in text
    ]
    unused = {_folder(place) for place in spared}
    folders = [folder for root in PACKAGES.values() for folder in (root, *root.rglob("*/"))]
    return [path for path in folders if path.name != "__pycache__" and not unused.intersection((path, *path.parents))]


def imported() -> list[str]:
    """Return the folders of ours that this process has imported something of."""
    folders = set()
    for name, module in sys.modules.items():
        if name.partition(".")[0] in PACKAGES and getattr(module, "__file__", None):
            folders.add(name if Path(str(module.__file__)).name == "__init__.py" else name.rpartition(".")[0])
    return sorted(folders)


def is_on_real_time(file: str) -> bool:
    text = (HERE / file).read_text()
    return file.startswith("tests/docs/") or "mark.live" in text or "mark.alone" in text


def starts_programs(file: str) -> bool:
    """Return whether what a file depends on is not all in its own process."""
    return is_on_real_time(file) or "subprocess" in (HERE / file).read_text()


# What has passed.


def ledger() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(LEDGER.read_text()) if LEDGER.exists() else {}
    return found


@contextmanager
def _held() -> Iterator[dict[str, dict[str, Any]]]:
    """Open the ledger for a change; other processes wait."""
    LOCK.parent.mkdir(exist_ok=True)
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = ledger()
        yield entries
        lines = [f"{json.dumps(file)}: {json.dumps(entries[file], sort_keys=True)}" for file in sorted(entries)]
        new = LEDGER.with_suffix(".new")
        new.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        new.replace(LEDGER)


def entry_of(file: str, entries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what is known of a file's tests on the code as it is: what passed, and the seconds that each took."""
    entry = entries.get(file)
    if entry is None or entry["code"] != code(file, entry["folders"]):
        return {"passed": {}, "told": {}, "failed": {}}
    return entry


class Journal:
    """A pytest plugin: leaves out what has passed, writes down what passes, and strikes out what fails."""

    def __init__(self, file: str, anew: bool) -> None:
        self.file, self.anew = file, anew
        self.seconds: dict[str, float] = {}
        self.commit = _git("rev-parse", "--short", "HEAD")
        self.loaded = code(file, [])  # All that may be loaded, as it is before any of it is.

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        done = {} if self.anew else entry_of(self.file, ledger())["passed"]
        left_out = [item for item in items if self._name(item.nodeid) in done]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = self._name(report.nodeid)
        if report.outcome != "passed":
            self.seconds[name] = float("nan")
        if report.outcome == "failed":
            self._strike_out(name)
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        if report.when == "teardown" and self.seconds[name] == self.seconds[name]:
            told = [text for key, text in report.user_properties if key == "told"]
            self._write(name, round(self.seconds[name], 1), told)

    def _strike_out(self, name: str) -> None:
        """Forget that a test passed; that it failed is kept until the code is another one."""
        with self._entry() as entry:
            entry["passed"].pop(name, None)
            entry["told"].pop(name, None)
            entry["failed"][name] = entry["failed"].get(name, 0) + 1

    def _write(self, name: str, seconds: float, told: list[str]) -> None:
        if int(os.environ.get("DOYEN_SEEDS", SEEDS)) < SEEDS:
            return
        if code(self.file, []) != self.loaded:
            print(f"{name} is not written down: the code has changed while it ran", flush=True)
            return
        with self._entry() as entry:
            entry["passed"][name] = seconds
            if told:
                entry["told"][name] = told

    @contextmanager
    def _entry(self) -> Iterator[dict[str, Any]]:
        """Open the entry of this file on the code as it is."""
        with _held() as entries:
            folders = imported()
            entry = entry_of(self.file, entries)
            if folders:  # Tests that ran before may have imported others.
                folders = sorted({*folders, *entry.get("folders", ())})
            entry |= {"code": code(self.file, folders), "folders": folders}
            entry |= {"commit": self.commit, "day": time.strftime("%Y-%m-%d")}
            yield entry
            entries[self.file] = entry

    @staticmethod
    def _name(nodeid: str) -> str:
        return nodeid.partition("::")[2]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()


# The runs.


def files(only: str) -> list[str]:
    found = (path for path in sorted((HERE / "tests").rglob("test_*.py")) if TEST.search(path.read_text()))
    return [name for name in (str(path.relative_to(HERE)) for path in found) if re.search(only, name)]


def run_one(file: str, anew: bool) -> int:
    """Run one file in this process; nothing left to run is fine."""
    import pytest

    ended = pytest.main([file, "-m", "soak", "-p", "no:cacheprovider"], plugins=[Journal(file, anew)])
    return 0 if ended in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else 1


def run_all(names: list[str], anew: bool, jobs: int, until: float, *, gives_way: bool = False) -> list[str]:
    """Run files in processes of their own; return those in which something failed."""
    failed = []

    def run(file: str) -> None:
        if time.monotonic() > until:
            return
        command = [*NICE * gives_way, sys.executable, __file__, "--file", file, *(["--anew"] if anew else [])]
        began = time.monotonic()
        ended = subprocess.run(command, cwd=HERE, capture_output=True, text=True, errors="replace")
        print(f"{'ok' if not ended.returncode else 'FAILED':7}{file}  {time.monotonic() - began:.0f} s", flush=True)
        if ended.returncode:
            failed.append(file)
            print(ended.stdout or "", ended.stderr or "", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, names))
    return failed


# What is said of it.


def table(names: list[str]) -> str:
    """Return a row per file: how many of its tests have passed on today's code, of how many, and in how long."""
    entries, rows, total, done = ledger(), [], 0, 0
    counts = _counts(names)
    for file in (name for name in names if counts[name]):
        entry = entry_of(file, entries)
        found, failed = entry["passed"], sum(entry["failed"].values())
        total, done = total + counts[file], done + len(found)
        row = f"| `{file}` | {len(found)} of {counts[file]} | {failed or ''} | {sum(found.values()):,.0f} |"
        rows.append(f"{row} {entry.get('day', '')} |")
    head = f"{done:,} of {total:,} long tests have passed on the code as it is.\n\n"
    columns = ["| tests | passed on this code | failures on it | seconds | day |", "|---|---|---|---|---|"]
    return head + "\n".join([*columns, *rows]) + "\n"


def _counts(names: list[str]) -> dict[str, int]:
    """Return how many long tests each file has."""
    asked = [sys.executable, "-m", "pytest", "-m", "soak", "--collect-only", "-q", "-p", "no:cacheprovider", *names]
    lines = subprocess.run(asked, cwd=HERE, capture_output=True, text=True).stdout.splitlines()
    counts = dict.fromkeys(names, 0)
    for line in lines:
        file, _, count = line.rpartition(": ")
        if file in counts:
            counts[file] = int(count)
    return counts


def write_page(names: list[str]) -> None:
    entries = ledger()
    known = (entry_of(file, entries) for file in names)
    said = [text for entry in known for name in entry["passed"] for text in entry["told"].get(name, ())]
    measured = "\n## What they measured\n\n```text\n" + "\n".join(said) + "\n```\n"
    PAGE.write_text(f"{HEAD}{table(names)}{measured if said else ''}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--left", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--file", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.chdir(HERE)
    if given.file:
        return run_one(given.file, given.anew)
    names = files(given.only)
    if given.left:
        print(table(names), end="")
        return 0
    if given.page:
        write_page(names)
        return 0
    until = time.monotonic() + given.minutes * 60
    real = [name for name in names if is_on_real_time(name)]
    made_up = [name for name in names if name not in real]
    with ThreadPoolExecutor(1) as beside:
        others = beside.submit(run_all, made_up, given.anew, given.jobs, until, gives_way=True)
        again = run_all(real, given.anew, 1, until)
        failed = others.result() + run_all(again, False, 1, until)
    print("\n" + table(names))
    for name in failed:
        print(f"failed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
