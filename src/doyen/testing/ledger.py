"""Records who acts as leader, by the members' own lines: one book for every group of real processes.

A member says whom it names.  It *acts* while it names itself; a member that knows of nobody but itself (a candidate
that waits for a lock) says no more than that.
"""

import asyncio
from collections.abc import Callable, Collection

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.net.driver import boot_time_ns


class Changes:
    """Wakes those who wait, whenever something has changed that they may wait for."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def touch(self) -> None:
        """Let everybody who waits look again."""
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `holds()` is true, asked again after every change; raise TimeoutError otherwise."""
        async with asyncio.timeout(timeout_s):
            while not holds():
                await self._change()

    async def steady(
        self, look: Callable[[], tuple[str, Instant] | None], unchanged_s: float, timeout_s: float
    ) -> tuple[str, Instant]:
        """Return what `look()` returns once that has held for `unchanged_s`; raise TimeoutError otherwise."""
        async with asyncio.timeout(timeout_s):
            while True:
                found = look()
                rest_s = None if found is None else unchanged_s - (boot_time_ns() - found[1]) / 1e9
                if found is not None and rest_s is not None and rest_s <= 0:
                    return found
                try:
                    async with asyncio.timeout(rest_s):  # Not wait_for: before Python 3.12 it may swallow a Ctrl-C.
                        await self._change()
                except TimeoutError:
                    continue

    async def _change(self) -> None:
        """Return after the next change.  (A Condition has a lock, which may outlive a Ctrl-C.)"""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(changed)
        try:
            await changed
        finally:
            self._waiting.discard(changed)


class LastReport(Struct):
    """The leader that one member named last, and since when."""

    leader: str | None = None
    named_at: Instant = 0  # When it came to name this leader.
    acts_at: Instant = 0  # When it began to act, or stopped.


class Ledger(Changes):
    """The book of one group."""

    def __init__(self) -> None:
        super().__init__()
        self._reports: dict[str, LastReport] = {}
        self.log: list[tuple[str, str | None, Instant]] = []  # (member, leader, when): every change of mind.

    def say(self, member: str, leader: str | None, at: Instant) -> None:
        """Note that `member` names `leader` from that instant on; None: nobody."""
        report = self._reports.setdefault(member, LastReport())
        if leader == report.leader:
            return
        if member in (leader, report.leader):
            report.acts_at = at
        report.leader, report.named_at = leader, at
        self.log.append((member, leader, at))
        self.touch()

    def named_by(self, member: str) -> str | None:
        """Return the leader that this member names."""
        return self._reports.get(member, _SILENT).leader

    def sole(self, among: Collection[str]) -> tuple[str, Instant] | None:
        """Return the one of them that acts, if exactly one does, and since when no other has."""
        reports = {name: self._reports.get(name, _SILENT) for name in among}
        acting = [name for name, report in reports.items() if report.leader == name]
        return (acting[0], max(report.acts_at for report in reports.values())) if len(acting) == 1 else None

    def known(self, among: Collection[str]) -> tuple[str, Instant] | None:
        """Return the one of them that all of them name, and since when they all do."""
        reports = [self._reports.get(name, _SILENT) for name in among]
        named = {report.leader for report in reports}
        leader = next(iter(named)) if len(named) == 1 else None
        return (leader, max(report.named_at for report in reports)) if leader is not None and leader in among else None


_SILENT = LastReport()
