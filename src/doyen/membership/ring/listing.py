"""A newcomer gets the list of all members: piece by piece, and again every T_l until it is whole.

It asks the owner of its point first, and then its neighbours in turn: any of these may be gone by then (decision 175).
The latest terms come with the first piece, so that a newcomer need not wait for news of who acts.
"""

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Seat, to
from doyen.membership.ring.messages import ListIsAwaited, RosterPart, RosterWanted
from doyen.membership.ring.neighbourhood import Neighbourhood
from doyen.membership.ring.spread import Spread


class Listing:
    """One node's requests for the list of all members."""

    def __init__(self, config: ArbitrationConfig, spread: Spread, place: Neighbourhood) -> None:
        self._config, self._spread, self._place = config, spread, place
        self._after = -1  # The point of the last seat that came.
        self._asked_count = 0

    def begin(self, owner: Seat, now: Instant, out: Out) -> None:
        self._after, self._asked_count = -1, 0
        self._ask(to(owner), owner.incarnation, out)
        self._wait(now, out)

    def _ask(self, member: NodeId | Address, incarnation: int, out: Out) -> None:
        out.send(member, RosterWanted(self._place.seat.incarnation, incarnation, self._after))

    def _wait(self, now: Instant, out: Out) -> None:
        out.set_timer(ListIsAwaited(self._place.seat.incarnation), now + self._config.lease)

    def on_awaited(self, timer: ListIsAwaited, now: Instant, out: Out) -> None:
        place = self._place
        if timer.incarnation != place.seat.incarnation or not place.is_member or self._spread.is_whole:
            return
        members = sorted(place.current.members)
        if members:
            member = members[self._asked_count % len(members)]
            self._ask(to(member), member.incarnation, out)
            self._asked_count += 1
        self._wait(now, out)

    def on_part(self, sender: NodeId, message: RosterPart, now: Instant, out: Out) -> None:
        self._place.learn_list(message.seats, message.gone, now, out, whole=not message.more)
        if message.more and message.seats:
            self._after = max(self._after, message.seats[-1].point)
            self._ask(sender, message.incarnation, out)
