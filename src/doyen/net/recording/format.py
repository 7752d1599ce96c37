"""The content of a recording, as declared types.  All of it is data: nothing that a file names is imported or called.

    file     = "DOYEN RECORDING 2\\n", frames…
    frame    = length (4) · CRC-32 of the length (4) · CRC-32 of the body (4) · body, msgpack
    bodies   = `Header`; then, where the header has a `State`, as many lists of `Entry` as it says; then `Input`s

A message is kept as its datagram was: the codec reads it again by the types that its machine declares.  So the
identifier of a message, a digest of the datagram before it is sealed, is the same for its sender and all receivers.
"""

import zlib
from random import Random
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.hashes import blake2b
from doyen.core.ids import Address, Incarnation, NodeId

FORMAT: Final = 2
MAGIC_START: Final = b"DOYEN RECORDING "
MAGIC: Final = MAGIC_START + b"%d\n" % FORMAT
FRAME_BYTES: Final = 12
BODY_MAX: Final = 4 << 20
DATAGRAM_MAX: Final = 65_507  # A node's messages to itself may be larger than the datagrams of its group.

# What the machines were built from.


class Origin(Struct, frozen=True, kw_only=True):
    """Everything that a node's machines were built from, so that they can be built again."""

    node: NodeId
    incarnation: Incarnation
    group: str
    address: Address | None
    seeds: tuple[Address, ...]
    durable: bool  # Whether there was a disk.
    random_seed: str
    config: dict[str, Any]  # Plain values without secrets; the builder of the machines knows their type.

    def rng(self, channel: str) -> Random:
        """Return the random stream of a channel, from its beginning."""
        return Random(f"{self.random_seed}/{channel}")


class State(Struct, frozen=True, kw_only=True):
    """The machines of a node that had been running when its segment began; their objects follow as `Entry`s."""

    classes: list[str]  # module:class, each known to the builder of the machines.
    built: list[int]  # The class of each object of freshly built machines, in the order in which they are met.
    chunks: int  # Frames of entries that follow.
    timers: list[tuple[int, Instant, str, "Value"]]  # (number, at, channel, timer): those that have not fired.
    next_timer: int
    view: "Value"  # The last view that the membership emitted.


class Reigning(Struct, frozen=True, kw_only=True):
    """One election as its node saw it when a segment began: machines do not keep all of it."""

    leader: NodeId | None
    term: int
    mine: bool  # Whether this node itself leads,
    may_act: bool  # and whether its first act has nothing left to wait for.


class Header(Struct, frozen=True, kw_only=True):
    """The beginning of a segment."""

    doyen: str
    at: float  # Wall clock, in seconds,
    now: Instant  # and the node's own clock at the same moment.
    origin: Origin
    restored: dict[str, bytes] = {}  # Records that were read from the disk, by channel.
    additions: list[dict[str, str]] = []  # Machines that were added to the running node before this segment.
    state: State | None = None  # None: the machines as they were built.
    reigns: dict[str, Reigning] | None = None  # By the election's name; None: an earlier doyen, which did not keep it.


# Machines as data.

Reference: TypeAlias = tuple[int]  # The number of an object.
Value: TypeAlias = bool | int | float | str | Reference | None
Plain: TypeAlias = Literal[
    "bytes", "list", "tuple", "set", "frozenset", "deque", "dict", "OrderedDict", "Counter", "Random"
]


class Entry(Struct, frozen=True, array_like=True):
    """One object: what it is, and what it consists of."""

    number: int
    kind: int | Plain  # Its class, by its place in `State.classes`; or one of Python's own types.
    values: list[Value]
    names: list[str] = []  # Of an object with attributes: their names, in the order of the values.


# Effects.


class Effect(Struct, frozen=True, gc=False, array_like=True):
    """One thing that a machine did."""

    verb: Literal["send", "multicast", "set timer", "emit", "persist"]
    channel: str  # As the codec shortens it.
    data: bytes  # The message, the timer, the fact or the record.
    what: str = ""  # To whom a message is sent; of everything but messages, the name of its type.
    at: Instant = 0  # When a timer is to fire.


# Inputs.


class Started(Struct, frozen=True, gc=False, array_like=True, tag="start"): ...


class Added(Struct, frozen=True, array_like=True, tag="start late"):
    """Machines were added to the running node."""

    what: dict[str, str]  # For the one who builds them.
    instants: list[Instant] = []  # When each of them was started, or notified of what it had missed.
    restored: dict[str, bytes] = {}


class MayAct(Struct, frozen=True, gc=False, array_like=True, tag="may act"):
    """The first act of this node in an election has nothing left to wait for.  No machine hears of it."""

    election: str


class Heard(Struct, frozen=True, gc=False, array_like=True, tag="message"):
    data: bytes


class Fired(Struct, frozen=True, gc=False, array_like=True, tag="timer"):
    number: int  # Timers are numbered in the order in which they are set.


class Durable(Struct, frozen=True, gc=False, array_like=True, tag="durable"):
    channel: str


class Commanded(Struct, frozen=True, gc=False, array_like=True, tag="command"):
    channel: str
    name: str
    data: bytes


class Told(Struct, frozen=True, gc=False, array_like=True, tag="tell"):
    channel: str | None
    name: str
    data: bytes


Given: TypeAlias = Started | Added | MayAct | Heard | Fired | Durable | Commanded | Told


class Input(Struct, frozen=True, array_like=True):
    """One input, and everything that followed from it."""

    now: Instant
    given: Given
    effects: list[Effect]
    nested: list[tuple[int, Commanded | Told]] = []  # (after that many effects, what the application did)
    failure: str = ""  # What the machines raised, if they did.


def kind_of(given: Given) -> str:
    """Return the name of an input's kind, as a file and `doyen replay --json` have it."""
    return str(given.__struct_config__.tag)


# Bytes.

encode: Final = msgspec.msgpack.Encoder().encode


def frame(body: bytes) -> bytes:
    """Return a body with its length and checksums."""
    length = len(body).to_bytes(4, "big")
    return length + zlib.crc32(length).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def identifier(datagram: bytes) -> str:
    """Return the identifier of a message, from its datagram before it was sealed or after it was opened."""
    return blake2b(datagram, digest_size=8).hexdigest()
