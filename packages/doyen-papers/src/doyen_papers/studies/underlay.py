"""The membership underneath an election: one of the protocols, and the handicap of the lowest hashes.  [CTOL §VI]"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from doyen.core.effects import Out
from doyen.core.host import Host
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.view import Member
from doyen.election.churn.standpoint import hash_rank
from doyen.membership.heartbeat import Heartbeat, HeartbeatConfig
from doyen.membership.medley import Medley, MedleyConfig
from doyen.membership.swim import Acquaintances, Swim, SwimConfig, payload_max
from doyen.membership.swim.messages import Ack, HelperAck
from doyen.sim.node import SimNode

Protocol = Literal["swim", "medley", "heartbeat"]
Handicap = Literal["acks", "traffic"]

MEMBERSHIP: Final = "membership"
GROUP: Final = "sim"
FIRST: Final = Incarnation(1)
HANDICAPS: Final = (3.5, 3.0, 2.5, 2.0, 1.5)  # Times the drop rate, from the lowest hash on.
ACKS: Final = (Ack, HelperAck)


class Underlay(Struct, frozen=True):
    """What every node of a run starts its membership with."""

    protocol: Protocol
    build: Callable[[SimNode, Out], Any]


class HandicapOut:
    """A membership machine's `Out` that loses more than the network does, where the lowest hashes are concerned."""

    def __init__(self, out: Out, node: SimNode, worse: dict[NodeId, float], form: Handicap, every: bool) -> None:
        self._out, self._node, self._form, self._every = out, node, form, every
        self._worse = worse  # By node: the share of what survives the network that survives the handicap, per hop.
        self._rng = node.rng("handicap")
        self.subscribe, self.multicast, self.set_timer = out.subscribe, out.multicast, out.set_timer
        self.emit, self.persist = out.emit, out.persist

    def send(self, to: NodeId | Address, message: Any) -> None:
        if self._every or isinstance(message, ACKS):
            survives = self._worse.get(self._node.name, 1.0)
            if self._form == "traffic":
                survives *= self._worse.get(NodeId(str(to)), 1.0)
            if survives < 1.0:
                sim = self._node.sim
                receiver = sim.by_name.get(NodeId(str(to)))
                hops = 0 if receiver is None else len(sim.network.topology.path(self._node.index, receiver.index) or ())
                if self._rng.random() >= survives**hops:
                    sim.network.faults["handicap"] += 1
                    return
        self._out.send(to, message)


def handicaps(names: Sequence[NodeId], drop: float) -> dict[NodeId, float]:
    """Each hop loses `times · drop` of what the five lowest hashes send; `drop` of it is lost already."""
    ranked = sorted(names, key=lambda name: (hash_rank(name), name))
    return {name: (1 - times * drop) / (1 - drop) for name, times in zip(ranked, HANDICAPS, strict=False)}


def membership_config(protocol: Protocol, names: Sequence[NodeId]) -> Underlay:
    """As published; everybody knows everybody at the start, and loss makes weak views of that."""
    known = Acquaintances(Member(node=name, incarnation=FIRST, address=Address(name, 0)) for name in names)

    def common(node: SimNode) -> dict[str, Any]:
        return {
            "incarnation": FIRST,
            "address": Address(node.name, 0),
            "known": known,
            "payload_max": payload_max(GROUP, node.name, MEMBERSHIP),
        }

    def swim(node: SimNode, out: Out) -> Swim:
        return Swim(node.name, SwimConfig.paper(), out, node.rng(MEMBERSHIP), **common(node))

    def medley(node: SimNode, out: Out) -> Medley:
        return Medley(
            node.name, MedleyConfig.paper(), out, node.rng(MEMBERSHIP), distance=_distance(node), **common(node)
        )

    def heartbeat(node: SimNode, out: Out) -> Heartbeat:
        return Heartbeat(node.name, HeartbeatConfig.paper(), out, node.rng(MEMBERSHIP), **common(node))

    builders: dict[str, Callable[[SimNode, Out], Any]] = {"swim": swim, "medley": medley, "heartbeat": heartbeat}
    return Underlay(protocol, builders[protocol])


def _distance(node: SimNode) -> Callable[[NodeId], float]:
    """In hops, by the routes of the network."""
    topology, by_name = node.sim.network.topology, node.sim.by_name

    def hops(other: NodeId) -> float:
        return 1.0 if topology.complete else float(len(topology.path(node.index, by_name[other].index) or ()) or 1)

    return hops


def add_membership(
    underlay: Underlay, node: SimNode, host: Host, worse: dict[NodeId, float] | None, form: Handicap
) -> None:
    every = form == "traffic" or underlay.protocol == "heartbeat"  # Heartbeats have no acks: all of them count.
    host.add(
        MEMBERSHIP,
        lambda port: underlay.build(node, port if worse is None else HandicapOut(port, node, worse, form, every)),
    )
