"""What each folder may use: the allow-list of the architecture.

Every entry must be used by something, or it goes.  What is not listed is refused, a new folder too.
"""

from pathlib import Path
from typing import NamedTuple

from reader import Use

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "doyen": ROOT / "src" / "doyen",
    "doyen_papers": ROOT / "packages" / "doyen-papers" / "src" / "doyen_papers",
    "doyen_lab": ROOT / "packages" / "doyen-lab" / "src" / "doyen_lab",
}

PURE = frozenset(
    """
    abc base64 bisect collections contextlib csv difflib enum errno fnmatch fractions functools hashlib heapq hmac html
    io ipaddress itertools json math operator re shlex stat statistics struct tomllib types typing weakref zlib
    """.split()  # noqa: SIM905
)  #: Modules of the standard library that compute, and touch nothing: every folder may import them.


class Layer(NamedTuple):
    """What one folder may use, beside itself and `PURE`; each a list of names between blanks."""

    ours: str = ""  #: Folders of ours.
    outside: str = ""  #: Modules of the standard library that touch the world, and packages of others.
    world: str = (
        ""  #: files, clock, chance (without a seed), environment, console, dynamic (imports of a name in hand).
    )
    typing: str = ""  #: Folders of ours that only a type checker imports.


class Extra(NamedTuple):
    """What one file may use beyond its folder, and the reason."""

    may: Layer
    reason: str


