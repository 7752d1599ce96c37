"""A process that replays recordings which were changed at random, and watches what that makes it do.

    python fuzz_recordings.py SEED COUNT FILE…

Checksums are made right, so that every change gets as far as it can.  It prints one JSON object: how each replay
ended, and everything that Python's audit hooks saw besides reading the file itself.
"""

import gc
import json
import resource
import signal
import sys
from collections import Counter
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from random import Random
from types import FrameType
from typing import Any, Final

import msgspec
from flights import bodies_of, replay, write

import doyen.core
import doyen.election
import doyen.membership
import doyen.score
from doyen.errors import DoyenError
from doyen.node.registry import tables

MEMORY: Final = 1 << 30  # As `doyen.net.recording.limits` has it.
CASE_S: Final = 2.0  # Of CPU, for one replay; `doyen replay` has such a bound as well, a larger one.
INPUTS_MAX: Final = 12
HARMLESS: Final = {"builtins.id", "object.__getattr__", "object.__setattr__", "sys._getframe", "sys.unraisablehook"}
STRANGE: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 1, 7, 2**31, 2**63, 2**64 - 1, -(2**63), 1e308, float("nan"), float("inf"), -0.0),
    *(
        "",
        "x" * 5000,
        "ant",
        "election",
        "__class__",
        "__dict__",
        "on_message",
        "_out",
        "\udcff".encode("utf-8", "replace"),
    ),
    *(b"", b"\xc1" * 100, [], {}, [0], [3], [10**6], [-1], {"to": "n1"}, {"election": "x", "kind": "by-key"}),
    *("os:system", "builtins:eval", "doyen.core.host:Host", "doyen.net.storage:Storage", "doyen.errors:DoyenError"),
    *("random:Random", "doyen.membership.swim.machine:Swim", "doyen.core.ids:Address", "subprocess:Popen"),
)


class Stopped(BaseException):
    """One replay took too long: machines whose state contradicts itself may loop forever."""


class Watch:
    """Python's audit hook, armed while a file is replayed."""

    def __init__(self) -> None:
        self.armed, self.path = False, ""
        self.seen: Counter[str] = Counter()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.armed and event not in HARMLESS and not (event == "open" and arguments[0] == self.path):
            self.seen[f"{event} {arguments!r:.200}"] += 1


def changed(bodies: list[bytes], rng: Random) -> list[bytes]:
    """Return a recording with a few changes: of frames, of bytes, or of values."""
    bodies = list(bodies)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(bodies)) if rng.random() < 0.5 else min(1, len(bodies) - 1)  # There is the state.
        kind = rng.random()
        if kind < 0.1:
            bodies[at : at + 1] = rng.choice(([], [bodies[at]] * 2, [rng.choice(bodies)]))
        elif kind < 0.25:
            bodies[at] = bytes_changed(bodies[at], rng)
        else:
            bodies[at] = values_changed(bodies[at], rng)
        if not bodies:
            return [b""]
    return bodies


def bytes_changed(body: bytes, rng: Random) -> bytes:
    found = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(found) + 1)
        choice = rng.random()
        if choice < 0.5 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif choice < 0.75:
            found[at:at] = rng.randbytes(rng.choice((1, 4, 40)))
        else:
            del found[at : at + rng.choice((1, 4, 40))]
    return bytes(found)


@lru_cache(400)  # Most are changed as they were recorded, many times.
def spots_of(body: bytes) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return what a frame holds, and every place in it: its owner, and where it is there."""
    whole = msgspec.msgpack.decode(body)
    spots: list[tuple[Any, Any]] = []
    todo = [whole] if isinstance(whole, dict | list) else []
    while todo:
        found = todo.pop()
        inner = list(found.items()) if isinstance(found, dict) else list(enumerate(found))
        spots += [(found, key) for key, _ in inner]
        todo += [value for _, value in inner if isinstance(value, dict | list)]
    return whole, spots


def values_changed(body: bytes, rng: Random) -> bytes:
    try:
        whole, spots = spots_of(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return bytes_changed(body, rng)
    if not spots:  # An earlier change has left a single value.
        return bytes_changed(body, rng)
    before: list[tuple[Any, Any, Any]] = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        owner, key = rng.choice(spots)
        before.append((owner, key, owner[key]))
        owner[key] = another(owner[key], spots, rng)
    try:
        return msgspec.msgpack.encode(whole)
    except (RecursionError, ValueError, OverflowError, TypeError):
        return body
    finally:
        for owner, key, value in reversed(before):
            owner[key] = value


def another(value: Any, spots: list[tuple[Any, Any]], rng: Random) -> Any:
    """Return what to put in the place of a value: mostly one of its type, so that it is not refused at once."""
    choice = rng.random()
    if choice < 0.2:
        return rng.choice(STRANGE)
    if choice < 0.25:
        for _ in range(rng.choice((10, 200))):
            value = [value]
        return value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + rng.randrange(-3, 4), rng.randrange(300), rng.getrandbits(62), -value, value * 1000))
    if isinstance(value, float):
        return rng.choice((0.0, -value, value * 1e9, rng.random(), float("nan")))
    alike = [owner[key] for owner, key in rng.sample(spots, min(40, len(spots))) if isinstance(owner, list)][:40]
    alike = [other for other in alike if type(other) is type(value)]
    return rng.choice(alike) if alike else rng.choice(STRANGE)


def begin_of(path: Path) -> list[bytes]:
    """Return the beginning of a segment: its machines, and a few inputs."""
    bodies = bodies_of(path)
    state = msgspec.msgpack.decode(bodies[0])["state"]
    return bodies[: 1 + (0 if state is None else state["chunks"]) + INPUTS_MAX]


def main(seed: int, count: int, paths: list[Path]) -> None:
    recordings = [begin_of(path) for path in paths]
    bent = paths[0].with_name(f"bent-{seed}")
    watch = Watch()
    watch.path = str(bent)
    tables()  # As `doyen replay` does, it knows what is installed before it reads a file,
    for package in (doyen.core, doyen.membership, doyen.election, doyen.score):
        for module in walk_packages(package.__path__, package.__name__ + "."):
            import_module(module.name)  # and every module that ours could load is loaded.
    import_module("difflib")  # It says which name was meant.
    for bodies in recordings:
        replay(write(bent, bodies))
    sys.addaudithook(watch)

    def stop(number: int, where: FrameType | None) -> None:
        raise Stopped

    signal.signal(signal.SIGVTALRM, stop)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    gc.freeze()  # What is loaded is not looked through again for each recording.
    rng = Random(seed)
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(count):
        bent.unlink(
            missing_ok=True
        )  # A file that is cut to nothing and written again waits for the disk, a new one not.
        write(bent, changed(rng.choice(recordings), rng))
        watch.armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, CASE_S)
        try:
            replay(bent)
            end = "the same"
        except DoyenError as error:
            end = type(error).__name__
        except (Stopped, MemoryError):
            end = "stopped"
        except BaseException as error:
            watch.armed = False
            end = f"{type(error).__name__}"
            wrong.append(f"{number}: {type(error).__name__}: {error}"[:500])
            bent.rename(bent.with_name(f"wrong-{seed}-{number}"))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            watch.armed = False
        ends[end] += 1
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps({"ends": ends, "wrong": wrong, "seen": watch.seen, "peak_mib": peak_mib}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
