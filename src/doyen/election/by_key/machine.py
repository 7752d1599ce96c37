"""The owner of a well-known key leads: a leader that costs no election.  Beyond [ARB], on its ring.

The member that sits closest to the key, by what the ring's membership says, ought to lead.  It acts once both of its
next neighbours have answered that they take it for the owner, and do not act themselves:

- the old owner crashed or was voted out: the ring names nobody its successor before Corollary 3's wait is over, when it
  must have left;
- a joiner took its place: the old owner stops when it hears of the joiner, and its answer is the acknowledged
  hand-over; if it does not answer, it is watched like any neighbour, and the wait begins when its lease expires;
- it announced that it leaves: it had stopped before it said so.

So there are never two leaders at once, as long as clocks keep to their bound; but where a partition is configured to
`split`, each part has its own.  Terms spread on the leases.  Nothing is sent while nothing changes.
"""

from typing import Any, ClassVar

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import TERM_LEAP_MAX, NodeId, Term
from doyen.core.kinds import Election
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Hears, hears
from doyen.core.view import ViewChanged
from doyen.election.by_key.config import ByKeyConfig
from doyen.election.by_key.messages import Answer, Claim, ClaimRepeats, Reign
from doyen.membership.ring.geometry import Seat, distance, owner, point_of, to
from doyen.membership.ring.messages import LeftRing, NeighboursChanged, ReignBegan, ReignHeard


class LeaderByKey(Election):
    """One member: it follows the ring's facts, and claims the key when it is the closest."""

    MESSAGES: ClassVar[Any] = Claim | Answer | Reign

    def __init__(self, me: NodeId, config: ByKeyConfig, out: Out) -> None:
        self.me, self.config, self._out = me, config, out
        self.point = point_of(config.key)
        self.term: Term | None = None  # Of the member that is taken for the leader.
        self._seat: Seat | None = None  # None: this node is not in the ring.
        self._next: frozenset[Seat] = frozenset()  # The next member on either side.
        self._number = 0  # Of the claim under way.
        self._claiming = False
        self._granted: set[NodeId] = set()
        self._highest = 0  # The highest number of a term that was heard of.
        self._heard: NodeId | None = None  # The leader of that term.
        self._present: frozenset[NodeId] | None = None  # By the ring's list of members; None: none is kept.

    def start(self, now: Instant) -> None:
        """Do nothing: the first fact of the ring begins the election."""

    @property
    def named(self) -> NodeId | None:
        return None if self.term is None else self.term.leader

    @property
    def is_leader(self) -> bool:
        return self.term is not None and self.term.leader == self.me

    @property
    def granted(self) -> frozenset[NodeId]:
        """Return the neighbours that have granted the last claim."""
        return frozenset(self._granted)

    @property
    def owns(self) -> bool:
        """Return whether this node is the closest to the key, by what it knows."""
        found = None if self._seat is None else owner(self.point, {self._seat, *self._next})
        return found is not None and found == self._seat

    # Facts of the ring.

    def on_neighbours_changed(self, fact: NeighboursChanged, now: Instant) -> None:
        nearest = frozenset(seat for seat in (fact.before, fact.after) if seat is not None)
        if fact.seat == self._seat and nearest == self._next:
            return
        self._seat, self._next = fact.seat, nearest
        self._claiming = False
        if not self.owns:
            self._stop("outranked")
        elif not self.is_leader:
            self._claim(now)

    def on_left_ring(self, fact: LeftRing, now: Instant) -> None:
        self._seat, self._next, self._claiming = None, frozenset(), False
        self._stop("left")

    def on_reign_heard(self, fact: ReignHeard, now: Instant) -> None:
        if fact.key == self.point:
            self._hear(fact.number, fact.leader.node)

    def _hear(self, number: int, leader: NodeId) -> None:
        if self._highest < number <= self._highest + TERM_LEAP_MAX:  # One lie must not use up all terms.
            self._highest = number
            self._name(leader)
        elif number == self._highest:
            if self.term is None or leader == self.term.leader:
                # A member that left the ring and came back hears of the latest term in this way.
                self._heard = leader
                self._name_again()
            elif self._is_nearer(leader, self.term.leader):
                self._name(leader)  # It came after a leader so short that it had not heard of its term.

    def _is_nearer(self, one: NodeId, other: NodeId) -> bool:
        return distance(point_of(one), self.point) < distance(point_of(other), self.point)

    def _name(self, leader: NodeId) -> None:
        """Name the leader of the latest term, once this node knows it for a member: else it would not miss it."""
        self._heard = leader
        if self.is_leader or leader == self.me:
            return
        if self._present is None or leader in self._present:
            self.term = Term(self._highest, leader)
            self._out.emit(LeaderElected(self.term))
        elif self.term is not None:
            lost, self.term = self.term, None
            self._out.emit(LeaderLost(lost, "outranked"))

    def _name_again(self) -> None:
        """Name the leader of the latest term again, if it is present and nobody is named."""
        if self.term is None and self._heard is not None and (self._present is None or self._heard in self._present):
            self._name(self._heard)

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        term = self.term
        present = self._present = frozenset(member.node for member in fact.view.present())
        if term is None:
            self._name_again()
        elif self.is_leader:
            for node in fact.changed:
                if node != self.me and node in present:
                    self._out.send(node, Reign(term.number))
        elif term.leader not in present:
            self._stop("silent")

    HEARS: ClassVar[Hears] = (
        hears(NeighboursChanged, on_neighbours_changed)
        | hears(LeftRing, on_left_ring)
        | hears(ReignHeard, on_reign_heard)
        | hears(ViewChanged, on_view_changed)
    )

    # Claims.

    def _claim(self, now: Instant) -> None:
        self._number += 1
        self._claiming, self._granted = True, set()
        if self._next:
            self._ask(now)
        else:
            self._become_leader()

    def _ask(self, now: Instant) -> None:
        assert self._seat is not None
        for seat in sorted(self._next):
            if seat.node not in self._granted:
                self._out.send(to(seat), Claim(self._number, self._seat))
        self._out.set_timer(ClaimRepeats(self._number), now + self.config.lease // 4)

    def on_timer(self, timer: ClaimRepeats, now: Instant) -> None:
        if self._claiming and timer.number == self._number:
            self._ask(now)

    def on_message(self, sender: NodeId, message: Claim | Answer | Reign, now: Instant) -> None:
        if isinstance(message, Reign):
            self._hear(message.number, sender)
        elif isinstance(message, Claim):
            known = self._seat is not None and message.seat in self._next
            granted = known and not self.is_leader and not self.owns
            self._out.send(sender, Answer(message.number, granted, self._highest))
        elif self._claiming and message.number == self._number:
            if self._highest < message.term <= self._highest + TERM_LEAP_MAX:
                self._highest, self._heard = message.term, None
            if message.granted:
                self._granted.add(sender)
                if all(seat.node in self._granted for seat in self._next):
                    self._become_leader()

    def _become_leader(self) -> None:
        assert self.owns and not self.is_leader
        self._claiming = False
        self._highest, self._heard = self._highest + 1, None
        self.term = Term(self._highest, self.me)
        self._out.emit(LeaderElected(self.term))
        self._out.emit(ReignBegan(self.point, self._highest))

    def _stop(self, reason: str) -> None:
        if self.term is not None and (self.is_leader or reason != "outranked"):
            lost, self.term = self.term, None
            self._out.emit(LeaderLost(lost, reason))
