"""What the members of a ring say, wait for, and tell their host.

Every message says in which life its sender speaks (`life`) and which of the receiver's it is for (`to`).
"""

from enum import Enum
from typing import ClassVar, Literal

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.membership.ring import Name, Seat


class Verdict(Enum):
    ACCEPT = 1
    REJECT = 2
    STALE = 3  # It would have to be asked about a newer group.


class NewsKind(Enum):
    JOINED = 1
    DEAD = 2
    LEFT = 3
    LOST = 4  # Out of reach, as far as somebody next to a gap can tell.
    REIGN = 5  # Who acts for a key, and in which term.
    FOUND = 6  # In reach again.


# On the wire.


class News(Struct, frozen=True, array_like=True, gc=False):
    """One line of what spreads on the leases."""

    kind: NewsKind
    seat: Seat
    number: int = 0  # LOST, FOUND: the later word counts.  REIGN: its term.
    key: int = 0


class Said(Struct, frozen=True, array_like=True):
    """What rides on a lease message, when there is something to ride."""

    news: tuple[News, ...] = ()
    first: int = 0  # The number of the first of them in the sender's log.
    heard: int = 0  # So many lines of the receiver's log have been read.
    version: int = 0  # ArbUpgrd: the sender's neighbourhood for this pair …
    members: tuple[Seat, ...] | None = None  # … or None if that is known.


class LeaseRequest(Struct, frozen=True, array_like=True, tag=1):
    life: int
    to: int
    session: int
    knows: int  # The version of the receiver's neighbourhood that the sender goes by.
    said: Said | None = None
    seat: Seat | None = None  # Invitations: who asks.  Its `said` has its neighbourhood.
    join: int = 0  # The attempt, if this is a joiner's.


class LeaseAck(Struct, frozen=True, array_like=True, tag=2):
    life: int
    to: int
    session: int
    knows: int
    said: Said | None = None


class Arb(Struct, frozen=True, array_like=True, tag=3):
    """Arb(P → Q)."""

    life: int
    to: int
    number: int
    suspect: Seat
    version: int  # Of the suspect's neighbourhood, as the sender knows it.
    asker: Seat


class Vote(Struct, frozen=True, array_like=True, tag=4):
    life: int
    to: int
    number: int
    verdict: Verdict
    version: int = 0  # STALE: the suspect's newer one,
    members: tuple[Seat, ...] = ()  # and what it is.


class Proposed(Struct, frozen=True, array_like=True, gc=False):
    """One pair of a proposer's."""

    number: int
    peer: Name  # Q,
    peer_version: int  # and the version of its neighbourhood that the proposer goes by.


class Propose(Struct, frozen=True, array_like=True, tag=5):
    """Propose(version, Q), with the new N_P, for so many Q whose arbitrator the receiver is."""

    life: int
    to: int
    version: int
    members: tuple[Seat, ...]
    pairs: tuple[Proposed, ...]


class ProposeReply(Struct, frozen=True, array_like=True, tag=6):
    life: int
    to: int
    votes: tuple[tuple[int, bool], ...]  # By the number of a proposal: whether it is accepted.


class ArbUpgrd(Struct, frozen=True, array_like=True, tag=7):
    """The explicit confirmation; the next lease messages carry it again."""

    life: int
    to: int
    version: int
    members: tuple[Seat, ...]


class Discover(Struct, frozen=True, array_like=True, tag=8):
    """Phase 1: goes on to the owner of the joiner's point."""

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
    """Phase 2."""

    to: int
    joiner: Seat
    attempt: int
    neighbours: tuple[Seat, ...]


class Locked(Struct, frozen=True, array_like=True, tag=11):
    life: int
    to: int
    attempt: int
    granted: bool


class Unlock(Struct, frozen=True, array_like=True, tag=12):
    to: int
    joiner: Seat
    attempt: int


class Release(Struct, frozen=True, array_like=True, tag=13):
    """We are no longer neighbours: may we stop watching each other?"""

    life: int
    to: int


class Released(Struct, frozen=True, array_like=True, tag=14):
    life: int
    to: int


