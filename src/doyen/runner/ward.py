"""The runner's side of a guarded command: started while this node leads, ended before it no longer may."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from doyen.core.clock import Duration, Instant, ms
from doyen.net.will import Will
from doyen.runner import guard as _guard

MARGIN: Final[Duration] = ms(60)  # From SIGKILL to the end of the lease: it must reach every process.
NOT_HANDED_ON: Final = ("DOYEN_HTTP_TOKEN",)  # The node's own secrets: the command asks nobody in its name.


def environment(term: int, baton: bytes | None = None) -> dict[str, str]:
    """Return the environment of a command that acts in that term, with what the last leader handed on.

    What has a zero byte cannot be there; a baton of an outer runner never is.
    """
    kept = {name: value for name, value in os.environ.items() if name not in (*NOT_HANDED_ON, "DOYEN_BATON")}
    handed_on = {} if baton is None or 0 in baton else {"DOYEN_BATON": os.fsdecode(baton)}
    return kept | {"DOYEN_TERM": str(term)} | handed_on


def notice(grace: Duration, lease: Duration | None) -> Duration:
    """Return how long before the end of a lease SIGTERM is sent: a third of it or the grace, whichever is less."""
    return 0 if lease is None else MARGIN + min(grace, lease // 3)


class Ward:
    """One command under a guard.  `await ended()` gives its exit code."""

    def __init__(
        self, command: Sequence[str], *, grace: Duration, lease: Duration | None, will: Will | None = None
    ) -> None:
        self.command, self.grace, self.lease, self._will = list(command), grace, lease, will
        self.pid: int | None = None
        self.stopped_because = ""  # Empty where it ended by itself.
        self.stopped_at: Instant | None = None  # When SIGTERM was sent to it, if it was,
        self.ended_at: Instant | None = None  # and when all of it had ended.  The runner may hear of both much later.
        self.has_exited = False  # Its exit code is its own word.
        self.was_late = False  # Leadership was over, or about to be, before the command could begin.
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._orders = self._guard = self._shadow = -1
        self._until: Instant = _guard.FOREVER
        self._process: subprocess.Popen[bytes]  # The shadow: waited for here alone, see `_reap`.
        self._reaped: asyncio.Future[object]
        self._reader: asyncio.Task[None]
        self._second: asyncio.Task[None]

    async def start(self, term: int, until: Instant | None, baton: bytes | None = None) -> None:
        self._until = _guard.FOREVER if until is None else until
        _guard.adopt_orphans()
        orders_read, self._orders = os.pipe()
        words_read, words_write = os.pipe()
        os.set_blocking(self._orders, False)
        ends = (orders_read, words_write)
        ended_before = notice(self.grace, self.lease)
        numbers = (*ends, self._until, self.grace, ended_before, 0 if until is None else MARGIN)
        kept = () if self._will is None else (self._will.file, self._will.process)
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(Path(_guard.__file__)),
                    *map(str, (*numbers, *(kept or (-1, -1)))),
                    *self.command,
                ],
                pass_fds=(*ends, *kept),
                env=environment(term, baton),
                start_new_session=True,  # Ctrl-C is for the runner, which stops the command in order.
            )
        finally:
            for end in ends:
                os.close(end)
        loop = asyncio.get_running_loop()
        try:
            self._shadow = os.pidfd_open(self._process.pid)
            self._reaped = loop.create_future()
            loop.add_reader(self._shadow, self._reap)
        except OSError:  # Before Linux 5.3.
            self._reaped = loop.run_in_executor(None, self._process.wait)
        self._reader = loop.create_task(self._listen(words_read))
        self._second = loop.create_task(self._see_to_it())

    def extend(self, until: Instant | None) -> None:
        """Note that the lease was renewed."""
        if until is not None and until > self._until:
            self._until = until
            self._order(f"until {until}\n")

    def stop(self) -> None:
        """Have SIGTERM sent now, and SIGKILL after the grace or before the lease ends."""
        self._order("stop\n")

    async def ended(self) -> int:
        return await asyncio.shield(self._code)

    async def dismiss(self) -> None:
        """End the shadow of a command of which nothing is left: it would send the will, should this runner die.

        Another command must not begin before: a second shadow knows when that one is gone, the first does not.
        """
        await self.ended()
        if self._shadow >= 0:
            with suppress(OSError):  # It has ended already.
                signal.pidfd_send_signal(self._shadow, signal.SIGKILL)
        await asyncio.shield(self._reaped)

    def _reap(self) -> None:
        """Collect the shadow, which has ended.

        asyncio's own watcher waits in a thread, and complains on standard error where another was faster: this process
        waits for every orphan that comes to it, and a cancelled start for its own.
        """
        asyncio.get_running_loop().remove_reader(self._shadow)
        os.close(self._shadow)
        self._shadow = -1
        self._process.wait()
        self._reaped.set_result(None)

    @property
    def is_over(self) -> bool:
        return self._code.done()

    def _order(self, line: str) -> None:
        with suppress(OSError):  # It is over already.
            os.write(self._orders, line.encode())

    async def _listen(self, words: int) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(words, "rb"))
        code: int | None = None
        is_gone = False
        async for line in reader:
            word, _, rest = line.decode().rstrip("\n").partition(" ")
            if word == "pid":
                self.pid, guard = map(int, rest.split())
                with suppress(OSError):  # It has ended already.
                    self._guard = os.pidfd_open(guard)
            elif word == "term":
                self.stopped_because = rest
            elif word == "stopped":
                self.stopped_at = int(rest)
            elif word == "ended":
                self.ended_at = int(rest)
            elif word == "exit":
                code = int(rest)
            elif word == "late":
                self.was_late, code = True, 75
            elif word == "gone":
                is_gone = True
        pipe.close()
        self.has_exited = code is not None
        if code is None:  # The guard was killed: by us, if it overran the lease.
            code = 137
            self.stopped_because = self.stopped_because or ("lease not renewed" if self._second.done() else "")
        self._second.cancel()
        if not is_gone:  # The shadow was killed, too: then the rest came to us.
            await asyncio.shield(self._reaped)
            await asyncio.to_thread(_guard.end_descendants)
        for end in (self._orders, self._guard):
            if end >= 0:
                os.close(end)
        self._orders = self._guard = -1
        self._code.set_result(code)

    async def _see_to_it(self) -> None:
        """Kill the guard when the lease is about to end and it is still there: then its shadow ends the command."""
        while (left := self._until - MARGIN // 2 - _guard.now()) > 0:
            await asyncio.sleep(left / 1e9)
        with suppress(OSError):
            signal.pidfd_send_signal(self._guard, signal.SIGKILL)
