"""A member's side of joining: it finds the owner of a joiner's point, and serves one joiner at a time.  [ARB §V]

A lock is for 3·T_l, and again for the same attempt.
"""

from collections.abc import Mapping

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.membership.ring.arbitrator import Version
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name, Seat, hop_bound, neighbours, next_hop, to
from doyen.membership.ring.messages import Discover, Discovered, Lock, Locked
from doyen.membership.ring.pair import Pair
from doyen.membership.ring.spread import Spread

Holder = tuple[Name, int]  # A joiner and its attempt.


class Admission:
    """The joiner that a member serves, and for how long."""

    def __init__(self, config: ArbitrationConfig, spread: Spread) -> None:
        self._config, self._spread = config, spread
        self._holder: Holder | None = None
        self._until: Instant = 0

    def admits(self, name: Name, attempt: int, now: Instant) -> bool:
        return self._holder == (name, attempt) and now < self._until

    def close(self, name: Name) -> None:
        """End the service of a joiner that has become a member."""
        if self._holder is not None and self._holder[0] == name:
            self._holder = None

    def unlock(self, name: Name, attempt: int) -> None:
        if self._holder == (name, attempt):
            self._holder = None

    def reset(self) -> None:
        self._holder = None

    def locked_until(self, now: Instant) -> Instant:
        """Return when a lock of this moment expires: joiners die, too."""
        return now + 3 * self._config.lease

    def _is_free(self, holder: Holder, now: Instant) -> bool:
        return self._holder is None or self._holder == holder or now >= self._until

    def on_discover(
        self, message: Discover, me: Seat, current: Version, pairs: Mapping[Name, Pair], now: Instant, out: Out
    ) -> None:
        """Pass a joiner on towards the owner of its point, or answer as that owner."""
        joiner, roster = message.joiner, self._spread.roster
        if joiner.name in roster.gone or joiner.name in pairs:
            return
        near = roster.near(Seat(joiner.point, NodeId(""), 0), 1, self._spread.lost)
        onward = next_hop(joiner.point, me, near)
        if onward is not None and message.hops <= hop_bound(len(roster), self._config.neighbours):
            out.send(to(onward), Discover(joiner, message.attempt, message.hops + 1))
            return
        holder = (joiner.name, message.attempt)
        # A member that is about to lose a neighbour does not send joiners to it.
        watches = all(pair.watching for pair in pairs.values())
        accepted = onward is None and self._is_free(holder, now) and watches and self._is_in_place(me, current)
        members: tuple[Seat, ...] = ()
        if accepted:
            # As long as a lock, and one T_l for this phase.
            self._holder, self._until = holder, self.locked_until(now) + self._config.lease
            members = tuple(sorted(current.members))
        out.send(to(joiner), Discovered(joiner.incarnation, message.attempt, me, accepted, members))

    def _is_in_place(self, me: Seat, current: Version) -> bool:
        """Return whether this member watches all that it ought to.

        A joiner knows the ring by its neighbours: whom it names to nobody, that one's place looks free.
        """
        ought = self._spread.roster.near(me, self._config.neighbours, self._spread.lost)
        return {seat.name for seat in ought} <= {seat.name for seat in current.members}

    def on_lock(self, sender: NodeId, message: Lock, me: Seat, current: Version, now: Instant, out: Out) -> None:
        joiner = message.joiner
        holder = (joiner.name, message.attempt)
        granted = (
            self._is_free(holder, now)
            and joiner.name not in self._spread.roster.gone
            and self._fits(message, me, current)
        )
        if granted:
            self._holder, self._until = holder, self.locked_until(now)
        out.send(sender, Locked(me.incarnation, joiner.incarnation, message.attempt, granted))

    def _fits(self, message: Lock, me: Seat, current: Version) -> bool:
        """Return whether the joiner knows everybody this member watches who is nearer to it than this member is."""
        known = {me, *current.members, *message.neighbours}
        ours = neighbours(message.joiner, known, self._config.neighbours)
        return me in ours and {seat.name for seat in ours} == {seat.name for seat in message.neighbours}
