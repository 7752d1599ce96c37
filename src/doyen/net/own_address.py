"""Finds the address at which others reach this machine, where a node listens on every interface.

Nothing is sent, and no name server is asked.  Loopback and link-local addresses are none that others can use.
"""

import ipaddress
import socket
import struct
from collections.abc import Iterable
from fcntl import ioctl
from typing import Final

_SIOCGIFFLAGS: Final = 0x8913
_SIOCGIFADDR: Final = 0x8915
_UP, _LOOPBACK, _MULTICAST = 0x1, 0x8, 0x1000  # Flags of an interface.
_GLOBAL: Final = "00"  # The scope of an IPv6 address, as the kernel writes it.
_ELSEWHERE: Final = {socket.AF_INET: "203.0.113.1", socket.AF_INET6: "2001:db8::1"}  # For documentation; never met.
_LOOPBACKS: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def is_wildcard(host: str) -> bool:
    """Return whether a node that is bound to this host listens on every interface."""
    return ipaddress.ip_address(host.partition("%")[0]).is_unspecified


def is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def is_ours(host: str) -> bool:
    """Return whether this machine has that address."""
    return is_loopback(host) or address_towards(host) == host


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def own_address(
    family: socket.AddressFamily, towards: Iterable[str] = (), *, interface: str = "", multicast: bool = False
) -> str:
    """Return this machine's address on the way to the first of these hosts that there is a way to.

    Without such a host it is the address on the way to everywhere, then that of the first interface that is up, and at
    last loopback.  `interface` and `multicast` say which interfaces will do: that one, or those that can multicast.
    """
    hosts = [*towards]
    found = own_addresses(family, interface=interface, multicast=multicast)
    if hosts and all(map(is_loopback, hosts)):
        return _LOOPBACKS[family]
    for host in hosts if len(found) == 1 else (*hosts, _ELSEWHERE[family]):
        ours = address_towards(host)
        if ours is not None and not is_loopback(ours) and (ours in found or not interface):
            return ours
    return found[0] if found else _LOOPBACKS[family]


def own_addresses(family: socket.AddressFamily, *, interface: str = "", multicast: bool = False) -> list[str]:
    """Return this machine's addresses that others can use, the first of each interface."""
    wanted = _UP | (_MULTICAST if multicast else 0)
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            asked = struct.pack("256s", name.encode()[:15])
            try:
                (flags,) = struct.unpack("H", ioctl(asking, _SIOCGIFFLAGS, asked)[16:18])
                if flags & (wanted | _LOOPBACK) != wanted or interface not in ("", name):
                    continue
                if family == socket.AF_INET:
                    found.append(socket.inet_ntoa(ioctl(asking, _SIOCGIFADDR, asked)[20:24]))
                else:
                    found += _ipv6_of(name)[:1]
            except OSError:  # It has no address of this family, or has just gone.
                continue
    return found


def _ipv6_of(name: str) -> list[str]:
    with open("/proc/net/if_inet6", encoding="ascii") as lines:
        known = [line.split() for line in lines]
    return [
        socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address))
        for address, _, _, scope, _, interface in known
        if interface == name and scope == _GLOBAL
    ]


def address_towards(host: str) -> str | None:
    """Return this machine's address on the way to a numeric host; None where there is no way."""
    with socket.socket(family_of(host), socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return None
        ours: str = probe.getsockname()[0]
        return ours
