"""Runs one node's machines on real sockets and the machine's clock.

The driver is the world of a `Host`: it turns effects into datagrams, timers and files, and datagrams, due times
and finished writes back into inputs.  One thread, one step at a time.  It also keeps what only it can know:
where each member was last heard from, how many datagrams were refused and why.

Time is CLOCK_BOOTTIME, which goes on while the machine sleeps: a node that slept notices on waking.
"""

import asyncio
import ipaddress
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from doyen.core.clock import FOREVER, NEVER, Instant
from doyen.core.codec import Codec, Envelope
from doyen.core.host import Host, Port, Verbs, World
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.view import Status, ViewChanged
from doyen.errors import LocalProtocolError, RemoteProtocolError, TransportError
from doyen.net.keys import ID_BYTES, UnknownKey
from doyen.net.rivals import CHANNEL as NAMESAKE
from doyen.net.rivals import TELL_EVERY, Namesake, Rivals, Verdict
from doyen.net.sealed import MARK, OVERHEAD, Seal
from doyen.net.storage import Storage
from doyen.net.udp import UdpTransport

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

log = logging.getLogger("doyen")

PEERS_MAX = 10_000  # Addresses remembered; the one longest unheard of is forgotten first.
FAN_OUT_MAX = 256  # Addresses, besides the seeds, that a multicast goes to where there is no multicast.
ALARM_MAX_S = 1.0  # The longest that a timer can be late after the machine slept.
NAMESAKE_AFTER = 3_000_000_000  # Beyond what a packet of our own former life may have been on its way.
LOG_EVERY_S = 10.0  # Complaints about one reason are logged so often at the most.

Observer = Callable[[str, Any, Instant], None]  # (channel, fact, now)


