"""What elections by score say, wait for and tell.  [POLE Alg. 1]

    all ──Propose──▶ all            who loses its leader, and whoever hears of a better proposal
    settled ──Vote──▶ proposer      there is a leader already
    chosen ──Heartbeat──▶ all ──HeartbeatAck──▶ chosen      the first ack of an epoch is the grant, and durable
    leader ──Resigned──▶ all        hand over, to somebody or to the best
    leader ──ScoreQuery──▶ all ──ScoreReply──▶ leader

Ours beside P and V: heartbeats, their acks, and everything about resignation.
"""

from math import isfinite
from typing import Any, Final, TypeAlias

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NAME_MAX, TERM_NUMBER_MAX, NodeId

PARTS_MAX: Final = 8  # Of a standing.

Standing: TypeAlias = tuple[float, ...]  # Greater is better; () is below every measured one.

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Propose(Struct, frozen=True, gc=False, array_like=True, tag="P"):
    """⟨P, e, (θ, i)⟩: the best that its sender knows of in this epoch."""

    epoch: int
    standing: Standing
    node: NodeId

    def __post_init__(self) -> None:
        _check_epoch(self.epoch)
        _check_standing(self.standing)
        _check(0 < len(self.node) <= NAME_MAX, "node")


class Vote(Struct, frozen=True, gc=False, array_like=True, tag="V"):
    """⟨V, e, l⟩: its sender has settled."""

    epoch: int
    leader: NodeId

    def __post_init__(self) -> None:
        _check_epoch(self.epoch)
        _check(0 < len(self.leader) <= NAME_MAX, "leader")


class Heartbeat(Struct, frozen=True, gc=False, array_like=True, tag="H"):
    """From who chose itself.  Until it has its majority it is a claim (`acting` false)."""

    epoch: int
    number: int
    acting: bool

    def __post_init__(self) -> None:
        _check_epoch(self.epoch)


class HeartbeatAck(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    """`granted`: this epoch is yours, and I am bound to you for a guard.  Else: my epoch, in which I am not yours."""

    epoch: int
    number: int
    granted: bool

    def __post_init__(self) -> None:
        _check_epoch(self.epoch)


class Resigned(Struct, frozen=True, gc=False, array_like=True, tag="R"):
    """I acted in this epoch, and act no more."""

    epoch: int
    to: NodeId | None = None

    def __post_init__(self) -> None:
        _check_epoch(self.epoch)


class ScoreQuery(Struct, frozen=True, gc=False, array_like=True, tag="Q"):
    number: int


class ScoreReply(Struct, frozen=True, gc=False, array_like=True, tag="S"):
    number: int
    standing: Standing

    def __post_init__(self) -> None:
        _check_standing(self.standing)


Message: TypeAlias = Propose | Vote | Heartbeat | HeartbeatAck | Resigned | ScoreQuery | ScoreReply
MESSAGES: Final[Any] = Propose | Vote | Heartbeat | HeartbeatAck | Resigned | ScoreQuery | ScoreReply

# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class ElectionOver(Struct, frozen=True, gc=False):
    epoch: int


class RetryDue(Struct, frozen=True, gc=False):
    epoch: int
    wait: Duration


class ScoreOverdue(Struct, frozen=True, gc=False):
    epoch: int


class HeartbeatDue(Struct, frozen=True, gc=False):
    tenure: int


class Unbound(Struct, frozen=True, gc=False):
    """The promise to an earlier leader has run out."""

    epoch: int


class QueryDue(Struct, frozen=True, gc=False):
    tenure: int


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────
# Beside LeaderElected and LeaderLost; for checkers, logs and the curious.  Instants are the node's own.


class EpochPromised(Struct, frozen=True):
    """Nothing of an earlier epoch counts here any more."""

    epoch: int


class QuorumProposed(Struct, frozen=True):
    epoch: int
    at: Instant


class Selected(Struct, frozen=True):
    """The election ended here, and whom it chose; the leader acts once a majority granted it."""

    epoch: int
    leader: NodeId
    proposers: tuple[NodeId, ...]
    at: Instant


class NotVoting(Struct, frozen=True):
    """This process has lost its durable file, or never had one: it follows, and has no vote."""

    def __str__(self) -> str:
        return (
            "it has no record of earlier votes here, so it does not vote: if nobody of its name has ever voted in this "
            "group, start it once with --newcomer; if its files are lost, it must come back under another name"
        )


def _check_epoch(epoch: int) -> None:
    _check(0 < epoch <= TERM_NUMBER_MAX, "epoch")


def _check_standing(standing: Standing) -> None:
    _check(len(standing) <= PARTS_MAX and all(isfinite(part) for part in standing), "standing")


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} is out of range")  # The codec's DecodeError: a bad message, dropped.
