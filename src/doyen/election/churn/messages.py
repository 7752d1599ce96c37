"""The messages, timers and events of churn-tolerant elections.  [CTOL Alg. 1–4]

    initiator ──Query──▶ c+f+1 members ──Response──▶ initiator ──NotifyLeader──▶ would-be leader ──Leader──▶ all

Deviation [CTOL Alg. 1–4]: every message carries the election it belongs to, (term, initiator, incarnation); queries
  and responses also an attempt, NOTIFYLEADER and LEADER a sequence and whether it is final.  Without them a late
  message of an earlier attempt, election or incarnation counts as news (decision 2).
"""

from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct

from doyen.core.clock import Duration
from doyen.core.ids import Name, NodeId, Term, TermNumber

COUNT_MAX: Final = 2**53
BECAUSE_MAX: Final = 200  # Letters.
LISTED_MAX: Final = 512  # Entries in a list on the wire; a datagram ends it sooner.

Bounded: TypeAlias = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Names: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=LISTED_MAX)]

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class ElectionId(Struct, frozen=True, gc=False, array_like=True):
    """The name of one election.  The higher term counts; then the lower initiator; then its later incarnation."""

    number: TermNumber
    initiator: Name
    incarnation: Bounded

    def outranks(self, other: "ElectionId | None") -> bool:
        if other is None or self.number != other.number:
            return other is None or self.number > other.number
        if self.initiator != other.initiator:
            return self.initiator < other.initiator  # [CTOL §III-B] Only the lowest initiator completes.
        return self.incarnation > other.incarnation


class Query(Struct, frozen=True, array_like=True, tag="Q"):
    """Asks for the receiver's x lowest hashes, without its y most unhealthy members."""

    election: ElectionId
    attempt: int
    candidate_count: Bounded  # x
    unhealthy_count: Bounded  # y
    without: Names = ()  # Members that do not wish to lead.


class Response(Struct, frozen=True, array_like=True, tag="R"):
    """Lists the best candidates first; or refuses, and names a `better` election that the initiator should know of."""

    election: ElectionId
    attempt: int
    candidates: Names
    excluded: Annotated[
        tuple[tuple[Name, Bounded], ...], Meta(max_length=LISTED_MAX)
    ] = ()  # The most unhealthy first, with their counts.
    better: ElectionId | None = None
    ranks: tuple[int | float, ...] = ()  # Those of the candidates, where the initiator cannot compute them itself.

    def __post_init__(self) -> None:
        if len(self.ranks) not in (0, len(self.candidates)) or any(rank != rank for rank in self.ranks):
            raise ValueError("ranks must be numbers, one for each candidate")  # The codec drops the message.


class NotifyLeader(Struct, frozen=True, gc=False, array_like=True, tag="N"):
    """Notifies the receiver that it leads, tentatively or finally."""

    election: ElectionId
    sequence: int
    final: bool


class Record(Struct, frozen=True, gc=False, array_like=True):
    """A leader, and the decision of an election by which it leads."""

    election: ElectionId
    sequence: int
    final: bool
    leader: Name
    leader_incarnation: int  # The one that was notified; a later incarnation does not lead (decision 20).

    @property
    def term(self) -> Term:
        return Term(self.election.number, self.leader)

    def supersedes(self, held: "Record | None") -> bool:
        """Return whether a node goes over from the record that it holds to this one; never back, as the order is total.

        [CTOL Alg. 1, line 24, and §IV-B], decision 20.
        Ambiguity [CTOL]: the pseudo-code overwrites, so that a late LEADER undoes a newer one; the text keeps the
          lowest hash, so that Hybrid keeps a leader that it has rejected since.  Neither is safe.  Here the greatest
          (term, lower initiator, later incarnation of it, sequence, later incarnation of the leader) counts, whatever
          arrives in which order.
        """
        if held is None:
            return True
        if self.election != held.election:
            return self.election.outranks(held.election)
        # A leader that restarted before it was notified again holds the same decision under its later incarnation.
        return (self.sequence, self.leader_incarnation) > (held.sequence, held.leader_incarnation)


class Leader(Struct, frozen=True, gc=False, array_like=True, tag="L"):
    """Announces a leader: sent by the leader itself, or passed on by a member that holds the record."""

    record: Record
    number: int = 0  # An ack with this number is wanted; 0: none.


