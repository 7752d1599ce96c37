"""The messages, timers and events of elections by score.  [POLE Alg. 1]

    all ──Propose──▶ all            on losing the leader, and on hearing of a better proposal
    settled ──Vote──▶ proposer      there is a leader already, or somebody claims to be
    chosen ──Heartbeat──▶ all ──HeartbeatAck──▶ chosen      the first ack of an epoch is the grant, and durable
                          all ──Pending──▶ chosen           a grant will follow, as soon as it can be given
    leader ──Resigned──▶ all        hand over, to that voter or to the best; or a claim is withdrawn
    leader ──ScoreQuery──▶ heir ──ScoreReply──▶ leader      scores else ride on heartbeats and acks
    leader ──Charter──▶ all ──CharterStored──▶ leader       the baton and the electorate (`charter`), durable first
    whoever has an older one ──CharterWanted──▶ whoever has a newer one ──Charter──▶
    leader ──RollCall──▶ all ──Present──▶ leader            before voters are changed

Ours beside P and V: heartbeats, their acks, and everything about resignation and the charter.
"""

from enum import Enum
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct

from doyen.core.clock import Duration, Instant, ms
from doyen.core.ids import Count, Name, NodeId, TermNumber
from doyen.core.leadership import BATON_MAX
from doyen.core.rank import OracleStanding
from doyen.election.pole.electorate import Electorate

TRIP_STEP: Final[Duration] = ms(0.1)  # How exact a round trip is in a heartbeat,
TRIP_MAX: Final = 65_535  # and the longest that it has, in these steps.

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Propose(Struct, frozen=True, gc=False, array_like=True, tag="P"):
    """⟨P, e, (θ, i)⟩: proposes the best candidate that the sender knows of in this epoch.

    Extension: only a voter that hears a majority and is heard by it stands (decision 33).
    """

    epoch: TermNumber
    standing: OracleStanding
    node: Name | None  # None: the sender knows of no candidate.
    heard: tuple[Name, ...] | None = None  # Whom the sender has heard lately; None: it does not say, as in 0.1.
    stands: bool = True  # Whether the sender itself is among the candidates.
    charter_epoch: Count = 0  # The stamp of the sender's charter, which has its electorate.
    charter_serial: Count = 0


class Vote(Struct, frozen=True, gc=False, array_like=True, tag="V"):
    """⟨V, e, l⟩: says whom the sender has settled on."""

    epoch: TermNumber
    leader: Name
    age: Annotated[int, Meta(ge=0, le=3_600_000)] | None = None  # Milliseconds since that one was heard.
    acting: bool = False  # Whether it leads; else it claims to.


class Heartbeat(Struct, frozen=True, gc=False, array_like=True, tag="H"):
    """Claims the epoch for its sender, until a majority has granted it; then says that the sender acts."""

    epoch: TermNumber
    number: int
    acting: bool
    charter_epoch: Count = 0  # The stamp of the sender's charter, which has its electorate.
    charter_serial: Count = 0
    heir: Count = 0  # Who would be next: which of the electorate's names in order, from 1 on; 0: the sender cannot say.
    asked: Count = 0  # Who answers: bit i for the i-th of the electorate's names in order; 0: everybody.
    # Asks each voter that answers for its standing, if it is there.  The sender's round trips in tenths of a
    # millisecond, in the order of the names; 0: it knows none.
    trips: tuple[Annotated[int, Meta(ge=0, le=TRIP_MAX)], ...] | None = None

    def asks(self, me: NodeId, names: frozenset[NodeId]) -> bool:
        """Return whether this voter shall answer, if the sender has the same names in its electorate."""
        return not self.asked or me not in names or bool(self.asked >> sorted(names).index(me) & 1)


