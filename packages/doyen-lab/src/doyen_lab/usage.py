"""Reads from /proc what processes use: no packet is sent for it, and the measured process does nothing for it."""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.netns import Counters

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


class Usage(Struct, frozen=True, kw_only=True):
    """One process at one instant; CPU time and counters since its start."""

    at: Instant
    cpu_s: float  # User and system, all threads.
    rss: int  # Bytes in memory.
    pss: int  # The same, pages that n processes share counted 1/n.
    counters: Counters  # Of its namespace's interface.

    @classmethod
    def of(cls, pid: int, interface: str) -> "Usage":
        folder = _PROC / str(pid)
        try:
            times = (folder / "stat").read_text().rpartition(")")[2].split()
            resident = int((folder / "statm").read_text().split()[1])
            memory = (folder / "smaps_rollup").read_text()
            net = (folder / "net" / "dev").read_text()
        except (FileNotFoundError, ProcessLookupError):
            raise TransportError(f"process {pid} has ended, so there is nothing to measure") from None
        pss = next(int(line.split()[1]) for line in memory.splitlines() if line.startswith("Pss:"))
        return cls(
            at=boot_time_ns(),
            cpu_s=(int(times[11]) + int(times[12])) * _TICK_S,
            rss=resident * _PAGE,
            pss=pss * 1024,
            counters=_interface(net, interface),
        )


class Mean(Struct, frozen=True):
    """The mean of one quantity over the samples of a time."""

    mean: float
    sd: float | None  # None: fewer than two samples.

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        return cls(fmean(values), stdev(values) if len(values) > 1 else None)


class Sample(Struct, frozen=True, kw_only=True):
    """All processes of one system, over the time since the sample before."""

    t_s: float  # Since the systems were started.
    bytes_per_s: float  # Sent by all together, by their interfaces' counters: whole frames, each once.
    packets_per_s: float
    cpu_percent: float  # Of one core, all together.
    rss_each: float  # Bytes, the mean of the processes.
    pss_each: float


class Meter:
    """Samples one system's processes."""

    def __init__(self, pids: Sequence[int], interface: str | Sequence[str], began_at: Instant) -> None:
        """Measure these processes; `interface` is that of every process's namespace, or there is one for each."""
        self._pids, self._began_at = list(pids), began_at
        self._interfaces = [interface] * len(self._pids) if isinstance(interface, str) else list(interface)
        self._before = self._look()
        self.samples: list[Sample] = []

    def sample(self) -> Sample:
        now, before = self._look(), self._before
        rates = [0.0, 0.0, 0.0]
        for new, old in zip(now, before, strict=True):
            elapsed_s = (new.at - old.at) / 1e9
            moved = new.counters.since(old.counters)
            for i, amount in enumerate((moved.tx_bytes, moved.tx_packets, new.cpu_s - old.cpu_s)):
                rates[i] += amount / elapsed_s
        self._before = now
        found = Sample(
            t_s=(now[-1].at - self._began_at) / 1e9,
            bytes_per_s=rates[0],
            packets_per_s=rates[1],
            cpu_percent=100 * rates[2],
            rss_each=fmean(usage.rss for usage in now),
            pss_each=fmean(usage.pss for usage in now),
        )
        self.samples.append(found)
        return found

    def _look(self) -> list[Usage]:
        return [Usage.of(pid, name) for pid, name in zip(self._pids, self._interfaces, strict=True)]


def _interface(text: str, name: str) -> Counters:
    for line in text.splitlines():
        found, _, rest = line.strip().partition(":")
        if found == name:
            numbers = [int(number) for number in rest.split()]
            return Counters(numbers[8], numbers[9], numbers[0], numbers[1])
    raise TransportError(f"there is no interface {name} in that namespace")
