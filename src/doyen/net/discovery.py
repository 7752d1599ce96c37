"""Finds the others: on this machine, by addresses given, by names looked up, by a file, and by calls over multicast.

    seeds        10.0.0.2:7600       used as it is
                 orders.local:7600   looked up: all its records, again and again, forever
    seeds file   the same, one a line; read again when it changes
    this machine what others have registered where its user's nodes are; looked at forever
    multicast    `beacon`: every member says where it listens, often at first, rarely later

What is found is reported as `SeedsChanged`, and the driver sends what is for all there, where there is no multicast.
Nothing here waits for a name server: lookups have threads of their own, one per name, that nobody waits for at the
end.  A name that cannot be resolved keeps the addresses it had.
"""

import asyncio
import errno
import logging
import os
import socket
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

from doyen.core.clock import Duration, Instant, seconds, to_seconds
from doyen.core.config import Config, Doc, Timeout
from doyen.core.ids import Address, has_port, parse_address
from doyen.core.seeds import PeerHeard, SeedsChanged
from doyen.errors import ConfigError
from doyen.net.driver import Driver
from doyen.net.own_address import family_of

log = logging.getLogger("doyen")

NAMES_MAX: Final = 64
ADDRESSES_MAX: Final = 1024  # Of one name, or of one file.
HEARD_MAX: Final = 64  # Peers that called out, the latest.
FILE_MAX: Final = 1 << 20
LINES_MAX: Final = 4096  # Of a file: nobody waits for more to be read.

Lookup = Callable[[str, int, socket.AddressFamily], list[str]]


class DiscoveryConfig(Config, frozen=True, kw_only=True):
    """Says how often seeds are looked for."""

    resolve_every: Annotated[Timeout, Doc("The time between two lookups of a name.")] = seconds(30)
    retry_first: Annotated[Timeout, Doc("The wait after a failed lookup; doubled up to resolve_every.")] = seconds(1)
    alone_every: Annotated[Timeout, Doc("The longest wait for a lookup while nobody was heard yet.")] = seconds(3)
    file_every: Annotated[Timeout, Doc("The time between two looks at the seeds file.")] = seconds(1)
    local_every: Annotated[Timeout, Doc("The time between two looks at this machine's other nodes.")] = seconds(1)
    beacon_first: Annotated[Timeout, Doc("The wait for the second multicast; doubled up to beacon_last.")] = seconds(1)
    beacon_last: Annotated[Timeout, Doc("The time between calls by multicast in the long run.")] = seconds(60)
    answers_within: Annotated[Timeout, Doc("Members that were heard within this time answer at once.")] = seconds(3)


