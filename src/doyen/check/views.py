"""A membership that the world tells: who is here is no protocol's word, so that an election alone is explored."""

from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import Incarnation, NodeId
from doyen.core.kinds import Membership
from doyen.core.machine import FollowsFacts, Hears, hears
from doyen.core.view import Member, Status, ViewChanged, ViewEditor

GONE = Incarnation(0)


class Seen(Struct, frozen=True):
    """A fact of the world: that member is here, in this incarnation, or is gone; it may be wrong."""

    node: NodeId
    incarnation: Incarnation


class Told(FollowsFacts, Membership):
    """The list of members that one node gets."""

    def __init__(self, out: Out, present: Iterable[Member]) -> None:
        self._out, self._editor = out, ViewEditor()
        for member in present:
            self._editor.put(member)

    def start(self, now: Instant) -> None:
        self._out.emit(ViewChanged(self._editor.view, tuple(self._editor.members)))

    def on_seen(self, fact: Seen, now: Instant) -> None:
        known = self._editor.members.get(fact.node)
        if fact.incarnation != GONE:
            member = Member(node=fact.node, incarnation=fact.incarnation)
        elif known is None:
            return
        else:
            member = Member(node=fact.node, incarnation=known.incarnation, status=Status.FAILED)
        if self._editor.put(member):
            self._out.emit(ViewChanged(self._editor.view, (fact.node,)))

    HEARS: ClassVar[Hears] = hears(Seen, on_seen)
