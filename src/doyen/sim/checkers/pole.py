"""Checkers of elections by score: promises, grants and selections.  [POLE §3]"""

from typing import Any, Final

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.messages import EpochPromised, HeartbeatAck, Propose, QuorumProposed, Selected
from doyen.sim.checkers.base import Checker
from doyen.sim.node import SimNode
from doyen.sim.world import ELECTION, World


class _ByScore(Checker):
    @classmethod
    def applies(cls, world: World) -> bool:
        return isinstance(world.config.table(world.kind.table), PoleConfig)


class PromisesHold(_ByScore):
    name = "promises"
    rule = "pole: no voter promises less than before, nor grants one epoch to two, over all its incarnations"

    def attach(self) -> None:
        self._promised: dict[NodeId, int] = {}
        self._granted: dict[tuple[NodeId, int], NodeId] = {}
        self.sim.watchers.append(self._on_fact)
        self.sim.hear_watchers.append(self._on_hear)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, EpochPromised) and channel == ELECTION:
            self.looked += 1
            before = self._promised.get(node.name, 0)
            if fact.epoch <= before:
                self.fail(f"{node.name} goes back from epoch {before} to {fact.epoch}")
            self._promised[node.name] = fact.epoch

    def _on_hear(self, node: SimNode, channel: str, sender: NodeId, message: Any) -> None:
        if isinstance(message, HeartbeatAck) and message.granted:
            self.looked += 1
            to = self._granted.setdefault((sender, message.epoch), node.name)
            if to != node.name:
                self.fail(f"{sender} grants epoch {message.epoch} to {to} and to {node.name}")


class SelectionsAreSound(_ByScore):
    name = "selections"
    rule = "pole: an election ends with a quorum that proposed in that very epoch, and no later than T after it had one"

    def attach(self) -> None:
        self._timeout = self.world.config.table(self.world.kind.table).election_timeout
        self._proposed: set[tuple[NodeId, int]] = set()
        self._quorum_at: dict[NodeId, tuple[int, Instant]] = {}  # By its own clock.
        self._woke_at: dict[NodeId, Instant] = {}
        self.sim.send_watchers.append(self._on_send)
        self.sim.watchers.append(self._on_fact)
        self.sim.deed_watchers.append(self._on_deed)

    def _on_deed(self, deed: str, node: SimNode) -> None:
        """Forget the quorum of a node that is stopped, slow or has its clock set: it may be late by that."""
        self._quorum_at.pop(node.name, None)
        if deed == "resume":
            self._woke_at[node.name] = node.now()

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if isinstance(message, Propose):
            self._proposed.add((node.name, message.epoch))

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if channel == ELECTION and isinstance(fact, QuorumProposed):
            self._quorum_at[node.name] = (fact.epoch, fact.at)
        elif channel == ELECTION and isinstance(fact, Selected):
            self._on_selected(node, fact)

    def _on_selected(self, node: SimNode, fact: Selected) -> None:
        self.looked += 1
        quorum = len(self.world.config.voters) // 2 + 1
        true = [name for name in fact.proposers if (name, fact.epoch) in self._proposed or name == node.name]
        if len(true) < quorum:
            self.fail(f"{node.name} selects {fact.leader} in epoch {fact.epoch}; only {len(true)} proposed in it")
        epoch, at = self._quorum_at.get(node.name, (0, 0))
        since = max(at, self._woke_at.get(node.name, at))
        if epoch == fact.epoch and node.state == "up" and fact.at > since + self._timeout + 2:
            self.fail(f"{node.name} selects {(fact.at - at) / 1e6:.0f} ms after its quorum")


CHECKERS: Final = (PromisesHold, SelectionsAreSound)
