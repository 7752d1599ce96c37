"""The message and the timer of gossiped heartbeats."""

from msgspec import Struct

from doyen.core.ids import Count, Name
from doyen.membership.swim.messages import Host, Number, Port


class Beat(Struct, frozen=True, gc=False, array_like=True):
    """The counter of one member."""

    node: Name
    incarnation: Number
    count: Count
    left: bool = False
    host: Host = ""
    port: Port = 0


class Beats(Struct, frozen=True, gc=False, array_like=True, tag="b"):
    """Carries counters that the sender has heard; with `reply`, it asks for the receiver's."""

    beats: tuple[Beat, ...]
    reply: bool = False


class PeriodBegins(Struct, frozen=True, gc=False):
    """The member raises its counter, looks for counters that stand still, and gossips."""
