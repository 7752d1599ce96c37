"""Greets the neighbours, and tells which links carry: in both directions, and to the same life as before.

A link is up while its other end is heard, and says that it hears us; so one that carries one way only is down at both
ends.  A neighbour that restarts in less than our patience is told of as down, then up: it has forgotten everything.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, Instant, ms
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.core.link import LinkChanged
from doyen.core.order import order
from doyen.errors import ConfigError


class HelloConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    interval: Duration = ms(100)  #: Between greetings.  Short: traffic.  Long: slow to notice.
    silence: Duration = ms(350)  #: Unheard for so long, a link is down.  Below 2·interval one loss is enough for that.

    def __post_init__(self) -> None:
        if not 0 < self.interval < self.silence < FOREVER:
            raise ConfigError(f"need 0 < interval < silence, both finite, got {self}", field="silence")


class Greeting(Struct, frozen=True, gc=False, array_like=True, tag="H"):
    life: int  # The sender's incarnation.
    hears: int | None  # The life of the receiver that it has heard of late.


class GreetingDue(Struct, frozen=True, gc=False): ...


class _Heard(Struct):
    life: int
    at: Instant
    up: bool = False


class Hello:
    """Turns greetings into `LinkChanged`."""

    __slots__ = ("_heard", "_out", "config", "life", "me", "neighbours")
    MESSAGES: ClassVar[Any] = Greeting

    def __init__(
        self,
        me: NodeId,
        config: HelloConfig,
        out: Out,
        *,
        neighbours: Mapping[NodeId, Address | None],  # Where they are; None: known by their name.
        life: int,
    ) -> None:
        self.me, self.config, self._out, self.life = me, config, out, life
        self.neighbours = dict(neighbours)
        self._heard: dict[NodeId, _Heard] = {}

    @property
    def up(self) -> list[NodeId]:
        return sorted((node for node, heard in self._heard.items() if heard.up), key=order)

    def start(self, now: Instant) -> None:
        self.on_timer(GreetingDue(), now)

    def on_timer(self, timer: GreetingDue, now: Instant) -> None:
        for node, heard in list(self._heard.items()):
            if now - heard.at >= self.config.silence:
                self._lose(node)
        for node, address in self.neighbours.items():
            found = self._heard.get(node)
            self._out.send(address or node, Greeting(self.life, found.life if found else None))
        self._out.set_timer(GreetingDue(), now + self.config.interval)

    def on_message(self, sender: NodeId, message: Greeting, now: Instant) -> None:
        if sender not in self.neighbours:
            return
        found = self._heard.get(sender)
        if found is not None and (found.life != message.life or (found.up and message.hears != self.life)):
            self._lose(sender)
            found = None
        if found is None:
            found = self._heard[sender] = _Heard(message.life, now)
        found.at = now
        if message.hears == self.life and not found.up:
            found.up = True
            self._out.emit(LinkChanged(sender, True))

    def _lose(self, node: NodeId) -> None:
        if self._heard.pop(node).up:
            self._out.emit(LinkChanged(node, False))
