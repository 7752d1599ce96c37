"""The addresses that are heard in the clear and may be sent to: those that echoed a token, and the operator's seeds.

    handshake = C1 · token (8) · echo (8)            17 bytes; the one that is sealed where there is a key

    stranger ──datagram──────────────▶ receiver      dropped: its source may be forged
             ◀─token A, ─────────────
             ──token B, echo A───────▶               the stranger is heard from here on, and may be sent to
             ◀─────────, echo B──────                and so may the receiver; what was dropped is said again

So nobody can make a group send more to somebody else than he sends himself: an answer to an address that has not echoed
is smaller than what it answers, and paced.  Addresses that others only name are no exception.  A process that has just
started asks those for an echo, with fewer bytes than it has heard; later that is so rare that the whole group asks one
of them in ten seconds, however many are named.  A newcomer asks those who are there, so that they need not ask it
(decision 84).

Nothing is authenticated by it: anybody who has an address may speak under any name from there.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from doyen.core.ids import Address
from doyen.errors import RemoteProtocolError
from doyen.net.address_book import AddressBook
from doyen.net.credit import Credit, is_room
from doyen.net.handshake import ASKING_BYTES, MARK, NONE, TOKEN_BYTES, Pace, Said, Tokens

ECHOED_MAX: Final = 4096  # Addresses remembered; the one longest unheard of must echo again.
ECHOED_FOR_S: Final = 3600.0  # An address that was not heard for this time must echo again.
YOUNG_S: Final = 60.0  # For this time after its start a process asks every address that others name.
NAMED_EVERY_S: Final = 10.0  # Later the whole group asks one such address in that time.
WAIT_S, WAIT_MAX_S = 0.2, 10.0  # From one question to an address that does not echo to the next: twice as long each.
DEAF_AFTER: Final = 5  # Questions without an echo to one source that goes on sending.
AGAIN_BYTES: Final = 5 * ASKING_BYTES  # The most that is said again: with our question three times the stranger's own.
DEAF: Final = (
    "its source goes on sending and does not echo: it runs doyen 0.1, which a group without a key does not hear "
    "(upgrade it, or give the group a key first: doyen keys new), or the source is forged"
)

Send = Callable[[bytes, Address], None]


class _Asked:
    """An address that was asked for an echo: how often in vain, and when to ask again if others name it."""

    __slots__ = ("count", "next_at", "unanswered")

    def __init__(self) -> None:
        self.count, self.unanswered, self.next_at = 0, 0, 0.0


class Echoes:
    """One node's addresses that have echoed; it sends handshakes, and nothing else."""

    def __init__(self, book: AddressBook, clock: Callable[[], float], rng: Random, send: Send) -> None:
        self._book, self._clock, self._rng, self._send = book, clock, rng, send
        self.credit = Credit(clock, send)
        self._tokens, self._pace, self._said = Tokens(), Pace(clock(), ECHOED_MAX), Said()
        self._echoed: OrderedDict[Address, float] = OrderedDict()  # When each was last heard; the longest ago first.
        self._asked: OrderedDict[Address, _Asked] = OrderedDict()  # Who was asked, and has not echoed.
        self._young_until = clock() + YOUNG_S
        self._earned = 0  # Bytes that may be spent on addresses that others name, while young.
        self._named_at: float | None = None  # From then on, when old, one such address is asked.

    def has_echoed(self, address: Address) -> bool:
        at = self._echoed.get(address)
        return at is not None and self._clock() - at < ECHOED_FOR_S

    def is_named(self, address: Address) -> bool:
        """Return whether the operator gave that address, or a view puts a member there: it is no mere listener."""
        return address in self._book.given or self._book.is_in_view(address)

    # In.

    def hears(self, data: bytes, source: Address) -> bool:
        """Return whether to take a datagram: it is sealed, or its source has echoed; answer a handshake.

        Raises `RemoteProtocolError` for anything else, and asks its source for an echo, now and then.
        """
        if is_handshake(data):
            self._take(data, source)
            return False
        if data[:1] == MARK:
            return True
        now = self._clock()
        at = self._echoed.get(source)
        if at is not None and now - at < ECHOED_FOR_S:
            self._echoed[source] = now
            self._echoed.move_to_end(source)
            if now < self._young_until:
                self._earned += len(data)
            if is_room(data):
                self.credit.on_room(data, source)
                return False
            self.credit.earn(source, len(data))
            return True
        if len(data) >= ASKING_BYTES and self._pace.allows((source, True), now):
            self._asked_of(source).unanswered += 1
            self._ask(source, now)
        asked = self._asked.get(source)
        if asked is not None and asked.unanswered >= DEAF_AFTER:
            raise RemoteProtocolError("deaf", DEAF)
        raise RemoteProtocolError("unproven", "may be forged: its source must echo our token first")

    def _take(self, data: bytes, source: Address) -> None:
        """Take a handshake, and answer it."""
        now, mark = self._clock(), str(source).encode()
        token, echo = data[1 : 1 + TOKEN_BYTES], data[1 + TOKEN_BYTES :]
        if echo == NONE:
            if token != NONE and self._pace.allows((source, False), now):
                self._send(MARK + self._tokens.token(mark, now) + token, source)
            return
        if not self._tokens.knows(echo, mark, now):
            raise RemoteProtocolError("handshake", "echoes a token that is not ours, or too old")
        is_new = not self.has_echoed(source)
        self._echoed[source] = now
        self._echoed.move_to_end(source)
        self._asked.pop(source, None)
        if len(self._echoed) > ECHOED_MAX:
            self._echoed.popitem(last=False)
        if token != NONE:
            self._send(MARK + NONE + token, source)
        if token == NONE or is_new:
            for words, _ in self._said.again(source, now):
                if len(words) <= AGAIN_BYTES or source in self._book.given:
                    self._send(words, source)

    # Out.

    def note_to_all(self, data: bytes) -> None:
        """Note what is multicast: somebody who does not hear us yet may ask."""
        self._said.note(None, data, None, self._clock())

    def lets_out(self, to: Address, data: bytes | None = None) -> bool:
        """Return whether a datagram may go there; if not, ask for an echo.

        Meanwhile a datagram that is not for all is kept for a moment.
        """
        if data is not None:
            self._said.note(to, data, None, self._clock())
        if self.has_echoed(to) or to in self._book.given:
            return True
        self.on_named((to,))
        return False

    def on_named(self, addresses: Iterable[Address]) -> None:
        """Ask addresses that others name for an echo, those that have not echoed and may be asked."""
        now = self._clock()
        for address in addresses:
            if self.has_echoed(address):
                continue
            if now < self._young_until:
                self._introduce(address, now)
            elif self._named_at is None:
                self._named_at = now + self._rng.expovariate(1 / (NAMED_EVERY_S * max(1, len(self._book))))
            elif now >= self._named_at:
                self._named_at = None
                self._ask(address, now)

    def _introduce(self, address: Address, now: float) -> None:
        asked = self._asked_of(address)
        if self._earned >= ASKING_BYTES and now >= asked.next_at and self._pace.allows((address, True), now):
            self._earned -= ASKING_BYTES
            asked.next_at = now + min(WAIT_MAX_S, WAIT_S * 2**asked.count)
            asked.count = min(asked.count + 1, 8)
            self._ask(address, now)

    def _ask(self, address: Address, now: float) -> None:
        self._send(MARK + self._tokens.token(str(address).encode(), now) + NONE, address)

    def _asked_of(self, address: Address) -> _Asked:
        asked = self._asked.get(address)
        if asked is None:
            asked = self._asked[address] = _Asked()
            if len(self._asked) > ECHOED_MAX:
                self._asked.popitem(last=False)
        self._asked.move_to_end(address)
        return asked


def is_handshake(data: bytes) -> bool:
    """Return whether a datagram is a handshake in the clear; sealed ones are longer."""
    return len(data) == ASKING_BYTES and data[:1] == MARK