class LeaderAck(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    """Acknowledges the LEADER with this number."""

    number: int


class Confirm(Struct, frozen=True, gc=False, array_like=True, tag="C"):
    """Announces that the sender, a tentative leader, is final; multicast a few times, then answered on request."""

    election: ElectionId
    tentative: int  # The sequence that members hold,
    final: int  # and the one that it is now.


class Ask(Struct, frozen=True, gc=False, array_like=True, tag="W"):
    """Asks for the receiver's leader, and says which record the sender holds, so that either learns of a newer one."""

    election: ElectionId | None = None
    sequence: int = 0
    echo: bool = False  # An answer is wanted even if there is nothing new, to see that the receiver lives.

    def is_behind(self, held: Record) -> bool:
        """Return whether the sender lacks the record that is held here."""
        if self.election is None or held.election.outranks(self.election):
            return True
        return held.election == self.election and held.sequence > self.sequence

    def is_ahead(self, held: Record | None) -> bool:
        """Return whether the sender may hold a record that is not known here."""
        if self.election is None:
            return False
        return held is None or held.election != self.election or held.sequence < self.sequence


class HandedOver(Struct, frozen=True, gc=False, array_like=True, tag="H"):
    """Announces why the sender, which led, begins an election whose outcome is known; for `doyen explain` alone."""

    election: ElectionId
    because: Annotated[str, Meta(max_length=BECAUSE_MAX)]

    def __post_init__(self) -> None:
        if not self.because.isprintable():
            raise ValueError("a reason is one line of text")  # The codec drops the message.


Message: TypeAlias = Query | Response | NotifyLeader | Leader | LeaderAck | Confirm | Ask | HandedOver


def term_number(message: Message) -> int:
    """Return the term of the latest election that a message speaks of; 0 if it speaks of none."""
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
    """The record on disk: a term never goes back, over restarts too."""

    number: int


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class MoreAreAsked(Struct, frozen=True, gc=False):
    """The initiator asks as many further members as have not answered."""

    number: int
    attempt: int


class NotifyRepeats(Struct, frozen=True, gc=False):
    """The initiator repeats its NOTIFYLEADER, or begins another attempt."""

    number: int
    sequence: int
    repeat: int


class BackOffEnds(Struct, frozen=True, gc=False):
    """The initiator, which knew too few members, tries again."""

    number: int
    tries: int


class NextTermBegins(Struct, frozen=True, gc=False):
    """The node begins the next term, as this election has brought no final LEADER."""

    election: ElectionId


class ConfirmRepeats(Struct, frozen=True, gc=False):
    """The leader repeats its confirmation."""

    confirm: Confirm
    left: int  # Repetitions, this one included.


class LeaderIsAsked(Struct, frozen=True, gc=False):
    """The node asks its tentative leader whether it is final."""

    election: ElectionId
    sequence: int
    wait: Duration


class ElectionBegins(Struct, frozen=True, gc=False):
    """The node begins an election, as planned."""

    number: int  # The greatest term known when it was set: a newer one makes it idle.


class DoubtRepeats(Struct, frozen=True, gc=False):
    """The node asks a leader that its view does not hold present once more, or gives it up."""

    number: int


class CoolDownEnds(Struct, frozen=True, gc=False):
    """The node may be elected again after its resignation."""

    resignation: int


class MemberIsAsked(Struct, frozen=True, gc=False):
    """The node asks another member for its leader."""

    ask_no: int


class ScoresAreWeighed(Struct, frozen=True, gc=False):
    """The leader looks whether another member has been better for long enough."""


class BootstrapBegins(Struct, frozen=True, gc=False):
    """The node begins an election, if it has heard of none and of no leader since its start."""


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


class LeaderHeld(Struct, frozen=True):
    """This node holds this record: emitted beside `LeaderElected`, and again when a tentative leader becomes final."""

    record: Record


class ResponseCounted(Struct, frozen=True):
    """The initiator's sums after one more response: what `doyen explain` and the walk-throughs show."""

    sender: NodeId
    excluded: tuple[tuple[NodeId, int], ...]
    candidates: tuple[NodeId, ...]
    leaders: tuple[NodeId, ...]


class Decided(Struct, frozen=True):
    """The initiator chose a leader, tentatively or finally, and notifies it."""

    election: ElectionId
    attempt: int
    sequence: int
    final: bool
    leader: NodeId


class AttemptBegan(Struct, frozen=True):
    """The initiator has asked members anew."""

    election: ElectionId
    attempt: int


class CannotElect(Struct, frozen=True):
    """Too few members are known for a safe election; the initiator tries again later, or with a larger view."""

    known_count: int
    needed_count: int

    def __str__(self) -> str:
        return f"cannot elect safely: knows {self.known_count} of {self.needed_count} needed"


MESSAGES: Final[Any] = Query | Response | NotifyLeader | Leader | LeaderAck | Confirm | Ask | HandedOver
