"""Elections that a store decides, beside the store's own recipe: takeovers after a kill and a stop, and requests.

Three processes of each on loopback, one real server.  A leader is killed (with doyen its will is sent), or stopped for
good (SIGSTOP): nothing is heard of it, and its connections stay, as when its host is cut off.  Requests are counted by
a relay before the server while nothing happens.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from doyen.errors import TransportError
from doyen_lab.relay import Relay
from doyen_lab.servers import missing, running

MEMBERS: Final = ("ant", "bee", "cat")
RECIPES: Final = {
    "postgresql": "advisory-lock",
    "redis": "redis-lock",
    "etcd": "etcdctl elect",
    "zookeeper": "kazoo Election",
}
KINDS: Final = tuple(RECIPES)
OURS, NO_WILL = "ours", "no-will"
SILENT: Final = "etcdctl elect"  # It does not say when it waits for its turn.
FIRST_S: Final = 90.0
SOONER: Final = 5.0
HERE: Final = Path(__file__).parent


class Figures(Struct, frozen=True):
    """One way to elect, measured."""

    store: str
    how: str
    kills_s: list[float | None]  # From the kill until the next leader acts; None: not within the limit.
    stops_s: list[float | None]
    requests_per_s: float  # Of all three, while nothing happens.
    overlaps: int  # Takeovers before the old leader could know: it acted, and was not stopped or dead.

    @property
    def kill_s(self) -> float | None:
        return _median(self.kills_s)

    @property
    def stop_s(self) -> float | None:
        return _median(self.stops_s)


class Failed(Struct, frozen=True):
    """One way to elect that could not be measured, and why."""

    store: str
    how: str
    why: str


class Contest(Struct, frozen=True):
    """All that was measured."""

    figures: list[Figures]
    failed: list[Failed]
    skipped: dict[str, str]
    limit_s: float
    sooner_after_a_kill: dict[str, float]  # By store: the recipe's time by doyen's; the aim is 5.
    cost_of_a_stop: dict[str, float | None]  # By store: takeover × requests/s, doyen's by the recipe's; the aim is 1.
    holds: bool  # All was measured but what is skipped, it keeps both aims, and nothing overlapped.


class Member:
    """One process, and when it said that it acts."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.name, self._log = name, log
        self.acts: list[float] = []
        self.acting = False
        self.waits = False  # It has said that it can take over.
        with open(log, "wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                self.hear(line)

    def hear(self, line: str) -> None:
        """Note one line of its output."""
        if not line.startswith("{"):  # etcdctl says its key and its proposal once it leads.
            self.acting = True
            self.acts.append(boottime())
            return
        said = json.loads(line)
        self.waits = True  # A candidate may say so after it began to act: another thread of it looks.
        if said["event"] != "candidate":
            self.acting = said["event"] == "acts"
            self.acts += [said["clock"] / 1e9] * self.acting

    def signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def last_words(self) -> str:
        """Return the last line of a process that has ended by itself; an empty text while it runs."""
        if self._process.poll() is None:
            return ""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"{self.name} has ended: {lines[-1] if lines else 'it said nothing'}"

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class Group:
    """Three members on one store."""

    def __init__(self, how: str, url: str, folder: str) -> None:
        self._how, self._url = how, url
        self._folder = Path(folder)
        self._environment = os.environ | {"DOYEN_RUNTIME_DIR": folder, "ETCDCTL_API": "3"}
        self.members = {name: self._start(name) for name in MEMBERS}

    def _start(self, name: str) -> Member:
        host = self._url.rpartition("@")[2].split("//")[-1].split("/")[0]
        commands = {
            "kazoo Election": [sys.executable, str(HERE / "kazoo_member.py"), name, host],
            "etcdctl elect": ["etcdctl", f"--endpoints={host}", "elect", "contest", name],
        }
        usual = [sys.executable, str(HERE / "engine_member.py"), self._how, name, self._url]
        log = self._folder / f"{name}.log"
        return Member(name, commands.get(self._how, usual), self._environment, log)

    def leader(self) -> Member:
        """Return who acts, once somebody does."""
        deadline = time.monotonic() + FIRST_S
        while time.monotonic() < deadline:
            acting = [member for member in self.members.values() if member.acting]
            if acting:
                return acting[0]
            if all(member.last_words() for member in self.members.values()):
                raise self._failure("nobody leads")
            time.sleep(0.005)
        raise self._failure(f"nobody led within {FIRST_S:.0f} s")

    def _failure(self, what: str) -> TransportError:
        """Return the error, with the last words of members that have ended."""
        words = [said for member in self.members.values() if (said := member.last_words())]
        return TransportError("; ".join([what, *words]))

    def wait(self) -> None:
        """Wait until each member leads or can take over; members are started anew, and a busy machine starts slowly."""
        deadline = time.monotonic() + FIRST_S
        while self._how != SILENT and not all(member.waits for member in self.members.values()):
            if time.monotonic() > deadline:
                raise self._failure(f"not all have joined within {FIRST_S:.0f} s")
            time.sleep(0.02)
        time.sleep(2)

    def lose(self, number: int, limit_s: float) -> float | None:
        """Send the leader that signal; return how long nobody acts, and replace it afterwards."""
        lost = self.leader()
        at = boottime()
        lost.signal(number)
        others = {name: member for name, member in self.members.items() if member is not lost}
        deadline = time.monotonic() + limit_s
        found: list[float] = []
        while not found and time.monotonic() < deadline:
            found = [when for member in others.values() for when in member.acts if when > at]
            time.sleep(0.005)
        lost.end()
        self.members[lost.name] = self._start(lost.name)
        return min(found) - at if found else None

    def end(self) -> None:
        for member in self.members.values():
            member.end()


def contest(
    kinds: tuple[str, ...], *, trials: int, idle_s: float, limit_s: float, on_step: Callable[[str], None]
) -> Contest:
    """Measure doyen and the recipe on each of these stores."""
    figures: list[Figures] = []
    failed: list[Failed] = []
    skipped = {}
    for kind in kinds:
        if reason := missing(kind):
            skipped[kind] = reason
            continue
        for how in (OURS, NO_WILL, RECIPES[kind]):
            on_step(f"{kind}: {how}")
            try:
                figures.append(measure(kind, how, trials, idle_s, limit_s))
            except (TransportError, OSError) as error:  # The others are measured all the same.
                failed.append(Failed(kind, how, str(error)))
    return judged(figures, failed, skipped, limit_s)


def judged(figures: list[Figures], failed: list[Failed], skipped: dict[str, str], limit_s: float) -> Contest:
    """Compare doyen with the recipe on each store; what did not come within the limit counts as the limit."""
    by = {(found.store, found.how): found for found in figures}
    measured = [store for store, how in by if how == OURS and (store, RECIPES[store]) in by]
    pairs = {store: (by[store, OURS], by[store, RECIPES[store]]) for store in measured}
    sooner = {store: (recipe.kill_s or limit_s) / (ours.kill_s or limit_s) for store, (ours, recipe) in pairs.items()}
    cost: dict[str, float | None] = {}
    for store, (ours, recipe) in pairs.items():
        theirs = (recipe.stop_s or limit_s) * recipe.requests_per_s
        cost[store] = (ours.stop_s or limit_s) * ours.requests_per_s / theirs if theirs else None
    kept = all(value >= SOONER for value in sooner.values()) and all((value or 0) <= 1 for value in cost.values())
    holds = kept and not failed and not any(found.overlaps for found in figures)
    return Contest(figures, failed, skipped, limit_s, sooner, cost, holds)


def measure(kind: str, how: str, trials: int, idle_s: float, limit_s: float) -> Figures:
    with running(kind) as server, tempfile.TemporaryDirectory(prefix="doyen-contest-") as folder:
        relay = Relay(server.port)
        group = Group(how, server.url.replace(str(server.port), str(relay.port)), folder)
        try:
            group.leader()
            group.wait()
            before = relay.asked
            time.sleep(idle_s)
            requests = (relay.asked - before) / idle_s
            overlaps = sum(member.acting for member in group.members.values()) - 1
            taken: dict[int, list[float | None]] = {signal.SIGKILL: [], signal.SIGSTOP: []}
            for number, found in taken.items():
                for _ in range(trials):
                    found.append(group.lose(number, limit_s))
                    if found[-1] is None:
                        break  # It would be so each time.
                    group.wait()
            return Figures(kind, how, taken[signal.SIGKILL], taken[signal.SIGSTOP], requests, overlaps)
        finally:
            group.end()
            relay.close()


def _median(found: list[float | None]) -> float | None:
    values = [value for value in found if value is not None]
    return statistics.median(values) if values else None


def boottime() -> float:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e9
