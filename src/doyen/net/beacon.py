"""A machine that calls out to all where its node listens, so that members find each other, and know who is there.

Where nothing else carries addresses (no membership, no multicast), it introduces members to each other: a call names
others that the caller has heard, and they are greeted.  So one seed is enough there, too.
"""

from collections import OrderedDict
from typing import Any, ClassVar, Final

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.core.machine import Hears, hears
from doyen.core.seeds import OwnAddressChanged, PeerHeard, SeedsChanged
from doyen.net.discovery import HEARD_MAX, DiscoveryConfig

CHANNEL: Final = "discovery"
RARER: Final = 16  # How much longer each wait is where nobody needs the calls in the long run.
OTHERS_MAX: Final = 16  # Members that one call names.
GREETINGS: Final = 6  # How often a member is greeted that others named and that does not answer.


class Here(Struct, frozen=True, gc=False, array_like=True, tag="H"):
    """The sender listens there, and has heard these others."""

    host: str
    port: int
    wants_answer: bool = False
    others: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for host, port in ((self.host, self.port), *self.others):
            if len(host) > 64 or not 0 < port < 65536:
                raise ValueError(f"{host[:64]}:{port} is no address")
        if len(self.others) > OTHERS_MAX:
            raise ValueError(f"{len(self.others)} others are too many")


class CallDue(Struct, frozen=True, gc=False):
    wait: Duration


class Beacon:
    """Calls out where its node listens, often at first; a node that hears a newcomer answers that one alone."""

    MESSAGES: ClassVar[Any] = Here

    def __init__(
        self,
        node: NodeId,
        address: Address,
        config: DiscoveryConfig,
        out: Out,
        *,
        wants_answers: bool = True,
        introduces: bool = False,
        expect: int = 0,  # It asks again and again until this many members, its own node included, answer at once.
    ) -> None:
        self.node, self.config = node, config
        self._wants_answers, self._introduces, self._expect = wants_answers, introduces, expect
        self._address, self._out = address, out
        self._heard = False  # Whether anybody has called or answered.
        self._known: OrderedDict[NodeId, Address] = OrderedDict()  # Who has called, the latest last.
        self._called_at: dict[NodeId, Instant] = {}
        self._ungreeted: dict[Address, int] = {}  # Others whom somebody named: how often each is still greeted.

    def start(self, now: Instant) -> None:
        self._call(now, self.config.beacon_first)

    def on_message(self, sender: NodeId, message: Here, now: Instant) -> None:
        there = Address(message.host, message.port)
        if sender == self.node or there == self._address:
            return
        self._heard = True
        is_new = self._known.get(sender) != there
        self._remember(sender, there, now)
        self._out.emit(PeerHeard(there))
        if message.wants_answer or (is_new and self._introduces):
            self._out.send(sender, self._here(there, wants_answer=False))
        if self._introduces:
            for host, port in message.others:
                self._meet(Address(host, port))

    def on_timer(self, timer: CallDue, now: Instant) -> None:
        for address, left in list(self._ungreeted.items()):
            self._greet(address, left)
        if self._expects(now):
            self._call(now, self.config.answers_within // 3)
            return
        if self._ungreeted:  # Who named them may be gone before the next call.
            self._out.set_timer(CallDue(timer.wait), now + self.config.beacon_first)
            return
        if self._introduces and not self._heard:  # Nobody else will say who is there.
            self._call(now, timer.wait)
            return
        # Members that come later call, and are answered.
        called_enough = self._heard and self.config.beacon_last == FOREVER
        self._call(now, min(timer.wait * (RARER if called_enough else 2), self.config.beacon_last))

    def on_own_address_changed(self, fact: OwnAddressChanged, now: Instant) -> None:
        self._address = fact.address
        self._out.multicast(self._here(None, wants_answer=False))

    def on_seeds_changed(self, fact: SeedsChanged, now: Instant) -> None:
        """Call again: the first call went nowhere if a seed's name was still being looked up."""
        if self._introduces and not self._heard:
            self._out.multicast(self._here(None, wants_answer=self._wants_answers))

    HEARS: ClassVar[Hears] = hears(OwnAddressChanged, on_own_address_changed) | hears(SeedsChanged, on_seeds_changed)

    def _call(self, now: Instant, wait: Duration) -> None:
        asks = self._expect > 1 or (self._wants_answers and not self._heard)
        self._out.multicast(self._here(None, wants_answer=asks))
        self._out.set_timer(CallDue(wait), now + wait)

    def _here(self, to: Address | None, *, wants_answer: bool) -> Here:
        known = [other for other in self._known.values() if other != to] if self._introduces else []
        others = tuple((other.host, other.port) for other in known[-OTHERS_MAX:])
        return Here(self._address.host, self._address.port, wants_answer, others)

    def _expects(self, now: Instant) -> bool:
        """Return whether fewer members than expected have called lately; once enough have, nobody is asked again."""
        since = now - self.config.answers_within
        if 1 + sum(at >= since for at in self._called_at.values()) >= self._expect:
            self._expect = 0
        return self._expect > 1

    def _remember(self, sender: NodeId, there: Address, now: Instant) -> None:
        self._ungreeted.pop(there, None)
        self._known[sender], self._called_at[sender] = there, now
        self._known.move_to_end(sender)
        if len(self._known) > HEARD_MAX:
            self._called_at.pop(self._known.popitem(last=False)[0])

    def _meet(self, address: Address) -> None:
        """Greet a member that somebody else named; it counts as heard once it answers itself."""
        known = address == self._address or address in self._ungreeted or address in self._known.values()
        if not known and len(self._ungreeted) < HEARD_MAX:
            self._greet(address, GREETINGS)

    def _greet(self, address: Address, left: int) -> None:
        if left > 0:
            self._ungreeted[address] = left - 1
            self._out.send(address, self._here(address, wants_answer=True))
        else:
            del self._ungreeted[address]
