"""Measures how late timers are on this machine: a process only naps, to wake at fixed instants, and remembers how late.

A takeover measured while the machine itself stood still says nothing about the protocol.  Run as a process of its
own, so that no work of the measurement delays it; asked by one line, it answers with what was worst since the last.
Instants that it slept through count too, else one long stall would be one nap of many.
"""

import asyncio
import os
import select
import sys
import time
from contextlib import suppress

from doyen.core.clock import Duration, ms
from doyen.testing.processes import Processes

NAP: Duration = ms(5)
WINDOW = 100  # Naps, half a second: the 99th percentile is that of the worst window.


class Lateness:
    """The control process, seen from outside; use it as an async context manager."""

    def __init__(self, processor: int | None = None) -> None:
        """Measure this processor, with the priority of what is measured on it; None: any, with the usual one."""
        self._processor = "" if processor is None else str(processor)

    async def __aenter__(self) -> "Lateness":
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._process = await Processes().launch(
            "lateness",
            [sys.executable, "-m", __name__, self._processor],
            on_line=lambda line, at: self._answers.put_nowait(line),
            has_input=True,
        )
        await self.worst()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.close_input()  # It ends when its input does, Ctrl-C or not.
        await self._process.wait()

    async def worst(self) -> Duration:
        """Return the worst lateness since the last time that it was asked."""
        return (await self.p99_and_worst())[1]

    async def p99_and_worst(self) -> tuple[Duration, Duration]:
        """Return the 99th percentile of the worst half second, and the worst of all, since it was last asked."""
        self._process.write(b"\n")
        p99, worst = (await self._answers.get()).split()
        return int(p99), int(worst)


def come_first() -> None:
    """Take priority over what else the machine does, if that is permitted.

    Linux shares its processors between sessions first: by default, 64 processes of one session get as much as one
    process of another.
    """
    with suppress(OSError):
        os.nice(-10 - os.nice(0))
    with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write("-10")


def main(processor: str) -> None:
    if processor:
        os.sched_setaffinity(0, {int(processor)})
        come_first()
    late: list[Duration] = []
    p99 = worst = 0
    due = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + NAP
    while True:
        rest = max(0, due - time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        asked, _, _ = select.select([sys.stdin], [], [], rest / 1e9)
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        while due <= now:
            late.append(now - due)
            due += NAP
        if late and (asked or len(late) >= WINDOW):
            late.sort()
            p99, worst = max(p99, late[int(0.99 * (len(late) - 1))]), max(worst, late[-1])
            late.clear()
        if asked:
            if not sys.stdin.readline():
                return
            print(p99, worst, flush=True)
            p99 = worst = 0


if __name__ == "__main__":
    main(*sys.argv[1:])
