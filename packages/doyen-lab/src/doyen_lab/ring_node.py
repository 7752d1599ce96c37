"""One ring member as a process of its own: the machine that the simulator runs, under the driver of every node.

Run by `doyen_lab.ring_runs` as `python -m doyen_lab.ring_node PLAN`, PLAN being JSON.  Every fact is a line of JSON on
standard output, with the instant of the clock that all processes of a machine share.
"""

import asyncio
import gc
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant, ms
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.by_key.config import ByKeyConfig
from doyen.election.by_key.machine import LeaderByKey
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import JoinedRing, LeaseRequest, LeftRing, Suspected
from doyen.membership.ring.neighbourhood import founding
from doyen.net.driver import Driver, boot_time_ns
from doyen.net.udp import UdpConfig, UdpTransport
from doyen_lab.lateness import come_first

PORT = 7700
GRACE: Duration = ms(1500)  # From its start until a founder begins to watch its neighbours.
LOOK_EVERY_S = 0.02


class RingPlan(Struct, frozen=True, kw_only=True):
    """The arguments of one member."""

    hosts: dict[NodeId, str]  # Where every member listens, by name; founders first.
    founders: int
    name: NodeId
    config: ArbitrationConfig
    seed: int
    leader: bool  # Whether the members elect a leader by key, too.
    gate: str  # A file with the instant at which founders begin; it is there once all are ready.


class RingTold(Struct, kw_only=True, omit_defaults=True):
    event: str  # ready, started, suspected, left, joined, leads, lost
    clock: Instant
    peer: str = ""
    why: str = ""


def tell(event: str, now: Instant, **fields: str) -> None:
    os.write(1, msgspec.json.encode(RingTold(event=event, clock=now, **fields)) + b"\n")


class RingNode:
    def __init__(self, plan: RingPlan) -> None:
        self.plan = plan
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Run the member until it is killed or leaves for good; return its exit code."""
        plan, config = self.plan, self.plan.config
        places = [seat(name, address=f"{host}:{PORT}") for name, host in plan.hosts.items()]
        founders = places[: plan.founders]
        me = next(place for place in places if place.node == plan.name)
        transport = UdpTransport(UdpConfig(bind=Address(plan.hosts[plan.name], PORT)))
        driver = Driver(
            me.node, Incarnation(1), Codec("ring"), transport, observer=self._on_fact, on_failure=self._on_failure
        )
        driver.add(
            "ring",
            lambda out: Arbitration(
                me,
                config,
                out,
                Random(f"{plan.seed}/{me.node}"),
                founding=founding(founders, config.neighbours) if me in founders else None,
                contacts=[Address(plan.hosts[place.node], PORT) for place in founders if place != me],
                grace=GRACE,
                view=False,
            ),
        )
        if plan.leader:
            driver.add("leader", lambda out: LeaderByKey(me.node, ByKeyConfig(lease=config.lease), out))
        await _warm_up(plan.hosts[me.node])
        tell("ready", boot_time_ns())
        while me in founders and not Path(plan.gate).exists():
            await asyncio.sleep(LOOK_EVERY_S)
        begin_at = int(Path(plan.gate).read_text()) if me in founders else 0
        await asyncio.sleep(max(0, begin_at - boot_time_ns()) / 1e9)
        await driver.start()
        tell("started", boot_time_ns())
        status = await self._over
        await asyncio.sleep(4 * config.lease / 1e9 if config.announced else 0)  # To say that it has left.
        driver.close()
        return status

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case Suspected():
                tell("suspected", now, peer=fact.peer.node)
            case JoinedRing():
                tell("joined", now)
            case LeaderElected() if fact.term.leader == self.plan.name:
                tell("leads", now)
            case LeaderLost() if fact.term.leader == self.plan.name:
                tell("lost", now)
            case LeftRing():
                tell("left", now, why=f"{fact.why} {fact.detail}".strip())
                if not self.plan.config.rejoin:
                    self._end(2 if fact.why == "refused" else 0)

    def _on_failure(self, error: BaseException) -> None:
        tell("left", boot_time_ns(), why=f"failed: {error}")
        self._end(3)

    def _end(self, status: int) -> None:
        if not self._over.done():
            self._over.set_result(status)


async def _warm_up(host: str) -> None:
    """Take the first steps, which are slow in a new process, before a lease runs."""
    heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    transport = UdpTransport(UdpConfig(bind=Address(host, 0)))
    await transport.open(lambda data, source: None if heard.done() else heard.set_result(None))
    codec = Codec("warm")
    codec.speak("ring", Arbitration.MESSAGES)
    data = codec.encode(NodeId("w"), Incarnation(1), "ring", LeaseRequest(1, 1, 1, 1))
    codec.decode(data)
    transport.send(data, transport.address)
    try:
        async with asyncio.timeout(1):
            await heard
    except TimeoutError:
        return
    finally:
        transport.close()


async def main() -> int:
    gc.freeze()
    gc.disable()  # A pause would be measured as lateness of the protocol.
    come_first()
    return await RingNode(msgspec.json.decode(sys.argv[1], type=RingPlan)).run()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
