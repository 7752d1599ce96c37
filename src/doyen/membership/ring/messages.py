"""The messages, timers and facts of a ring's members: the whole interface."""

from enum import Enum
from typing import Literal

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.core.effects import UrgentFact
from doyen.membership.ring.geometry import Name, Seat


class Verdict(Enum):
    ACCEPT = 1
    REJECT = 2
    STALE = 3  # The arbitrator would have to be asked about a newer group.


class NewsKind(Enum):
    JOINED = 1
    DEAD = 2
    LEFT = 3
    LOST = 4  # Out of reach, as far as a member next to a gap can tell.
    REIGN = 5  # Who acts for a key, and in which term.
    FOUND = 6  # In reach again.


# On the wire.


class News(Struct, frozen=True, array_like=True, gc=False):
    """One line of what spreads on the leases."""

    kind: NewsKind
    seat: Seat
    number: int = 0  # LOST, FOUND: the higher number counts.  REIGN: that of the term.
    key: int = 0


class Said(Struct, frozen=True, array_like=True):
    """The news that ride on a lease message, when there are any."""

    news: tuple[News, ...] = ()
    first: int = 0  # The number of the first of these lines in the sender's log.
    heard: int = 0  # How many lines of the receiver's log the sender has read.
    version: int = 0  # ArbUpgrd: the sender's neighbourhood for this pair …
    members: tuple[Seat, ...] | None = None  # … or None if that is known.


class Addressed(Struct, frozen=True, array_like=True):
    """A message from one incarnation to another (decision 2)."""

    incarnation: int  # The sender's.
    to: int  # The receiver's.


class LeaseRequest(Addressed, frozen=True, tag=1):
    session: int
    knows: int  # The version of the receiver's neighbourhood that the sender goes by.
    said: Said | None = None
    seat: Seat | None = None  # Invitations: the sender's seat.  Their `said` has its neighbourhood.
    join: int = 0  # The attempt, if this is a joiner's.


class LeaseAck(Addressed, frozen=True, tag=2):
    session: int
    knows: int
    said: Said | None = None


class Arb(Addressed, frozen=True, tag=3):
    """Arb(P → Q): the sender asks an arbitrator to accept that the suspect has failed."""

    number: int
    suspect: Seat
    version: int  # Of the suspect's neighbourhood, as the sender knows it.
    asker: Seat


class Vote(Addressed, frozen=True, tag=4):
    number: int
    verdict: Verdict
    version: int = 0  # STALE: that of the suspect's newer neighbourhood …
    members: tuple[Seat, ...] = ()  # … and who is in it.


class Proposed(Struct, frozen=True, array_like=True, gc=False):
    """One pair that a proposer wants to upgrade."""

    number: int
    peer: Name  # Q …
    peer_version: int  # … and the version of its neighbourhood that the proposer goes by.


class Propose(Addressed, frozen=True, tag=5):
    """Propose(version, Q), with the new N_P, for every Q whose arbitrator the receiver is."""

    version: int
    members: tuple[Seat, ...]
    pairs: tuple[Proposed, ...]


class ProposeReply(Addressed, frozen=True, tag=6):
    votes: tuple[tuple[int, bool], ...]  # The number of each proposal, and whether it is accepted.


class ArbUpgrd(Addressed, frozen=True, tag=7):
    """The explicit confirmation of an upgrade; the next lease messages carry it again."""

    version: int
    members: tuple[Seat, ...]


class Discover(Struct, frozen=True, array_like=True, tag=8):
    """Phase 1: the message is passed on to the owner of the joiner's point."""

    joiner: Seat
    attempt: int
    hops: int = 0


class Discovered(Struct, frozen=True, array_like=True, tag=9):
    to: int
    attempt: int
    owner: Seat
    accepted: bool
    neighbours: tuple[Seat, ...] = ()


class Lock(Struct, frozen=True, array_like=True, tag=10):
    """Phase 2: the joiner asks a neighbour-to-be to serve nobody else."""

    to: int
    joiner: Seat
    attempt: int
    neighbours: tuple[Seat, ...]


class Locked(Addressed, frozen=True, tag=11):
    attempt: int
    granted: bool


class Unlock(Struct, frozen=True, array_like=True, tag=12):
    to: int
    joiner: Seat
    attempt: int


class Release(Addressed, frozen=True, tag=13):
    """The two are no longer neighbours: the sender asks to stop watching each other."""


class Released(Addressed, frozen=True, tag=14):
    """The sender does not watch the receiver."""


