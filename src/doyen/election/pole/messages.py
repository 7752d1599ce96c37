"""The messages, timers and events of elections by score.  [POLE Alg. 1]

    all ──Propose──▶ all            on losing the leader, and on hearing of a better proposal
    settled ──Vote──▶ proposer      there is a leader already
    chosen ──Heartbeat──▶ all ──HeartbeatAck──▶ chosen      the first ack of an epoch is the grant, and durable
    leader ──Resigned──▶ all        hand over, to that voter or to the best
    leader ──ScoreQuery──▶ all ──ScoreReply──▶ leader

Ours beside P and V: heartbeats, their acks, and everything about resignation.
"""

from enum import Enum
from typing import Any, Final, TypeAlias

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.ids import Name, NodeId, TermNumber
from doyen.core.rank import OracleStanding

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Propose(Struct, frozen=True, gc=False, array_like=True, tag="P"):
    """⟨P, e, (θ, i)⟩: proposes the best that the sender knows of in this epoch."""

    epoch: TermNumber
    standing: OracleStanding
    node: Name


class Vote(Struct, frozen=True, gc=False, array_like=True, tag="V"):
    """⟨V, e, l⟩: says whom the sender has settled on."""

    epoch: TermNumber
    leader: Name


class Heartbeat(Struct, frozen=True, gc=False, array_like=True, tag="H"):
    """Claims the epoch for its sender, until a majority has granted it; then says that the sender acts."""

    epoch: TermNumber
    number: int
    acting: bool


class HeartbeatAck(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    """Grants the receiver its epoch, and binds the sender for a guard; or refuses, and names the sender's own epoch."""

    epoch: TermNumber
    number: int  # That of the heartbeat.
    granted: bool


class Resigned(Struct, frozen=True, gc=False, array_like=True, tag="R"):
    """Says that the sender, which led in this epoch, no longer acts."""

    epoch: TermNumber
    to: NodeId | None = None  # The heir, if there is one.


class ScoreQuery(Struct, frozen=True, gc=False, array_like=True, tag="Q"):
    """Asks for the receiver's present standing."""

    number: int


class ScoreReply(Struct, frozen=True, gc=False, array_like=True, tag="S"):
    """Answers a `ScoreQuery` with its number."""

    number: int
    standing: OracleStanding


Message: TypeAlias = Propose | Vote | Heartbeat | HeartbeatAck | Resigned | ScoreQuery | ScoreReply
MESSAGES: Final[Any] = Propose | Vote | Heartbeat | HeartbeatAck | Resigned | ScoreQuery | ScoreReply


def epoch_of(message: Message) -> int:
    """Return the epoch that a message speaks of; 0 if it speaks of none."""
    return 0 if isinstance(message, ScoreQuery | ScoreReply) else message.epoch


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


class ScoresAreCompared(Struct, frozen=True, gc=False):
    """The leader compares the scores that it has got, and asks for new ones."""

    tenure: int


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────
# Emitted beside LeaderElected and LeaderLost, for checkers and logs.  Instants are by the node's own clock.


class EpochPromised(Struct, frozen=True):
    """Nothing of an earlier epoch counts here any more."""

    epoch: int


class QuorumProposed(Struct, frozen=True):
    """A quorum has proposed in this epoch, so the election timer starts."""

    epoch: int
    at: Instant


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
            "the name of a voter (--name), or list it in --voters on every member"
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
