"""Names of members, addresses, incarnations and terms."""

from typing import Annotated, Final, NewType, TypeAlias

from msgspec import Meta, Struct

from doyen.errors import ConfigError

NodeId = NewType("NodeId", str)  # A member's name: unique in its group, at most NAME_MAX bytes.
Incarnation = NewType("Incarnation", int)  # Grows each time the same name starts anew.

NAME_MAX: Final = 64
TERM_NUMBER_MAX: Final = 2**53  # What any JSON reader can hold; at a thousand terms a second, 285,000 years.
TERM_LEAP_MAX: Final = 2**32  # No honest group is so far ahead of a member: one lie must not use up all terms.

# What a message may carry; the decoder checks it.
Name: TypeAlias = Annotated[NodeId, Meta(min_length=1, max_length=NAME_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]  # The encoding allows 64 bits.
TermNumber: TypeAlias = Annotated[int, Meta(gt=0, le=TERM_NUMBER_MAX)]


class Address(Struct, frozen=True, gc=False, order=True):
    """The place that datagrams go to: used for seeds whose names are not known yet."""

    host: str
    port: int

    @property
    def is_numeric(self) -> bool:
        """Return whether the host is an IP address, which needs no looking up."""
        from ipaddress import ip_address  # Only nodes on real networks ask.

        try:
            ip_address(self.host)
        except ValueError:
            return False
        return True

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Term(Struct, frozen=True, gc=False, order=True):
    """One reign: totally ordered, by number and then by name.

    Weak elections may give one number to two leaders on two sides of a partition; their names tell them apart.
    """

    number: int
    leader: NodeId


def node_id(name: str) -> NodeId:
    """A checked name."""
    if not name or len(name.encode()) > NAME_MAX or not name.isprintable() or name != name.strip():
        raise ConfigError(
            f"{name!r} cannot be a member's name: give 1 to {NAME_MAX} printable bytes without outer spaces"
        )
    return NodeId(name)


def parse_address(text: str, *, default_port: int | None = None) -> Address:
    """Reads `10.0.0.1:7600`, `[::1]:7600`, `host.example:7600`."""
    host, colon, port = text.rpartition(":")
    if text.endswith("]") or (not colon and default_port is not None):
        host, port = text, str(default_port or "")
    bare = ":" in host and not host.startswith("[")  # Of IPv6: where would its port begin?
    host = host.removeprefix("[").removesuffix("]")
    if bare or not host or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise ConfigError(f"{text[:100]!r} is not an address: give host:port, e.g. 127.0.0.1:7600 or [::1]:7600")
    numbers = host.split(".")
    like_ipv4 = len(numbers) == 4 and all(number.isascii() and number.isdigit() for number in numbers)
    if like_ipv4 and any(len(number) > 3 or int(number) > 255 for number in numbers):  # And no host has such a name.
        raise ConfigError(f"{text[:100]!r} is not an address: each of the four numbers must be 0 to 255")
    return Address(host, int(port))


def has_port(text: str) -> bool:
    """Return whether an address, as it was given, names a port."""
    return parse_address(text, default_port=1) == parse_address(text, default_port=2)
