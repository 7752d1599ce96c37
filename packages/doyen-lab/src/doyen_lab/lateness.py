"""How late timers are on this machine: a process that does nothing but sleep 5 ms, and remembers its worst oversleep.

A takeover measured while the machine itself stood still says nothing about the protocol.  Run as a process of its
own, so that no work of the measurement delays it; asked by one line, it answers with its worst since the last.
"""

import asyncio
import select
import sys
import time

from doyen.core.clock import Duration, ms
from doyen.testing.processes import Processes

NAP: Duration = ms(5)


class Lateness:
    """The control process, seen from outside; use it as an async context manager."""

    async def __aenter__(self) -> "Lateness":
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._process = await Processes().launch(
            "lateness",
            [sys.executable, "-m", __name__],
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
        self._process.write(b"\n")
        return int(await self._answers.get())


def main() -> None:
    worst = 0
    while True:
        began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        asked, _, _ = select.select([sys.stdin], [], [], NAP / 1e9)
        worst = max(worst, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - began - NAP)
        if asked:
            if not sys.stdin.readline():
                return
            print(worst, flush=True)
            worst = 0


if __name__ == "__main__":
    main()
