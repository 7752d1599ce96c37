"""One process of a group while it runs: its incarnation, its host, its log, and whether it is paused."""

from collections.abc import Iterable
from pathlib import Path

from doyen.testing.processes import Process
from doyen_lab.proving.evidence import complaints
from doyen_lab.proving.history import Life


class Running:
    """One process that was started, and where."""

    def __init__(self, life: Life, index: int, process: Process, log: Path) -> None:
        self.life, self.index, self.process, self.log = life, index, process, log
        self.paused = False

    @property
    def failure(self) -> str:
        """Return why it failed, in its own words."""
        return self.life.failure or " ".join(complaints(self.log))[-300:]


def lives_of(group: Iterable[Running]) -> frozenset[str]:
    """Return the names of these processes, each with its incarnation."""
    return frozenset(str(running.life) for running in group)


def process_state(pid: int) -> str:
    """Return the state of a process as the kernel has it: R, S, T (stopped), Z, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
