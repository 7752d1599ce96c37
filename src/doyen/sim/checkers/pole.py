"""Checkers of elections by score: promises, grants and selections.  [POLE §3]"""

from typing import Any, Final

from doyen.core.clock import Instant
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import BatonPassed, ChangeEnded, LeaderElected, LeaderLost, VotersChanged
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.messages import ElectionBegun, EpochPromised, HeartbeatAck, Propose, QuorumProposed, Selected
from doyen.sim.checkers.base import Checker
from doyen.sim.node import SimNode
from doyen.sim.world import ELECTION, World


class _ByScore(Checker):
    @classmethod
    def applies(cls, world: World) -> bool:
        return isinstance(world.table, PoleConfig)


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
    rule = "pole: an election ends with a quorum that proposed in that very epoch, and when that one says"

    def attach(self) -> None:
        self._timeout = self.world.table.election_timeout
        self._proposed: set[tuple[NodeId, int]] = set()
        self._ends_at: dict[NodeId, tuple[int, Instant]] = {}  # By its own clock.
        self._woke_at: dict[NodeId, Instant] = {}
        self.sim.send_watchers.append(self._on_send)
        self.sim.watchers.append(self._on_fact)
        self.sim.deed_watchers.append(self._on_deed)

    def _on_deed(self, deed: str, node: SimNode) -> None:
        """Forget the quorum of a node that is stopped, slow or has its clock set: it may be late by that."""
        self._ends_at.pop(node.name, None)
        if deed == "resume":
            self._woke_at[node.name] = node.now()

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if isinstance(message, Propose):
            self._proposed.add((node.name, message.epoch))

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if channel == ELECTION and isinstance(fact, QuorumProposed):
            # The fact may have waited for a disk while the node was stopped: then the election ends as it arrives.
            self._ends_at[node.name] = (fact.epoch, max(fact.ends_at, node.now()))
        elif channel == ELECTION and isinstance(fact, VotersChanged | ElectionBegun):
            self._ends_at.pop(node.name, None)  # It may be no quorum by now; or the epoch is begun a second time.
        elif channel == ELECTION and isinstance(fact, Selected):
            self._on_selected(node, fact)

    def _on_selected(self, node: SimNode, fact: Selected) -> None:
        self.looked += 1
        true = [name for name in fact.proposers if (name, fact.epoch) in self._proposed or name == node.name]
        if not self.world.machine(node).electorate.is_majority(true):
            self.fail(f"{node.name} selects {fact.leader} in epoch {fact.epoch}; only {len(true)} proposed in it")
        epoch, ends_at = self._ends_at.get(node.name, (0, 0))
        late = fact.at - max(ends_at, self._woke_at.get(node.name, 0) + self._timeout) - 2
        if epoch == fact.epoch and node.state == "up" and late > 0:
            self.fail(f"{node.name} selects {late / 1e6:.0f} ms after its election should have ended")


class BatonsArrive(_ByScore):
    name = "baton"
    rule = (
        "pole: a leader finds the baton that was handed on last, or one that the last leader had under way; never one "
        "that an earlier leader handed on, and never an older one"
    )

    def attach(self) -> None:
        self._passed = 0  # The greatest number that was handed on for certain.
        # The numbers that the next leader may find: what the last one found, and what it handed on.
        self._allowed = {0}
        self._given = 0  # How many batons there have been.
        # Who leads, and may go on to do so in a higher term, with all that it has under way.
        self._leads: int | None = None
        self.sim.watchers.append(self._on_fact)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if channel != ELECTION or node.host is None:
            return
        if isinstance(fact, BatonPassed):
            self._passed = max(self._passed, *fact.numbers)
        elif isinstance(fact, LeaderElected) and fact.term.leader == node.name:
            self.looked += 1
            found = int(self.world.machine(node).baton or b"0")
            self._allowed |= set(range(self._given + 1, len(self.world.batons) + 1))
            if found < self._passed:
                self.fail(
                    f"{node.name} finds baton {found} in term {fact.term.number}, but {self._passed} was handed on"
                )
            if found not in self._allowed:
                self.fail(
                    f"{node.name} finds baton {found} in term {fact.term.number}, which a leader before the last had"
                )
            if node.index != self._leads:
                self._allowed = {found}
            self._leads, self._given = node.index, len(self.world.batons)
        elif isinstance(fact, LeaderLost) and node.index == self._leads:
            self._leads = None


class VotersStay(_ByScore):
    name = "voters"
    rule = (
        "pole: a leader goes by voters at least as new as those that were last changed for certain, and does not lead "
        "on when it is none of them"
    )

    def attach(self) -> None:
        self._least = 0
        self._within = 2 * self.world.table.guard  # One to commit that it is removed, or to lose its lease; one spare.
        self.sim.watchers.append(self._on_fact)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if channel != ELECTION or node.host is None:
            return
        number = self.world.machine(node).electorate.number
        if isinstance(fact, ChangeEnded) and not fact.refused:
            self._least = max(self._least, number)
        elif isinstance(fact, LeaderElected) and fact.term.leader == node.name:
            self.looked += 1
            if number < self._least:
                self.fail(f"{node.name} leads by electorate {number}, but {self._least} was in force")
        elif isinstance(fact, VotersChanged) and self._is_removed(node):
            term = self.world.machine(node).term
            self.sim.look(self.sim.now + self._within, lambda: self._look(node, term))

    def _is_removed(self, node: SimNode) -> bool:
        return node.name not in self.world.machine(node).electorate.names and self.world.acts(node)

    def _look(self, node: SimNode, term: Term | None) -> None:
        self.looked += 1
        if node.state == "up" and self._is_removed(node) and self.world.machine(node).term == term:
            self.fail(f"{node.name} leads on in {term}, {self._within / 1e9:.3f} s after it was removed")


CHECKERS: Final = (PromisesHold, SelectionsAreSound, BatonsArrive, VotersStay)
