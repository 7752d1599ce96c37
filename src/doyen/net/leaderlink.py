"""An idle TCP connection from each member to its leader: when a process is killed, its kernel says so at once.

Silence takes a timeout to notice; the end of a connection does not.  While all is well it costs nothing but the
connection (decision 80; the idea is JGroups' FD_SOCK, on leaders only).  What is learnt is a fact, `LinkBroken`, that
machines follow as suspicion of that one incarnation; a silent cut of the network is found by their timers.

    member ──"DYN1" nonce──────────────▶ leader          nonces are 16 random bytes
           ◀─"DYN1" nonce, hello────────
           ──hello────────────────────▶                  idle from here on
           ◀─────── bye or EOF ───────▶

    hello = 2 bytes length · [role, other's nonce, own nonce, group, name, incarnation], sealed where there are keys

An end with a bye is no news.  An end without one is news, then the member connects again: refused, and by UDP
too, or answered by another incarnation, the old one is gone; answered by the same one, nothing was the matter.  A reset
alone says nothing: anybody on the way can send one.
The leader hears of members that are killed in the same way.
"""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant, ms, seconds, to_seconds
from doyen.core.config import Config, Doc, Positive, Timeout, Wait
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkBroken
from doyen.errors import RemoteProtocolError
from doyen.net.driver import Driver
from doyen.net.keys import ID_BYTES, NONCE_BYTES, Keyring
from doyen.net.own_address import family_of

_MAGIC: Final = b"DYN1"
_NONCE: Final = 16
_BYE: Final = b"\0"
_HELLO_MAX: Final = 512
LOOKS_S: Final = (0.0, 0.005, 0.02, 0.1)  # A dying process may still take a connection and drop it: look again.
_DEAF_S: Final = 0.2  # How long the kernel of a member that is gone has to say so.
_KEEPALIVE_S: Final = 600  # A leader forgets members whose machines vanished, some day.


class LinkConfig(Config, frozen=True, kw_only=True):
    """Says how members hold on to their leader."""

    settle: Annotated[Wait, Doc("How long somebody leads before members connect. Short: more connections.")] = ms(200)
    hello_timeout: Annotated[Timeout, Doc("The wait for a connection and its hello.")] = seconds(2)
    retry: Annotated[Timeout, Doc("The pause after a connection that failed.")] = seconds(5)
    accept_max: Annotated[Positive, Doc("Members that may be connected to this node; more are turned away.")] = 1024
    pending_max: Annotated[Positive, Doc("Connections without a hello yet; for one more the oldest must go.")] = 64
    leader_max: Annotated[Positive, Doc("Leaders, of several elections, that this node connects to.")] = 8


class Hello(Struct, frozen=True, array_like=True):
    role: str  # "leader" or "member": who is called and who calls, so that a hello cannot be sent back.
    theirs: bytes
    ours: bytes
    group: str
    name: NodeId
    incarnation: Incarnation


