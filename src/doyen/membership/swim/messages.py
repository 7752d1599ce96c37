"""The messages, timers and events of SWIM.

Every message ends with `updates`, the gossip that rides on it.  The decoder checks names and numbers.
"""

from enum import IntEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from doyen.core.clock import Duration
from doyen.core.ids import NAME_MAX, Address, Count, Incarnation, Name, NodeId
from doyen.core.view import Member, Status

INCARNATION_MAX: Final = 2**63 - 2**32  # Beyond it no member could refute any more.
HOST_MAX: Final = 255
NOBODY: Final = NodeId("")

Host = Annotated[str, Meta(max_length=HOST_MAX)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Number = Annotated[Incarnation, Meta(ge=0, lt=INCARNATION_MAX)]


class Word(IntEnum):
    """A status on the wire.  At one incarnation the greater outranks; only a new incarnation undoes worse news."""

    ALIVE = 0
    SUSPECTED = 1
    FAILED = 2
    LEFT = 3


STATUS: Final = (Status.ALIVE, Status.SUSPECTED, Status.FAILED, Status.LEFT)  # By Word.
WORD: Final = {status: int(word) for word, status in enumerate(STATUS)}


class Update(Struct, frozen=True, gc=False, array_like=True):
    """The state of one member, as some member believes it."""

    node: Name
    incarnation: Number
    word: Annotated[int, Meta(ge=0, le=3)]
    by: Annotated[NodeId, Meta(max_length=NAME_MAX)] = NOBODY  # SUSPECTED: the accuser.
    host: Host = ""
    port: Port = 0

    @property
    def address(self) -> Address | None:
        return Address(self.host, self.port) if self.host else None

    def outranks(self, incarnation: int, word: int) -> bool:
        """[SWIM §4.2] Return whether the update counts more: a total order, so any two members agree in the end."""
        return self.incarnation > incarnation or (self.incarnation == incarnation and self.word > word)


Updates = tuple[Update, ...]


def update_of(member: Member, by: NodeId = NOBODY) -> Update:
    return Update(member.node, member.incarnation, WORD[member.status], by, *host_and_port(member.address))


def host_and_port(address: Address | None) -> tuple[str, int]:
    return ("", 0) if address is None else (address.host, address.port)


# ── Probing ─────────────────────────────────────────────────────────────────────────────────────────────────


class Ping(Struct, frozen=True, gc=False, array_like=True, tag="p"):
    """Asks for an ack.  It names its receiver: a stranger at the same address must not answer."""

    ping_no: Count
    target: Name
    updates: Updates = ()


class Ack(Struct, frozen=True, gc=False, array_like=True, tag="a"):
    """Answers a `Ping` with its number."""

    ping_no: Count
    updates: Updates = ()
    waited_ms: Count = 0  # Medley's passive feedback: how long nobody had pinged the sender.


class PingMe(Struct, frozen=True, gc=False, array_like=True, tag="m"):
    """Medley's active feedback: nobody has pinged the sender for long."""

    updates: Updates = ()


class PingRequest(Struct, frozen=True, gc=False, array_like=True, tag="r"):
    """Asks the receiver to ping a member that does not answer the sender."""

    probe_no: Count
    target: Name
    host: Host
    port: Port
    wants_nack: bool
    updates: Updates = ()


class HelperAck(Struct, frozen=True, gc=False, array_like=True, tag="h"):
    """Says that the target has answered the sender."""

    probe_no: Count
    updates: Updates = ()


class Nack(Struct, frozen=True, gc=False, array_like=True, tag="n"):
    """Says that the target has not answered the sender either; but sender and receiver hear each other.

    [Lifeguard §IV-A]
    """

    probe_no: Count
    updates: Updates = ()


# ── Gossip and anti-entropy ─────────────────────────────────────────────────────────────────────────────────


class Gossip(Struct, frozen=True, gc=False, array_like=True, tag="g"):
    """Carries only news: of a leave or a death, or while its sender has any (`gossip_interval`)."""

    updates: Updates = ()


class Beat(Struct, frozen=True, gc=False, array_like=True, tag="b"):
    """The heartbeat of a leader to one of its watchers, which expects the next one within `within_ms`."""

    within_ms: Count
    updates: Updates = ()


class Digest(Struct, frozen=True, gc=False, array_like=True, tag="d"):
    """Gives the sender's sums over some branches of the group; the receiver answers where its own differ."""

    sums: tuple[tuple[Count, Count], ...]  # (branch, sum)
    updates: Updates = ()


class Entries(Struct, frozen=True, gc=False, array_like=True, tag="e"):
    """Lists the members present under some branches; with `answer`, the receiver sends back what it knows better."""

    branches: tuple[Count, ...]
    answer: bool
    updates: Updates = ()


Message = Ping | Ack | PingMe | PingRequest | HelperAck | Nack | Gossip | Beat | Digest | Entries

# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class PeriodBegins(Struct, frozen=True, gc=False):
    """The probe is judged, and the next one begins."""

    probe_no: int  # Of the probe that ends.


class HelpersAreAsked(Struct, frozen=True, gc=False):
    """Helpers are asked, as the target has not answered."""

    probe_no: int


class VerdictIsDue(Struct, frozen=True, gc=False):
    """A probe outside of periods is judged."""

    probe_no: int


class SuspectIsPinged(Struct, frozen=True, gc=False):
    """An accuser pings its suspect again, and then after twice the wait, as it may be too slow for more."""

    node: NodeId
    incarnation: int
    wait: Duration


class NewsAreSent(Struct, frozen=True, gc=False):
    """A member that still has news sends them to a few members."""


class BeatsAreSent(Struct, frozen=True, gc=False):
    """A leader sends its watchers a heartbeat."""


class BeatIsMissed(Struct, frozen=True, gc=False):
    """A watcher probes a leader from which no heartbeat came in time."""

    leader: NodeId


class RelayFails(Struct, frozen=True, gc=False):
    """A helper says that the target has not answered it either."""

    ping_no: int


class SuspicionExpires(Struct, frozen=True, gc=False):
    """A suspect that has not refuted has failed."""

    node: NodeId
    incarnation: int


class DigestsAreCompared(Struct, frozen=True, gc=False):
    """The node compares its sums with one member, or tries to find others if it is alone."""


class AbsentAreForgotten(Struct, frozen=True, gc=False):
    """Members that were absent for long, and old tombstones, are forgotten."""


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


class MemberSuspected(Struct, frozen=True, gc=False):
    """A member suspects another: this node itself, or one whose accusation reached it.  For logs."""

    member: NodeId
    by: NodeId