class Leave(Struct, frozen=True, array_like=True, tag=15):
    """LEAVE, of the sender; and the answer to whoever speaks to a life that has left."""

    seat: Seat


class RosterWanted(Struct, frozen=True, array_like=True, tag=16):
    life: int
    to: int
    after: int  # A point.


class RosterPart(Struct, frozen=True, array_like=True, tag=17):
    life: int
    to: int
    seats: tuple[Seat, ...]
    gone: tuple[Name, ...]
    more: bool


class Withdraw(Struct, frozen=True, array_like=True, tag=18):
    """A proposal that was given up: it will never be taken."""

    life: int
    to: int
    peer: Seat
    version: int


Watching = LeaseRequest | LeaseAck | Arb | Vote | Release | Released | Leave
Upgrading = Propose | ProposeReply | ArbUpgrd | Withdraw
Joining = Discover | Discovered | Lock | Locked | Unlock | RosterWanted | RosterPart
Messages = Watching | Upgrading | Joining


# Timers.


class SessionStep(Struct, frozen=True, gc=False):
    """A resend within a session, or (`step` past the resends) its end."""

    name: Name
    session: int
    step: int


class ArbitrationStep(Struct, frozen=True, gc=False):
    name: Name
    number: int
    step: int


class RecoveryDue(Struct, frozen=True, gc=False):
    name: Name


class UpgradeDue(Struct, frozen=True, gc=False):
    name: Name


class ProposalStep(Struct, frozen=True, gc=False):
    name: Name
    number: int
    step: int


class JoinStep(Struct, frozen=True, gc=False):
    attempt: int
    phase: int
    step: int


class Farewell(Struct, frozen=True, gc=False):
    life: int


class TendDue(Struct, frozen=True, gc=False):
    life: int


# Facts.

Dropped = Literal["dormant", "released", "left", "uncertain"]
Why = Literal["outvoted", "no majority", "upgrade", "minority", "told", "asked", "asleep", "refused", "join"]


class Suspected(Struct, frozen=True, gc=False):
    """A lease on a neighbour timed out; arbitration begins."""

    peer: Seat
    certain: bool


class Requested(Struct, frozen=True, gc=False):
    """An arbitration request was sent to so many, oneself and the suspect included."""

    peer: Seat
    group: tuple[Seat, ...]


class Condemned(Struct, frozen=True, gc=False):
    """A majority agrees: the neighbour has left, or will have after the wait."""

    peer: Seat


class RecoveryStarted(Struct, frozen=True, gc=False):
    """[ARB Cor. 3] It is safe to act in its stead."""

    peer: Seat


class LeftRing(Struct, frozen=True, gc=False):
    """This node is no longer of the ring, whatever it was told to do there."""

    urgent: ClassVar[bool] = True

    seat: Seat
    why: Why
    detail: str = ""
    group: tuple[Seat, ...] = ()  # Of whom it would have needed a majority.


class JoinedRing(Struct, frozen=True, gc=False):
    seat: Seat
    took: Duration
    attempts: int


class JoinPhase(Struct, frozen=True, gc=False):
    """A joiner has come so far."""

    seat: Seat
    phase: int


class Upgraded(Struct, frozen=True, gc=False):
    """The group of a pair has a new version, on its proposer's side."""

    peer: Seat
    version: int


class UpgradeAborted(Struct, frozen=True, gc=False):
    peer: Seat
    version: int


class Reflected(Struct, frozen=True, gc=False):
    """… and on the other side."""

    peer: Seat
    version: int


class NeighboursChanged(Struct, frozen=True, gc=False):
    """Whom this node watches, and who is next to it on either side."""

    seat: Seat
    before: Seat | None
    after: Seat | None
    members: tuple[Seat, ...]


class PairDropped(Struct, frozen=True, gc=False):
    """Watched no longer, and nothing is said about its life."""

    peer: Seat
    why: Dropped


class ReignHeard(Struct, frozen=True, gc=False):
    key: int
    number: int
    leader: Seat


class ReignBegan(Struct, frozen=True, gc=False):
    """For the ring to spread, on its leases; told by whoever acts for a key."""

    key: int
    number: int
