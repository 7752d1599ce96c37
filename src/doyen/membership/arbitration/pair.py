"""What a member keeps of each neighbour: the lease, the group, and how far the two are sure of each other."""

from enum import Enum

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.ids import Address, NodeId
from doyen.membership.arbitration.arbitrator import Version
from doyen.membership.arbitration.votes import Proposal, Request
from doyen.membership.ring import Name, Seat, Seats, group, to


class Stage(Enum):
    """How a new pair becomes one that watches in earnest."""

    DORMANT = 0  # A timeout deletes it; nobody is accused.
    COMMITTED = 1  # The second request is out: the other may be active.  A timeout is arbitrated, and convicts nobody.
    ACTIVE = 2


class Pair(Struct, eq=False):
    """P's side of (P, Q)."""

    seat: Seat
    mine: Version  # N_P, as both go by it.
    told: int  # Lines of this side's log that the other has.
    initiator: bool = False
    join: int = 0  # The attempt of a join that this pair belongs to; 0: of none.
    stage: Stage = Stage.DORMANT
    # The lease.
    session: int = 0
    started_at: Instant = 0  # When the session began, by plan.
    established: bool = True
    sent_at: Instant = 0
    round_trip: Duration | None = None  # Of the last session that was acked.
    suspected_at: Instant | None = None
    request: Request | None = None
    condemned: bool = False
    # The group.
    theirs: Version | None = None  # N_Q, as Q said it.
    confirmed: int = 0  # The version of N_P that the other has said it goes by.
    proposal: Proposal | None = None
    upgrade_at: Instant = -1  # When an upgrade is next due; -1: none is planned.
    release: bool = False  # This side has asked to be released …
    keep_from: int = 0  # … and would rather not be: an ack from this session on says that the pair stays.
    # What rides on the lease.
    heard: int = 0  # Lines of the other's log that this side has.
    owes: bool = False  # Whether the other is to hear of that.

    name: Name = (NodeId(""), 0)  # Of the other side, and where it listens: set by its seat.
    to: NodeId | Address = NodeId("")

    def __post_init__(self) -> None:
        self.name, self.to, self.confirmed = self.seat.name, to(self.seat), self.mine.number

    @property
    def watching(self) -> bool:
        return self.suspected_at is None

    @property
    def certain(self) -> bool:
        """Whether the other would arbitrate, and leave if it lost: only then does a victory say that it is gone."""
        return self.stage is Stage.ACTIVE and not self.release

    @property
    def first_of_join(self) -> bool:
        """Whether this is a joiner's first session with a neighbour."""
        return self.join > 0 and self.stage is Stage.DORMANT and self.initiator

    def session_ends_at(self, lease: Duration) -> Instant:
        return self.started_at + lease

    def group(self, me: Seat) -> Seats:
        """Return the arbitrators of this pair."""
        assert self.theirs is not None
        return group(me, self.mine.members, self.seat, self.theirs.members)

    def reflect(self, version: int, members: tuple[Seat, ...]) -> bool:
        """Take N_Q as Q said it; return whether that replaces an older version."""
        if self.theirs is not None and version <= self.theirs.number:
            return False
        known = self.theirs is not None
        self.theirs = Version(version, frozenset(members))
        return known
