"""Links each member with its neighbours on a ring of names, where all could speak with all.

Elections over a graph cost messages per link, and a group on one network is a complete graph.  So each member keeps
links to the next few present members on either side, in the order of names; members with the same view have the same
links.  A link that only one end knows of, while views differ, does no harm: each member hears only those that it is
linked with itself.
"""

from typing import ClassVar

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.link import LinkChanged
from doyen.core.machine import FollowsFacts, Hears, hears
from doyen.core.order import order
from doyen.core.view import ViewChanged


class Neighbours(FollowsFacts):
    """Turns `ViewChanged` into `LinkChanged`."""

    __slots__ = ("_each_side", "_out", "links", "me")

    def __init__(self, me: NodeId, out: Out, *, each_side: int) -> None:
        self.me, self._out, self._each_side = me, out, each_side
        self.links: frozenset[NodeId] = frozenset()

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        wanted = neighbours({member.node for member in fact.view.present()}, self.me, self._each_side)
        before, self.links = self.links, wanted
        for peer in sorted(before - wanted):
            self._out.emit(LinkChanged(peer, False))
        for peer in sorted(wanted - before):
            self._out.emit(LinkChanged(peer, True))

    HEARS: ClassVar[Hears] = hears(ViewChanged, on_view_changed)


def neighbours(present: set[NodeId], me: NodeId, each_side: int) -> frozenset[NodeId]:
    """Return the next present members on either side."""
    ring = sorted(present | {me}, key=order)
    at = ring.index(me)
    return frozenset(ring[(at + step) % len(ring)] for step in range(-each_side, each_side + 1)) - {me}
