"""The view of all members that a ring shows to its node."""

from collections.abc import Collection, Iterable

from doyen.core.ids import Incarnation, parse_address
from doyen.core.view import Member, Status, ViewChanged, ViewEditor
from doyen.membership.ring.geometry import Name, Roster, Seat


class RosterView:
    """A view that follows the member list."""

    def __init__(self, roster: Roster, lost: Collection[Name]) -> None:
        self._roster, self._lost = roster, lost
        self._editor = ViewEditor()

    def update(self, seats: Iterable[Seat]) -> ViewChanged | None:
        """Show what the member list says of these seats; return the fact, if that changed anything."""
        changed = []
        for seat in seats:
            gone = self._roster.gone.get(seat.name)
            shown = self._editor.view.members.get(seat.node)
            if shown is not None and shown.incarnation != seat.incarnation:
                # Of two incarnations the one that is here, else the later: a clock set back makes a lesser number.
                if (shown.present, shown.incarnation) > (gone is None, seat.incarnation):
                    continue
            where = parse_address(seat.address) if seat.address else None
            status = Status.SUSPECTED if seat.name in self._lost else Status.ALIVE
            if gone is not None:
                status = Status.LEFT if gone else Status.FAILED
            member = Member(node=seat.node, incarnation=Incarnation(seat.incarnation), status=status, address=where)
            if self._editor.put(member):
                changed.append(seat.node)
        return ViewChanged(self._editor.view, tuple(changed)) if changed else None
