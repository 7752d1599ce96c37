"""Probes one member per period: a ping, helpers if it stays unanswered, a verdict at the end.  [SWIM §3.1, §4.3]

The node helps others, too: it pings for them, and says whether the target has answered (`HelperAck`, `Nack`), so that
they can distinguish a silent target from a deaf self.  [Lifeguard §IV-A]
"""

from collections import OrderedDict
from collections.abc import Callable, Collection
from random import Random
from typing import Final, Protocol

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.dissemination import Post
from doyen.membership.swim.health import LocalHealth
from doyen.membership.swim.messages import (
    Ack,
    HelperAck,
    HelpersAreAsked,
    Nack,
    PeriodBegins,
    Ping,
    PingRequest,
    RelayFails,
    VerdictIsDue,
    host_and_port,
)
from doyen.membership.swim.patience import Patience
from doyen.membership.swim.roster import Roster
from doyen.membership.swim.roundtrip import RoundTrips

RELAYS_MAX: Final = 256  # Requests of others under way; the oldest is forgotten first.


class Targets(Protocol):
    """The order in which members are probed: SWIM takes turns, Medley prefers near members."""

    def add(self, node: NodeId) -> None: ...

    def remove(self, node: NodeId) -> None: ...

    def next(self) -> NodeId | None: ...

    def on_pinged(self, now: Instant) -> int:
        """Return for how many milliseconds nobody had pinged this node, now that somebody does; 0: do not tell."""

    def on_waited(self, node: NodeId, waited_ms: int) -> None:
        """Take note of how long that member had not been pinged, as its ack says."""

    def hurry(self, node: NodeId) -> None:
        """Ping that member soon: it asks for it."""


class RoundRobin:
    """[SWIM §4.3] Takes each member once per round, in an order that is shuffled anew; newcomers are put in at random.

    At most 2N − 1 periods lie between two probes of one member, so detection is time-bounded.
    """

    __slots__ = ("_at", "_gone", "_order", "_rng")

    def __init__(self, members: list[NodeId], rng: Random) -> None:
        self._order, self._at, self._rng = members, len(members), rng
        self._gone: set[NodeId] = set()  # Still in the order, though no longer in the group.

    def add(self, node: NodeId) -> None:
        if node in self._gone:
            self._gone.discard(node)
            return
        place = int(self._rng.random() * (len(self._order) + 1))
        self._order.insert(place, node)
        if place < self._at:
            self._at += 1

    def remove(self, node: NodeId) -> None:
        self._gone.add(node)

    def next(self) -> NodeId | None:
        while True:
            if self._at >= len(self._order):
                if self._gone:
                    self._order = [node for node in self._order if node not in self._gone]
                    self._gone.clear()
                if not self._order:
                    return None
                self._rng.shuffle(self._order)
                self._at = 0
            node = self._order[self._at]
            self._at += 1
            if node not in self._gone:
                return node

    def on_pinged(self, now: Instant) -> int:
        return 0

    def on_waited(self, node: NodeId, waited_ms: int) -> None:
        """Do nothing: everybody has its turn."""

    def hurry(self, node: NodeId) -> None:
        """Do nothing: everybody has its turn."""


class Probe(Struct, gc=False):
    """One probe that is under way."""

    target: NodeId
    sent_at: Instant  # When its ping left.
    due_at: Instant  # When it is judged.
    acked: bool = False
    asked: tuple[NodeId, ...] = ()  # Its helpers,
    nacked: tuple[NodeId, ...] = ()  # and those of them that said no.


