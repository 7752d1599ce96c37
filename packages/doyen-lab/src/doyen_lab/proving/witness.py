"""The application of one node: joins by the public API, and writes every act while it leads to its standard output.

An act's instant is read before leadership is checked, and it is written after: so whatever the machine does to this
process in between, a written act was one at whose instant this node held that it led (decision 91).

`python -m doyen_lab.proving.witness PLAN`, with a `WitnessPlan` as JSON.  SIGUSR1 sets its wall clock back by an hour.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from doyen_lab.proving.history import Record

HOUR_S = 3600
WITNESS = (sys.executable, "-m", "doyen_lab.proving.witness")


class WitnessPlan(Struct, frozen=True, kw_only=True):
    """The arguments of one witness."""

    join: dict[str, Any]  # The arguments of `doyen.join`.
    act_every_s: float = 0.02
    wall_offset_s: float = 0.0  # By how much its wall clock is off from the start.
    explain: bool = False  # Whether to write why a leader was elected.
    status_every_s: float = 0.5


def command_of(plan: WitnessPlan, program: Sequence[str] = WITNESS) -> list[str]:
    return [*program, msgspec.json.encode(plan).decode()]


class Witness:
    def __init__(self, plan: WitnessPlan) -> None:
        self.plan = plan

    def write(self, kind: str, at: int | None = None, **fields: Any) -> None:
        record = Record(kind=kind, at=time.monotonic_ns() if at is None else at, **fields)
        os.write(sys.stdout.fileno(), msgspec.json.encode(record) + b"\n")

    async def run(self) -> int:
        import doyen  # After the wall clock was set.

        node = doyen.join(**{"control": False} | self.plan.join, leave_on_sigterm=False)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.ended.set)
        try:
            async with node:
                self.write("joined")
                work = [
                    asyncio.create_task(self._watched(one(node))) for one in (self._watch, self._act, self._tell_status)
                ]
                await node.ended.wait()
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
                if node.failure is not None:
                    self.write("failed", reason=str(node.failure))
                    return 1
        except doyen.DoyenError as error:
            self.write("failed", reason=str(error))
            return 1
        self.write("ended")
        return 0

    async def _watched(self, work: Awaitable[None]) -> None:
        """Write a failure of the witness itself at once: it may be killed before anybody asks."""
        try:
            await work
        except Exception as error:
            self.write("failed", reason=f"witness: {error!r}")

    async def _act(self, node: Any) -> None:
        from doyen.errors import LeadershipLost

        while node.running:
            try:
                async with node.lead() as term:
                    self.write("begin", term=term.number)
                    while True:
                        at = time.monotonic_ns()
                        term.check()
                        self.write("act", at, term=term.number)
                        await asyncio.sleep(self.plan.act_every_s)
            except LeadershipLost as lost:
                self.write("stop", reason=lost.reason)

    async def _watch(self, node: Any) -> None:
        async for event in node.events():
            if event.kind in ("elected", "lost"):
                why = node.explain().sentence if self.plan.explain and event.kind == "elected" else event.reason
                named = {"term": event.term or 0, "leader": event.leader or "", "reason": why}
                self.write(event.kind, **named, rtt=round_trips_ms(node))

    async def _tell_status(self, node: Any) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        driver = node.agent.driver
        told: dict[str, str] = {}
        while True:
            with open("/proc/self/statm", encoding="ascii") as file:
                resident = int(file.read().split()[1]) * page
            members = node.agent.stack.members()
            where = {member.node: str(driver.addresses.reach(member.node) or "") for member in members}
            self.write(
                "status",
                rss=resident,
                descriptors=len(os.listdir("/proc/self/fd")),
                tasks=len(asyncio.all_tasks()),
                leads=node.is_leader,
                present=sum(member.present for member in members),
                refused=dict(driver.refused),
                keys=[] if driver.seal is None else [key.hex() for key in driver.seal.keyring.by_id],
                moved={name: address for name, address in where.items() if told.get(name) != address},
            )
            told = where
            await asyncio.sleep(self.plan.status_every_s)


def round_trips_ms(node: Any) -> dict[str, float]:
    """Return the round trips to the voters of the election, as far as they are measured."""
    found = {name: node.agent.stack.round_trip(name) for name in node.config.voters}
    return {name: trip / 1e6 for name, trip in found.items() if trip is not None}


def set_wall_clock(offset_s: float) -> Callable[[], None]:
    """Let this process alone see another wall clock; return what sets that back by an hour."""
    true_time, true_time_ns, off = time.time, time.time_ns, [int(offset_s * 1e9)]
    time.time = lambda: true_time() + off[0] / 1e9
    time.time_ns = lambda: true_time_ns() + off[0]

    def step_back() -> None:
        off[0] -= HOUR_S * 10**9

    return step_back


def main() -> int:
    plan = msgspec.json.decode(sys.argv[1], type=WitnessPlan)
    step_back = set_wall_clock(plan.wall_offset_s)
    witness = Witness(plan)

    def stepped(*_: object) -> None:
        step_back()
        witness.write("stepped", reason=f"{time.time():.0f}")

    signal.signal(signal.SIGUSR1, stepped)
    return asyncio.run(witness.run())


if __name__ == "__main__":
    sys.exit(main())
