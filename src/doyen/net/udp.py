"""Datagrams on real sockets: unicast, and multicast where the network has it.

One socket speaks and hears unicast; its address is the node's.  A second one, where a multicast group is given,
only hears: several processes of one machine share its port.  Everything is sent from the first, so that a
receiver learns from the source address alone where to answer.

A node that is bound to `[::]` and does not multicast speaks IPv6 and IPv4: an IPv4 address is the same text everywhere,
and only the socket knows it as a mapped one.

Addresses are numeric.  A name would be looked up at every datagram, and all would wait for it; so what is no
address of this transport's IP version is refused before a socket sees it, wherever it came from.

asyncio reads 256 KiB per datagram unless told otherwise; 64 KiB holds any datagram and is three times as fast.  It also
reads one datagram per turn of its loop, and fires what is due in between: a process that was kept waiting would find
its deadlines over while the answers still stand in its socket.  So all that waits is heard at once, and timers come
after deliveries, as in the simulator.
"""

import asyncio
import errno
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias, cast

from msgspec import Meta

from doyen.core.config import Config, Doc
from doyen.core.ids import Address
from doyen.errors import ConfigError, TransportError
from doyen.net.own_address import family_of, is_wildcard, own_address

_READ_MAX = 65_536
_BUFFER_BYTES = 1 << 20  # A burst from a large group waits here while Python is busy.
_IP_MULTICAST_ALL, _IPV6_MULTICAST_ALL = 49, 29  # Linux: whether a socket hears groups that others have joined.
_MAPPED: Final = "::ffff:"  # How an IPv6 socket writes an IPv4 address.
_AT_ONCE_MAX = 256  # Datagrams heard before anything else gets its turn (decision 54).

Heard = Callable[[bytes, Address], None]
Ttl: TypeAlias = Annotated[int, Meta(ge=0, le=255)]


class UdpConfig(Config, frozen=True, kw_only=True):
    bind: Annotated[Address, Doc("Where this node hears unicast; 0: any free port.")] = Address("127.0.0.1", 0)
    else_any: Annotated[bool, Doc("Whether any free port will do where the one of bind is taken.")] = False
    else_port: Annotated[int, Doc("The port that is tried first where the one of bind is taken; 0: none.")] = 0
    multicast: Annotated[Address | None, Doc("The group's multicast address and port, or None: no multicast.")] = None
    interface: Annotated[
        str, Doc("The interface for multicast; empty: that of `bind`, or of the route to the group.")
    ] = ""
    ttl: Annotated[Ttl, Doc("How many routers a multicast may cross; 1 stays on the local network.")] = 1

    def check(self) -> None:
        ours = _numeric(self.bind, "bind")
        if ours.is_multicast:
            raise ConfigError(
                f"{ours} is a multicast address: give this node's own, and this one as multicast", field="bind"
            )
        if self.multicast is None:
            if self.interface:
                raise ConfigError(f"{self.interface!r} is for multicast: give multicast too", field="interface")
            return
        theirs = _numeric(self.multicast, "multicast")
        if not theirs.is_multicast:
            raise ConfigError(
                f"{theirs} is not a multicast address: give one of 224.0.0.0/4 or ff00::/8", field="multicast"
            )
        if ours.version != theirs.version:
            raise ConfigError(
                f"{theirs} and bind {ours} are of different IP versions: give two alike", field="multicast"
            )
        if self.multicast.port == 0:
            raise ConfigError(f"{self.multicast} needs a port: the same on every member", field="multicast")

    @property
    def speaks_both(self) -> bool:
        """Return whether this node reaches IPv4 and IPv6 addresses."""
        return self.bind.host == "::" and self.multicast is None

    def multicast_from(self) -> str:
        """Return the address of this machine that multicasts are sent from, and heard at."""
        if self.multicast is None or not is_wildcard(self.bind.host):
            return self.bind.host
        group = self.multicast.host
        return own_address(family_of(group), (group,), interface=self.interface, multicast=True)

    def check_peer(self, peer: Address, field: str = "seed") -> None:
        """Raise `ConfigError` for an address that this transport could never send to."""
        version = _numeric(peer, field).version
        if version != ipaddress.ip_address(self.bind.host).version and not self.speaks_both:
            raise ConfigError(
                f"{peer} and bind {self.bind.host} are of different IP versions: give two alike", field=field
            )
        if not 0 < peer.port < 65536:
            raise ConfigError(f"{peer} needs a port: the one that member listens on", field=field)


