"""Stands between a driver and its transport: seals and opens, and says in the clear who is heard, and what goes out."""

from collections import Counter
from collections.abc import Callable, Iterable
from time import thread_time
from typing import Final

from doyen.core.clock import Instant, seconds
from doyen.core.ids import Address, NodeId
from doyen.errors import RemoteProtocolError
from doyen.net.echoes import Echoes
from doyen.net.handshake import MARK
from doyen.net.keys import ID_BYTES, UnknownKey
from doyen.net.sealed import OVERHEAD, Seal, Unproven
from doyen.net.udp import UdpTransport

HEARD_PER_S: Final = 500  # Datagrams from one address in the clear: members send a few dozens.
SOURCES_MAX: Final = 4096  # Addresses that are counted at once; sources may be forged.
SPENT_PER_S: Final = 0.1  # Seconds of a processor for them: with 100,000 made-up members each takes long.


class Gate:
    """One node's way out and in."""

    def __init__(
        self,
        transport: UdpTransport,
        seal: Seal | None,
        echoes: Echoes | None,
        refused: Counter[str],
        *,
        datagram_max: int,
        clock: Callable[[], Instant],
    ) -> None:
        self.seal, self.echoes, self._transport, self._refused = seal, echoes, transport, refused
        self._clock = clock
        self._datagram_max = datagram_max
        self.answering: Address | None = None  # Whose datagram is being handled.
        self._counts: dict[Address, int] = {}  # Datagrams from each address in this second.
        self._spent_s: dict[Address, float] = {}  # The processor's time that these took,
        self._began_s = 0.0
        self._second_ends: Instant = 0

    @property
    def in_clear(self) -> Echoes | None:
        """Return who may be sent to, where this node speaks in the clear and asks for echoes."""
        return self.echoes if self.seal is None or self.seal.keyring.speaks_clear else None

    # Out.

    def send(self, data: bytes, to: Address, node: NodeId | None) -> bool:
        """Send a datagram, sealed where there is a key; in the clear only where it may go.  Return whether it went."""
        echoes = self.in_clear
        if echoes is None:
            data = data if self.seal is None else self.seal.seal(data, to, node)
        elif not echoes.lets_out(to, data):
            self._refused["unechoed"] += 1
            return False
        elif not self._may_get(to, data, echoes):
            return False
        self._transport.send(data, to)
        return True

    def send_to_all(self, data: bytes, addresses: Iterable[Address]) -> None:
        """Send a datagram by multicast, or to each of these addresses where there is none."""
        echoes = self.in_clear
        if echoes is not None:
            echoes.note_to_all(data)
        elif self.seal is not None:
            data = self.seal.seal(data, None)
        if self._transport.config.multicast is not None:
            self._transport.multicast(data)
            return
        for address in addresses:
            if address == self._transport.address:
                continue
            if echoes is None or (echoes.lets_out(address) and self._may_get(address, data, echoes, is_for_all=True)):
                self._transport.send(data, address)

    def _may_get(self, to: Address, data: bytes, echoes: Echoes, *, is_for_all: bool = False) -> bool:
        """Return whether an address that has echoed gets a datagram at once; if not, it pays for it first."""
        if to == self.answering:
            return echoes.credit.lets_answer(to, data)
        # Its first word is free: else two that have just met would wait for each other.
        begins = not is_for_all and not echoes.credit.knows(to)
        return begins or echoes.is_named(to) or echoes.credit.lets_listen(to, data)

    # In.

    def is_flooded_by(self, source: Address) -> bool:
        """Return whether a source in the clear has sent more in this second than any member does: the rest is not read.

        So the time that a flood costs is left to the others, whose datagrams the kernel would drop.  With a key this is
        not done: there a source may be forged, and a flood of somebody else would silence a member.
        """
        if self.echoes is None or (self.seal is not None and not self.seal.keyring.hears_clear):
            return False
        now, counts = self._clock(), self._counts
        if now >= self._second_ends or len(counts) >= SOURCES_MAX:
            counts.clear()
            self._spent_s.clear()
            self._second_ends = now + seconds(1)
        counts[source] = count = counts.get(source, 0) + 1
        return count > HEARD_PER_S or self._spent_s.get(source, 0.0) > SPENT_PER_S

    def begin(self, source: Address) -> None:
        """Note that a datagram of that source is handled from here on, until `end`."""
        self.answering = source
        self._began_s = thread_time()

    def end(self) -> None:
        source, self.answering = self.answering, None
        if source in self._counts:  # Not where there is a key.
            self._spent_s[source] = self._spent_s.get(source, 0.0) + thread_time() - self._began_s

    def open(self, data: bytes, source: Address) -> tuple[bytes, Address] | None:
        """Return what the codec can read, and where its sender has echoed; None for a handshake, which is answered."""
        hears_clear = self.seal is None or self.seal.keyring.hears_clear
        if hears_clear and self.echoes is not None and not self.echoes.hears(data, source):
            return None
        if self.seal is None:
            if data[:1] == MARK and len(data) > OVERHEAD:
                raise UnknownKey(data[1 : 1 + ID_BYTES], have_any=False)
            return data, source
        if len(data) > self._datagram_max + OVERHEAD:
            raise RemoteProtocolError("oversized", f"{len(data)} bytes, at most {self._datagram_max}, sealed")
        if self.seal.is_own(data):
            self._refused["echo"] += 1
            return None
        try:
            opened = self.seal.open(data, source)
        except Unproven as error:
            if error.question is not None:
                self._transport.send(error.question, source)
            raise
        for answer in opened.answers:
            self._transport.send(answer, source)
        place = opened.place or source
        if self.in_clear is not None:
            self.in_clear.credit.earn(place, len(data))
        return None if opened.datagram is None else (opened.datagram, place)
