"""Eventually reliable multicast: a copy to each member, again until each has acknowledged it.  [CTOL §III, §IV]

It is a component for machines that notify all members (decision 23): the machine receives the messages, the component
keeps track of the members that owe an acknowledgement.  One message is published at a time; a newer one replaces it.

`GossipMulticast` is the other way: a few members at a time, by every member that knows, without acknowledgements.

A member that is present gets copies forever, ever more slowly; one that has left gets none; one that seems to have
failed gets a few, because membership may be wrong.  A member that turns up later is notified then.
"""

from collections.abc import Callable, Iterable
from math import ceil, log2
from random import Random
from typing import Any, Final, Literal

from msgspec import Struct

from doyen.core.clock import Duration, Instant, seconds
from doyen.core.effects import Out
from doyen.core.ids import NodeId

EVEN_ROUNDS: Final = 12  # Resends at the same pace; after them each waits half as long again as the one before.
RESEND_MAX: Final[Duration] = seconds(10)
ABSENT_ROUNDS: Final = 20  # Copies that a member gets which seems to have failed.

EVEN_MORE: Final = 4  # Gossip goes on evenly for log2 N rounds and as many more.
GOSSIP_ROUNDS: Final = 40

Presence = Literal["present", "absent", "left"]


class CopiesAreSent(Struct, frozen=True, gc=False):
    """Members that have not acknowledged this number get another copy."""

    number: int
    round_no: int


class ReliableMulticast:
    """The message that is published, the members that were notified, and those that owe an acknowledgement."""

    __slots__ = (
        "_interval", "_message", "_out", "_presence", "_running", "_told", "_waiting", "even_rounds", "number",
        "round_count",
    )  # fmt: skip

    def __init__(self, out: Out, interval: Duration, presence: Callable[[NodeId], Presence]) -> None:
        self._out, self._interval, self._presence = out, interval, presence
        self.even_rounds = EVEN_ROUNDS  # A study may have more of them.
        self.number = 0  # Of the message being published; acks carry it.
        self.round_count = 0  # How often that was repeated so far: a measure of loss.
        self._message: Any = None
        self._told: set[NodeId] = set()
        self._waiting: dict[NodeId, int] = {}  # The members that owe an ack, and how many copies each got.
        self._running = False  # Whether a resend is due.

    def publish(self, message: Callable[[int], Any], to: Iterable[NodeId], now: Instant) -> None:
        """Send a new message to all; `message` gets the number that acks must carry."""
        self.number += 1
        self.round_count = 0
        self._message = message(self.number)
        self._told, self._waiting, self._running = set(), {}, False
        self._tell(to, now)

    def amend(self, message: Callable[[int], Any], to: Iterable[NodeId], now: Instant) -> None:
        """Replace the message for members that have not acknowledged it yet; of those that have, notify only `to`."""
        self._message = message(self.number)
        self._tell(to, now)

    def include(self, node: NodeId, now: Instant) -> None:
        """Notify a member that has turned up since, or is back."""
        if self._message is not None and node not in self._told:
            self._tell((node,), now)

    def forget(self, node: NodeId) -> None:
        """Forget a member that went away, so that it is notified again should it return."""
        if node not in self._waiting:
            self._told.discard(node)

    def stop(self) -> None:
        """Stop: the message is no longer true."""
        self._message, self._running = None, False
        self._told, self._waiting = set(), {}

    def on_ack(self, sender: NodeId, number: int) -> None:
        if number == self.number:
            self._waiting.pop(sender, None)

    def on_timer(self, timer: CopiesAreSent, now: Instant) -> None:
        if timer.number != self.number or self._message is None:
            return
        self.round_count = timer.round_no
        for node, times in list(self._waiting.items()):
            presence = self._presence(node)
            if presence == "left" or (presence == "absent" and times >= ABSENT_ROUNDS):
                del self._waiting[node]
                self._told.discard(node)
            else:
                self._waiting[node] = times + 1
                self._out.send(node, self._message)
        self._running = bool(self._waiting)
        if self._running:
            wait = int(self._interval * 1.5 ** max(0, min(timer.round_no - self.even_rounds, 40)))
            self._out.set_timer(CopiesAreSent(self.number, timer.round_no + 1), now + min(wait, RESEND_MAX))

    @property
    def waiting(self) -> frozenset[NodeId]:
        """Return the members that have not acknowledged the message yet."""
        return frozenset(self._waiting)

    def _tell(self, nodes: Iterable[NodeId], now: Instant) -> None:
        for node in nodes:
            self._told.add(node)
            self._waiting[node] = 1
            self._out.send(node, self._message)
        if self._waiting and not self._running:
            self._running = True
            self._out.set_timer(CopiesAreSent(self.number, 1), now + self._interval)


class GossipMulticast:
    """Notifies `fan_out` members drawn at random, round after round; every member that hears it does the same.

    Nobody acknowledges, so nobody is known to have heard; rounds become rarer once all should have, and end.
    """

    __slots__ = ("_even", "_fan_out", "_interval", "_message", "_out", "_rng", "_to", "number", "round_count")

    def __init__(self, out: Out, rng: Random, interval: Duration, fan_out: int) -> None:
        self._out, self._rng, self._interval, self._fan_out = out, rng, interval, fan_out
        self.number = self.round_count = self._even = 0
        self._message: Any = None
        self._to: list[NodeId] = []

    def publish(self, message: Callable[[int], Any], to: Iterable[NodeId], now: Instant) -> None:
        """Begin the rounds of a new message; `message` gets the number 0: no ack is wanted."""
        self.number += 1
        self._message, self._to = message(0), list(to)
        self._even = ceil(log2(len(self._to) + 1)) + EVEN_MORE
        self._round(0, now)

    def amend(self, message: Callable[[int], Any], to: Iterable[NodeId], now: Instant) -> None:
        """Begin again from the first round: everybody must hear this, too."""
        self.publish(message, self._to, now)

    def include(self, node: NodeId, now: Instant) -> None:
        if self._message is not None and node not in self._to:
            self._to.append(node)
            self._out.send(node, self._message)

    def forget(self, node: NodeId) -> None:
        if node in self._to:
            self._to.remove(node)

    def stop(self) -> None:
        self._message = None

    def on_ack(self, sender: NodeId, number: int) -> None:
        pass

    def on_timer(self, timer: CopiesAreSent, now: Instant) -> None:
        if timer.number == self.number and self._message is not None:
            self._round(timer.round_no, now)

    @property
    def waiting(self) -> frozenset[NodeId]:
        return frozenset()

    def _round(self, round_no: int, now: Instant) -> None:
        self.round_count = round_no
        for node in self._rng.sample(self._to, min(self._fan_out, len(self._to))):
            self._out.send(node, self._message)
        if self._to and round_no < GOSSIP_ROUNDS:
            wait = int(self._interval * 1.5 ** max(0, round_no - self._even))
            self._out.set_timer(CopiesAreSent(self.number, round_no + 1), now + min(wait, RESEND_MAX))