def boot_time_ns() -> Instant:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Tap(World, Protocol):
    """What stands between a driver and its machines: it takes every input, and is the world of the host."""

    def start(self, now: Instant) -> None: ...
    def start_late(self, port: Port, now: Instant) -> None: ...
    def on_datagram(self, envelope: Envelope, data: bytes, now: Instant) -> None: ...
    def on_message(self, channel: str, sender: NodeId, message: Any, now: Instant) -> None: ...
    def on_timer(self, port: Port, timer: Any, now: Instant) -> None: ...
    def on_durable(self, port: Port, now: Instant) -> None: ...
    def command(self, channel: str, name: str, now: Instant, **arguments: Any) -> None: ...
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
        self._seeds = tuple(peers)
        self._addresses: OrderedDict[NodeId, Address] = OrderedDict()
        self._absent: dict[NodeId, Address] = {}  # Of members that a view holds failed; it may err.
        self._lives: dict[NodeId, Incarnation] = {}  # The latest heard of each that has an address.
        self._rivals = Rivals()
        codec.speak(NAMESAKE, Namesake)
        self._timers: list[tuple[Instant, int, Port, Any]] = []
        self._sequence = count()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at: Instant = FOREVER
        self._complained_at: dict[str, float] = {}
        self._namesake: tuple[Incarnation, Instant] | None = None  # An earlier process of our name: since when heard.
        self._answered_at: Instant = -TELL_EVERY  # A later process of our name.
        self._disk: ThreadPoolExecutor | None = None
        self._running = self._opened = self._closed = False
        self.failure: BaseException | None = None

    # Life.

    def add(self, channel: str, build: Callable[[Port], Any], *, follows: Iterable[str] | None = None) -> Any:
        """Adds a machine; its message types are taken from its class.  One that comes later starts at once."""
        port = self.host.add(channel, build, follows=follows)
        self.codec.speak(channel, port.machine.MESSAGES)
        if self._running:
            self._step(self._inputs.start_late, port)
        return port.machine

    def interpose(self, tap: Tap) -> None:
        """Put a tap between this driver and its machines, before any machine is added."""
        if self.host.ports:
            raise LocalProtocolError(f"{self.host.node} has machines already: a tap must come before them")
        self.host.world = self._tap = self._inputs = tap

    def watch(self, observer: Observer) -> None:
        """One more that is told every fact."""
        self._observers.append(observer)

    def on_close(self, closer: Callable[[], None]) -> None:
        """To be called once this node falls silent, for whatever reason; at once if it has."""
        if self._closed:
            closer()
        else:
            self._closers.append(closer)

    def set_seeds(self, seeds: Iterable[Address]) -> None:
        """Who is told what is for all, besides those heard, where there is no multicast."""
        self._seeds = tuple(seeds)

    def restored(self, channel: str, kind: Any) -> Any:
        """What a machine persisted in an earlier life, or None; for its constructor."""
        return None if self.storage is None else self.storage.load(channel, kind)

    async def open(self) -> None:
        """Listens: from here on the transport knows its address.  What is heard before `start` is dropped."""
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

    def command(self, channel: str, name: str, **arguments: Any) -> None:
        self._check_running(name)
        self._inputs.command(channel, name, self.clock(), **arguments)
        self._set_alarm()

    def tell(self, fact: Any, *, channel: str | None = None) -> None:
        self._check_running(f"{type(fact).__name__} for it")
        self._inputs.tell(fact, self.clock(), channel=channel)
        self._set_alarm()

    def _check_running(self, what: str) -> None:
        if not self._running:
            raise LocalProtocolError(f"{self.host.node} does not run, so it cannot take {what}: start it first")

    def close(self) -> None:
        """Silent and still from here on; what machines set or said later is dropped."""
        self._running, self._closed = False, True
        if self._alarm is not None:
            self._alarm.cancel()
        self._timers.clear()
        self.transport.close()
        if self._disk is not None:
            self._disk.shutdown(wait=False)
        if self.storage is not None:
            self.storage.close()
        while self._closers:
            self._closers.pop()()

    @property
    def running(self) -> bool:
        return self._running

    @property
    def is_behind(self) -> bool:
        """Whether a timer is due that has not fired yet."""
        return bool(self._timers) and self._timers[0][0] <= self.clock()

    def address_of(self, node: NodeId) -> Address | None:
        return self._addresses.get(node)

    def life_of(self, node: NodeId) -> Incarnation | None:
        """The latest incarnation under which it was heard, if it was."""
        return self._lives.get(node)

    # The world of the host.

    def verbs(self, port: Port) -> Verbs:
        return Verbs(partial(self._send, port), partial(self._multicast, port), partial(self._set_timer, port))

    def persist(self, port: Port, record: Any) -> None:
        if self.storage is None:
            raise TransportError(f"channel {port.channel!r} must keep a record, but no state directory is configured")
        if self._disk is None:
            from concurrent.futures import ThreadPoolExecutor  # Most nodes keep nothing.

            self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="doyen-disk")  # One: order is kept.
        data = self.storage.encode(port.channel, record)  # As it is now, whatever becomes of it while the disk is busy.
        written = self._loop.run_in_executor(self._disk, self.storage.save, port.channel, data)
        written.add_done_callback(partial(self._on_written, port))

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        log.debug("%s/%s %s", self.host.node, port.channel, fact)
        if isinstance(fact, ViewChanged):
            self._learn(fact)
        for observer in self._observers:
            try:
                observer(port.channel, fact, now)
            except Exception:  # The application's bug, not the protocol's: the node goes on.
                log.exception("%s: the observer failed on %s", self.host.node, fact)

    # Effects.

    def _send(self, port: Port, to: NodeId | Address, message: Any) -> None:
        if to == self.host.node:  # To oneself: at once, and surely, but after this step.
            self._loop.call_soon(self._on_own_message, port.channel, message)
            return
        address = to if isinstance(to, Address) else self._addresses.get(to) or self._absent.get(to)
        data = self._encode(port, message)
        if address is None:
            self.refused["no address"] += 1
        elif data is not None:
            whom = None if isinstance(to, Address) else to
            self.transport.send(data if self.seal is None else self.seal.seal(data, address, whom), address)

    def _multicast(self, port: Port, message: Any) -> None:
        data = self._encode(port, message)
        if data is None:
            return
        if self.seal is not None:
            data = self.seal.seal(data, None)
        if self.transport.config.multicast is not None:
            self.transport.multicast(data)
        else:  # Fan-out: every seed, and those heard last; bounded, or a stranger could make us flood the world.
            heard = list(self._addresses.values())[-FAN_OUT_MAX:]
            for address in {*self._seeds, *heard} - {self.transport.address}:
                self.transport.send(data, address)

    def _encode(self, port: Port, message: Any) -> bytes | None:
        try:
            return self.codec.encode(self.host.node, self.incarnation, port.channel, message)
        except LocalProtocolError as error:  # Too large to leave: to everybody else that is loss, so say it loudly.
            self.refused["too large"] += 1
            self.complain("too large", str(error), logging.ERROR)
            return None

    def _set_timer(self, port: Port, timer: Any, at: Instant) -> None:
        if at < NEVER:
            heappush(self._timers, (at, next(self._sequence), port, timer))

    # Inputs.

    def _on_datagram(self, data: bytes, source: Address) -> None:
        if not self._running:
            return
        try:
            opened = self._opened_datagram(data, source)
            if opened is None:
                return
            envelope = self.codec.decode(opened)
        except UnknownKey as error:
            self.refused[error.reason] += 1
            self.complain(error.reason, f"{self.codec.group}: packets from {source.host} {error.advice}")
            return
        except RemoteProtocolError as error:
            self._refuse(error, source)
            return
        if envelope.sender == self.host.node:
            if envelope.incarnation != self.incarnation:
                self._answer_namesake(envelope.incarnation, source)
                self._on_namesake(envelope.incarnation, source)
            else:
                self.refused["echo"] += 1  # Our own multicast, heard back.
            return
        known = self._lives.get(envelope.sender, envelope.incarnation)
        if (known != envelope.incarnation or envelope.sender in self._rivals) and not self._is_heard(envelope, source):
            return
        self.received_count += 1
        self._remember(envelope.sender, source)
        self._lives[envelope.sender] = envelope.incarnation
        if envelope.channel == NAMESAKE:
            told: Namesake = envelope.message
            self._on_namesake(Incarnation(told.incarnation), Address(told.host, told.port))
            return
        if self._tap is None:
            self._step(self.host.on_message, envelope.channel, envelope.sender, envelope.message)
        else:
            self._step(self._tap.on_datagram, envelope, opened)

    def _answer_namesake(self, theirs: Incarnation, source: Address) -> None:
        """A later one that has us as its seed, and us alone, would hear nothing of ours: we know nobody there."""
        now = self.clock()
        if theirs > self.incarnation and now - self._answered_at >= TELL_EVERY:
            self._answered_at = now
            ours = self.transport.address
            self._tell_of_namesake(Namesake(self.incarnation, ours.host, ours.port), source, self.host.node)

    def _on_namesake(self, theirs: Incarnation, source: Address) -> None:
        """Two of one name would both lead.  The later one gives up: what it hears is no last word of a former life."""
        self.refused["namesake"] += 1
        what = f"another process at {source} is called {self.host.node!r} too: rename one"
        self.complain("namesake", what)
        if theirs > self.incarnation:
            return  # It will hear us, and give up.
        now = self.clock()
        if self._namesake is None or self._namesake[0] != theirs:
            self._namesake = (theirs, now)
        elif now - self._namesake[1] > NAMESAKE_AFTER:
            self._fail(TransportError(what))

    def _is_heard(self, envelope: Envelope, source: Address) -> bool:
        """Of a name that has had two lives, or has two at once."""
        name = envelope.sender
        known = self._lives.get(name, envelope.incarnation)
        verdict = self._rivals.judge(name, envelope.incarnation, known, source, self.clock())
        if verdict is Verdict.HEARD:
            return True
        self.refused["outlived" if verdict is Verdict.OUTLIVED else "rival"] += 1
        if verdict is Verdict.RIVAL_TOLD:
            notice = self._rivals.notice(name)
            where = Address(notice.host, notice.port)
            self.complain("rival", f"two processes are called {name!r}, at {where} and, later, at {source}: rename one")
            self._tell_of_namesake(notice, source, name)
        return False

    def _tell_of_namesake(self, notice: Namesake, later: Address, name: NodeId) -> None:
        data = self.codec.encode(self.host.node, self.incarnation, NAMESAKE, notice)
        self.transport.send(data if self.seal is None else self.seal.seal(data, later, name), later)

    def _opened_datagram(self, data: bytes, source: Address) -> bytes | None:
        """What the codec can read; None for what was between the seals alone."""
        if self.seal is not None:
            if len(data) > self.codec.datagram_max + OVERHEAD:
                raise RemoteProtocolError("oversized", f"{len(data)} bytes, at most {self.codec.datagram_max}, sealed")
            if self.seal.is_own(data):
                self.refused["echo"] += 1
                return None
            return self.seal.open(data, source, self.transport.send)
        if data[:1] == MARK and len(data) > OVERHEAD:
            raise UnknownKey(data[1 : 1 + ID_BYTES])
        return data

    def _on_own_message(self, channel: str, message: Any) -> None:
        if self._running:
            self._step(self._inputs.on_message, channel, self.host.node, message)

    def _on_alarm(self) -> None:
        self._alarm, self._alarm_at = None, FOREVER
        timers = self._timers
        now = self.clock()
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
        """A bug or a dead disk: a node that is not sure of itself falls silent, so that others take over."""
        log.critical("%s stops: %s", self.host.node, error, exc_info=error)
        self.failure = error
        try:
            if self._on_failure is not None:
                self._on_failure(error)  # First of all: whoever acts as leader on this node's word must stop.
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

    # What only the driver knows.

    def _remember(self, node: NodeId, source: Address) -> None:
        addresses = self._addresses
        if addresses.get(node) != source:
            addresses[node] = source
            if len(addresses) > PEERS_MAX:
                self._lives.pop(addresses.popitem(last=False)[0], None)
        addresses.move_to_end(node)

    def _learn(self, fact: ViewChanged) -> None:
        """Where members are, from a view: also those never heard directly."""
        for node in fact.changed:
            member = fact.view.members.get(node)
            absent = self._absent.pop(node, None)
            if member is None or not member.present:
                self._lives.pop(node, None)
                address = self._addresses.pop(node, None) or absent
                if address is not None and member is not None and member.status is Status.FAILED:
                    self._absent[node] = address
            elif member.address is not None and node != self.host.node:
                self._remember(node, member.address)

    def _refuse(self, error: RemoteProtocolError, source: Address) -> None:
        self.refused[error.reason] += 1
        # Whoever is new here is unproven for a moment, and whoever has a new name is sent what was for the one before
        # it; that is no reason to worry anybody.
        level = logging.DEBUG if error.reason in ("unproven", "addressee") else logging.WARNING
        self.complain(error.reason, f"dropped a datagram from {source}: {error}", level)

    def complain(self, reason: str, what: str, level: int = logging.WARNING) -> None:
        now = time.monotonic()
        if now - self._complained_at.get(reason, -LOG_EVERY_S) >= LOG_EVERY_S:
            self._complained_at[reason] = now
            so_far = f" ({self.refused[reason]} so far)" if reason in self.refused else ""
            log.log(level, "%s: %s%s", self.host.node, what, so_far)
