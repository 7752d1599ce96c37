"""What members gossip, and what their timers are for."""

from typing import Annotated

from msgspec import Meta, Struct

from doyen.core.ids import Incarnation
from doyen.membership.swim.messages import HOST_MAX, INCARNATION_MAX, Count, Name


class Beat(Struct, frozen=True, gc=False, array_like=True):
    """One member's counter."""

    node: Name
    incarnation: Annotated[Incarnation, Meta(ge=0, lt=INCARNATION_MAX)]
    count: Count
    left: bool = False
    host: Annotated[str, Meta(max_length=HOST_MAX)] = ""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0


class Beats(Struct, frozen=True, gc=False, array_like=True, tag="b"):
    """What the sender has heard; with `reply`, it knows nobody and asks."""

    beats: tuple[Beat, ...]
    reply: bool = False


class BeatDue(Struct, frozen=True, gc=False): ...


class Fade(Struct, frozen=True, gc=False): ...
