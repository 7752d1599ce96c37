"""Checkers of announce-listen.  [LE Ch. 5]"""

from typing import Any, Final

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.rank import Standing
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.kind import LE_M
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import Announcement, Query
from doyen.sim.checkers.base import Checker, NodeStart, start_of
from doyen.sim.node import SimNode
from doyen.sim.world import ELECTION, Fact, World


class _Announcing(Checker):
    @classmethod
    def applies(cls, world: World) -> bool:
        return isinstance(world.table, AnnounceConfig)


class LeadersExisted(_Announcing):
    name = "existed"
    rule = "announce-listen: a leader that is named has claimed to lead before, and no term number comes from nowhere"

    def attach(self) -> None:
        self._claimed: set[NodeId] = set()
        self._number_max = 0
        self.sim.send_watchers.append(self._on_send)
        self.on_leadership(self._on_fact)

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if channel == ELECTION and message.__class__ in (Announcement, Query):
            self._claimed.add(node.name)

    def _on_fact(self, node: SimNode, fact: Fact) -> None:
        term = fact.term
        if term.leader == node.name:
            self._number_max = max(self._number_max, term.number)
        elif term.leader not in self._claimed:
            self.fail(f"{node.name} names {term.leader}, which never claimed to lead")
        # A loss is reported at once, also of a term that is still being written: its election follows (decision 1).
        if term.number > self._number_max and isinstance(fact, LeaderElected):
            self.fail(
                f"{node.name} tells of term {term.number}; the highest that anybody acted under is {self._number_max}"
            )


class InnerConsistency(_Announcing):
    name = "inner"
    rule = "announce-listen: a machine's own fields fit together"

    def attach(self) -> None:
        self.each_announce(self._look)

    def _look(self, node: SimNode, machine: Announce) -> None:
        wrong = machine.contradiction()
        if wrong is not None:
            self.fail(f"{node.name} ({machine.status.value}): {wrong}")


class IncumbentsStay(_Announcing):
    name = "incumbent"
    rule = "LE-M: nobody claims to be better than what it had heard when it woke  [LE §5.4.3]"

    @classmethod
    def applies(cls, world: World) -> bool:
        if not super().applies(world):
            return False
        return world.kind is LE_M or world.table.leader_is == "earliest"

    def attach(self) -> None:
        self._heard: dict[NodeStart, Standing] = {}  # By incarnation: the least claim it has heard,
        self._when_woken: dict[NodeStart, Standing | None] = {}  # and had heard when it began to claim.
        self.sim.hear_watchers.append(self._on_hear)
        self.sim.send_watchers.append(self._on_send)
        self.on_leadership(self._on_fact)

    def _on_hear(self, node: SimNode, channel: str, sender: NodeId, message: Any) -> None:
        if message.__class__ is Announcement and sender != node.name:
            start = start_of(node)
            if self.world.machine(node).is_leader:  # Also while its first announcement waits for a disk.
                self._when_woken.setdefault(start, self._heard.get(start))
            self._heard[start] = min(self._heard.get(start, message.standing), message.standing)

    def _on_fact(self, node: SimNode, fact: Fact) -> None:
        if isinstance(fact, LeaderLost) and fact.term.leader == node.name:
            self._when_woken.pop(start_of(node), None)

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if channel != ELECTION or message.__class__ is not Announcement or not self.world.machine(node).is_leader:
            return  # What it had to say before it yielded may have waited for a disk.
        start = start_of(node)
        heard = self._when_woken.setdefault(start, self._heard.get(start))
        self.looked += 1
        if heard is not None and message.standing >= heard:
            self.fail(f"{node.name} claims {message.standing}, better than {heard}, which it had heard before it woke")


class NobodyIsBehind(_Announcing):
    name = "behind"
    rule = (
        "announce-listen: in the end, four announcements after all have settled, no leader acts under a term below one "
        "that it is named under"
    )

    def attach(self) -> None:
        self._number: dict[tuple[NodeStart, NodeId], int] = {}  # By start and leader: the term that was told last.
        self.on_leadership(self._on_fact)

    def _on_fact(self, node: SimNode, fact: Fact) -> None:
        if isinstance(fact, LeaderElected):
            self._number[start_of(node), fact.term.leader] = fact.term.number

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        if now < settled_at + 4 * self.world.table.announce_interval:
            return
        for region in self.world.regions():
            acting = {node.name: node for node in region if self.world.acts(node)}
            for node in region:
                for leader in self.world.named_by(node):
                    if leader in acting:
                        own, named = (
                            self._number[start_of(acting[leader]), leader],
                            self._number[start_of(node), leader],
                        )
                        if own < named:
                            self.fail(f"{node.name} names {leader} under term {named}, and it acts under {own}")


CHECKERS: Final = (LeadersExisted, InnerConsistency, IncumbentsStay, NobodyIsBehind)
