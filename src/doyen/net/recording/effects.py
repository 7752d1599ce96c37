"""Effects as data, described alike while a node is recorded and while it is replayed; and as text, for people."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from doyen.core.clock import NEVER, Instant
from doyen.core.codec import SHORT
from doyen.core.host import Port, Verbs, World
from doyen.core.ids import Address, NodeId
from doyen.net.recording.format import Effect, encode

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


class Numbered(Struct, frozen=True, gc=False):
    """A timer on its way through the world, with the number under which it is recorded."""

    number: int
    timer: Any


class DescribingWorld:
    """The world of a host whose effects are kept: it describes each effect, numbers each timer, and passes both on."""

    def __init__(self, onward: World) -> None:
        self.effects: list[Effect] | None = None  # Those of the input under way; None: nobody wants them.
        self.timers: dict[int, tuple[Instant, str, Any]] = {}  # (at, channel, timer) of those that have not fired.
        self.next_timer = 0
        self._onward = onward

    def verbs(self, port: Port) -> Verbs:
        onward = self._onward.verbs(port)
        channel = SHORT.get(port.channel, port.channel)

        def send(to: NodeId | Address, message: Any) -> None:
            if self.effects is not None:
                self.effects.append(Effect("send", channel, encode(message), str(to)))
            onward.send(to, message)

        def multicast(message: Any) -> None:
            if self.effects is not None:
                self.effects.append(Effect("multicast", channel, encode(message)))
            onward.multicast(message)

        def set_timer(timer: Any, at: Instant) -> None:
            if self.effects is not None:
                self.effects.append(Effect("set timer", channel, _plain(timer), type(timer).__name__, at))
            if at < NEVER:
                number = self.next_timer
                self.next_timer += 1
                self.timers[number] = (at, port.channel, timer)
                onward.set_timer(Numbered(number, timer), at)

        return Verbs(send, multicast, set_timer)

    def persist(self, port: Port, record: Any) -> None:
        if self.effects is not None:
            channel = SHORT.get(port.channel, port.channel)
            self.effects.append(Effect("persist", channel, _plain(record), type(record).__name__))
        self._onward.persist(port, record)

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        if self.effects is not None:
            channel = SHORT.get(port.channel, port.channel)
            self.effects.append(Effect("emit", channel, _plain(fact), type(fact).__name__))
        self._onward.observe(port, fact, now)


# For people.


def failure_text(error: BaseException) -> str:
    """Return what machines raised, as a recording keeps it."""
    return f"{type(error).__name__}: {error}"[:TEXT_MAX]


def effect_text(effect: Effect | None) -> str:
    """Return an effect in words; no effect is an empty text."""
    if effect is None:
        return ""
    shown = _shown(effect.data)
    match effect.verb:
        case "send" | "multicast":
            what = " ".join(filter(None, (effect.what, shown)))
        case "set timer":
            what = f"{effect.what}({shown}) at {effect.at}"
        case _:
            what = f"{effect.what}({shown})"
    text = f"{channel_of(effect)}: {effect.verb} {what}"
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
