"""Checkers of churn-tolerant elections: what the initiator counts, whom it may pass over, and what it costs.  [CTOL]"""

from typing import Any, Final

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.view import ViewChanged
from doyen.election.churn.config import CTolerantConfig
from doyen.election.churn.kind import BASE, LOCAL, OPTIMISTIC
from doyen.election.churn.machine import CTolerant
from doyen.election.churn.messages import (
    AttemptBegan,
    Decided,
    LeaderHeld,
    NotifyLeader,
    Query,
    Response,
    ResponseCounted,
)
from doyen.sim.checkers.base import Checker, start_of
from doyen.sim.node import SimNode
from doyen.sim.world import ELECTION, World

Attempt = tuple[Any, int]  # An election, and the number of the attempt.


class _ChurnTolerant(Checker):
    @classmethod
    def applies(cls, world: World) -> bool:
        return isinstance(world.table, CTolerantConfig) and world.kind is not LOCAL


class AnswersAreOfTheirAttempt(_ChurnTolerant):
    name = "answers"
    rule = "churn-tolerant: an answer counts only in the attempt that it was given to: views of before are no witnesses"

    def attach(self) -> None:
        self._current: dict[NodeId, Attempt] = {}  # By initiator.
        self._answered: set[tuple[NodeId, Any, int]] = set()
        self.sim.watchers.append(self._on_fact)
        self.sim.send_watchers.append(self._on_send)

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if isinstance(message, Response):
            self._answered.add((node.name, message.election, message.attempt))

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, AttemptBegan):
            self._current[node.name] = (fact.election, fact.attempt)
        elif isinstance(fact, ResponseCounted):
            self.looked += 1
            if (fact.sender, *self._current[node.name]) not in self._answered:
                self.fail(f"{node.name} counts what {fact.sender} answered to an earlier attempt")


class TheLowestIsNotPassedOver(_ChurnTolerant):
    name = "passed over"
    rule = (
        "base, optimistic: a member that lived through an attempt, could be reached, and was missing from at most c of "
        "the views is not passed over for a higher hash  [CTOL Thm 1]"
    )

    def attach(self) -> None:
        self._began: dict[Attempt, Instant] = {}
        self._started_at: dict[int, Instant] = {}
        self._lacked_at: dict[tuple[int, NodeId], Instant] = {}  # When a node's view last lacked a member.
        self.sim.watchers.append(self._on_fact)
        self.sim.deed_watchers.append(self._on_deed)

    @classmethod
    def applies(cls, world: World) -> bool:
        counted = super().applies(world) and world.table.missing_max != "auto"
        return counted and world.kind in (BASE, OPTIMISTIC) and world.config.rank == "hash"

    def _on_deed(self, deed: str, node: SimNode) -> None:
        """Note when a node was last stopped or slow: until then it could not be reached in time."""
        if deed != "crash":
            self._started_at[node.index] = self.sim.now

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case ViewChanged():
                for name in fact.changed:
                    self._lacked_at[node.index, name] = now  # Until now at least, or from now on.
            case AttemptBegan():
                self._began[fact.election, fact.attempt] = now
            case Decided(final=True) if channel == ELECTION and (fact.election, fact.attempt) in self._began:
                self._judge(node, fact)

    def _judge(self, initiator: SimNode, decided: Decided) -> None:
        began = self._began[decided.election, decided.attempt]
        if self.sim.network_changed_at >= began or not self.sim.network.unbroken:
            return
        machine = self.world.machine(initiator)
        if machine.point.resigned or self._started_at.get(initiator.index, 0) >= began:
            return
        self.looked += 1
        for node in self.sim.up():
            stayed = node.state == "up" and self._started_at.get(node.index, 0) < began
            lower = machine.point.order(node.name) < machine.point.order(decided.leader)
            if stayed and lower and self._would_lead(node) and self._lacking(node, began) <= machine.config.missing_max:
                self.fail(f"{decided.leader} was elected though {node.name} is lower, and in enough views")

    def _would_lead(self, node: SimNode) -> bool:
        machine: CTolerant = self.world.machine(node)
        return machine.point.eligible and not machine.point.resigned

    def _lacking(self, member: SimNode, since: Instant) -> int:
        """Return how many views lacked the member at any time since then; nodes that are down count, too."""
        return sum(
            other is not member and (other.host is None or self._lacked(other, member.name, since))
            for other in self.sim.nodes
        )

    def _lacked(self, other: SimNode, member: NodeId, since: Instant) -> bool:
        view = self.world.stack(other).view
        if view is None or member not in view or not view[member].present:
            return True
        return self._lacked_at.get((other.index, member), 0) >= since or self._started_at[other.index] >= since


