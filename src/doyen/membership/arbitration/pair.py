"""What a member keeps of each neighbour: the lease, the group, and how far the two are sure of each other."""

from enum import Enum

from doyen.core.clock import Duration, Instant
from doyen.membership.arbitration.arbitrator import Version
from doyen.membership.arbitration.messages import Verdict
from doyen.membership.ring import Name, Seat, to


class Stage(Enum):
    """How a new pair becomes one that watches in earnest."""

    DORMANT = 0  # A timeout deletes it; nobody is accused.
    COMMITTED = 1  # The second request is out: the other may be active.  A timeout is arbitrated, and convicts nobody.
    ACTIVE = 2


class Request:
    """One arbitration, on the asker's side."""

    __slots__ = ("deadline", "group", "newer", "number", "version", "votes")

    def __init__(self, number: int, group: frozenset[Seat], version: int, deadline: Instant) -> None:
        self.number, self.group, self.version, self.deadline = number, group, version, deadline
        self.newer: frozenset[Seat] | None = None  # The group by a version that arbitrators know and we did not.
        self.votes: dict[Name, Verdict] = {}

    @property
    def everyone(self) -> frozenset[Seat]:
        return self.group if self.newer is None else self.group | self.newer

    @property
    def complete(self) -> bool:
        return all(self.votes.get(seat.name, Verdict.STALE) is not Verdict.STALE for seat in self.everyone)

    def accepted(self, group: frozenset[Seat]) -> int:
        return sum(self.votes.get(seat.name) is Verdict.ACCEPT for seat in group)


class Proposal:
    """One upgrade under way."""

    __slots__ = ("group", "number", "version", "votes")

    def __init__(self, number: int, version: Version, group: frozenset[Seat]) -> None:
        self.number, self.version, self.group = number, version, group
        self.votes: dict[Name, bool] = {}


class Pair:
    """P's side of (P, Q)."""

    __slots__ = (
        "condemned",
        "confirmed",
        "established",
        "heard",
        "initiator",
        "join",
        "keep_from",
        "mine",
        "name",
        "owes",
        "proposal",
        "release",
        "request",
        "round_trip",
        "seat",
        "sent_at",
        "session",
        "stage",
        "started_at",
        "suspected_at",
        "theirs",
        "to",
        "told",
        "upgrade_at",
    )

    def __init__(self, seat: Seat, stage: Stage, mine: Version, theirs: Version | None, told: int) -> None:
        self.seat, self.name, self.stage = seat, seat.name, stage
        self.to = to(seat)
        self.initiator = False
        self.join = 0  # The attempt of a join that this pair belongs to.
        # The lease.
        self.session = 0
        self.started_at: Instant = 0  # When the session began, by plan.
        self.established = True
        self.sent_at: Instant = 0
        self.round_trip: Duration | None = None  # Of the last session that was acked.
        self.suspected_at: Instant | None = None
        self.request: Request | None = None
        self.condemned = False
        # The group: N_P as both go by it, and N_Q as Q said it.
        self.mine, self.theirs = mine, theirs
        self.confirmed = mine.number  # The version of ours that the other has said it goes by.
        self.proposal: Proposal | None = None
        self.upgrade_at: Instant = -1  # When an upgrade is next due; -1: none is planned.
        self.release = False  # We asked to be released.
        self.keep_from = 0  # … and would rather not be: from this session on, an ack says that we are not.
        # What rides on the lease.
        self.told, self.heard, self.owes = told, 0, False

    @property
    def watching(self) -> bool:
        return self.suspected_at is None

    @property
    def certain(self) -> bool:
        """Whether the other would arbitrate, and leave if it lost: only then does a victory say that it is gone."""
        return self.stage is Stage.ACTIVE and not self.release

    def session_ends_at(self, lease: Duration) -> Instant:
        return self.started_at + lease
