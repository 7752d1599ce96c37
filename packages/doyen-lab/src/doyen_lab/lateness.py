"""How late timers are on this machine: a process that does nothing but sleep 5 ms, and remembers its worst oversleep.

A takeover measured while the machine itself stood still says nothing about the protocol.  Run as a process of its
own, so that no work of the measurement delays it; asked by one line, it answers with its worst since the last.
"""

import asyncio
import select
import sys
import time
from types import TracebackType

from doyen.core.clock import Duration, ms

NAP: Duration = ms(5)


class Lateness:
    """The control process, from outside; an async context manager."""

    pid: int

    async def __aenter__(self) -> "Lateness":
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # It ends when its input does, Ctrl-C or not.
        )
        self.pid = self._process.pid
        await self.worst()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def worst(self) -> Duration:
        """The worst since the last time it was asked."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"\n")
        await self._process.stdin.drain()
        return int(await self._process.stdout.readline())


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