class Discovery:
    """Keeps a driver's seeds up to date, from `Discovery.attach` until the driver closes."""

    def __init__(
        self,
        driver: Driver,
        default_port: int | None,
        config: DiscoveryConfig,
        lookup: Lookup | None = None,
        group_port: int = 0,
    ) -> None:
        self.driver, self.config = driver, config
        self._default_port, self._group_port = default_port, group_port
        self._lookup = lookup or resolve
        udp = driver.transport.config
        self._family = socket.AF_UNSPEC if udp.speaks_both else family_of(udp.bind.host)
        self._given: tuple[str, ...] = ()
        self._listed: tuple[str, ...] = ()
        self._found: dict[str, tuple[Address, ...]] = {}  # By name as written.
        self._heard: OrderedDict[Address, None] = OrderedDict()
        self._watched: dict[str, asyncio.TimerHandle | None] = {}  # Names; None: being looked up now.
        self._local: Callable[[], Iterable[Address]] | None = None
        self._here: tuple[Address, ...] = ()  # Other nodes of this machine.
        self._local_watch: asyncio.TimerHandle | None = None
        self._file_watch: asyncio.TimerHandle | None = None
        self._file: Path | None = None
        self._file_stamp: Any = ()
        self._told: tuple[Address, ...] = ()
        self._closed = False

    @classmethod
    def attach(
        cls,
        driver: Driver,
        seeds: Iterable[str] = (),
        *,
        file: Path | None = None,
        default_port: int | None = None,
        group_port: int = 0,  # Where a seed without a port may be, too: another group may have the usual one.
        config: DiscoveryConfig | None = None,
        lookup: Lookup | None = None,
        local: Callable[[], Iterable[Address]] | None = None,  # Where other nodes of this machine listen now.
    ) -> "Discovery":
        """Begin to look for seeds, once the driver runs.

        Raises `ConfigError` for a seed that cannot be an address; about one in the file there is only a complaint.
        """
        found = cls(driver, default_port, config or DiscoveryConfig(), lookup, group_port)
        found._given = tuple(seeds)
        found._file = file
        for text in found._given:
            parse_address(text, default_port=default_port)
        driver.watch(found._on_fact)
        driver.on_close(found._close)
        if file is not None:
            found._look_at_file()
        found._local = local
        if local is not None or group_port:
            found._look_around()
        found._refresh()
        return found

    def add(self, seeds: Iterable[str]) -> None:
        """Look for further seeds too, until the process ends.  Raises `ConfigError` for what can be no seed here."""
        found = tuple(seeds)
        for text in found:
            address = parse_address(text, default_port=self._default_port)
            if address.is_numeric:
                self.driver.transport.config.check_peer(address)
        self._given = tuple(dict.fromkeys((*self._given, *found)))
        self._refresh()

    @property
    def seeds(self) -> tuple[Address, ...]:
        return self._told

    def given(self) -> dict[str, tuple[Address, ...]]:
        """Return the seeds that were given or listed, each with its addresses as far as they are known."""
        found = {}
        for text in (*self._given, *self._listed):
            address = parse_address(text, default_port=self._default_port)
            found[text] = (address,) if address.is_numeric else self._found.get(text, ())
        return found

    @property
    def sought(self) -> tuple[str, ...]:
        """Return the names that have no address yet."""
        return tuple(name for name in self._watched if name not in self._found)

    # Sources.

    def _look_at_file(self) -> None:
        assert self._file is not None
        if self._closed:
            return
        self._file_watch = _later(self.config.file_every, self._look_at_file)
        found = stamp(self._file)
        if found == self._file_stamp:
            return
        try:
            lines = seed_lines(self._file)
        except OSError as error:  # Looked at again: its rights may be mended, which changes no stamp.
            self.driver.complain("seeds file", f"seeds file {self._file}: {error.strerror}; going on with those known")
            return
        self._file_stamp = found
        if lines and lines[-1][0] > LINES_MAX:
            self.driver.complain(
                "long seeds file", f"seeds file {self._file}: only the first {LINES_MAX} lines are read"
            )
        listed = []
        for number, text in lines:
            if number > LINES_MAX:
                break
            try:
                parse_address(text, default_port=self._default_port)
            except ConfigError as error:
                self.driver.complain("seeds file", f"seeds file {self._file}, line {number}: {error}; skipped")
            else:
                listed.append(text)
        self._listed = tuple(listed[:ADDRESSES_MAX])
        self._refresh()

    def _look_around(self) -> None:
        if self._closed:
            return
        self._local_watch = _later(self.config.local_every, self._look_around)
        here = () if self._local is None else tuple(self._local())[:ADDRESSES_MAX]
        if here != self._here or self._group_port:  # Who was heard decides which port of a seed is left out.
            self._here = here
            self._refresh()

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, PeerHeard) and self._usable(fact.address):
            news = fact.address not in self._heard
            self._heard[fact.address] = None
            self._heard.move_to_end(fact.address)
            if len(self._heard) > HEARD_MAX:
                self._heard.popitem(last=False)
            if news:
                self._refresh()

    # Names.

    def _ask(self, name: str, wait: Duration) -> None:
        """Look up a name, in a thread that dies with the process: a name server may be silent for half a minute."""
        self._watched[name] = None
        loop = asyncio.get_running_loop()
        address = parse_address(name, default_port=self._default_port)

        def ask() -> None:
            try:
                found: list[str] | OSError = self._lookup(address.host, address.port, self._family)
            except (OSError, ValueError) as error:  # UnicodeError is a ValueError.
                found = error if isinstance(error, OSError) else OSError(str(error))
            with suppress(RuntimeError):  # The loop has closed meanwhile.
                loop.call_soon_threadsafe(self._on_answer, name, address.port, found, wait)

        threading.Thread(target=ask, name=f"doyen-lookup-{name[:40]}", daemon=True).start()

    def _on_answer(self, name: str, port: int, found: list[str] | OSError, waited: Duration) -> None:
        if self._closed or self._watched.get(name, self) is not None:
            return  # Nobody waits for it: no longer, or another lookup of that name was answered before.
        if isinstance(found, OSError) or not found:
            wait, after = waited, waited * 2
            why = found.strerror or str(found) if isinstance(found, OSError) else "it has no address of our IP version"
            self.driver.complain("seed name", f"seed {name}: {why}; trying again forever")
        else:
            self._found[name] = tuple(Address(host, port) for host in found[:ADDRESSES_MAX])
            wait, after = self.config.resolve_every, self.config.retry_first
            self._refresh()
        # Nobody was heard yet: the records may be this node's own, or old, because the others start only now.
        longest = self.config.resolve_every if self.driver.received_count else self.config.alone_every
        self._watched[name] = _later(min(wait, longest), lambda: self._ask(name, min(after, self.config.resolve_every)))

    def _refresh(self) -> None:
        """Watch exactly the names wanted, and notify the machines of the seeds if they changed."""
        addresses: dict[Address, None] = {}
        names: dict[str, None] = {}
        for text in (*self._given, *self._listed):
            address = parse_address(text, default_port=self._default_port)
            if address.is_numeric:
                addresses |= dict.fromkeys(self._at_either_port(text, (address,)))
            elif len(names) < NAMES_MAX:
                names[text] = None
                addresses |= dict.fromkeys(self._at_either_port(text, self._found.get(text, ())))
        for name in [name for name in self._watched if name not in names]:
            handle = self._watched.pop(name)
            self._found.pop(name, None)
            if handle is not None:
                handle.cancel()
        for name in names:
            if name not in self._watched:
                self._ask(name, self.config.retry_first)
        addresses |= dict.fromkeys(self._here)
        self.driver.addresses.given = frozenset(addresses)
        addresses |= self._heard
        told = tuple(address for address in addresses if self._usable(address))
        if told != self._told and self.driver.running:
            self._told = told
            self.driver.addresses.seeds = told
            self.driver.tell(SeedsChanged(told))

    def _at_either_port(self, text: str, found: Sequence[Address]) -> Iterator[Address]:
        """Yield a seed's addresses; if it names no port also those at the group's own, until one of both was heard."""
        if not self._group_port or has_port(text):
            yield from found
            return
        heard = set(self.driver.addresses.heard_from().values())
        for usual in found:
            own = Address(usual.host, self._group_port)
            if own not in heard:
                yield usual
            if usual not in heard:
                yield own

    def _usable(self, address: Address) -> bool:
        try:
            self.driver.transport.config.check_peer(address)
        except ConfigError as error:
            self.driver.complain("seed", f"seed {address}: {error}; skipped")
            return False
        return address != self.driver.transport.address

    def _close(self) -> None:
        self._closed = True
        for timer in (self._file_watch, self._local_watch, *self._watched.values()):
            if timer is not None:
                timer.cancel()


def _later(wait: Duration, then: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(to_seconds(wait), then)


def resolve(host: str, port: int, family: socket.AddressFamily) -> list[str]:
    """Return all addresses of a name, in an order that does not change from lookup to lookup."""
    found = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM)
    return sorted({str(record[4][0]) for record in found})


def seed_lines(path: Path) -> list[tuple[int, str]]:
    """Return the seeds that a file names, each with the number of its line; raise `OSError` if it cannot be read."""
    # Not waited for: the writer of a pipe may never come, and the node would hang here.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8", errors="replace") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        lines = file.read(FILE_MAX).splitlines()
    return [(number, text) for number, line in enumerate(lines, start=1) if (text := line.split("#")[0].strip())]


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does; None if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
