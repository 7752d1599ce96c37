"""A will is sent once everything that acted has ended, and never before: every part is killed, in every order."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from doyen_lab.proving.beater import identity
from doyen_lab.proving.singleton import parent_of
from doyen_lab.proving.will import prove_will

pytestmark = pytest.mark.alone
RUNNER = Path(__file__).with_name("runner_with_will.py")
# A command that minds no SIGTERM, its child, and one that has left its session.
SCRIPT = """
trap '' TERM; sleep 61 & a=$!; setsid sleep 62 & echo $PPID $$ $a $! > {}.new; mv {}.new {}
while :; do sleep 60; done
"""
KEEPER_KB_MAX = 12 * 1024
PARTS = ("runner", "guard", "command", "stray")
ORDERS = [order for count in range(1, 5) for order in permutations(PARTS, count) if "runner" in order]


class Bequest:
    """One runner with its guarded command, and the socket that the will is addressed to."""

    def __init__(self, folder: Path, mutant: str) -> None:
        self.voter = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.voter.bind(("127.0.0.1", 0))
        file = folder / f"pids-{time.monotonic_ns()}"
        line = [sys.executable, str(RUNNER), str(self.voter.getsockname()[1]), mutant]
        self.runner = subprocess.Popen(
            [*line, "sh", "-c", SCRIPT.format(file, file, file)], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        while not file.exists():
            assert self.runner.poll() is None
            time.sleep(0.005)
        guard, command, child, stray = map(int, file.read_text().split())
        self.pids = {"runner": self.runner.pid, "guard": guard, "command": command, "stray": stray}
        self.pids |= {"shadow": parent_of(guard), "child": child}
        self.acting = {pid: identity(pid) for name, pid in self.pids.items() if name not in ("guard", "shadow")}
        assert all(self.acting.values())

    def kill(self, order: Sequence[str], rng: Random) -> None:
        for part in order:
            try:
                os.kill(self.pids[part], signal.SIGKILL)
            except ProcessLookupError:  # It ended with what was killed before.
                assert part != "runner"
            time.sleep(rng.choice((0, 0, 0.002, 0.02)))

    def heard(self, within_s: float) -> list[tuple[bytes, list[str]]]:
        """Return the datagrams that came in time, each with the processes that still acted when it came."""
        found = []
        end = time.monotonic() + within_s
        while (left := end - time.monotonic()) > 0 and len(found) < 3:
            if select.select([self.voter], [], [], left)[0]:
                data = self.voter.recv(100)
                found.append((data, [name for pid, name in self.acting.items() if name and identity(pid) == name]))
        return found

    def close(self) -> None:
        self.voter.close()
        self.runner.kill()
        self.runner.communicate()
        for pid, name in self.acting.items():
            if identity(pid) == name:
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def bequests(tmp_path: Path) -> Iterator["list[Bequest]"]:
    made: list[Bequest] = []
    yield made
    for bequest in made:
        bequest.close()


def play(bequests: list[Bequest], folder: Path, order: Sequence[str], mutant: str = "sound", seed: int = 1) -> None:
    bequest = Bequest(folder, mutant)
    bequests.append(bequest)
    bequest.kill(order, Random(seed))
    heard = bequest.heard(5 if "shadow" not in order else 0.5)
    assert [acting for _, acting in heard] == [[]] * len(heard)
    assert [data for data, _ in heard] == ([b"0", b"1", b"2"] if "shadow" not in order else [])


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, id=" ".join(order), marks=() if number in (0, 3, 12, 30) else pytest.mark.soak)
        for number, order in enumerate(ORDERS)
    ],
)
def test_a_killed_runners_will_is_sent_three_times_once_nothing_that_acted_is_left(
    tmp_path: Path, bequests: list[Bequest], order: Sequence[str]
) -> None:
    play(bequests, tmp_path, order)


def test_a_keeper_weighs_little(tmp_path: Path, bequests: list[Bequest]) -> None:
    bequests.append(Bequest(tmp_path, "sound"))
    assert 0 < proportional_kb(bequests[0].pids["shadow"]) < KEEPER_KB_MAX


def proportional_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def test_without_its_keeper_a_will_is_not_sent(tmp_path: Path, bequests: list[Bequest]) -> None:
    play(bequests, tmp_path, ("shadow", "runner"))


@pytest.mark.parametrize(
    "killed",
    [("command", "stray"), *(pytest.param(parts, marks=pytest.mark.soak) for parts in (("guard",), PARTS[1:]))],
)
def test_nothing_is_sent_while_the_runner_lives(tmp_path: Path, bequests: list[Bequest], killed: Sequence[str]) -> None:
    bequest = Bequest(tmp_path, "sound")
    bequests.append(bequest)
    os.kill(bequest.runner.pid, signal.SIGSTOP)  # Also one that is stopped, and closes nothing.
    bequest.kill(killed, Random(1))
    assert bequest.heard(0.3) == []
    os.kill(bequest.runner.pid, signal.SIGCONT)
    assert bequest.heard(0.2) == []
    bequest.runner.communicate(b"\n", timeout=10)  # It ends in order: its will is revoked.
    assert bequest.runner.returncode == 0
    assert bequest.heard(0.2) == []
    assert identity(bequest.pids["shadow"]) is None


@pytest.mark.parametrize(
    ("mutant", "order"),
    [("sends_beside_the_runner", ("command",)), ("sends_beside_the_command", ("runner", "guard"))],
)
def test_a_keeper_that_sends_too_early_is_caught(
    tmp_path: Path, bequests: list[Bequest], mutant: str, order: Sequence[str]
) -> None:
    bequest = Bequest(tmp_path, mutant)
    bequests.append(bequest)
    bequest.kill(order, Random(1))
    heard = bequest.heard(5)
    assert any(acting for _, acting in heard)


@pytest.mark.root
@pytest.mark.soak
def test_no_second_command_starts_early_and_wills_are_quick_over_200_kills_in_any_order() -> None:
    """`DOYEN_WILL_KILLS` is another number of kills."""
    found = asyncio.run(prove_will(int(os.environ.get("DOYEN_WILL_KILLS", "200"))))
    assert found.violations == ()