LAYERS = {
    # The wheel `doyen`, no IO: the clock and the random stream come in as arguments.
    "doyen.errors": Layer(),
    "doyen.core": Layer("doyen.errors", "msgspec"),
    "doyen.membership": Layer("doyen.core doyen.errors", "msgspec"),
    "doyen.election": Layer("doyen.core doyen.errors doyen.membership", "msgspec"),
    "doyen.score": Layer("doyen.core doyen.errors", "logging msgspec"),
    # The wheel `doyen`, the world.
    "doyen.net": Layer(
        "doyen doyen.core doyen.errors",
        "asyncio concurrent fcntl inspect logging msgspec nacl os pathlib resource signal socket sys threading time",
        "clock files",
    ),
    # What people look at; a node loads it when somebody does.
    "doyen.eyes": Layer("doyen.core doyen.errors", "msgspec pathlib", "files"),
    "doyen.node": Layer(
        "doyen doyen.core doyen.errors doyen.eyes doyen.membership doyen.net doyen.score",
        "asyncio atexit grp h11 importlib inspect logging msgspec os pathlib pwd resource signal socket sys "
        "threading time urllib",
        "clock files",
        typing="doyen.net",
    ),
    "doyen.runner": Layer(
        "doyen.core doyen.errors doyen.membership doyen.net doyen.node",
        "asyncio ctypes logging fcntl mmap msgspec os pathlib select signal socket subprocess sys time urllib",
        "clock console environment files",
    ),
    "doyen.sim": Layer("doyen.core doyen.election doyen.errors doyen.membership doyen.node doyen.score", "gc msgspec"),
    "doyen.postmortem": Layer(
        "doyen.core doyen.errors doyen.eyes doyen.net doyen.node doyen.sim", "concurrent msgspec os pathlib", "files"
    ),
    "doyen.check": Layer(
        "doyen.core doyen.election doyen.errors doyen.node doyen.sim", "array marshal msgspec pickle z3"
    ),
    "doyen.audit": Layer("doyen.core doyen.election doyen.errors doyen.net doyen.node", "msgspec pathlib"),
    "doyen.testing": Layer(
        "doyen doyen.core doyen.election doyen.errors doyen.net doyen.node doyen.postmortem doyen.sim",
        "asyncio copyreg importlib msgspec os pathlib pytest shutil signal subprocess sys",
        "files",
        typing="doyen.node doyen.postmortem",
    ),
    "doyen.cli": Layer(
        "doyen doyen.audit doyen.check doyen.core doyen.errors doyen.eyes doyen.membership doyen.net doyen.node "
        "doyen.postmortem doyen.runner doyen.sim doyen.testing",
        "asyncio click concurrent datetime importlib msgspec nacl os pathlib shutil signal socket sys time",
        "clock console environment files",
        typing="doyen.node doyen.sim",
    ),
    # What a user of the package sees: names that load when they are used, and nodes for programs without asyncio.
    "doyen": Layer(
        "doyen.election doyen.errors doyen.membership doyen.node doyen.singletons doyen.sync",
        "importlib",
        "dynamic",
        typing="doyen.election doyen.errors doyen.membership doyen.node doyen.singletons doyen.sync",
    ),
    "doyen.singletons": Layer("doyen.errors doyen.node doyen.sync", "contextvars inspect threading"),
    "doyen.sync": Layer("doyen.core doyen.errors doyen.node", "asyncio concurrent inspect os threading"),
    "doyen.__main__": Layer("doyen.cli"),
    # Drop-ins for other packages; nothing of doyen imports them.
    "doyen.contrib": Layer(
        "doyen doyen.errors doyen.net doyen.node",
        "apscheduler argparse asyncio atexit celery concurrent datetime django logging msgspec os pathlib socket "
        "starlette sys threading time tooz uuid",
        "clock environment",
    ),
    # Stores: where a leader's work arrives, and their clients.  Only what is used loads.
    "doyen.engines": Layer(
        "doyen.core doyen.election doyen.errors doyen.score",
        "http importlib kazoo logging msgspec os psycopg redis select socket ssl threading urllib",
    ),
    "doyen.fence": Layer(
        "doyen.core doyen.engines doyen.errors",
        "asyncio importlib inspect kazoo os pathlib psycopg socket threading",
        "dynamic files",
        typing="doyen.errors",
    ),
    # The wheel `doyen-papers`.
    "doyen_papers.analysis": Layer("doyen.core doyen.errors doyen.net", "msgspec numpy"),
    "doyen_papers.kernels": Layer("doyen.errors doyen_papers.analysis", "msgspec numba numpy"),
    "doyen_papers.score": Layer("doyen.core doyen.errors doyen.score", "msgspec pathlib", "files"),
    "doyen_papers.studies": Layer(
        "doyen.core doyen.election doyen.errors doyen.membership doyen.node doyen.score doyen.sim doyen.testing "
        "doyen_papers.analysis doyen_papers.kernels doyen_papers.score",
        "msgspec pathlib",
        "files",
    ),
    "doyen_papers.papers": Layer(
        "doyen doyen.core doyen.election doyen.errors doyen.membership doyen.score doyen.sim "
        "doyen_papers.analysis doyen_papers.score doyen_papers.studies",
        "concurrent importlib matplotlib msgspec numpy os pathlib",
        "files",
    ),
    "doyen_papers.cli": Layer(
        "doyen.cli doyen.core doyen.errors doyen.eyes doyen.node doyen.score doyen.sim "
        "doyen_papers.analysis doyen_papers.papers doyen_papers.score doyen_papers.studies",
        "click importlib msgspec os pathlib time",
        "clock files",
    ),
    # The wheel `doyen-lab`.
    "doyen_lab": Layer(
        "doyen.core doyen.election doyen.errors doyen.membership doyen.net doyen.testing "
        "doyen_lab.contest doyen_papers.score doyen_papers.studies",
        "asyncio concurrent ctypes fcntl gc logging msgspec os pathlib select signal subprocess sys tempfile time",
        "clock console files",
    ),
    "doyen_lab.proving": Layer(
        "doyen doyen.core doyen.errors doyen.membership doyen.net doyen.node doyen.postmortem doyen.sim "
        "doyen.testing doyen_lab",
        "asyncio msgspec os pathlib shutil signal socket subprocess sys tempfile time",
        "clock environment files",
    ),
    "doyen_lab.contest": Layer(
        "doyen.core doyen.election doyen.engines doyen.errors doyen.net doyen.node doyen.score doyen.sim "
        "doyen.testing doyen_lab doyen_lab.proving doyen_papers.score",
        "asyncio concurrent kazoo msgspec os pathlib shutil socket swimprotocol sys tempfile threading time",
        "console environment files",
    ),
    "doyen_lab.simulators": Layer(
        "doyen.core doyen.election doyen.sim doyen_lab.contest doyen_papers.analysis doyen_papers.studies",
        "gc msgspec os platform simpy time",
    ),
    "doyen_lab.museum": Layer("doyen.core doyen.sim doyen.testing", "asyncio msgspec random", "chance"),
    "doyen_lab.cli": Layer(
        "doyen.cli doyen.core doyen.election doyen.errors doyen.eyes doyen.net doyen.score doyen.testing "
        "doyen_lab doyen_lab.contest doyen_lab.museum doyen_lab.proving doyen_lab.simulators doyen_papers.papers "
        "doyen_papers.studies",
        "asyncio click msgspec os pathlib signal sys",
        "files",
    ),
}

