"""A checker of any membership: the dead stay dead."""

from typing import Any, Final

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.view import ViewChanged
from doyen.membership.medley.machine import Medley
from doyen.membership.swim.machine import Swim
from doyen.sim.checkers.base import Checker, NodeStart, start_of
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


CHECKERS: Final = (TheDeadStayDead,)
