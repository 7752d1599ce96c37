"""Effects as data, described alike while a node is recorded and while it is replayed; and as text, for people."""

from typing import Any, Final

import msgspec

from doyen.core.clock import Instant
from doyen.core.codec import SHORT
from doyen.core.ids import Address, NodeId
from doyen.net.recording.format import Effect, Emitted, Multicast, Persisted, Sent, TimerSet, encode

TEXT_MAX: Final = 1000  # Characters of an effect, or of a failure.
_LONG: Final = {short: channel for channel, short in SHORT.items()}


def _without_type(found: Any) -> str:
    """Return what stands for an object that is no data, such as a view: its own text, if it has one."""
    kind: Any = type(found)
    return str(kind.__name__) if kind.__repr__ is object.__repr__ else repr(found)


_sorted: Final = msgspec.msgpack.Encoder(order="deterministic", enc_hook=_without_type).encode  # Sets have no order.


def _plain(found: Any) -> bytes:
    try:
        return _sorted(found)
    except (TypeError, ValueError, OverflowError):
        return encode(repr(found))


class Describer:
    """Describes the effects of one channel."""

    __slots__ = ("_channel",)

    def __init__(self, channel: str) -> None:
        self._channel = SHORT.get(channel, channel)

    def sent(self, to: NodeId | Address, message: Any) -> Sent:
        return Sent(self._channel, to if isinstance(to, str) else str(to), encode(message))

    def multicast(self, message: Any) -> Multicast:
        return Multicast(self._channel, encode(message))

    def timer_set(self, timer: Any, at: Instant) -> TimerSet:
        return TimerSet(self._channel, type(timer).__name__, _plain(timer), at)

    def emitted(self, fact: Any) -> Emitted:
        return Emitted(self._channel, type(fact).__name__, _plain(fact))

    def persisted(self, record: Any) -> Persisted:
        return Persisted(self._channel, type(record).__name__, _plain(record))


# For people.


def failure_text(error: BaseException) -> str:
    """Return what machines raised, as a recording keeps it."""
    return f"{type(error).__name__}: {error}"[:TEXT_MAX]


def effect_text(effect: Effect | None) -> str:
    """Return an effect in words; no effect is an empty text."""
    if effect is None:
        return ""
    match effect:
        case Sent(_, to, message):
            what = f"send {to} {_shown(message)}"
        case Multicast(_, message):
            what = f"multicast {_shown(message)}"
        case TimerSet(_, kind, timer, at):
            what = f"set timer {kind}({_shown(timer)}) at {at}"
        case Emitted(_, kind, fact):
            what = f"emit {kind}({_shown(fact)})"
        case Persisted(_, kind, record):
            what = f"persist {kind}({_shown(record)})"
    text = f"{channel_of(effect)}: {what}"
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"


def channel_of(effect: Effect) -> str:
    """Return the whole name of the channel whose machine had that effect."""
    return _LONG.get(effect.channel, effect.channel)


def _shown(data: bytes) -> str:
    """Return msgpack as text; a Struct is a map of its fields, or an array."""
    try:
        found = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return repr(data)
    if isinstance(found, dict):
        return ", ".join(f"{field}={value!r}" for field, value in found.items())
    return repr(found)