class UdpTransport:
    """The sockets of one node; every datagram heard goes to the callable that `open` got."""

    def __init__(self, config: UdpConfig) -> None:
        self.config = config
        self.sent_count = self.sent_bytes = self.refused_count = 0
        self._endpoints: list[asyncio.DatagramTransport] = []
        self._family = family_of(config.bind.host)
        self._group: Any = None  # The multicast group as the socket wants it.
        self.address = config.bind  # Once open: where this node really listens.

    async def open(self, heard: Heard) -> None:
        sockets = [_unicast_socket(self.config)]
        try:
            if self.config.multicast is not None:
                sockets.append(_multicast_socket(self.config, self.config.multicast))
                self._group = sockets[1].getsockname()
            loop = asyncio.get_running_loop()
            for made in sockets:
                ear = _Ear(heard, self, made)
                endpoint, _ = await loop.create_datagram_endpoint(lambda ear=ear: ear, sock=made)  # type: ignore[misc]
                with suppress(AttributeError):  # uvloop has no such limit.
                    cast(Any, endpoint).max_size = _READ_MAX
                self._endpoints.append(endpoint)
            host, port, *_ = sockets[0].getsockname()
            self.address = Address(host, port)
        except BaseException:
            self.close()
            for made in sockets:
                made.close()
            raise

    def send(self, data: bytes, to: Address) -> None:
        if self.config.speaks_both and ":" not in to.host:
            to = Address(_MAPPED + to.host, to.port)
        self._send(data, _sockaddr(self._family, to))

    def multicast(self, data: bytes) -> None:
        assert self.config.multicast is not None
        self._send(data, self._group)

    def _send(self, data: bytes, sockaddr: Any) -> None:
        if not self._endpoints:
            return  # Closed: a late effect of a node that is going away.
        if sockaddr is None:  # asyncio would close the socket over some of these.
            self.refused_count += 1
            return
        self.sent_count += 1
        self.sent_bytes += len(data)
        self._endpoints[0].sendto(data, sockaddr)

    @property
    def is_open(self) -> bool:
        return bool(self._endpoints)

    def close(self) -> None:
        for endpoint in self._endpoints:
            endpoint.close()
        self._endpoints = []


class _Ear(asyncio.DatagramProtocol):
    def __init__(self, heard: Heard, owner: UdpTransport, made: socket.socket) -> None:
        self._heard, self._owner, self._socket = heard, owner, made

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._heard(data, _source(addr))
        for _ in range(_AT_ONCE_MAX):
            if not self._owner.is_open:
                return  # Closed by what it heard.
            try:
                data, addr = self._socket.recvfrom(_READ_MAX)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.error_received(error)
                return
            self._heard(data, _source(addr))

    def error_received(self, exc: Exception) -> None:
        # No route, too large, …: to a datagram protocol that is loss; its own timers find out who is gone.
        self._owner.refused_count += 1


def _source(addr: tuple[Any, ...]) -> Address:
    """Return where a datagram came from; IPv4 as such, whatever the socket."""
    host: str = addr[0]
    return Address(host[len(_MAPPED) :] if host.startswith(_MAPPED) and "." in host else host, addr[1])


@contextmanager
def _opened(family: socket.AddressFamily, purpose: str) -> Iterator[socket.socket]:
    """Make a socket, and close it again if it cannot be prepared for its purpose."""
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        yield made
    except OSError as error:
        made.close()
        raise TransportError(f"{purpose}: {advice_on(error)}") from None


