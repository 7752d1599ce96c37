"""Runs one node's machines on real sockets and the machine's clock.

The driver is the world of a `Host`: it turns effects into datagrams, timers and files, and datagrams, due times
and finished writes back into inputs.  One thread takes one step at a time.  It also counts the datagrams that were
refused, by reason.  Where members are heard is in an `AddressBook`; two processes of one name are for `Namesakes`, and
members that run something else than this node for `Alike`.

Time is CLOCK_BOOTTIME, which goes on while the machine sleeps: a node that slept notices on waking.
"""

import asyncio
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Protocol

from msgspec import Raw

from doyen.core.clock import FOREVER, NEVER, Duration, Instant
from doyen.core.codec import Codec, Envelope, Header
from doyen.core.host import Host, Port, Verbs, World
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.plain import plain
from doyen.core.view import ViewChanged
from doyen.errors import LocalProtocolError, RemoteProtocolError, TransportError
from doyen.net.address_book import AddressBook
from doyen.net.alike import CHANNEL as ALIKE
from doyen.net.alike import Alike, MemberDiffers, Runs
from doyen.net.echoes import Echoes
from doyen.net.gate import Gate
from doyen.net.keys import UnknownKey
from doyen.net.namesakes import CHANNEL as NAMESAKE
from doyen.net.namesakes import Arrival, Judgement, Namesake, Namesakes
from doyen.net.sealed import Seal
from doyen.net.storage import Storage
from doyen.net.tallies import Tallies
from doyen.net.udp import UdpTransport

log = logging.getLogger("doyen")


def plain_record(record: logging.LogRecord) -> bool:
    """Make what a record says one line that a terminal can show: it may name what others chose."""
    record.msg, record.args = plain(record.getMessage()), ()
    return True


log.addFilter(plain_record)

ALARM_MAX_S = 1.0  # The longest that a timer can be late after the machine slept.
LOG_EVERY_S = 10.0  # The least time between two complaints about one reason in the log.

Observer = Callable[[str, Any, Instant], None]  # (channel, fact, now)
Answering = Callable[[NodeId, bytes, Instant], Iterable[Any]]  # (sender, its message as bytes, now) → the answers


def boot_time_ns() -> Instant:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Tap(Protocol):
    """Stands between a driver and its machines, and takes every input."""

    def start(self, now: Instant) -> None: ...
    def start_late(self, port: Port, now: Instant) -> None: ...
    def on_datagram(self, envelope: Envelope, data: bytes, now: Instant) -> None: ...
    def on_message(self, channel: str, sender: NodeId, message: Any, now: Instant) -> None: ...
    def on_timer(self, port: Port, timer: Any, now: Instant) -> None: ...
    def on_durable(self, port: Port, now: Instant) -> None: ...
    def tell(self, fact: Any, now: Instant, *, channel: str | None = None) -> None: ...


