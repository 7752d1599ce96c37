"""Datagrams that only the group can read and nobody can forge, alter or play back.

    sealed    = C1 · key id (4) · boot (12) · number (6) · XChaCha20-Poly1305 of the datagram, with its tag (16)
    nonce     = boot · number · zeroes: random per process, counted per datagram, so none comes twice
    associated = all that is in the clear, and the group's name, which is therefore left out of the datagram; where
                 the number's highest bit is set, also the name of the one member that it is for
    handshake = a sealed C1 · token (8) · echo (8) in the place of a datagram

Sealing says that a member of the group wrote this, not when.  So a receiver believes only a *boot* (one start of one
process) that has echoed a token of the receiver's own boot, which no recording from before can hold; from then on
each number counts once, within a window.  Nor does it say for whom: a voter's message to one candidate must not be
handed to another.  So what is for one member is sealed for its name, and opens nowhere else (decision 81).

    stranger ──datagram──────────────▶ receiver      dropped: it may be a recording
             ◀─token A, ─────────────
             ──token B, echo A───────▶               the stranger is believed from here on
             ◀─────────, echo B──────                and so is the receiver; what was dropped is said again

What a boot that is believed says from another address is taken, since it is fresh, but answered where the boot has
echoed, until it echoes from there, too: who records a packet, and sends it on under a forged source before it arrives,
makes nobody answer there (decision 81).

Tokens are made from a secret of this boot, the other's boot and address, and the time, so nothing is kept for
strangers.  An answer to a stranger is never larger than what it answers, goes only where that came from, and at a
bounded rate: nobody can use a group to flood a third party.  The rate is one per boot and host, and one for all: who
plays recordings of a member back from elsewhere uses up none of what that member itself is due.  An echo of a fresh
token is answered always, and what is said again goes only to an address that has just echoed one.

While a group gets its first key, "clear" is one of its keys: then what is not sealed is believed too, and promises
what it did before.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from doyen.core.codec import DIGEST_BYTES, with_digest, without_digest
from doyen.core.ids import Address, NodeId
from doyen.errors import RemoteProtocolError
from doyen.net.handshake import (
    ASKING_BYTES,
    MARK,
    NONE,
    TOKEN_BYTES,
    Pace,
    Said,
    Tokens,
)
from doyen.net.keys import ID_BYTES, NONCE_BYTES, TAG_BYTES, Keyring, UnknownKey

BOOT_BYTES: Final = 12  # Of a million processes, two draw the same once in 10^17 groups.
NUMBER_BYTES: Final = 6  # Enough for a million datagrams a second for four years.
FOR_ONE: Final = 1 << 8 * NUMBER_BYTES - 1  # Of the number: sealed for one member.
HEADER_BYTES: Final = len(MARK) + ID_BYTES + BOOT_BYTES + NUMBER_BYTES
OVERHEAD: Final = HEADER_BYTES + TAG_BYTES  # 39: a datagram of 1400 bytes still fits an Ethernet frame over IPv6.
HANDSHAKE_BYTES: Final = OVERHEAD + ASKING_BYTES

WINDOW: Final = 1024  # Numbers below the highest that may still come, once each.
PLACES_MAX: Final = 4  # Addresses at which one boot has echoed; a host may have several.
BOOTS_MAX: Final = 4096  # Lives remembered; the one longest unheard of must prove itself again.
_SIX: Final = b"\x96"  # A msgpack array of six: version, group, …
_FIVE: Final = b"\x95"  # The same without the group.
_PADDED: Final = b"\x94"  # Then a length, that many bytes, and a digest or zeroes.
_PADDED_MAX: Final = 255
_NO_DIGEST: Final = bytes(DIGEST_BYTES)
_PADDING: Final = bytes(NONCE_BYTES - BOOT_BYTES - NUMBER_BYTES)


class Opened(NamedTuple):
    """The content of a packet: a datagram for the codec, packets to be sent back to its source, or nothing."""

    datagram: bytes | None
    answers: tuple[bytes, ...] = ()
    place: Address | None = None  # Where its sender has echoed: not necessarily its source, which may be forged.


class Unproven(RemoteProtocolError):
    """A packet of the group whose sender has not echoed a token yet; `question` asks it to, and is to be sent to it."""

    def __init__(self, question: bytes | None) -> None:
        super().__init__("unproven", "may be a recording: its sender must echo our token first")
        self.question = question


class Seal:
    """One process's end; it stands between the codec and the transport, and sends nothing itself."""

    def __init__(self, keyring: Keyring, group: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.keyring = keyring
        self.node = NodeId("")  # Who opens what is for one member alone; its driver says it.
        self._group = group.encode()
        self._named = msgspec.msgpack.encode(group)
        self._clock = clock
        self._boots: OrderedDict[bytes, Window] = OrderedDict()  # Those proven, the longest unheard first.
        self._pace, self._said = Pace(clock(), BOOTS_MAX), Said()
        self._moved_pace = Pace(clock(), BOOTS_MAX)  # Members seen elsewhere use up none of what newcomers are due.
        self.proven_count = self.handshake_count = 0
        self._begin_boot()

    def _begin_boot(self) -> None:
        self._pid = os.getpid()
        self.boot, self._number, self._tokens = os.urandom(BOOT_BYTES), 0, Tokens()

    # Out.

    def seal(self, data: bytes, to: Address | None, node: NodeId | None = None) -> bytes:
        """Seal a datagram for one address, or for all (None).

        Where the member at that address is known by its name, nobody else can open it.
        """
        if self.keyring.speaks_clear:
            return data
        self._said.note(to, data, node, self._clock())
        return self._seal(data, node)

    def seal_for_later(self, data: bytes, node: NodeId) -> bytes:
        """Seal a datagram for one member that another process sends, once, before `WINDOW` further ones are sealed.

        It is never said again from here: a will must not leave while its author lives.
        """
        return data if self.keyring.speaks_clear else self._seal(data, node)

    @property
    def number(self) -> int:
        """Return how many datagrams were sealed in this boot."""
        return self._number

    def _seal(self, plain: bytes, node: NodeId | None = None) -> bytes:
        plain = packed(plain, self._named)
        if os.getpid() != self._pid:  # A fork must not repeat a nonce, nor pass for its parent.
            self._begin_boot()
        self._number += 1
        number = self._number if node is None else self._number | FOR_ONE
        counted = self.boot + number.to_bytes(NUMBER_BYTES, "big")
        header = MARK + self.keyring.primary + counted
        return header + self.keyring.seal(plain, self._associated(header, node), counted + _PADDING)

    def _associated(self, header: bytes, node: NodeId | None) -> bytes:
        return header + self._group if node is None else header + self._group + b"\0" + node.encode()

    # In.

    def is_own(self, data: bytes) -> bool:
        """Return whether a packet is our own: a multicast that came back, or a packet that somebody plays back."""
        return data[:1] == MARK and data[1 + ID_BYTES : 1 + ID_BYTES + BOOT_BYTES] == self.boot

    def open(self, data: bytes, source: Address) -> Opened:
        """Open a packet, if its sender is believed.

        Raises `Unproven` for one that may be a recording, and `RemoteProtocolError` for anything else.
        """
        if data[:1] != MARK:
            if self.keyring.hears_clear:
                return Opened(data, (), source)
            raise RemoteProtocolError("clear", "is not sealed, and this group has a key: give its sender the key")
        if len(data) < OVERHEAD:
            raise RemoteProtocolError("seal", f"is too short for a seal: {len(data)} bytes")
        header, counted = data[:HEADER_BYTES], data[1 + ID_BYTES : HEADER_BYTES]
        boot, number = counted[:BOOT_BYTES], int.from_bytes(counted[BOOT_BYTES:], "big")
        addressee = self.node if number & FOR_ONE else None
        number &= FOR_ONE - 1
        window = self._boots.get(boot)
        if window is not None and window.has(number):
            raise RemoteProtocolError("replay", f"comes a second time, or too late: number {number}")
        try:
            associated = self._associated(header, addressee)
            plain = self.keyring.open(data[1 : 1 + ID_BYTES], data[HEADER_BYTES:], associated, counted + _PADDING)
        except UnknownKey:
            raise
        except RemoteProtocolError as error:
            if addressee is None:
                raise
            raise RemoteProtocolError("addressee", f"{error}, or for another member than {addressee}") from None
        if boot == self.boot:
            raise RemoteProtocolError("replay", "is one of our own, come back")
        if window is not None:
            window.take(number)
            self._boots.move_to_end(boot)
        if plain[:1] == MARK:
            return Opened(None, self._on_handshake(plain, boot, number, source))
        place = None if window is None else window.place(source)
        question = None
        if place != source and len(data) >= HANDSHAKE_BYTES:  # Members' are.
            question = self._question(boot, source, self._pace if window is None else self._moved_pace)
        if place is None:
            raise Unproven(question)
        return Opened(unpacked(plain, self._named), () if question is None else (question,), place)

    # The handshake.

    def _question(self, boot: bytes, source: Address, pace: Pace) -> bytes | None:
        now = self._clock()
        if not pace.allows((boot, source.host, True), now):
            return None
        return self._handshake(self._tokens.token(mark(boot, source), now), NONE)

    def _on_handshake(self, plain: bytes, boot: bytes, number: int, source: Address) -> tuple[bytes, ...]:
        """Take a handshake, and return the packets that answer it."""
        if len(plain) != ASKING_BYTES:
            raise RemoteProtocolError("handshake", f"has {len(plain)} bytes")
        token, echo = plain[1 : 1 + TOKEN_BYTES], plain[1 + TOKEN_BYTES :]
        now = self._clock()
        is_known = echo != NONE and self._tokens.knows(echo, mark(boot, source), now)
        if not is_known and token != NONE:  # It asks; an echo for another of its addresses says nothing about this one.
            if not self._pace.allows((boot, source.host, False), now):
                return ()
            return (self._handshake(self._tokens.token(mark(boot, source), now), token),)
        if not is_known:
            raise RemoteProtocolError("handshake", "echoes a token that is not ours, or too old")
        self._prove(boot, number, source)
        return (self._handshake(NONE, token),) if token != NONE else self._repeated(source, now)

    def _prove(self, boot: bytes, number: int, source: Address) -> None:
        if boot in self._boots:
            self._boots[boot].add_place(source)
            return
        self.proven_count += 1
        self._boots[boot] = Window(number, source)  # Whatever it said before this may be a recording.
        if len(self._boots) > BOOTS_MAX:
            self._boots.popitem(last=False)

    def _handshake(self, token: bytes, echo: bytes) -> bytes:
        self.handshake_count += 1
        return self._seal(MARK + token + echo)

    def _repeated(self, to: Address, now: float) -> tuple[bytes, ...]:
        """Return what was last sent there, sealed anew: the other end believes us now, but had dropped it."""
        return tuple(self._seal(data, node) for data, node in self._said.again(to, now))


def packed(data: bytes, named: bytes) -> bytes:
    """Leave the group's name out; pad what is so small that a stranger could not be asked for an echo.

    A digest goes where version 0.1.0 has zeroes, and does not look; a datagram that is too long for that goes without.
    """
    data, digest = without_digest(data)
    rest = data[2 + len(named) :]
    if data[:1] == _SIX and data[2 : len(data) - len(rest)] == named:
        data = _FIVE + data[1:2] + rest
    if len(data) >= ASKING_BYTES and (not digest or len(data) > _PADDED_MAX):
        return data
    return (_PADDED + bytes([len(data)]) + data + digest).ljust(ASKING_BYTES, b"\0")


def unpacked(plain: bytes, named: bytes) -> bytes:
    """Return the datagram that was packed; whatever else it is given, some bytes for the codec to refuse."""
    digest = _NO_DIGEST
    if plain[:1] == _PADDED:
        end = 2 + int.from_bytes(plain[1:2], "big")
        plain, digest = plain[2:end], plain[end : end + DIGEST_BYTES].rjust(DIGEST_BYTES, b"\0")
    if plain[:1] == _FIVE:
        plain = _SIX + plain[1:2] + named + plain[2:]
    return plain if digest == _NO_DIGEST else with_digest(plain, digest)


def mark(boot: bytes, source: Address) -> bytes:
    """Return for whom a token is: one boot, at one address."""
    return boot + str(source).encode()


class Window:
    """The numbers of one boot that have come: the highest, a bit for each of the last WINDOW; and where it echoed."""

    __slots__ = ("_bits", "_highest", "_places")

    def __init__(self, first: int, place: Address) -> None:
        self._highest = first
        self._bits = (1 << WINDOW) - 1  # All up to the first count as seen.
        self._places = [place]  # The one heard last comes last.

    def place(self, source: Address) -> Address:
        """Return where to answer what came from a source: there, if the boot has echoed from there."""
        places = self._places
        if source != places[-1] and source in places:
            self.add_place(source)
        return places[-1]

    def add_place(self, place: Address) -> None:
        self._places[:] = [*(other for other in self._places if other != place), place][-PLACES_MAX:]

    def has(self, number: int) -> bool:
        behind = self._highest - number
        return behind >= 0 and (behind >= WINDOW or bool(self._bits >> behind & 1))

    def take(self, number: int) -> None:
        ahead = number - self._highest
        if ahead > 0:
            self._bits = (self._bits << ahead | 1) & ((1 << WINDOW) - 1) if ahead < WINDOW else 1
            self._highest = number
        else:
            self._bits |= 1 << -ahead