class HeartbeatAck(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    """Grants the receiver its epoch, and binds the sender for a guard; or refuses, and names the sender's own epoch."""

    epoch: TermNumber
    number: int  # That of the heartbeat.
    granted: bool
    charter_epoch: Count = 0  # The stamp of the sender's charter, which has its electorate.
    charter_serial: Count = 0
    standing: OracleStanding | None = None  # None: the heartbeat did not ask for it.


def charter_of(message: Propose | Heartbeat | HeartbeatAck) -> tuple[int, int]:
    """Return the stamp of the sender's charter."""
    return message.charter_epoch, message.charter_serial


class Pending(Struct, frozen=True, gc=False, array_like=True, tag="W"):
    """Says that the sender has heard a claim, and grants it once it is free to, and its disk has written that."""

    epoch: TermNumber
    number: int  # That of the heartbeat.


class Resigned(Struct, frozen=True, gc=False, array_like=True, tag="R"):
    """Says that the sender, which led in this epoch, neither acts nor will act in it or an earlier one.

    Or it withdraws a claim of this epoch: that alone, for the sender may claim the same epoch again, or a lower one.
    """

    epoch: TermNumber
    to: NodeId | None = None  # The heir, if there is one.
    withdrawn: Count = 0  # The number of the withdrawn claim's last heartbeat; 0: the sender led.


class ScoreQuery(Struct, frozen=True, gc=False, array_like=True, tag="Q"):
    """Asks for the receiver's present standing."""

    number: int
    reach: bool = False  # Asks as well whether it reaches a majority, as it shall become the leader.


class ScoreReply(Struct, frozen=True, gc=False, array_like=True, tag="S"):
    """Answers a `ScoreQuery` with its number."""

    number: int
    standing: OracleStanding
    connected: bool = False  # Whether its sender has found out just now that it reaches a majority.


class Charter(Struct, frozen=True, array_like=True, tag="C"):
    """The baton and the electorate together, as the leader of this epoch wrote them; also as a voter keeps them."""

    epoch: Count  # That of the leader that wrote it, and
    serial: Count  # which of its writes it is: 0 repeats what it found.  (0, 0): nobody has written anything yet.
    baton: Annotated[bytes, Meta(max_length=BATON_MAX)]
    number: Count  # The electorate's.
    voters: Annotated[tuple[Name, ...], Meta(min_length=1)]
    joining: tuple[Name, ...] = ()  # While voters are being changed: those of the voters that were none before,
    leaving: tuple[Name, ...] = ()  # and those that were voters before.

    @classmethod
    def of(cls, epoch: int, serial: int, baton: bytes, electorate: Electorate) -> "Charter":
        voters, earlier = electorate.voters, electorate.earlier
        joining, leaving = (voters - earlier, earlier - voters) if earlier else (frozenset(), frozenset())
        return cls(
            epoch, serial, baton, electorate.number, *(tuple(sorted(names)) for names in (voters, joining, leaving))
        )

    @property
    def stamp(self) -> tuple[int, int]:
        """Return what orders charters."""
        return self.epoch, self.serial

    @property
    def electorate(self) -> Electorate:
        voters = frozenset(self.voters)
        changing = self.joining or self.leaving
        return Electorate(
            self.number, voters, (voters - {*self.joining}) | {*self.leaving} if changing else frozenset()
        )


class CharterStored(Struct, frozen=True, gc=False, array_like=True, tag="D"):
    """Says that the sender has granted this epoch to the receiver, none above it, and has this charter on its disk."""

    epoch: TermNumber
    serial: Count


class CharterWanted(Struct, frozen=True, gc=False, array_like=True, tag="X"):
    """Asks for the receiver's charter, which is newer than the sender's."""


class RollCall(Struct, frozen=True, gc=False, array_like=True, tag="L"):
    """Asks who is there, and may vote if it is made a voter."""

    number: int


class Present(Struct, frozen=True, gc=False, array_like=True, tag="M"):
    """Answers a `RollCall` with its number."""

    number: int
    able: bool  # The sender has a record of its votes, or none of its name has ever voted.


Message: TypeAlias = (
    Propose
    | Vote
    | Heartbeat
    | HeartbeatAck
    | Pending
    | Resigned
    | ScoreQuery
    | ScoreReply
    | Charter
    | CharterStored
    | CharterWanted
    | RollCall
    | Present
)
MESSAGES: Final[Any] = Message


def epoch_of(message: Message) -> int:
    """Return the epoch that a message speaks of; 0 if it speaks of none."""
    if isinstance(message, ScoreQuery | ScoreReply | CharterWanted | RollCall | Present):
        return 0
    return message.epoch


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class WaitEnds(Struct, frozen=True, gc=False):
    """A claim, a lease or the wait for a leader is over, unless it was prolonged."""

    number: int


class ElectionEnds(Struct, frozen=True, gc=False):
    """The best proposal so far is selected."""

    epoch: int


class ProposalRepeats(Struct, frozen=True, gc=False):
    """The proposal is repeated."""

    epoch: int
    wait: Duration


class MeasuringEnds(Struct, frozen=True, gc=False):
    """The voter takes part without a score."""

    epoch: int


class HeartbeatIsSent(Struct, frozen=True, gc=False):
    """The leader, or claimant, sends a heartbeat."""

    tenure: int


class PromiseEnds(Struct, frozen=True, gc=False):
    """The voter is free to grant the epoch to its chosen leader, as its promise to an earlier one ends."""

    epoch: int


class GreaterIsGivenUp(Struct, frozen=True, gc=False):
    """The voter grants a claim although it knows of a greater candidate, which has not claimed."""

    epoch: int


class AnswersAreDue(Struct, frozen=True, gc=False):
    """The claimant gives up unless a majority has granted its claim, or will."""

    tenure: int


class LeaderIsAskedFor(Struct, frozen=True, gc=False):
    """The voter asks again for a leader that it does not hear itself."""

    number: int


class ReachIsReported(Struct, frozen=True, gc=False):
    """The heir tells the leader whether it reaches a majority."""

    leader: NodeId
    number: int


class AnswersAreMissed(Struct, frozen=True, gc=False):
    """The leader asks all voters, unless a majority has answered its last heartbeat."""

    tenure: int
    number: int  # That of the heartbeat.


class VotersAreAsked(Struct, frozen=True, gc=False):
    """A node without a vote that hears no leader asks the voters, so that they know of it."""

    wait: Duration


class RollEnds(Struct, frozen=True, gc=False):
    """The voters are changed, or not, by those that have answered."""

    number: int


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────
# Emitted beside LeaderElected and LeaderLost, for checkers and logs.  Instants are by the node's own clock.


class EpochPromised(Struct, frozen=True):
    """This voter has granted this epoch, durably, and grants no earlier one."""

    epoch: int


class ElectionBegun(Struct, frozen=True):
    """An election has begun here, in this epoch."""

    epoch: int


class QuorumProposed(Struct, frozen=True):
    """A quorum has proposed in this epoch, so the election timer starts."""

    epoch: int
    ends_at: Instant


class Selected(Struct, frozen=True):
    """The election has ended at this node with this choice; the leader acts once a majority has granted the epoch."""

    epoch: int
    leader: NodeId
    proposers: tuple[NodeId, ...]
    at: Instant


class NotVoting(Struct, frozen=True):
    """This process has lost its durable file, or never had one: it follows, and has no vote (decisions 31, 83)."""

    def __str__(self) -> str:
        return (
            "it has no record of earlier votes here, so it does not vote: if nobody of its name has ever voted in this "
            "group, start it once with --newcomer, or run doyen state init before; if its files are lost, it must come "
            "back under another name"
        )


class NotAVoter(Struct, frozen=True):
    """The name of this process is none of the voters': it follows, and never leads."""

    me: NodeId
    voters: tuple[NodeId, ...]

    def __str__(self) -> str:
        return (
            f"{self.me} is not one of the voters ({', '.join(self.voters)}), so it follows and never leads: give it "
            "the name of a voter (--name), list it in --voters on every member, or "
            "make it one: doyen voters add"
        )


# ── States ──────────────────────────────────────────────────────────────────────────────────────────────────


class Status(Enum):
    """The state of a process in its epoch."""

    MEASURING = "measuring"  # An election has begun, and the own score is not known yet.
    ELECTING = "electing"
    CHOSEN = "chosen"  # It chose another, which does not act yet, as far as it knows.
    CLAIMING = "claiming"  # It chose itself, and waits for a majority's grants.
    LEADING = "leading"
    FOLLOWING = "following"
    OBSERVING = "observing"  # No vote: its file is lost.
    LEFT = "left"
