"""Put the playground into the site: the simulator as it is, on Pyodide, with the files of docs/playground around it.

    python scripts/playground.py --fetch         Pyodide (npm) and msgspec's wheel for it (pip) into .venv/playground
    python scripts/playground.py FOLDER          the playground into a folder, for a server of files

`make docs` does both.  Nothing of it goes into the wheel.  Without a network, and with nothing fetched before, the site
has a page that says so instead.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import doyen
from doyen.core.clock import format_duration
from doyen.core.config import load
from doyen.core.kinds import DELAYS
from doyen.errors import ConfigError
from doyen.node.registry import ELECTIONS, MEMBERSHIPS, find_election, find_membership
from doyen.postmortem.document import script, style
from doyen.sim.scenario import Scenario
from doyen.sim.scenario.defaults import completed

ROOT = Path(__file__).parents[1]
SOURCE, FETCHED = ROOT / "docs" / "playground", ROOT / ".venv" / "playground"
PYODIDE = "314.0.7"
OF_PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
MSGSPEC = version("msgspec")  # The version that native runs have, too.
NEEDS_A_STORE = {"engine"}  # It promises what its store does, and there is none here.
USUAL_FIRST = ["quorum", "gossip", "fast"]
MISSING = (
    "This site was built without the playground, because its parts could not be fetched. `make docs` fetches them."
)


class Unavailable(Exception):
    """Raised where a part is neither here nor to be had."""


def fetch() -> tuple[Path, Path]:
    """Return the folder of Pyodide and msgspec's wheel; get by npm and pip what is not here yet."""
    pyodide = FETCHED / f"pyodide-{PYODIDE}"
    if not all((pyodide / name).is_file() for name in OF_PYODIDE):
        FETCHED.mkdir(parents=True, exist_ok=True)
        _done(["npm", "pack", f"pyodide@{PYODIDE}", "--silent", "--pack-destination", str(FETCHED)])
        packed = FETCHED / f"pyodide-{PYODIDE}.tgz"
        with tarfile.open(packed) as archive:
            pyodide.mkdir(exist_ok=True)
            for name in OF_PYODIDE:
                member = archive.extractfile(f"package/{name}")
                assert member is not None, name
                (pyodide / name).write_bytes(member.read())
        packed.unlink()
    info = json.loads((pyodide / "pyodide-lock.json").read_text())["info"]
    python = ".".join(info["python"].split(".")[:2])
    pattern = f"msgspec-{MSGSPEC}-*pyemscripten_{info['abi_version']}_wasm32.whl"
    if not [*FETCHED.glob(pattern)]:
        asked = ["--only-binary=:all:", "--no-deps", "--python-version", python]
        asked += ["--platform", f"pyemscripten_{info['abi_version']}_wasm32", "--dest", str(FETCHED)]
        _done([sys.executable, "-m", "pip", "--quiet", "download", f"msgspec=={MSGSPEC}", *asked])
    return pyodide, next(FETCHED.glob(pattern))


def _done(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    except FileNotFoundError:
        raise Unavailable(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} did not end in 10 minutes") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.strip()] or [f"exit code {error.returncode}"]
        raise Unavailable(f"{' '.join(command[:3])} failed: {lines[-1]}") from None


def build(into: Path) -> None:
    """Write the playground into a folder; raise `Unavailable` where a part is not to be had, and write nothing."""
    pyodide, wheel = fetch()
    into.mkdir(parents=True, exist_ok=True)
    for source in SOURCE.iterdir():
        if source.is_file():
            shutil.copyfile(source, into / source.name)
    (into / "pyodide").mkdir(exist_ok=True)
    for name in OF_PYODIDE:
        shutil.copyfile(pyodide / name, into / "pyodide" / name)
    lock = json.loads((pyodide / "pyodide-lock.json").read_text())
    lock["packages"] = {}  # No other package can be asked for.
    (into / "pyodide" / "pyodide-lock.json").write_text(json.dumps(lock))
    shutil.copyfile(wheel, into / wheel.name)
    shutil.copyfile(ROOT / "src" / "doyen" / "eyes" / "static" / "icon.svg", into / "icon.svg")
    (into / "picture.js").write_text(script())
    (into / "picture.css").write_text(style())
    pack(into / "doyen.zip")
    size = sum(file.stat().st_size for file in into.rglob("*") if file.is_file())
    made_of = {
        "doyen": doyen.__version__,
        "pyodide": PYODIDE,
        "python": lock["info"]["python"],
        "msgspec": MSGSPEC,
        "wheel": wheel.name,
        "megabytes": round(size / 1e6),
    }
    (into / "parts.json").write_text(json.dumps(made_of | choices()))


def pack(path: Path) -> None:
    """Write the package `doyen` as it is into an archive: the same bytes for the same files."""
    package = ROOT / "src" / "doyen"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(package.rglob("*.py")):
            name = source.relative_to(package.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), source.read_bytes(), zipfile.ZIP_DEFLATED)


def choices() -> dict[str, object]:
    """Return what can be chosen on the page, and what goes together."""
    names = [name for name in ELECTIONS if name not in NEEDS_A_STORE]
    kinds = {find_election(name).aliases[0] if find_election(name).aliases else name: name for name in names}
    order = [*(name for name in USUAL_FIRST if name in kinds), *(name for name in kinds if name not in USUAL_FIRST)]
    elections = []
    for name in order:
        kind = find_election(name)
        fitting = [other for other in ("auto", *MEMBERSHIPS) if fits(name, other)]
        config = load(Scenario, completed({"node": {"election": name}}, ""), "").config()
        promise = config.promise(kind).in_short
        elections.append(
            {"name": name, "title": kind.title, "about": kind.about, "promise": promise, "memberships": fitting}
        )
    return {
        "elections": elections,
        "memberships": [{"name": name, "about": find_membership(name).about} for name in MEMBERSHIPS],
        "presets": [*DELAYS],
        "delays": {name: format_duration(delay) for name, delay in DELAYS.items()},
    }


def fits(election: str, membership: str) -> bool:
    """Return whether that election runs over that membership."""
    try:
        load(Scenario, completed({"node": {"election": election, "membership": membership}}, ""), "")
    except ConfigError:
        return False
    return True


def build_or_say_why(into: Path) -> bool:
    """Write the playground, or a page that says that it is missing, with one line on standard error."""
    try:
        build(into)
    except Unavailable as error:
        print(f"the site has no playground: {error}", file=sys.stderr)
        into.mkdir(parents=True, exist_ok=True)
        (into / "index.html").write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>doyen</title><p>{MISSING}</p></html>'
        )
        return False
    return True


def main(arguments: list[str]) -> int:
    """Fetch the parts, or write the playground into a folder."""
    if len(arguments) != 1 or (arguments[0].startswith("-") and arguments[0] != "--fetch"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if arguments[0] == "--fetch":
            fetch()
        else:
            build(Path(arguments[0]))
    except Unavailable as error:
        print(f"no playground: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
