"""Knows which member was found at which seed, so that a seed is tried only while nobody there is a member."""

from collections.abc import Iterable

from doyen.core.ids import Address, NodeId
from doyen.core.view import Member
from doyen.membership.swim.roster import Roster


class Seeds:
    """The addresses that were given, without this node's own, and the member that was found at each."""

    def __init__(self, roster: Roster, me: NodeId, given: Iterable[Address]) -> None:
        self._roster, self._me = roster, me
        self.member_at: dict[Address, NodeId | None] = dict.fromkeys(self._others(given))

    @property
    def addresses(self) -> list[Address]:
        return [*self.member_at]

    def use(self, given: Iterable[Address]) -> None:
        """Replace all seeds by these."""
        self.member_at = dict.fromkeys(self._others(given))
        for member in self._roster.view.members.values():
            self.note(member)

    def note(self, member: Member) -> None:
        """Note where a member is."""
        if member.address in self.member_at and member.address is not None:
            self.member_at[member.address] = member.node

    def in_reach(self, seed: Address) -> bool:
        """Return whether the member that was found at that seed is present, and still there."""
        node = self.member_at.get(seed)
        if node is None or node not in self._roster.view:
            return False
        member = self._roster.view[node]
        return member.present and member.address == seed

    def _others(self, given: Iterable[Address]) -> list[Address]:
        return [seed for seed in given if seed != self._roster.view[self._me].address]
