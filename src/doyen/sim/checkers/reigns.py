"""Checkers of any election: terms and reigns, by what each node says; where it is promised, never two who act."""

from typing import ClassVar, Final

from doyen.core.clock import Instant
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.churn.config import CTolerantConfig
from doyen.election.pole.machine import Pole
from doyen.election.pole.promise import VoterRecord
from doyen.sim.checkers.base import Checker, NodeStart, is_own, start_of
from doyen.sim.node import SimNode
from doyen.sim.world import Fact, World


class TermsNeverGoBack(Checker):
    name = "terms"
    rule = (
        "the term that a node goes by never goes back while it lives, pauses included, nor over a restart of "
        "a node that may vote and found a record of that term on its disk"
    )

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.sound_memory

    def attach(self) -> None:
        self._seen: dict[int, tuple[int, int]] = {}  # By node: its incarnation, and the term number seen.
        if isinstance(self.world.table, AnnounceConfig):
            self.each_after_event(Announce, self._look)
        else:
            self.on_leadership(self._on_fact)

    def _look(self, node: SimNode, machine: Announce) -> None:
        """Look at announce-listen, which keeps only the number of its own last reign over a restart."""
        self._note(node, machine.term_number, self.world.record_of(node, int) or 0)

    def _on_fact(self, node: SimNode, fact: Fact) -> None:
        if isinstance(fact, LeaderElected):
            incarnation, before = self._seen.get(node.index, (0, 0))
            machine = self.world.machine(node)
            if isinstance(machine, Pole):  # One without a vote keeps no epoch, only who votes.
                record = self.world.record_of(node, VoterRecord)
                before = min(before, record.epoch) if machine.voting and record is not None else 0
            self._note(node, fact.term.number, before if incarnation >= self._since(node) else 0)

    def _since(self, node: SimNode) -> int:
        return self.world.remembers_since[node.index]

    def _note(self, node: SimNode, number: int, kept: int) -> None:
        incarnation, least = self._seen.get(node.index, (0, 0))
        if incarnation != node.incarnation:
            least = kept
        if number < least:
            self.fail(f"{node.name} went back from term {least} to {number}")
        self._seen[node.index] = (node.incarnation, number)


class ReignsAlternate(Checker):
    name = "reigns"
    rule = (
        "a node's own LeaderElected and LeaderLost alternate, a reign's term only rises, and nobody loses a leader "
        "that it did not name; announce-listen leads exactly while it said so (but for what waits for a disk)"
    )

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.sound_memory

    def attach(self) -> None:
        self._reign: dict[NodeStart, Term] = {}  # The term that it acts under.
        self._told: dict[NodeStart, dict[NodeId, Term]] = {}  # The leaders that it was notified of,
        self._early: dict[NodeStart, list[Term]] = {}  # and losses reported ahead of what waits for a disk.
        self.on_leadership(self._on_fact)
        if isinstance(self.world.table, AnnounceConfig):
            self.each_after_event(Announce, self._look)

    def _on_fact(self, node: SimNode, fact: Fact) -> None:
        start, own = start_of(node), is_own(node, fact)
        acting, told = self._reign.get(start), self._told.setdefault(start, {})
        if isinstance(fact, LeaderElected):
            if own and acting is not None and fact.term.number <= acting.number:
                self.fail(f"{node.name} was told again that it leads, by term {fact.term.number} in {acting.number}")
            if own:
                self._reign[start] = fact.term
            told[fact.term.leader] = fact.term
            return
        early = self._early.setdefault(start, [])
        if self.world.is_holding(node):
            early.append(fact.term)  # It passed the barrier, and is reported again in its turn.
        if own and acting == fact.term:
            del self._reign[start]
        elif not own and told.get(fact.term.leader) == fact.term:
            del told[fact.term.leader]
        elif fact.term in early:
            early.remove(fact.term)
        else:
            whom = f"a reign that it did not have (but {acting})" if own else "a leader that it did not name"
            self.fail(f"{node.name} lost {whom}: {fact.term}")

    def _look(self, node: SimNode, machine: Announce) -> None:
        acting = start_of(node) in self._reign
        if machine.is_leader != acting and not self.world.is_holding(node):
            what = "leads and never said so" if machine.is_leader else "said that it leads and does not"
            self.fail(f"{node.name} {what}")


