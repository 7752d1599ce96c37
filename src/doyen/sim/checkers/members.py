"""Checkers of any membership: the dead stay dead, and a leader is one of the members."""

from typing import Any, Final

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.view import ViewChanged
from doyen.membership.medley.machine import Medley
from doyen.membership.swim.machine import Swim
from doyen.sim.checkers.base import Checker, NodeStart, is_exact, start_of
from doyen.sim.node import SimNode
from doyen.sim.world import World


class TheDeadStayDead(Checker):
    name = "dead"
    rule = (
        "a member that a list holds failed or left returns to it only with a higher incarnation; where nobody refutes "
        "(heartbeats), this holds for those that did crash"
    )

    def attach(self) -> None:
        self._gone: dict[NodeStart, dict[NodeId, int]] = {}  # By list: who is gone, and by which incarnation.
        self._ended: dict[NodeId, int] = {}  # By node: the greatest incarnation that any list showed when it crashed.
        self.sim.watchers.append(self._on_fact)
        self.sim.deed_watchers.append(self._on_deed)

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.config.membership_kind() is not None

    def _on_deed(self, deed: str, node: SimNode) -> None:
        view = self.world.stack(node).view
        if deed == "crash" and view is not None and node.name in view:
            self._ended[node.name] = view[node.name].incarnation

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if not isinstance(fact, ViewChanged) or node.host is None:
            return
        gone = self._gone.setdefault(start_of(node), {})
        refutes = isinstance(self.world.stack(node).membership, Swim | Medley)
        for name in fact.changed:
            member = fact.view.members.get(name)
            if member is None or name == node.name:
                continue
            self.looked += 1
            before = gone.get(name)
            if not member.present:
                gone[name] = max(member.incarnation, before or 0)
            elif before is not None and member.incarnation <= before:
                if refutes or member.incarnation <= self._ended.get(name, -1):
                    self.fail(f"{node.name} lists {name} again, by incarnation {member.incarnation}, gone by {before}")
            else:
                gone.pop(name, None)


class TheLeaderIsAMember(Checker):
    name = "stranger"
    rule = (
        "where an election lives on a list of members: nobody names a leader whom its own list does not hold present "
        "for longer than the stated worst case of a failover, where nothing is lost, late or slow; else of settling; "
        "a leader that is reached over others alone does not count"
    )

    def attach(self) -> None:
        worst = self.world.config.worst_case(self.world.kind)
        self._within = worst.failover if is_exact(self.world) else worst.settling
        self._since: dict[int, Instant] = {}  # By node: since when it names a leader whom its list does not hold.
        self._stirred_at: dict[int, Instant] = {}  # By node: when it was last started, stopped or slowed.
        self.sim.watchers.append(self._on_fact)
        self.sim.deed_watchers.append(self._on_deed)

    @classmethod
    def applies(cls, world: World) -> bool:
        """Return whether the list of members decides; where a quorum or a store does, a list may know less."""
        return world.sort != "quorum" and world.kind.needs.members and world.config.membership_kind() is not None

    def _on_deed(self, deed: str, node: SimNode) -> None:
        self._stirred_at[node.index] = self.sim.now
        self._since.pop(node.index, None)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if node.host is not None and isinstance(fact, ViewChanged | LeaderElected | LeaderLost):
            self._note(node)

    def _note(self, node: SimNode) -> None:
        """Note whether the leader that a node names is on its list, and look again once the bound is over."""
        self.looked += 1
        leader, view = self._stranger(node), self.world.stack(node).view
        if leader is None or view is None:
            self._since.pop(node.index, None)
        elif node.index not in self._since:
            since = self._since[node.index] = self.sim.now
            self.sim.look(since + self._within, lambda: self._look(node, since))

    def _stranger(self, node: SimNode) -> NodeId | None:
        view = self.world.stack(node).view
        for leader in self.world.named_by(node):
            if leader != node.name and not (view is not None and leader in view and view[leader].present):
                return leader
        return None

    def _look(self, node: SimNode, since: Instant) -> None:
        self._note(node)  # The election's last fact may not have been told when the list's was.
        calm = node.state == "up" and self._stirred_at.get(node.index, 0) <= since
        leader = self._stranger(node)
        if calm and leader is not None and self._since.get(node.index) == since and not self._by_others(node, leader):
            within = (self.sim.now - since) / 1e9
            self.fail(f"{node.name} has named {leader} for {within:.3f} s, who is not on its list")

    def _by_others(self, node: SimNode, leader: NodeId) -> bool:
        """Return whether a leader is heard over others alone: a list of direct links need not hold it."""
        other = self.sim.by_name[leader]
        direct = self.world.network.reaches(node.index, other.index) and self.world.network.reaches(
            other.index, node.index
        )
        return not direct and any(node in region and other in region for region in self.world.regions())


CHECKERS: Final = (TheDeadStayDead, TheLeaderIsAMember)