class Driver:
    """One node in the real world."""

    def __init__(
        self,
        node: NodeId,
        incarnation: Incarnation,
        codec: Codec,
        transport: UdpTransport,
        *,
        peers: Iterable[Address] = (),
        storage: Storage | None = None,
        seal: Seal | None = None,
        asks_for_echoes: bool = False,
        observer: Observer | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        clock: Callable[[], Instant] = boot_time_ns,
    ) -> None:
        self.host = Host(node, self)
        self._tap: Tap | None = None
        self._inputs: Host | Tap = self.host  # Where inputs go.
        self.incarnation, self.codec, self.transport = incarnation, codec, transport
        self.clock, self.storage, self.seal = clock, storage, seal
        if seal is not None:
            seal.node = node
        self._observers = [] if observer is None else [observer]
        self._on_failure = on_failure
        self._closers: list[Callable[[], None]] = []
        self.refused: Counter[str] = Counter()  # Datagrams dropped, by reason.
        self.received_count = 0
        self.tallies = Tallies()
        self.addresses = AddressBook(node, peers)
        self._namesakes = Namesakes(node, incarnation)
        self.may_act: Callable[[str], bool] = lambda election: False  # Whether this node may act in that election.
        self._alike = Alike(Random(incarnation), lambda election: self.may_act(election))
        echoes = None
        if asks_for_echoes:
            rng = Random(f"{node} {incarnation}")
            echoes = Echoes(self.addresses, lambda: self.clock() / 1e9, rng, transport.send)
        self._gate = Gate(transport, seal, echoes, self.refused, datagram_max=codec.datagram_max, clock=clock)
        codec.speak(NAMESAKE, Namesake)
        codec.speak(ALIKE, Runs)
        self._answers: dict[str, Answering] = {}  # By channel: those who answer besides the machines.
        self._timers: list[tuple[Instant, int, Port, Any]] = []
        self._sequence = count()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at: Instant = FOREVER
        self._complained_at: dict[str, float] = {}
        self._running = self._opened = self._closed = False
        self.failure: BaseException | None = None

    # From start to end.

    def add(self, channel: str, build: Callable[[Port], Any], *, follows: Iterable[str] | None = None) -> Any:
        """Add a machine, which speaks the messages that its class declares; on a running node it starts at once."""
        port = self.host.add(channel, build, follows=follows)
        self.codec.speak(channel, port.machine.MESSAGES)
        self.tallies.watch(channel, port.machine)
        if self._running:
            self._step(self._inputs.start_late, port)
        return port.machine

    def interpose(self, tap: Tap, world: World) -> None:
        """Let a tap take all inputs of the machines, and a world all effects, before any machine is added."""
        if self.host.ports:
            raise LocalProtocolError(f"{self.host.node} has machines already: a tap must come before them")
        self._tap = self._inputs = tap
        self.host.world = world

    def watch(self, observer: Observer) -> None:
        """Add an observer, which is notified of every fact."""
        self._observers.append(observer)

    def on_close(self, closer: Callable[[], None]) -> None:
        """Call `closer` once this node falls silent, for whatever reason; at once if it has."""
        if self._closed:
            closer()
        else:
            self._closers.append(closer)

    def declare(self, election: str, words: Mapping[str, str]) -> None:
        """Say what this node runs in an election, which must be alike on all members; the group's own is ""."""
        self._alike.declare(election, words, self.clock())

    def differing(self) -> list[MemberDiffers]:
        """Return the members that run something else than this node."""
        return self._alike.differing(self.clock())

    def ahead(self, election: str, within: Duration) -> tuple[list[MemberDiffers], list[MemberDiffers]]:
        """Return who was heard within that time and runs something else: those that may act, and older ones."""
        return self._alike.ahead(election, self.incarnation, within, self.clock())

    def ask_differing(self, election: str) -> None:
        """Ask members that run something else whether they still do; at a bounded pace, however often it is called."""
        for member, question in list(self._alike.questions(election, self.clock())):
            self.ask(ALIKE, member, question)

    def answer(self, channel: str, answering: Answering) -> None:
        """Let somebody besides the machines answer what comes on that channel; it is not part of a recording."""
        self.codec.speak(channel, Raw)
        self._answers[channel] = answering

    def ask(self, channel: str, to: NodeId, message: Any) -> None:
        """Send a message besides those of the machines, if that member can be reached."""
        address = self.addresses.reach(to)
        if address is not None and self._running:
            self._say(channel, message, to, address)

    def restored(self, channel: str, kind: Any) -> Any:
        """Return what a machine persisted in an earlier incarnation, or None; for its constructor."""
        return None if self.storage is None else self.storage.load(channel, kind)

    async def open(self) -> None:
        """Listen: from here on the transport knows its address.  Datagrams before `start` are dropped."""
        await self.transport.open(self._on_datagram)
        self._opened = True

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self._opened:
            await self.open()
        self._running = True
        if self.seal is None and not ipaddress.ip_address(self.transport.address.host.partition("%")[0]).is_loopback:
            log.warning(
                "%s: no key: packets of group %r are NOT authenticated, anybody who reaches %s can speak in it "
                "(doyen keys new)",
                self.host.node,
                self.codec.group,
                self.transport.address,
            )
        try:
            self._inputs.start(self.clock())
        except BaseException:
            self.close()
            raise
        self._set_alarm()

    def tell(self, fact: Any, *, channel: str | None = None) -> None:
        """Give a fact or a command to the machine on that channel, or to all that hear it."""
        if not self._running:
            raise LocalProtocolError(f"{self.host.node} does not run, so it cannot take {fact}: start it first")
        self._inputs.tell(fact, self.clock(), channel=channel)
        self._set_alarm()

    def close(self) -> None:
        """Fall silent for good; timers and messages of the machines are dropped from here on."""
        self._running, self._closed = False, True
        if self._alarm is not None:
            self._alarm.cancel()
        self._timers.clear()
        self.transport.close()
        if self.storage is not None:
            self.storage.close()
        while self._closers:
            self._closers.pop()()

    @property
    def running(self) -> bool:
        return self._running

    @property
    def is_behind(self) -> bool:
        """Return whether a timer is due that has not fired yet."""
        return bool(self._timers) and self._timers[0][0] <= self.clock()

    # The world of the host.

    def verbs(self, port: Port) -> Verbs:
        return Verbs(partial(self._send, port), partial(self._multicast, port), partial(self._set_timer, port))

    def persist(self, port: Port, record: Any) -> None:
        if self.storage is None:
            raise TransportError(f"channel {port.channel!r} must keep a record, but no state directory is configured")
        data = self.storage.encode(port.channel, record)  # As it is now, whatever becomes of it while the disk is busy.
        written = self.storage.save_soon(port.channel, data)
        written.add_done_callback(partial(self._on_written, port))

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        log.debug("%s/%s %s", self.host.node, port.channel, fact)
        if isinstance(fact, ViewChanged):
            self.addresses.learn(fact)
            if self._gate.in_clear is not None:
                self._gate.in_clear.on_named(filter(None, map(self.addresses.of, fact.changed)))
        self._notify(port.channel, fact, now)

    def _notify(self, channel: str, fact: Any, now: Instant) -> None:
        for observer in self._observers:
            try:
                observer(channel, fact, now)
            except Exception:  # The application's bug, not the protocol's: the node goes on.
                log.exception("%s: the observer failed on %s", self.host.node, fact)

    # Effects.

    def _send(self, port: Port, to: NodeId | Address, message: Any) -> None:
        if to == self.host.node:  # To oneself: at once, and surely, but after this step.
            self._loop.call_soon(self._on_own_message, port.channel, message)
            return
        address = self.addresses.towards(to, self.clock()) if isinstance(to, Address) else self._reach(to)
        data = self._encode(port, message)
        if address is None:
            self.refused["no address"] += 1
        elif data is not None and self._gate.send(data, address, None if isinstance(to, Address) else to):
            self.tallies.on_sent(port.channel, message, self.clock())

    def _reach(self, node: NodeId) -> Address | None:
        """Return where a member is reached, also one of a view that machines act on before it is observed here."""
        found = self.addresses.reach(node)
        if found is None:
            for _, fact in self.host.facts:
                if isinstance(fact, ViewChanged):
                    self.addresses.learn(fact)
            found = self.addresses.reach(node)
        return found

    def for_later(self, channel: str, message: Any, to: Iterable[NodeId]) -> list[tuple[Address, bytes]]:
        """Return a message as datagrams for the members that can be reached, for another process to send."""
        data = self.codec.encode(self.host.node, self.incarnation, channel, message)
        reached = ((self._reach(node), node) for node in to if node != self.host.node)
        return [
            (address, data if self.seal is None else self.seal.seal_for_later(data, node))
            for address, node in reached
            if address is not None
        ]

    def _multicast(self, port: Port, message: Any) -> None:
        data = self._encode(port, message)
        if data is not None:
            self.tallies.on_sent(port.channel, message, self.clock())
            self._gate.send_to_all(data, self.addresses.fan_out())

    def _encode(self, port: Port, message: Any) -> bytes | None:
        try:
            digest = self._alike.carried(port.channel, self.clock())
            return self.codec.encode(self.host.node, self.incarnation, port.channel, message, digest)
        except LocalProtocolError as error:  # Too large to leave: to everybody else that is loss, so say it loudly.
            self.refused["too large"] += 1
            self.complain("too large", str(error), logging.ERROR)
            return None

    def _set_timer(self, port: Port, timer: Any, at: Instant) -> None:
        if at < NEVER:
            heappush(self._timers, (at, next(self._sequence), port, timer))

    # Inputs.

    def _on_datagram(self, data: bytes, source: Address) -> None:
        if self._gate.is_flooded_by(source):
            self.refused["flood"] += 1
            return
        self._gate.begin(source)
        try:
            self._take(data, source)
        finally:
            self._gate.end()

    def _take(self, data: bytes, source: Address) -> None:
        if not self._running:
            return
        if not data:  # It asks the kernel whether anybody is here (leaderlink): no news, and counted as all else.
            self.refused["empty"] += 1
            return
        header: Header | None = None
        came_from = source
        try:
            opened = self._gate.open(data, source)
            if opened is None:
                return
            header, source = self.codec.open(opened[0]), opened[1]
            if header.digest is not None:
                self._compare(header, source)
            envelope = self.codec.read(header)
        except UnknownKey as error:
            self.refused[error.reason] += 1
            self.addresses.could_not_read(source, error.reason, self.clock())
            self.complain(error.reason, f"{self.codec.group}: packets from {source.host} {error.advice}")
            return
        except RemoteProtocolError as error:
            if error.reason == "clear":
                self.addresses.could_not_read(source, error.reason, self.clock())
            self._refuse(error, source, None if header is None else NodeId(header.sender))
            return
        sender, incarnation = envelope.sender, envelope.incarnation
        known = self.addresses.incarnation_of(sender)
        if not self._namesakes.is_settled(sender, incarnation, known):
            came = Arrival(source, self.transport.address, self.clock())
            judged = self._namesakes.judge(sender, incarnation, known, came)
            if not judged.heard:
                self._turn_away(judged, sender, source)
                return
        self.received_count += 1
        self.addresses.heard(sender, incarnation, source, self.clock(), elsewhere=source != came_from)
        self.tallies.on_heard(envelope.channel, sender, envelope.message, self.clock())
        if envelope.channel == NAMESAKE:
            self._turn_away(self._namesakes.on_notice(envelope.message, self.clock()), sender, source)
        elif envelope.channel == ALIKE:
            self._on_runs(envelope, source)
        elif envelope.channel in self._answers:
            self._on_question(envelope, source)
        elif self._tap is None:
            self._step(self.host.on_message, envelope.channel, sender, envelope.message)
        else:
            bare = self.codec.encode(sender, incarnation, envelope.channel, header.message)  # Without the digest.
            self._step(self._tap.on_datagram, envelope, bare)

    def has_namesake(self) -> bool:
        """Return whether an earlier process with this node's name was heard."""
        return self._namesakes.is_doubted(self.clock())

    def _turn_away(self, judged: Judgement, name: NodeId, source: Address) -> None:
        """Refuse a datagram of one of two processes of one name, and do what was judged about them."""
        self.refused[judged.reason] += 1
        if judged.complaint:
            self.complain(judged.reason, judged.complaint)
        if judged.notice is not None:
            self._say(NAMESAKE, judged.notice, name, source)
        if judged.gives_up:
            self._fail(TransportError(judged.complaint))

    def _compare(self, header: Header, source: Address) -> None:
        """Ask a member what it runs, if that is something else, also if its message cannot be read here."""
        sender = NodeId(header.sender)
        if sender != self.host.node:
            life = Incarnation(header.incarnation)
            question = self._alike.on_digest(sender, life, header.channel, header.digest, self.clock())
            if question is not None:
                self._say(ALIKE, question, sender, source)

    def _on_runs(self, envelope: Envelope, source: Address) -> None:
        now, sender = self.clock(), envelope.sender
        found, answer = self._alike.on_runs(sender, envelope.incarnation, envelope.message, now)
        if answer is not None:
            self._say(ALIKE, answer, sender, source)
        if found is not None:
            self._notify(ALIKE, found, now)

    def _on_question(self, envelope: Envelope, source: Address) -> None:
        sender, message = envelope.sender, bytes(envelope.message)
        try:
            for answer in self._answers[envelope.channel](sender, message, self.clock()):
                self._say(envelope.channel, answer, sender, source)
        except RemoteProtocolError as error:
            self._refuse(error, source, sender)

    def _say(self, channel: str, message: Any, to: NodeId, at: Address) -> None:
        """Send a message of the driver's own."""
        data = self.codec.encode(self.host.node, self.incarnation, channel, message)
        self._gate.send(data, at, to)

    def _on_own_message(self, channel: str, message: Any) -> None:
        if self._running:
            self._step(self._inputs.on_message, channel, self.host.node, message)

    def _on_alarm(self) -> None:
        self._alarm, self._alarm_at = None, FOREVER
        timers = self._timers
        now = self.clock()
        if timers and timers[0][0] <= now:
            self.tallies.lateness.note(now - timers[0][0])
        for _ in range(len(timers)):  # Those set meanwhile wait for the next round: sockets must be heard too.
            if not timers or timers[0][0] > now or not self._running:
                break
            _, _, port, timer = heappop(timers)
            self._step(self._inputs.on_timer, port, timer)
        self._set_alarm()

    def _on_written(self, port: Port, written: "asyncio.Future[None]") -> None:
        if not self._running or written.cancelled():
            return
        error = written.exception()
        if error is not None:  # Not durable: what waits for it must never leave.
            self._fail(error)
            return
        self._step(self._inputs.on_durable, port)

    def _step(self, enter: Callable[..., None], *arguments: Any) -> None:
        try:
            enter(*arguments, self.clock())
        except Exception as error:
            self._fail(error)
            return
        self._set_alarm()

    def _fail(self, error: BaseException) -> None:
        """Fall silent after a bug, or when the disk fails, so that others take over."""
        log.critical("%s stops: %s", self.host.node, error, exc_info=error)
        self.failure = error
        try:
            if self._on_failure is not None:
                self._on_failure(error)  # First of all: a body that acts as leader must stop.
        finally:
            self.close()

    def _set_alarm(self) -> None:
        if not self._timers or not self._running:
            return
        at = self._timers[0][0]
        if at >= self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        # asyncio's clock stands still while the machine sleeps, ours does not: look again soon after waking.
        wait_s = min(max(0, at - self.clock()) / 1e9, ALARM_MAX_S)
        self._alarm = self._loop.call_later(wait_s, self._on_alarm)

    # What is said about it.

    def _refuse(self, error: RemoteProtocolError, source: Address, sender: NodeId | None) -> None:
        self.refused[error.reason] += 1
        # A newcomer is unproven for a moment, and a member with a new name gets what was for its old one: no news.
        # A member that runs something else was named already, with what to do.
        differs = error.reason in ("channel", "message") and sender is not None and self._alike.differs(sender)
        level = logging.DEBUG if differs or error.reason in ("unproven", "addressee") else logging.WARNING
        self.complain(error.reason, f"dropped a datagram from {source}: {error}", level)

    def complain(self, reason: str, what: str, level: int = logging.WARNING) -> None:
        now = time.monotonic()
        if now - self._complained_at.get(reason, -LOG_EVERY_S) >= LOG_EVERY_S:
            self._complained_at[reason] = now
            so_far = f" ({self.refused[reason]} so far)" if reason in self.refused else ""
            log.log(level, "%s: %s%s", self.host.node, what, so_far)
