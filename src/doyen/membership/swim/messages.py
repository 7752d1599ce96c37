"""What SWIM says on the wire, and the timers it sets.

Every message ends with `updates`, the gossip that rides on it.  Names and numbers of others are checked by the
decoder, before any of this exists.
"""

from enum import IntEnum
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from doyen.core.ids import NAME_MAX, Address, Incarnation, NodeId
from doyen.core.view import Member, Status

INCARNATION_MAX: Final = 2**63 - 2**32  # Beyond it nobody could refute any more.
HOST_MAX: Final = 255
NOBODY: Final = NodeId("")

Name = Annotated[NodeId, Meta(min_length=1, max_length=NAME_MAX)]
Count = Annotated[int, Meta(ge=0)]  # 64 bits at the most, in this encoding.


class Word(IntEnum):
    """A status on the wire.  At one incarnation the greater outranks: nothing but a new one undoes worse news."""

    ALIVE = 0
    SUSPECTED = 1
    FAILED = 2
    LEFT = 3


STATUS: Final = (Status.ALIVE, Status.SUSPECTED, Status.FAILED, Status.LEFT)  # By Word.
WORD: Final = {status: int(word) for word, status in enumerate(STATUS)}


class Update(Struct, frozen=True, gc=False, array_like=True):
    """One member's state, as somebody believes it."""

    node: Name
    incarnation: Annotated[Incarnation, Meta(ge=0, lt=INCARNATION_MAX)]
    word: Annotated[int, Meta(ge=0, le=3)]
    by: Annotated[NodeId, Meta(max_length=NAME_MAX)] = NOBODY  # SUSPECTED: who accuses.
    host: Annotated[str, Meta(max_length=HOST_MAX)] = ""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0

    @property
    def address(self) -> Address | None:
        return Address(self.host, self.port) if self.host else None

    def outranks(self, incarnation: int, word: int) -> bool:
        """[SWIM §4.2] A total order, so that any two members agree in the end, whatever reached them first."""
        return self.incarnation > incarnation or (self.incarnation == incarnation and self.word > word)


Updates = tuple[Update, ...]


def update_of(member: Member, by: NodeId = NOBODY) -> Update:
    address = member.address
    host, port = ("", 0) if address is None else (address.host, address.port)
    return Update(member.node, member.incarnation, WORD[member.status], by, host, port)


# ── Probing ─────────────────────────────────────────────────────────────────────────────────────────────────


class Ping(Struct, frozen=True, gc=False, array_like=True, tag="p"):
    """Are you there?  Names whom it is for: a stranger at the same address must not answer."""

    ping_no: Count
    target: Name
    updates: Updates = ()


class Ack(Struct, frozen=True, gc=False, array_like=True, tag="a"):
    """I am."""

    ping_no: Count
    updates: Updates = ()
    waited_ms: Count = 0  # Medley's passive feedback: how long nobody had pinged me.


class PingMe(Struct, frozen=True, gc=False, array_like=True, tag="m"):
    """Medley's active feedback: nobody has pinged me for long."""

    updates: Updates = ()


class PingRequest(Struct, frozen=True, gc=False, array_like=True, tag="r"):
    """Ping this member for me; it does not answer me."""

    probe_no: Count
    target: Name
    host: Annotated[str, Meta(max_length=HOST_MAX)]
    port: Annotated[int, Meta(ge=0, le=65535)]
    wants_nack: bool
    updates: Updates = ()


class HelperAck(Struct, frozen=True, gc=False, array_like=True, tag="h"):
    """It answered me."""

    probe_no: Count
    updates: Updates = ()


class Nack(Struct, frozen=True, gc=False, array_like=True, tag="n"):
    """It has not answered me either, but you and I hear each other.  [Lifeguard §IV-A]"""

    probe_no: Count
    updates: Updates = ()


# ── Gossip and anti-entropy ─────────────────────────────────────────────────────────────────────────────────


class Gossip(Struct, frozen=True, gc=False, array_like=True, tag="g"):
    """Nothing but news: of a leave, and to one who must know what is said of it."""

    updates: Updates = ()


class Digest(Struct, frozen=True, gc=False, array_like=True, tag="d"):
    """My sums over these branches of the group; answer where yours differ."""

    sums: tuple[tuple[Count, Count], ...]  # (branch, sum)
    updates: Updates = ()


class Entries(Struct, frozen=True, gc=False, array_like=True, tag="e"):
    """Everybody present under these branches, as I know them; with `answer`, tell me what you know better."""

    branches: tuple[Count, ...]
    answer: bool
    updates: Updates = ()


Message = Ping | Ack | PingMe | PingRequest | HelperAck | Nack | Gossip | Digest | Entries

# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class PeriodBegins(Struct, frozen=True, gc=False):
    probe_no: int  # The one that ends with it.


class AckOverdue(Struct, frozen=True, gc=False):
    probe_no: int


class RelayOverdue(Struct, frozen=True, gc=False):
    ping_no: int


class SuspicionOverdue(Struct, frozen=True, gc=False):
    node: NodeId
    incarnation: int


class SyncDue(Struct, frozen=True, gc=False): ...


class ReapDue(Struct, frozen=True, gc=False): ...


class FadeDue(Struct, frozen=True, gc=False): ...


Timer: Any = PeriodBegins | AckOverdue | RelayOverdue | SuspicionOverdue | SyncDue | ReapDue | FadeDue


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


class MemberSuspected(Struct, frozen=True):
    """Who suspects whom, as heard here: this node itself, or one whose accusation reached it; for logs."""

    member: NodeId
    by: NodeId
