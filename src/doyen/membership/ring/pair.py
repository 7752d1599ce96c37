"""The state kept of each neighbour: the lease, the group, its votes, and how sure the two are of each other."""

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.membership.ring.arbitrator import Version
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name, Seat, Seats, group, to
from doyen.membership.ring.messages import Verdict


class Stage(Enum):
    """The steps by which a new pair begins to watch in earnest."""

    DORMANT = 0  # A timeout deletes it; nobody is accused.
    COMMITTED = 1  # The second request is out: the other may be active.  A timeout is arbitrated, and convicts nobody.
    ACTIVE = 2


class Request(Struct, eq=False):
    """One arbitration, on the asker's side."""

    number: int
    group: Seats
    version: int  # Of the suspect's neighbourhood, as the asker knows it.
    deadline: Instant
    newer: Seats | None = None  # The group by a version that arbitrators know and the asker did not.
    votes: dict[Name, Verdict] = {}

    @property
    def groups(self) -> list[Seats]:
        return [self.group] if self.newer is None else [self.group, self.newer]

    @property
    def everyone(self) -> Seats:
        return self.group if self.newer is None else self.group | self.newer

    def has_vote(self, name: Name) -> bool:
        """Return whether a member has voted; a stale vote asks to be asked again."""
        return self.votes.get(name, Verdict.STALE) is not Verdict.STALE

    @property
    def complete(self) -> bool:
        return all(self.has_vote(seat.name) for seat in self.everyone)

    def accepted(self, group: Seats) -> int:
        return sum(self.votes.get(seat.name) is Verdict.ACCEPT for seat in group)


class Proposal(Struct, eq=False):
    """One upgrade under way, on the proposer's side."""

    number: int
    version: Version
    group: Seats
    votes: dict[Name, bool] = {}

    def accepted(self, group: Seats) -> int:
        return sum(self.votes.get(seat.name, False) for seat in group)

    def silent(self, group: Seats) -> int:
        return sum(seat.name not in self.votes for seat in group)


class Pair:
    """P's side of (P, Q)."""

    __slots__ = (
        "condemned", "confirmed", "established", "heard", "initiator", "join", "keep_from", "mine", "name", "owes",
        "proposal", "release", "request", "round_trip", "seat", "sent_at", "session", "stage", "started_at",
        "suspected_at", "theirs", "to", "told", "upgrade_at",
    )  # fmt: skip

    def __init__(self, seat: Seat, mine: Version, told: int, *, initiator: bool = False, join: int = 0) -> None:
        self.seat, self.name, self.to = seat, seat.name, to(seat)  # The other side's.
        self.stage = Stage.DORMANT
        self.initiator = initiator
        self.join = join  # The attempt of a join that this pair belongs to; 0: of none.
        # The lease.
        self.session = 0
        self.started_at: Instant = 0  # When the session began, by plan.
        self.established = True
        self.sent_at: Instant = 0
        self.round_trip: Duration | None = None  # Of the last session that was acked.
        self.suspected_at: Instant | None = None
        self.request: Request | None = None
        self.condemned = False
        # The group.
        self.mine = mine  # N_P, as both go by it.
        self.theirs: Version | None = None  # N_Q, as Q said it.
        self.confirmed = mine.number  # The version of N_P that the other has said it goes by.
        self.proposal: Proposal | None = None
        self.upgrade_at: Instant = -1  # When an upgrade is next due; -1: none is planned.
        self.release = False  # This side has asked to be released …
        self.keep_from = 0  # … and would rather not be: an ack from this session on says that the pair stays.
        # What rides on the lease.
        self.told = told  # Lines of this side's log that the other has.
        self.heard = 0  # Lines of the other's log that this side has.
        self.owes = False  # Whether the other is to hear of that.

    @property
    def watching(self) -> bool:
        return self.suspected_at is None

    @property
    def certain(self) -> bool:
        """Return whether the other would arbitrate, and leave if it lost; only then a victory counts (decision 50)."""
        return self.stage is Stage.ACTIVE and not self.release

    @property
    def first_of_join(self) -> bool:
        """Return whether this is a joiner's first session with a neighbour."""
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


class Electorate:
    """The members whose votes count in a group, and how many of them are enough."""

    def __init__(self, config: ArbitrationConfig, gone_at: Mapping[Name, Instant]) -> None:
        self._config, self._gone_at = config, gone_at

    def of(self, group: Seats, now: Instant) -> Seats:
        """Return the members of a group of whom a majority is needed.

        Deviation: a member that has been gone for T_arb no longer counts, unless as printed (decision 51).  Of
        the others, any two majorities still meet: an asker that counts more of the gone needs more of the living.
        """
        if not self._config.abort_silent:
            return group
        gone, recent = self._gone_at, self._config.recent
        return frozenset(seat for seat in group if now - gone.get(seat.name, now) < recent)

    def is_majority(self, count: int, total: int) -> bool:
        """Return whether `count` is more than half of `total`; exactly half is no majority."""
        return 2 * count > total
