"""Finds which links carry messages: in both directions, and to the same incarnation of the neighbour as before.

A link is up while greetings of its other end arrive and say that it hears this node; so a link that carries one way
only is down at both ends.  A neighbour that restarts within `silence` is reported as down, then up: it has forgotten
everything.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Struct

from doyen.core.clock import Instant, ms
from doyen.core.config import Config, Doc, Period, need
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.core.link import LinkChanged
from doyen.core.machine import Hears
from doyen.core.order import order


class HelloConfig(Config, frozen=True, kw_only=True):
    """The time between greetings, and when a link counts as down."""

    interval: Annotated[Period, Doc("The time between greetings. Short: traffic. Long: slow to notice.")] = ms(100)
    silence: Annotated[Period, Doc("A link without greetings for this time is down; above 2·interval.")] = ms(350)

    def check(self) -> None:
        need(self.interval < self.silence, "silence", "must be more than interval")


class Greeting(Struct, frozen=True, gc=False, array_like=True, tag="H"):
    """Says that the sender is there, and whether it hears the receiver."""

    incarnation: int  # The sender's.
    hears: int | None  # The incarnation of the receiver that the sender hears; None: it hears none.


class GreetingDue(Struct, frozen=True, gc=False):
    """Silent neighbours are dropped, and all are greeted."""


class _Heard(Struct):
    incarnation: int
    at: Instant
    up: bool = False


class Hello:
    """Greets the neighbours, and turns their greetings into `LinkChanged`."""

    __slots__ = ("_heard", "_out", "config", "incarnation", "me", "neighbours")
    MESSAGES: ClassVar[Any] = Greeting
    HEARS: ClassVar[Hears] = {}

    def __init__(
        self,
        me: NodeId,
        config: HelloConfig,
        out: Out,
        *,
        neighbours: Mapping[NodeId, Address | None],  # By name, the address; None: the network knows the name.
        incarnation: int,
    ) -> None:
        self.me, self.config, self._out, self.incarnation = me, config, out, incarnation
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
            self._out.send(address or node, Greeting(self.incarnation, found.incarnation if found else None))
        self._out.set_timer(GreetingDue(), now + self.config.interval)

    def on_message(self, sender: NodeId, message: Greeting, now: Instant) -> None:
        if sender not in self.neighbours:
            return
        found = self._heard.get(sender)
        if found is not None and (
            found.incarnation != message.incarnation or (found.up and message.hears != self.incarnation)
        ):
            self._lose(sender)
            found = None
        if found is None:
            found = self._heard[sender] = _Heard(message.incarnation, now)
        found.at = now
        if message.hears == self.incarnation and not found.up:
            found.up = True
            self._out.emit(LinkChanged(sender, True))

    def _lose(self, node: NodeId) -> None:
        if self._heard.pop(node).up:
            self._out.emit(LinkChanged(node, False))
