"""A killed leader's will among real voters: the next acts long before the lease would have ended, and never beside."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from doyen.net.keys import new_key, write_keys

pytestmark = pytest.mark.alone
LEASE_S = 8
NAMES = ("n0", "n1", "n2")
COMMAND = "import os, time\nwhile True: os.write(1, b'%s %d\\n' % (NAME, time.monotonic_ns())); time.sleep(0.005)"
PROGRAM = """
import asyncio, json, os, sys, time
import doyen

async def main():
    async with doyen.join(**json.loads(sys.argv[1])) as node:
        async for term in node.terms():
            async with term:
                {first}
                while True:
                    at = time.monotonic_ns()
                    term.check()
                    os.write(1, b"%s %d\\n" % (node.name.encode(), at))
                    await asyncio.sleep(0.005)

asyncio.run(main())
"""


class Voters:
    """Three voters, each a process, that write to one file while they act."""

    def __init__(self, folder: Path) -> None:
        self.acts = folder / "acts"
        self.key, self.state = folder / "key", folder / "state"
        write_keys(self.key, [new_key()])
        self.acts.touch()
        self.places = [f"127.0.0.1:{port}" for port in free_ports()]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def seeds(self, number: int) -> list[str]:
        return [place for place in self.places if place != self.places[number]]

    def start(self, name: str, line: list[str]) -> None:
        with open(self.acts, "ab") as file, open(self.acts.with_name(f"{name}.log"), "ab") as log:
            self.processes[name] = subprocess.Popen(line, stdout=file, stderr=log)

    def acted(self) -> list[tuple[str, int]]:
        lines = self.acts.read_text().splitlines()
        return [(name, int(at)) for name, at in (line.split() for line in lines if line.count(" ") == 1)]

    def wait_for_another(self, than: str, within_s: float) -> str:
        """Wait until another has acted a few times; return its name."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            others = [name for name, _ in self.acted() if name != than]
            if len(others) > 3:
                return others[-1]
            time.sleep(0.02)
        raise AssertionError(f"nobody but {than or 'nobody'} acted within {within_s} s")

    def gap_s(self, first: str, second: str) -> float:
        """Return the time from the last act of one to the first of the other."""
        acted = self.acted()
        return (min(at for name, at in acted if name == second) - max(at for name, at in acted if name == first)) / 1e9


def free_ports() -> list[int]:
    with ExitStack() as stack:
        made = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in NAMES]
        for one in made:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in made]


@pytest.fixture
def voters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Voters]:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))
    made = Voters(tmp_path)
    yield made
    for process in made.processes.values():
        process.terminate()
    for process in made.processes.values():
        process.wait(20)


def test_the_next_runner_begins_at_once_when_one_was_killed(voters: Voters) -> None:
    for number, name in enumerate(NAMES):
        line = [sys.executable, "-m", "doyen", "run", "--group", "g", "--name", name, "--election", "pole"]
        line += ["--voters", ",".join(NAMES), "--newcomer", "--state", str(voters.state), "--key-file", str(voters.key)]
        line += ["--bind", voters.places[number], "--pole-lease", f"{LEASE_S}s", "--grace", "100ms"]
        for seed in voters.seeds(number):
            line += ["--seed", seed]
        voters.start(name, [*line, "--", sys.executable, "-S", "-c", COMMAND.replace("NAME", repr(name.encode()))])
    first = voters.wait_for_another("", 20)
    time.sleep(0.3)
    voters.processes[first].kill()
    second = voters.wait_for_another(first, LEASE_S + 5)
    assert 0 < voters.gap_s(first, second) < LEASE_S / 4


@pytest.mark.parametrize("first_step", ["pass", pytest.param("os.system('true')", marks=pytest.mark.soak)])
def test_the_next_program_leads_at_once_when_one_was_killed_that_never_started_another(
    voters: Voters, first_step: str
) -> None:
    for number, name in enumerate(NAMES):
        fields = {"group": "g", "name": name, "election": "pole", "voters": NAMES, "newcomer": True, "will": True}
        fields |= {"state": str(voters.state), "key": str(voters.key), "bind": voters.places[number]}
        fields |= {"seeds": voters.seeds(number), "pole": {"lease": f"{LEASE_S}s"}}
        voters.start(name, [sys.executable, "-c", PROGRAM.format(first=first_step), json.dumps(fields)])
    first = voters.wait_for_another("", 20)
    time.sleep(0.3)
    os.kill(voters.processes[first].pid, signal.SIGKILL)
    second = voters.wait_for_another(first, LEASE_S + 5)
    gap_s = voters.gap_s(first, second)
    assert 0 < gap_s < LEASE_S / 4 if first_step == "pass" else gap_s > LEASE_S / 2
