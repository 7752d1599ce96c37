"""A machine that calls out to all where its node listens, so that members find each other, and know who is there."""

from typing import Any, ClassVar, Final

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.core.machine import Hears
from doyen.core.seeds import PeerHeard
from doyen.net.discovery import DiscoveryConfig

CHANNEL: Final = "discovery"
RARER: Final = 16  # How much longer each wait is where nobody needs the calls in the long run.


class Here(Struct, frozen=True, gc=False, array_like=True, tag="H"):
    """The sender listens there."""

    host: str
    port: int
    wants_answer: bool = False

    def __post_init__(self) -> None:
        if len(self.host) > 64 or not 0 < self.port < 65536:
            raise ValueError(f"{self.host[:64]}:{self.port} is no address")


class CallDue(Struct, frozen=True, gc=False):
    wait: Duration


class Beacon:
    """Calls out where its node listens, often at first; a node that hears a newcomer answers that one alone."""

    MESSAGES: ClassVar[Any] = Here
    HEARS: ClassVar[Hears] = {}

    def __init__(
        self, node: NodeId, address: Address, config: DiscoveryConfig, out: Out, *, wants_answers: bool = True
    ) -> None:
        self.node, self.config = node, config
        self._wants_answers = wants_answers
        self._address, self._out = address, out
        self._heard = False  # Whether anybody has called or answered.

    def start(self, now: Instant) -> None:
        self._call(now, self.config.beacon_first)

    def on_message(self, sender: NodeId, message: Here, now: Instant) -> None:
        there = Address(message.host, message.port)
        if sender == self.node or there == self._address:
            return
        self._heard = True
        self._out.emit(PeerHeard(there))
        if message.wants_answer:
            self._out.send(sender, self._here(wants_answer=False))

    def on_timer(self, timer: CallDue, now: Instant) -> None:
        called_enough = (
            self._heard and self.config.beacon_last == FOREVER
        )  # Whoever comes later calls, and is answered.
        self._call(now, min(timer.wait * (RARER if called_enough else 2), self.config.beacon_last))

    def _call(self, now: Instant, wait: Duration) -> None:
        self._out.multicast(self._here(wants_answer=self._wants_answers and not self._heard))
        self._out.set_timer(CallDue(wait), now + wait)

    def _here(self, *, wants_answer: bool) -> Here:
        return Here(self._address.host, self._address.port, wants_answer)