class Prober:
    """The probe of the present period, probes outside of it, and those that this node makes for others."""

    def __init__(
        self,
        config: SwimConfig,
        roster: Roster,
        targets: Targets,
        health: LocalHealth,
        post: Post,
        out: Out,
        rng: Random,
        on_silent: Callable[[NodeId, Instant, Collection[NodeId]], None],  # The last: helpers that found it silent.
    ) -> None:
        self._config, self._roster, self._targets, self._health = config, roster, targets, health
        self._post, self._out, self._rng, self._on_silent = post, out, rng, on_silent
        self._patience = Patience(config)
        self.trips = RoundTrips()
        self._number = 0  # That of the last ping, its own or for others.
        self._period_no = 0  # The number of the present period's probe.
        self._due_at: Instant = 0  # When the present period ends.
        self._probes: dict[int, Probe] = {}  # Those that were not judged yet, by number.
        self._relays: OrderedDict[int, tuple[NodeId, int, NodeId]] = OrderedDict()  # → (asker, probe_no, target).

    # Periods.

    def start(self, now: Instant) -> None:
        """Deviation: the first period begins after a random part of one, so that a group does not ping in step."""
        self._due_at = now + int(self._rng.random() * self._config.period)
        self._out.set_timer(PeriodBegins(0), self._due_at)

    def on_period(self, timer: PeriodBegins, now: Instant) -> None:
        if timer.probe_no != self._period_no:
            return
        self._health.was_late = False
        self._health.note_lateness(now - self._due_at)
        self._judge(timer.probe_no, now)
        self._number = self._period_no = self._number + 1
        self._due_at = now + self._health.scaled(self._config.period)
        target = self._targets.next()
        if target is not None:
            self._begin(target, self._due_at, now)
        self._out.set_timer(PeriodBegins(self._period_no), self._due_at)

    def probe(self, target: NodeId, lasting: Duration, now: Instant) -> None:
        """Probe a member outside of periods, for that time."""
        self._number += 1
        due_at = now + self._health.scaled(lasting)
        self._out.set_timer(VerdictIsDue(self._number), due_at)
        self._begin(target, due_at, now)

    def _begin(self, target: NodeId, due_at: Instant, now: Instant) -> None:
        """Begin the probe of the last number: send its ping, and ask helpers in time."""
        health, config, out, number = self._health, self._config, self._out, self._number
        self._probes[number] = Probe(target, now, due_at)
        self._post.send(target, Ping, number, target)
        patience: Duration | None = config.ack_timeout
        if config.lifeguard:
            self._patience.note_ping(number, target, now)
            patience = self._patience.with_(target)
        if patience is not None:
            out.set_timer(HelpersAreAsked(number), now + health.scaled(patience))

    def on_verdict(self, timer: VerdictIsDue, now: Instant) -> None:
        self._judge(timer.probe_no, now)

    def _judge(self, number: int, now: Instant) -> None:
        """[SWIM §3.1] Suspect the target if no ack came in time, direct or indirect."""
        probe = self._probes.pop(number, None)
        if probe is None:
            return
        if probe.acked:
            self._health.improve()
            return
        if self._config.lifeguard:
            if now - probe.due_at > self._config.ack_timeout:
                return  # This node slept itself, so the silence shows nothing.
            self._health.worsen(len(probe.asked) - len(probe.nacked) if probe.asked else 1)
        self._on_silent(probe.target, now, probe.nacked if self._config.nack_confirms else ())

    def ask_helpers(self, timer: HelpersAreAsked, now: Instant) -> None:
        probe = self._probes.get(timer.probe_no)
        if probe is None or probe.acked:
            return
        target = probe.target
        helpers = self._roster.random_present(self._rng, self._config.helper_count, frozenset((target,)))
        probe.asked = tuple(helpers)
        if helpers:
            member = self._roster.view.members.get(target)
            host, port = host_and_port(None if member is None else member.address)
            for helper in helpers:
                self._post.send(helper, PingRequest, timer.probe_no, target, host, port, self._config.lifeguard)

    def ping(self, target: NodeId) -> None:
        """Ping a member outside the rounds: no verdict depends on it, only its answer counts."""
        self._number += 1
        self._post.send(target, Ping, self._number, target)

    # Answers.

    def on_ack(self, sender: NodeId, ack: Ack, now: Instant) -> None:
        if self._config.lifeguard:
            self._patience.note_ack(ack.ping_no, sender, now)
        probe = self._probes.get(ack.ping_no)
        if probe is not None:
            if sender == probe.target:
                probe.acked = True
                news = self.trips.note(sender, now - probe.sent_at)
                if news is not None:
                    self._out.emit(news)
        elif ack.ping_no in self._relays:
            asker, probe_no, target = self._relays[ack.ping_no]
            if sender == target:
                del self._relays[ack.ping_no]
                self._post.reply(asker, HelperAck, probe_no)
        # Any other ack is late and says nothing about this probe.

    def on_helper_ack(self, sender: NodeId, message: HelperAck) -> None:
        probe = self._probes.get(message.probe_no)
        if probe is not None and sender in probe.asked:
            probe.acked = True

    def on_nack(self, sender: NodeId, message: Nack) -> None:
        probe = self._probes.get(message.probe_no)
        if probe is not None and sender in probe.asked and sender not in probe.nacked:
            probe.nacked += (sender,)

    # For others.

    def on_request(self, sender: NodeId, message: PingRequest, now: Instant) -> None:
        self._number += 1
        relays = self._relays
        if self._config.lifeguard:
            self._patience.note_ping(self._number, message.target, now)
        relays[self._number] = (sender, message.probe_no, message.target)
        if len(relays) > RELAYS_MAX:
            relays.popitem(last=False)
        if message.target in self._roster.view or not message.host:
            self._post.send(message.target, Ping, self._number, message.target)
        else:
            self._post.send_to(Address(message.host, message.port), Ping, self._number, message.target)
        if message.wants_nack:
            self._out.set_timer(RelayFails(self._number), now + self._config.ack_timeout * 4 // 5)

    def on_relay_fails(self, timer: RelayFails) -> None:
        """Answer the asker that the target is silent; a late ack is still passed on."""
        if timer.ping_no in self._relays:
            asker, probe_no, _ = self._relays[timer.ping_no]
            self._post.reply(asker, Nack, probe_no)