class OneFinalRecord(_ChurnTolerant):
    name = "record"
    rule = (
        "churn-tolerant: the record that a node holds never goes back; in the end a region holds one, and it is final"
    )

    def attach(self) -> None:
        self._held: dict[int, tuple[int, int]] = {}  # By node: its incarnation, and the number it held last.
        self.sim.watchers.append(self._on_fact)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, LeaderHeld) and channel == ELECTION:
            self.looked += 1
            number = fact.record.election.number
            incarnation, before = self._held.get(node.index, (0, 0))
            if incarnation >= self.world.remembers_since[node.index] and number < before:
                self.fail(f"{node.name} went back from term {before} to {number}")
            self._held[node.index] = (start_of(node)[1], number)

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        for region in self.world.regions() if now >= settled_at else []:
            self.looked += 1
            machines: list[CTolerant] = [self.world.machine(node) for node in region]
            records = {machine.held for machine in machines}
            record = next(iter(records))
            if len(records) > 1:
                self.fail("held: " + ", ".join(f"{machine.me}: {machine.held}" for machine in machines))
            elif record is None or not record.final:
                self.fail(f"all hold {record}, which is not final")


class MessagesOfAnElection(_ChurnTolerant):
    name = "messages"
    rule = (
        "base: an election that nothing disturbs and that follows no resignation takes at most 2(c+f+1) queries and "
        "answers, and one notification, until it is decided  [CTOL Lemma 1]"
    )

    def attach(self) -> None:
        config = self.world.table
        self._asked = config.missing_max + config.failure_max + 1
        self._sent: dict[Any, list[type]] = {}  # By election.
        self._began: dict[Any, Instant] = {}
        self._resigned: set[Any] = set()  # Elections whose queries also tell members of a wish not to lead.
        self._unknown_for = self.world.config.detection().duration  # A death, at worst.
        self._crashed_at: Instant = -self._unknown_for - 1
        self.sim.deed_watchers.append(self._on_crash)
        self.sim.send_watchers.append(self._on_send)
        self.sim.watchers.append(self._on_fact)

    @classmethod
    def applies(cls, world: World) -> bool:
        if not super().applies(world) or world.table.missing_max == "auto":
            return False
        return world.kind is BASE and world.network.config == world.network.config.without_faults()

    def _on_crash(self, deed: str, node: SimNode) -> None:
        if deed == "crash":
            self._crashed_at = self.sim.now

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if isinstance(message, Query | Response | NotifyLeader):
            self._sent.setdefault(message.election, []).append(type(message))
        if isinstance(message, Query) and message.without:
            self._resigned.add(message.election)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, AttemptBegan):
            self._began.setdefault(fact.election, now)
        elif isinstance(fact, LeaderHeld) and fact.record.final and fact.record.leader == node.name:
            self._judge(fact.record.election)

    def _judge(self, election: Any) -> None:
        began = self._began.get(election)
        if (
            began is None
            or election in self._resigned
            or self.sim.disturbed_at >= began
            or began <= self._crashed_at + self._unknown_for  # Some views still name the dead, who are asked in vain.
            or len([e for e in self._began if e.number >= election.number]) > 1
        ):
            return
        self.looked += 1
        sent = self._sent.get(election, [])
        asked, told = len(sent) - sent.count(NotifyLeader), sent.count(NotifyLeader)
        if asked > 2 * self._asked or told > 1:
            self.fail(f"{election} took {asked} queries and answers, and {told} notifications; c+f+1 is {self._asked}")


CHECKERS: Final = (AnswersAreOfTheirAttempt, TheLowestIsNotPassedOver, OneFinalRecord, MessagesOfAnElection)