FILES = {
    "doyen/core/hashes.py": Extra(
        Layer(outside="_blake2 _sha3"), "hashlib loads OpenSSL, which costs a node megabytes"
    ),
    "doyen/score/probes.py": Extra(
        Layer(outside="pathlib", world="files"), "it measures the machine: that is its task"
    ),
    "doyen/election/directory/files.py": Extra(
        Layer(outside="os pathlib", world="files"), "the election's other half: a directory that all members reach"
    ),
    "doyen/cli/steer.py": Extra(Layer("doyen.engines doyen.score"), "it puts the leader of a store elsewhere"),
    "doyen/cli/sim/on_dask.py": Extra(
        Layer(outside="dask distributed logging multiprocessing urllib"), "somebody else's workers, for sweeps"
    ),
    "doyen/election/engine/kind.py": Extra(Layer("doyen.engines"), "the election's other half: a store"),
    "doyen/node/outside.py": Extra(Layer(outside="queue"), "requests wait for the thread that does them"),
    "doyen/net/will.py": Extra(
        Layer(outside="_socket select"), "a keeper weighs little: socket would load five modules for one class"
    ),
    "doyen/node/will.py": Extra(
        Layer(outside="_posixsubprocess", world="environment"), "it watches for processes that begin, and starts one"
    ),
    "doyen/runner/guard.py": Extra(Layer(outside="will"), "doyen.net.will, by its place: doyen is not loaded there"),
    "doyen/node/premises.py": Extra(Layer(world="chance"), "here the machines get their random streams"),
    "doyen/node/registration.py": Extra(
        Layer(outside="fcntl", world="environment"), "where this user's nodes are, and whether they live"
    ),
    "doyen/node/layers.py": Extra(Layer(world="environment"), "DOYEN_… is one layer of the configuration"),
    "doyen/node/registry.py": Extra(Layer(world="dynamic"), "kinds come by entry point, or as package.module:NAME"),
    "doyen/node/lines.py": Extra(Layer(world="environment"), "NO_COLOR and TERM say whether a terminal takes colour"),
    "doyen/node/speaker.py": Extra(Layer(world="console"), "it tells people on a terminal what happens"),
    "doyen/eyes/top.py": Extra(Layer(outside="rich textual time", world="clock"), "it draws on a terminal, now"),
    "doyen/sim/runs.py": Extra(
        Layer(outside="concurrent multiprocessing os threading"), "seeds run side by side, one process per core"
    ),
    "doyen/sim/scenario/text.py": Extra(Layer(outside="pathlib", world="files"), "it reads scenario files"),
    "doyen/testing/madeup/refusal.py": Extra(
        Layer(outside="_posixsubprocess _thread datetime select sysconfig time"),
        "it stands between programs and clocks",
    ),
    "doyen/testing/madeup/doubles.py": Extra(
        Layer(outside="_thread queue random threading uuid"), "it stands for locks and chance"
    ),
    "doyen/testing/madeup/swap.py": Extra(
        Layer(outside="datetime gc random", world="chance"), "it finds where programs keep clocks"
    ),
    "doyen/testing/madeup/loop.py": Extra(Layer(outside="threading"), "asyncio asks which thread runs a loop"),
    "doyen/testing/madeup/wires.py": Extra(Layer(outside="socket"), "a lookup raises what sockets raise"),
    "doyen/testing/madeup/streams.py": Extra(Layer(outside="socket"), "protocols ask for the family of a socket"),
    "doyen/cli/lazy.py": Extra(Layer(world="dynamic"), "a command's module loads when the command is typed"),
    "doyen/cli/resident.py": Extra(Layer(world="dynamic"), "a node's process loads the one command that stays"),
    "doyen_lab/contest/engine_member.py": Extra(
        Layer("doyen", "psycopg redis"), "a program of its own: doyen and the recipes of stores"
    ),
    "doyen_lab/contest/engines.py": Extra(
        Layer(outside="signal subprocess", world="clock"), "it starts, kills and stops members, and dates it"
    ),
    "doyen_lab/relay.py": Extra(Layer(outside="socket threading"), "it forwards connections, in threads"),
    "doyen_lab/steered.py": Extra(
        Layer("doyen.engines", "threading"), "clients of etcd, each a thread in the namespace of its server"
    ),
    "doyen_lab/servers.py": Extra(
        Layer(outside="pwd shutil socket"), "it runs stores on ports and in folders of their own"
    ),
    "doyen_papers/papers/arb/cells.py": Extra(
        Layer("doyen_lab", typing="doyen_lab"), "figures of real processes, where the lab is installed"
    ),
    "doyen_papers/papers/ctol/deployed.py": Extra(
        Layer("doyen_lab", typing="doyen_lab.contest"), "figures of real processes, where the lab is installed"
    ),
    "doyen_papers/papers/arb/figures.py": Extra(Layer(typing="doyen_lab"), "the type of those figures' data"),
}


def listed(layers: dict[str, Layer], files: dict[str, Extra]) -> dict[tuple[str, str, str], bool]:
    """Return every entry of the allow-list: (folder or file, sort, name)."""
    found = {}
    for place, layer in [*layers.items(), *((path, extra.may) for path, extra in files.items())]:
        for sort, names in layer._asdict().items():
            found |= dict.fromkeys(((place, sort, name) for name in names.split()), False)
    return found


def check(found: list[Use], layers: dict[str, Layer], files: dict[str, Extra]) -> tuple[list[Use], list[str]]:
    """Return the uses that nothing allows, and the entries of the allow-list that nothing uses."""
    entries = listed(layers, files)
    pure = dict.fromkeys(PURE, False)
    breaches = []
    for use in found:
        in_file, in_folder = (use.path, use.sort, use.name), (use.layer, use.sort, use.name)
        if use.layer not in layers:
            breaches.append(use)
        elif use.sort == "outside" and use.name in pure:
            pure[use.name] = True
        elif in_folder in entries:
            entries[in_folder] = True
        elif in_file in entries:
            entries[in_file] = True
        else:
            breaches.append(use)
    alive = {use.layer for use in found}
    unused = [" ".join(entry) for entry, used in entries.items() if not used]
    unused += [f"PURE {name}" for name, used in pure.items() if not used]
    unused += [f"{layer}: no such folder" for layer, may in layers.items() if layer not in alive and any(may)]
    return breaches, unused
