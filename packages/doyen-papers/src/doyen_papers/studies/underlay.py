"""Weak membership underneath a study: one of the protocols, and the handicap of the lowest hashes.  [CTOL §VI]"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from doyen.core.effects import Out
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.view import Member
from doyen.election.churn.standpoint import hash_rank
from doyen.membership.heartbeat.config import HeartbeatConfig
from doyen.membership.heartbeat.machine import Heartbeat
from doyen.membership.medley.config import MedleyConfig
from doyen.membership.medley.machine import Medley
from doyen.membership.medley.targets import Distance
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.dissemination import Post, payload_max
from doyen.membership.swim.machine import Swim
from doyen.membership.swim.messages import Ack, HelperAck, Update, Updates, Word
from doyen.membership.swim.roster import Acquaintances
from doyen.sim.node import SimNode
from doyen.sim.topology import Topology

Protocol = Literal["swim", "medley", "heartbeat"]
MemberConfig = SwimConfig | MedleyConfig | HeartbeatConfig
Handicap = Literal["acks", "traffic"]
Gossip = Literal["all", "acks", "private"]

ALIVE: Final = int(Word.ALIVE)
MEMBERSHIP: Final = "membership"
GROUP: Final = "sim"
HANDICAPS: Final = (3.5, 3.0, 2.5, 2.0, 1.5)  # Times the drop rate, from the lowest hash on.
CONFIGS: Final[dict[Protocol, Any]] = {"swim": SwimConfig, "medley": MedleyConfig, "heartbeat": HeartbeatConfig}
_MACHINES: Final[dict[type, Any]] = {SwimConfig: Swim, MedleyConfig: Medley, HeartbeatConfig: Heartbeat}


def acquaint(names: Iterable[NodeId], incarnation: Incarnation) -> Acquaintances:
    """Return what everybody knows who knows everybody from the start."""
    return Acquaintances(Member(node=name, incarnation=incarnation, address=Address(name, 0)) for name in names)


def member(
    config: MemberConfig,
    node: SimNode,
    out: Out,
    *,
    incarnation: Incarnation,
    known: Acquaintances | None,
    seeds: Sequence[Address] = (),
    ground: Topology,
    gossip: Gossip = "all",
) -> Any:
    """Return a node's membership machine, of the protocol that the configuration belongs to."""
    more: dict[str, Any] = {"distance": hops_from(node, ground)} if isinstance(config, MedleyConfig) else {}
    if gossip != "all" and not isinstance(config, HeartbeatConfig):
        more["post"] = AckPost if gossip == "acks" else PrivatePost
    return _MACHINES[type(config)](
        node.name,
        config,
        out,
        node.rng(MEMBERSHIP),
        incarnation=incarnation,
        address=Address(node.name, 0),
        seeds=seeds,
        known=known,
        payload_max=payload_max(GROUP, node.name, MEMBERSHIP),
        **more,
    )


class AckPost(Post):
    """Sends gossip on acks alone, as the authors' Medley does; everything else goes without."""

    __slots__ = ()

    def send(self, to: NodeId, kind: Callable[..., Any], *head: Any) -> None:
        self._out.send(self.where(to), kind(*head))

    def send_to(self, address: NodeId | Address, kind: Callable[..., Any], *head: Any) -> None:
        self._out.send(address, kind(*head))


class PrivatePost(Post):
    """Tells nobody whom its node suspects or holds for failed, but that member itself."""

    __slots__ = ()

    def load(self, kind: Callable[..., Any], head: tuple[Any, ...], first: Update | None) -> Updates:
        return tuple(update for update in super().load(kind, head, first) if update is first or update.word == ALIVE)


def hops_from(node: SimNode, ground: Topology) -> Distance:
    """Return distances in hops over a ground where all are up, those included that have not started yet."""
    by_name, counts = node.sim.by_name, ground.hop_counts(node.index)

    def hops(other: NodeId) -> float:
        there = by_name.get(other)
        return 1.0 if there is None else float(counts.get(there.index) or 1)

    return hops


def handicaps(names: Sequence[NodeId], drop: float) -> dict[NodeId, float]:
    """Each hop loses `times · drop` of what the five lowest hashes send; `drop` of it is lost already."""
    ranked = sorted(names, key=lambda name: (hash_rank(name), name))
    return {name: (1 - times * drop) / (1 - drop) for name, times in zip(ranked, HANDICAPS, strict=False)}


class HandicapOut:
    """A membership machine's `Out` that loses more than the network does, where the lowest hashes are concerned."""

    def __init__(self, out: Out, node: SimNode, worse: dict[NodeId, float], form: Handicap, protocol: Protocol) -> None:
        self._out, self._node, self._form = out, node, form
        self._every = form == "traffic" or protocol == "heartbeat"  # Heartbeats have no acks: all of them count.
        self._worse = worse  # By node: the share of what survives the network that survives the handicap, per hop.
        self._rng = node.rng("handicap")
        self.multicast, self.set_timer = out.multicast, out.set_timer
        self.emit, self.persist = out.emit, out.persist

    def send(self, to: NodeId | Address, message: Any) -> None:
        if self._every or isinstance(message, Ack | HelperAck):
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
