"""What churn-tolerant elections say, wait for and tell.  [CTOL Alg. 1–4]

    initiator ──Query──▶ c+f+1 members ──Response──▶ initiator ──NotifyLeader──▶ would-be leader ──Leader──▶ all

Deviation [CTOL Alg. 1–4]: every message carries the election it belongs to, (term, initiator, incarnation); queries
  and responses also an attempt, NOTIFYLEADER and LEADER a sequence and whether it is final.  Without them a late
  message of an earlier attempt, election or life counts as news.
"""

from typing import Any, Final, TypeAlias

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.core.ids import NAME_MAX, TERM_NUMBER_MAX, NodeId, Term

COUNT_MAX: Final = 2**53
LISTED_MAX: Final = 512  # Entries in a list on the wire; a datagram ends it sooner.

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class ElectionId(Struct, frozen=True, gc=False, array_like=True):
    """One election.  Of two, the one with the higher term counts; then the lower initiator's; then its later life's."""

    number: int
    initiator: NodeId
    incarnation: int

    def __post_init__(self) -> None:
        _check(0 < self.number <= TERM_NUMBER_MAX, "term")
        _check(0 < len(self.initiator) <= NAME_MAX, "initiator")
        _check(0 <= self.incarnation <= COUNT_MAX, "incarnation")

    def outranks(self, other: "ElectionId | None") -> bool:
        if other is None or self.number != other.number:
            return other is None or self.number > other.number
        if self.initiator != other.initiator:
            return self.initiator < other.initiator  # [CTOL §III-B] Only the lowest initiator completes.
        return self.incarnation > other.incarnation


class Query(Struct, frozen=True, array_like=True, tag="Q"):
    """Whom do you know?  Your x lowest hashes, without your y most unhealthy."""

    election: ElectionId
    attempt: int
    candidate_count: int  # x
    unhealthy_count: int  # y
    without: tuple[NodeId, ...] = ()  # Who does not wish to lead.

    def __post_init__(self) -> None:
        _check(len(self.without) <= LISTED_MAX and all(0 < len(node) <= NAME_MAX for node in self.without), "without")
        _check(0 <= self.candidate_count <= COUNT_MAX and 0 <= self.unhealthy_count <= COUNT_MAX, "x or y")


class Response(Struct, frozen=True, array_like=True, tag="R"):
    """Best candidate first.  `better` names an election that the asker should know of: then this is a refusal."""

    election: ElectionId
    attempt: int
    candidates: tuple[NodeId, ...]
    excluded: tuple[tuple[NodeId, int], ...] = ()  # The most unhealthy first, with their counts.
    better: ElectionId | None = None
    ranks: tuple[int | float, ...] = ()  # Of the candidates, where the asker cannot compute them itself.

    def __post_init__(self) -> None:
        _check(len(self.candidates) <= LISTED_MAX and len(self.excluded) <= LISTED_MAX, "list")
        _check(all(0 < len(node) <= NAME_MAX for node in self.candidates), "candidate")
        _check(all(0 < len(node) <= NAME_MAX and 0 <= count <= COUNT_MAX for node, count in self.excluded), "exclude")
        _check(len(self.ranks) in (0, len(self.candidates)) and all(rank == rank for rank in self.ranks), "ranks")


class NotifyLeader(Struct, frozen=True, gc=False, array_like=True, tag="N"):
    """You lead: for now, or finally."""

    election: ElectionId
    sequence: int
    final: bool


class Record(Struct, frozen=True, gc=False, array_like=True):
    """Who leads, by which decision of which election."""

    election: ElectionId
    sequence: int
    final: bool
    leader: NodeId
    leader_incarnation: int  # Of the life that was notified; a later life of that name does not lead.

    def __post_init__(self) -> None:
        _check(0 < len(self.leader) <= NAME_MAX, "leader")

    @property
    def term(self) -> Term:
        return Term(self.election.number, self.leader)


class Leader(Struct, frozen=True, gc=False, array_like=True, tag="L"):
    """From the leader itself (`number` wants an ack), or passed on by who holds it (0)."""

    record: Record
    number: int = 0


class LeaderAck(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    number: int


class Confirm(Struct, frozen=True, gc=False, array_like=True, tag="C"):
    """From a leader that was told tentatively: it is final.  To all, a few times; who misses it asks."""

    election: ElectionId
    tentative: int  # The sequence that members hold,
    final: int  # and the one that it is now.


class Ask(Struct, frozen=True, gc=False, array_like=True, tag="W"):
    """Whom do you hold?  Says what the asker holds, so that whoever is behind learns of it."""

    election: ElectionId | None = None
    sequence: int = 0
    echo: bool = False  # Answer even if there is nothing new: are you there?


Message: TypeAlias = Query | Response | NotifyLeader | Leader | LeaderAck | Confirm | Ask


def term_number(message: Message) -> int:
    """Of the latest election that it speaks of; 0 if of none."""
    match message:
        case Leader():
            return message.record.election.number
        case Response(better=ElectionId(number=number)):
            return number
        case LeaderAck() | Ask(election=None):
            return 0
        case _:
            assert message.election is not None
            return message.election.number


class Memory(Struct, frozen=True):
    """What outlives the process: a term never goes back."""

    number: int


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class ResponseOverdue(Struct, frozen=True, gc=False):
    number: int
    attempt: int


class LeaderOverdue(Struct, frozen=True, gc=False):
    number: int
    sequence: int
    repeat: int


class BackOffOver(Struct, frozen=True, gc=False):
    number: int
    tries: int


class FinalOverdue(Struct, frozen=True, gc=False):
    election: ElectionId


class ConfirmAgain(Struct, frozen=True, gc=False):
    confirm: Confirm
    left: int


class ConfirmDue(Struct, frozen=True, gc=False):
    election: ElectionId
    sequence: int
    wait: Duration


class BeginDue(Struct, frozen=True, gc=False):
    number: int  # The greatest term known when it was set: a newer one makes it idle.


class DoubtDue(Struct, frozen=True, gc=False):
    election: ElectionId
    sequence: int


class StandAgain(Struct, frozen=True, gc=False):
    resignation: int


class AskDue(Struct, frozen=True, gc=False):
    ask_no: int


class BootstrapDue(Struct, frozen=True, gc=False): ...


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


class LeaderHeld(Struct, frozen=True):
    """This node now goes by this record: told beside `LeaderElected`, and again when a tentative leader is final."""

    record: Record


class ResponseCounted(Struct, frozen=True):
    """The initiator's sums after one more response: what `doyen explain` and the walk-throughs show."""

    sender: NodeId
    excluded: tuple[tuple[NodeId, int], ...]
    candidates: tuple[NodeId, ...]
    leaders: tuple[NodeId, ...]


class Decided(Struct, frozen=True):
    """The initiator chose, for now or finally; the would-be leader is being notified."""

    election: ElectionId
    attempt: int
    sequence: int
    final: bool
    leader: NodeId


class AttemptBegan(Struct, frozen=True):
    election: ElectionId
    attempt: int


class CannotElect(Struct, frozen=True):
    """Too few members are known for an election to be safe; tried again after a while, or when the view changes."""

    known_count: int
    needed_count: int

    def __str__(self) -> str:
        return f"cannot elect safely: knows {self.known_count} of {self.needed_count} needed"


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} is out of range")  # The codec's DecodeError: a bad message, dropped.


MESSAGES: Final[Any] = Query | Response | NotifyLeader | Leader | LeaderAck | Confirm | Ask