class TermsAreUnique(Checker):
    name = "unique"
    rule = (
        "no term (number and name) is acted under twice: in two reigns of one incarnation, or, where a record of the "
        "election was kept, in two incarnations; churn-tolerant elections tell leaders tentatively, and may"
    )

    def attach(self) -> None:
        self._used: dict[Term, NodeStart] = {}  # The node and the incarnation that acts or acted under it.
        self.on_leadership(self._on_fact)

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.sound_memory and not isinstance(world.table, CTolerantConfig)

    def _on_fact(self, node: SimNode, fact: Fact) -> None:
        if isinstance(fact, LeaderElected) and is_own(node, fact):
            start, before = start_of(node), self._used.get(fact.term)
            # Without a record a later incarnation may count from 1 again.
            if before is not None and before[1] >= self.world.remembers_since[node.index]:
                self.fail(f"{node.name} acts under {fact.term}, which was used before")
            self._used[fact.term] = start


class _Strict(Checker):
    """Applies to elections that promise more than one leader per region, while clocks and delays keep their bounds."""

    sorts: ClassVar[tuple[str, ...]] = ("quorum", "timed")

    @classmethod
    def applies(cls, world: World) -> bool:
        kept = world.bounded_clocks and (world.timely or world.sort == "quorum")
        return world.sort in cls.sorts and kept


class NeverTwoAct(_Strict):
    name = "alone"
    rule = (
        "quorum, timed: never two act at once, each by its own clock and lease, what a killed leader began included; a "
        "stopped node does nothing"
    )

    def attach(self) -> None:
        self.sim.checks.append(self._look)

    def _look(self, now: Instant) -> None:
        world = self.world
        if world.believers:
            self.looked += 1
        if len(world.believers) + len(world.wards) > 1:
            acting: list[str] = [node.name for node in world.acting() if node.state != "paused"]
            acting += [f"what {name} began" for name in world.wards.values()]
            if len(acting) > 1:
                self.fail(f"{' and '.join(sorted(acting))} act at once")


class OneLeaderPerTerm(_Strict):
    name = "shared"
    rule = "quorum: no two nodes act under one term number, and each reign's number is above all earlier ones"
    sorts = ("quorum",)

    def attach(self) -> None:
        self._latest: Term | None = None
        self.on_leadership(self._on_fact)

    def _on_fact(self, node: SimNode, fact: Fact) -> None:
        if not isinstance(fact, LeaderElected) or not is_own(node, fact):
            return
        latest = self._latest
        if latest is not None and fact.term.number <= latest.number:
            self.fail(f"{node.name} acts in term {fact.term.number} after {latest.leader} did in {latest.number}")
        self._latest = fact.term


class LosersAreTold(_Strict):
    name = "told"
    rule = "quorum, timed: a node that led gets LeaderLost before another acts, unless it is stopped or slow"

    def attach(self) -> None:
        self.on_leadership(self._on_fact)

    def _on_fact(self, node: SimNode, fact: Fact) -> None:
        if isinstance(fact, LeaderElected) and is_own(node, fact):
            nodes = (self.sim.nodes[index] for index in self.world.believers if index != node.index)
            late = [other.name for other in nodes if other.state == "up"]
            if late:
                self.fail(f"{node.name} acts, and {', '.join(late)} was not told that it lost")


CHECKERS: Final = (TermsNeverGoBack, ReignsAlternate, TermsAreUnique, NeverTwoAct, OneLeaderPerTerm, LosersAreTold)
