"""The election by key as a kind: the member that sits closest to the key leads, on an arbitrated ring.  [ARB]"""

from collections.abc import Callable
from typing import Any

from doyen.core.effects import Out
from doyen.core.ids import Term
from doyen.core.kinds import ADVICE, WEAK, Around, ElectionChoice, ElectionKind, Needs, Place, Promise, WorstCase
from doyen.core.reasons import Account, Reasons
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import hop_bound
from doyen.membership.ring.kind import TABLE, Ring, voted_out


class ByKey(Ring, ElectionChoice, frozen=True, kw_only=True):
    """The member that sits closest to the group's key on an arbitrated ring leads.  [ARB]"""

    kind = "by-key"


class Owned(Account):
    """The owner of the key leads, once both its neighbours agree."""

    def reasons(self, machine: Any, term: Term) -> Reasons:
        if term.leader != machine.me:
            return Reasons(f"{term.leader} says that it owns the key, and its neighbours agree")
        agreed = ", ".join(sorted(machine.granted)) or "there is no other"
        return Reasons(f"this node is closest to the key, and its neighbours agree: {agreed}")


def build(place: Place) -> Callable[[Out], Any]:
    from doyen.election.by_key.config import ByKeyConfig
    from doyen.election.by_key.machine import LeaderByKey

    config = ByKeyConfig(key=f"{place.group}/{place.name}", lease=place.config.lease)
    return lambda out: LeaderByKey(place.node, config, out)


def promise(config: ArbitrationConfig, rank: str) -> Promise:
    because = "it sits closest to the group's key on the ring, and both its neighbours agree"
    if config.partition == "split":  # Both parts of a ring stay: each has an owner of the key.
        return Promise(in_short=f"{WEAK} (ring.partition is split.) {ADVICE}", because=because)
    return Promise(
        sort="timed",
        in_short="never two leaders at once, while clocks keep to ring.drift and round trips stay below "
        "ring.arbitration; there is no lease on the leader's own clock, so a process that was stopped may act for a "
        "moment on waking, and terms are no fences. Without these bounds: the election quorum (pole).",
        because=because,
    )


def worst_case(config: ArbitrationConfig, around: Around) -> WorstCase:
    known = voted_out(config)
    failover = known + config.lease * hop_bound(around.group_size, config.neighbours) + 2 * around.delay
    return WorstCase(
        detection=known + around.delay,
        failover=failover,
        settling=around.detection.merging + failover,
        because="2·T_l + T_a until it is voted out, T_arb until it must have left [ARB Cor. 3], T_l a hop of news",
    )


BY_KEY = ElectionKind(
    name="by-key",
    about="The member closest to the group's key on an arbitrated ring leads.",
    table=TABLE,
    choice=ByKey,
    needs=Needs(members=True, only=("ring",), why="the owner of a key is known on the ring only; give ring"),
    build=build,
    promise=promise,
    worst_case=worst_case,
    account=Owned,
    resigns=False,
    heeds_eligible=False,
    heeds_score=lambda config, rank: False,
)