class LeaderLink:
    """Holds a connection to each leader that a driver's elections name, from `LeaderLink.attach` on."""

    def __init__(self, driver: Driver, config: LinkConfig, keyring: Keyring | None) -> None:
        self.driver, self.config, self.keyring = driver, config, keyring
        self.accepted: dict[NodeId, Link] = {}  # Members connected to us.
        self.linked: dict[NodeId, Link] = {}  # Leaders we are connected to.
        self.broken: Counter[str] = Counter()  # What was told: "lost", "gone"; and "back" for nothing the matter.
        self.turned_away_count = 0
        self.pending: dict[Link, None] = {}  # Connected to us, and not known yet; the oldest first.
        self._leaders: dict[str, NodeId] = {}  # By channel.
        self._keepers: dict[NodeId, asyncio.Task[None]] = {}
        self._looking: asyncio.TimerHandle | None = None
        self.server: asyncio.Server | None = None

    @classmethod
    async def attach(
        cls,
        driver: Driver,
        config: LinkConfig | None = None,
        keyring: Keyring | None = None,
        leaders: Mapping[str, NodeId] | None = None,
    ) -> "LeaderLink":
        """Begin to follow leaders, once the driver runs; without a port of its own, too.

        `leaders` are those that the elections named before, by channel.
        """
        link = cls(driver, config or LinkConfig(), keyring)
        link._leaders.update(leaders or {})
        driver.watch(link._on_fact)
        if keyring is not None:
            keyring.on_change.append(link.revoke)
        link._follow_soon()
        driver.on_close(link._close)
        await link._listen()
        return link

    def connected(self) -> tuple[NodeId, ...]:
        return tuple(self.linked)

    # Whom to follow.

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, LeaderElected):
            self._leaders[channel] = fact.term.leader
        elif isinstance(fact, LeaderLost) and self._leaders.get(channel) == fact.term.leader:
            del self._leaders[channel]
        else:
            return
        self._follow_soon()

    def _follow_soon(self) -> None:
        if self._looking is None and self.driver.running:
            self._looking = asyncio.get_running_loop().call_later(to_seconds(self.config.settle), self._follow)

    def _follow(self) -> None:
        self._looking = None
        wanted = {leader: None for leader in self._leaders.values() if leader != self.driver.host.node}
        for leader in [leader for leader in self._keepers if leader not in wanted]:
            self._keepers.pop(leader).cancel()
            if leader in self.linked:
                self.linked.pop(leader).end()
        for leader in list(wanted)[: self.config.leader_max]:
            if leader not in self._keepers:
                self._keepers[leader] = asyncio.create_task(self._keep(leader))

    # The member's end.

    async def _keep(self, leader: NodeId) -> None:
        while self.driver.running:
            address = self.driver.addresses.of(leader)
            link = None if address is None else await self._call(leader, address)
            while isinstance(link, Link):
                self.linked[leader] = link
                broken = await link.ended
                if self.linked.get(leader) is link:
                    del self.linked[leader]
                assert address is not None
                link = await self._look_again(leader, link.incarnation, address) if broken else None
            await asyncio.sleep(to_seconds(self.config.retry))

    async def _look_again(self, leader: NodeId, incarnation: Incarnation, address: Address) -> "Link | None":
        self._tell(LinkBroken(leader, incarnation))
        for pause_s in LOOKS_S:
            await asyncio.sleep(pause_s)
            found = await self._call(leader, self.driver.addresses.of(leader) or address)
            if isinstance(found, Link) and found.incarnation == incarnation:
                self.broken["back"] += 1
                return found
            if isinstance(found, ConnectionRefusedError) and not await self._is_deaf(address):
                continue  # Its datagrams are taken: something else refuses connections there.
            if isinstance(found, Link | ConnectionRefusedError):
                self._tell(LinkBroken(leader, incarnation, gone=True))
                return found if isinstance(found, Link) else None
            if not isinstance(found, ConnectionError):  # Silence says nothing.
                return None
        return None

    async def _is_deaf(self, address: Address) -> bool:
        """Return whether the kernel there says that no process takes datagrams either; silence says nothing."""
        loop = asyncio.get_running_loop()
        with socket.socket(family_of(address.host), socket.SOCK_DGRAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect((address.host, address.port))
                probe.send(b"")
                await asyncio.wait_for(loop.sock_recv(probe, 1), _DEAF_S)
            except ConnectionRefusedError:
                return True
            except (OSError, TimeoutError):
                return False
        return False

    async def _call(self, leader: NodeId, address: Address) -> "Link | Exception | None":
        loop = asyncio.get_running_loop()
        link = Link(self, leader)
        try:
            async with asyncio.timeout(to_seconds(self.config.hello_timeout)):
                await loop.create_connection(lambda: link, address.host, address.port)
                await link.greeted
        except (OSError, TimeoutError) as error:
            link.abort()
            return error
        except BaseException:
            link.abort()
            raise
        return link

    # The leader's end.

    async def _listen(self) -> None:
        address = self.driver.transport.address
        where: dict[str, Any] = {"host": address.host, "port": address.port, "reuse_address": True}
        try:
            if self.driver.transport.config.speaks_both:  # asyncio's own socket would take IPv6 only.
                place = (address.host, address.port)
                where = {"sock": socket.create_server(place, family=socket.AF_INET6, dualstack_ipv6=True)}
            self.server = await asyncio.get_running_loop().create_server(
                lambda: Link(self, None), **where, backlog=128, start_serving=False
            )
            await self.server.start_serving()  # Apart, so that a start that is cancelled here leaves nothing open.
        except OSError as error:
            self.driver.complain(
                "no link", f"members cannot hold on to this node: TCP {address} is not free ({error.strerror})"
            )

    def admit(self, link: "Link") -> bool:
        """Return whether to take a new connection, on which nothing was received yet.

        Members say hello at once, so those who stay silent cannot shut them out.
        """
        if len(self.accepted) >= self.config.accept_max:
            self.turned_away_count += 1
            return False
        if len(self.pending) >= self.config.pending_max:
            self.turned_away_count += 1
            oldest = next(iter(self.pending))
            self.settle(oldest)
            oldest.abort()
        self.pending[link] = None
        return True

    def settle(self, link: "Link") -> None:
        """Forget that a connection is pending: it has said hello, or is gone."""
        self.pending.pop(link, None)

    def welcome(self, link: "Link") -> None:
        """Keep the connection of a member that said who it is; of two with one name the newer counts."""
        before = self.accepted.get(link.peer)
        if before is not None:
            before.end()
        self.accepted[link.peer] = link

    def on_member_end(self, link: "Link", broken: bool) -> None:
        if self.accepted.get(link.peer) is link:
            del self.accepted[link.peer]
            if broken:
                self._tell(LinkBroken(link.peer, link.incarnation))

    # Both.

    def hello(self, role: str, theirs: bytes, ours: bytes) -> bytes:
        driver = self.driver
        said = Hello(role, theirs, ours, driver.codec.group, driver.host.node, driver.incarnation)
        body = msgspec.msgpack.encode(said)
        if self.keyring is not None and not self.keyring.speaks_clear:
            nonce, key = os.urandom(NONCE_BYTES), self.keyring.primary
            body = key + nonce + self.keyring.seal(body, self._associated(key), nonce)
        return len(body).to_bytes(2, "big") + body

    def check(self, body: bytes, role: str, theirs: bytes, ours: bytes) -> Hello:
        """Return the hello of the other end.  Raises `RemoteProtocolError` for one of another conversation."""
        ring = self.keyring
        if ring is not None and (body[:ID_BYTES] in ring.by_id or not ring.hears_clear):
            key, nonce = body[:ID_BYTES], body[ID_BYTES : ID_BYTES + NONCE_BYTES]
            if len(nonce) < NONCE_BYTES:
                raise RemoteProtocolError("seal", "a hello that is not sealed")
            body = ring.open(key, body[ID_BYTES + NONCE_BYTES :], self._associated(key), nonce)
        try:
            hello = msgspec.msgpack.decode(body, type=Hello)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError("malformed", f"hello: {error}") from None
        if (hello.role, hello.theirs, hello.ours, hello.group) != (role, ours, theirs, self.driver.codec.group):
            raise RemoteProtocolError("group", "a hello for another group, or of another conversation")
        return hello

    def _associated(self, key: bytes) -> bytes:
        return b"doyen link\0" + key + self.driver.codec.group.encode()

    def _tell(self, fact: LinkBroken) -> None:
        """Notify the machines, unless a later incarnation was heard meanwhile: then it is no news."""
        if self.driver.running and self.driver.addresses.incarnation_of(fact.member) in (None, fact.incarnation):
            self.broken["gone" if fact.gone else "lost"] += 1
            self.driver.tell(fact)

    def key_of(self, body: bytes) -> bytes:
        """Return the id of the key that sealed a hello; empty: it is in the clear."""
        key = body[:ID_BYTES]
        return key if self.keyring is not None and key in self.keyring.by_id else b""

    def revoke(self) -> None:
        """End each connection whose hello would not be believed any more, as its key was removed."""
        ring = self.keyring
        assert ring is not None
        for link in [*self.linked.values(), *self.accepted.values()]:
            if link.key not in ring.by_id and (link.key or not ring.hears_clear):
                link.end()

    def refuse(self, error: RemoteProtocolError, peer: Any) -> None:
        reason = f"link {error.reason}"
        self.driver.refused[reason] += 1
        self.driver.complain(reason, f"dropped a connection with {peer}: {error}")

    def _close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self.server is not None:
            self.server.close()
        for keeper in self._keepers.values():
            keeper.cancel()
        for link in [*self.linked.values(), *self.accepted.values()]:
            link.end()
        self._keepers.clear()
        self.linked.clear()
        self.accepted.clear()


class Link(asyncio.Protocol):
    """One end of a connection: a greeting and a hello pass, then nothing until it ends."""

    def __init__(self, owner: LeaderLink, leader: NodeId | None) -> None:
        self._owner, self._leader = owner, leader  # `leader` is whom we call; None: we are called.
        self.peer, self.incarnation = leader or NodeId(""), Incarnation(0)
        self.ours, self.theirs = os.urandom(_NONCE), b""
        self.key = b""  # That of the other end's hello.
        self._read = b""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._established = self._over = False
        loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[bool] = loop.create_future()  # True: without a goodbye.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._leader is not None:
            transport.write(_MAGIC + self.ours)
        elif self._owner.admit(self):
            patience_s = to_seconds(self._owner.config.hello_timeout)
            self._deadline = asyncio.get_running_loop().call_later(patience_s, self.abort)
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        if self._established:
            self.end() if data == _BYE else self.abort()
            return
        self._read += data
        try:
            self._advance()
        except RemoteProtocolError as error:
            assert self._transport is not None
            self._owner.refuse(error, self._transport.get_extra_info("peername"))
            self.abort()

    def _advance(self) -> None:
        greeting = len(_MAGIC) + _NONCE
        if len(self._read) > greeting + 2 + _HELLO_MAX or not _MAGIC.startswith(self._read[: len(_MAGIC)]):
            raise RemoteProtocolError("malformed", "it does not speak this protocol")
        if len(self._read) < greeting:
            return
        assert self._transport is not None
        if not self.theirs:
            self.theirs = self._read[len(_MAGIC) : greeting]
            if self._leader is None:
                self._transport.write(_MAGIC + self.ours + self._owner.hello("leader", self.theirs, self.ours))
        body = self._read[greeting + 2 :]
        if len(self._read) < greeting + 2 or len(body) < int.from_bytes(self._read[greeting : greeting + 2], "big"):
            return
        size = int.from_bytes(self._read[greeting : greeting + 2], "big")
        role = "member" if self._leader is None else "leader"
        hello = self._owner.check(body[:size], role, self.theirs, self.ours)
        self.key = self._owner.key_of(body)
        if self._leader is not None and hello.name != self._leader:
            raise RemoteProtocolError("sender", f"{hello.name!r} is not {self._leader!r}")
        self._establish(hello, left=body[size:])

    def _establish(self, hello: Hello, left: bytes) -> None:
        assert self._transport is not None
        self.peer, self.incarnation = hello.name, hello.incarnation
        self._established, self._read = True, b""
        self._uncount()
        if self._leader is None:
            made: socket.socket = self._transport.get_extra_info("socket")
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
            self._owner.welcome(self)
        else:
            self._transport.write(self._owner.hello("member", self.theirs, self.ours))
            self.greeted.set_result(None)
        if left:
            self.data_received(left)

    def _uncount(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._owner.settle(self)

    def eof_received(self) -> None:
        return None  # Close our half too.

    def connection_lost(self, exc: Exception | None) -> None:
        self._uncount()
        broken = self._established and not self._over
        self._over = True
        if not self.greeted.done():
            self.greeted.set_exception(ConnectionResetError("dropped before its hello"))
            self.greeted.exception()  # A waiting task gets it; without one, that is no news.
        if not self.ended.done():
            self.ended.set_result(broken)
        if self._leader is None and self._established:
            self._owner.on_member_end(self, broken)

    def end(self) -> None:
        """End the connection in order, with a goodbye."""
        if not self._over and self._transport is not None:
            self._over = True
            self._transport.write(_BYE)
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once; for the other end it is broken."""
        if self._transport is not None:
            self._transport.abort()