def _unicast_socket(config: UdpConfig) -> socket.socket:
    family = family_of(config.bind.host)
    ours = config.multicast_from()
    index = 0 if config.multicast is None else _interface_index(config, ours)
    with _opened(family, f"cannot listen on {config.bind}") as made:
        if config.speaks_both:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # Whatever the system's default is.
        ports = [config.bind.port, *filter(None, (config.else_port,)), 0] if config.else_any else [config.bind.port]
        for port in ports:
            try:
                _bind(made, Address(config.bind.host, port))
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port == ports[-1]:
                    raise
        if config.multicast is not None:
            if family == socket.AF_INET:
                made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, config.ttl)
                made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)  # Others on this machine hear us.
                made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, _mreqn(ours, index))
                made.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)  # The other socket hears them.
            else:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, config.ttl)
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
                made.setsockopt(socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL, 0)
            # Now that the port is ours alone, the other socket may have the same one.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def _bind(made: socket.socket, address: Address) -> None:
    """Bind to an address; where any port will do, to one that TCP has free too, for `leaderlink`."""
    for _ in range(16 if address.port == 0 else 0):
        with socket.socket(made.family, socket.SOCK_STREAM) as stream:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stream.bind(_resolve(made.family, address.host, 0))
            try:
                made.bind(_resolve(made.family, address.host, stream.getsockname()[1]))
            except OSError:
                continue
            return
    made.bind(_resolve(made.family, address.host, address.port))


def _multicast_socket(config: UdpConfig, group: Address) -> socket.socket:
    family = family_of(group.host)
    ours = config.multicast_from()
    index = _interface_index(config, ours)
    with _opened(family, f"cannot join multicast {group} on {config.interface or ours}") as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Bound to the group: nothing else at this port reaches us.
        made.bind((group.host, group.port) if family == socket.AF_INET else (group.host, group.port, 0, index))
        if family == socket.AF_INET:
            membership = socket.inet_aton(group.host) + _mreqn(ours, index)[4:]
            made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        else:
            membership = socket.inet_pton(socket.AF_INET6, group.host) + index.to_bytes(4, sys.byteorder)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)
            with socket.socket(family, socket.SOCK_DGRAM) as probe:  # Sends nothing, but asks for the route.
                probe.connect((group.host, group.port, 0, index))
    return made


def _mreqn(ours: str, index: int) -> bytes:
    """Return a `struct ip_mreqn`: group, local address, interface."""
    local = b"\0\0\0\0" if index else socket.inet_aton(ours)
    return b"\0\0\0\0" + local + index.to_bytes(4, sys.byteorder)


def _interface_index(config: UdpConfig, ours: str) -> int:
    address, _, scope = ours.partition("%")
    name = config.interface or scope
    if name:
        try:
            return socket.if_nametoindex(name)
        except OSError:
            known = ", ".join(known for _, known in socket.if_nameindex())
            raise TransportError(f"there is no interface {name!r} here (there are {known})") from None
    return _interface_of_ipv6(address) if ":" in address else 0  # IPv4 finds it by the address.


def _interface_of_ipv6(address: str) -> int:
    """Return the number of the interface that has this address; 0, the system's choice, if none has."""
    wanted = socket.inet_pton(socket.AF_INET6, address).hex()
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as lines:
            known = [line.split() for line in lines]
    except OSError:
        return 0
    return next((int(index, 16) for found, index, *_ in known if found == wanted), 0)


def _numeric(address: Address, field: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(address.host)
    except ValueError:
        raise ConfigError(f"{address.host!r} is not a numeric IPv4 or IPv6 address", field=field) from None


@lru_cache(maxsize=16_384)
def _sockaddr(family: socket.AddressFamily, to: Address) -> Any:
    """Return an address as the socket wants it, or None for one of another kind; no name server is asked."""
    if not 0 < to.port < 65536:
        return None
    try:
        return _resolve(family, to.host, to.port)
    except (OSError, ValueError):  # UnicodeError is a ValueError.
        return None


def _resolve(family: int, host: str, port: int) -> Any:
    """Return a numeric address as socket calls want it: the scope of a link-local one as a number."""
    # As bytes: text would load the tables for international names, for addresses that have none.
    name = host.encode("ascii")
    return socket.getaddrinfo(name, port, family, socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0][4]


_ADVICE: Final = {
    errno.EADDRNOTAVAIL: "this machine has no such address (see `ip address`)",
    errno.EADDRINUSE: "the port is taken: choose another, or 0 for any free one",
    errno.EACCES: "not permitted: choose a port above 1023",
    errno.ENODEV: "no interface there can multicast: name one that can (see `ip maddress`)",
    errno.ENETUNREACH: (
        "no route: Linux has no IPv6 multicast on loopback; name an interface that can (see `ip maddress`)"
    ),
}


def advice_on(error: OSError) -> str:
    """Return why an address cannot be listened on, and what to do."""
    return _ADVICE.get(error.errno or 0, str(error))