class Leave(Struct, frozen=True, array_like=True, tag=15):
    """The sender leaves; also the answer to a message for an incarnation that has left."""

    seat: Seat


class RosterWanted(Addressed, frozen=True, tag=16):
    after: int  # A point.


class RosterPart(Addressed, frozen=True, tag=17):
    seats: tuple[Seat, ...]
    gone: tuple[Name, ...]
    more: bool
    reigns: tuple[News, ...] = ()  # The latest, with the first piece.


class Withdraw(Addressed, frozen=True, tag=18):
    """A proposal was given up: it will never be taken."""

    peer: Seat
    version: int


Watching = LeaseRequest | LeaseAck | Arb | Vote | Release | Released | Leave
Upgrading = Propose | ProposeReply | ArbUpgrd | Withdraw
Joining = Discover | Discovered | Lock | Locked | Unlock | RosterWanted | RosterPart
Messages = Watching | Upgrading | Joining


# Timers.


class SessionAdvances(Struct, frozen=True, gc=False):
    """A lease request is repeated, or (`step` past the repetitions) its session ends."""

    name: Name
    session: int
    step: int


class ArbitrationAdvances(Struct, frozen=True, gc=False):
    """Arbitrators that have not voted are asked again, or the arbitration is decided."""

    name: Name
    number: int
    step: int


class RecoveryStarts(Struct, frozen=True, gc=False):
    name: Name


class UpgradeBegins(Struct, frozen=True, gc=False):
    name: Name


class ProposalAdvances(Struct, frozen=True, gc=False):
    """Arbitrators that have not voted are asked again, or the proposal is decided."""

    name: Name
    number: int
    step: int


class JoinAdvances(Struct, frozen=True, gc=False):
    """The messages of a phase are repeated, or the phase ends."""

    attempt: int
    phase: int
    step: int


class LeaveIsAnnounced(Struct, frozen=True, gc=False):
    incarnation: int


class ReconciliationRepeats(Struct, frozen=True, gc=False):
    incarnation: int


class ListIsAwaited(Struct, frozen=True, gc=False):
    incarnation: int


# Facts.

Dropped = Literal["dormant", "released", "left", "uncertain"]
Why = Literal["outvoted", "no majority", "upgrade", "minority", "told", "asked", "asleep", "refused", "join", "moved"]


class Suspected(Struct, frozen=True, gc=False):
    """A lease on a neighbour expired; arbitration begins."""

    peer: Seat
    certain: bool


class Requested(Struct, frozen=True, gc=False):
    """An arbitration request was sent to a group, which has the asker and the suspect in it."""

    peer: Seat
    group: tuple[Seat, ...]


class Condemned(Struct, frozen=True, gc=False):
    """A majority agrees: the neighbour has left, or will have after the wait."""

    peer: Seat


class RecoveryStarted(Struct, frozen=True, gc=False):
    """It is safe to act in the peer's stead.  [ARB Cor. 3]"""

    peer: Seat


class LeftRing(UrgentFact, frozen=True, gc=False):
    """This node is no longer a member, whatever it acted for on the ring."""

    seat: Seat
    why: Why
    detail: str = ""
    group: tuple[Seat, ...] = ()  # The members of whom it would have needed a majority.


class JoinedRing(Struct, frozen=True, gc=False):
    seat: Seat
    took: Duration
    attempts: int


class JoinPhase(Struct, frozen=True, gc=False):
    """A joiner has entered a phase."""

    seat: Seat
    phase: int


class Upgraded(Struct, frozen=True, gc=False):
    """The group of a pair has a new version on its proposer's side."""

    peer: Seat
    version: int


class UpgradeAborted(Struct, frozen=True, gc=False):
    peer: Seat
    version: int


class Reflected(Struct, frozen=True, gc=False):
    """The group of a pair has a new version on the other side, too."""

    peer: Seat
    version: int


class NeighboursChanged(Struct, frozen=True, gc=False):
    """This node watches these members, and has these two next to it."""

    seat: Seat
    before: Seat | None
    after: Seat | None
    members: tuple[Seat, ...]


class PairDropped(Struct, frozen=True, gc=False):
    """The peer is watched no longer, which does not say whether it lives."""

    peer: Seat
    why: Dropped


class ReignHeard(Struct, frozen=True, gc=False):
    """A member acts for a key, in the term of this number."""

    key: int
    number: int
    leader: Seat


class ReignBegan(Struct, frozen=True, gc=False):
    """This node acts for a key: another machine asks the ring to spread that."""

    key: int
    number: int
