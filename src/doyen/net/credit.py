"""Bounds what an address gets as answers in the clear: twice what it sent; who is to get more pays first.

    room = C0 · bytes short (4) · padding            the first byte is of no other datagram

    bee ──question──────────────▶ ant      its answer is more than bee has sent
        ◀─room, 3,000 short──────          so ant holds it back
        ──room, 0 short, padded─▶          bee pays, with twice what it got at the most, as for any answer
        ◀─answer─────────────────

What is sent while a datagram of that address is handled counts as an answer to it; and so does all that is sent later,
to somebody who is in no view and no seed, until it has sent `FEE` bytes once.  So an idle group sends
what it did before, and a member that others hear all day has credit for long answers.  Two that have just met exchange
one or two rooms.  A stranger that pays gets what it pays for, and one that does not gets little (decision 85).
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from doyen.core.ids import Address

MARK: Final = b"\xc0"
HEAD_BYTES: Final = 5
ROOM_MAX: Final = 1200  # Bytes of one room: a datagram that passes everywhere.
RATIO: Final = 2  # Bytes of answers for a byte that came.
CREDIT_MAX: Final = 16 * 1024  # Saved for later answers: more than the longest has.
ADDRESSES_MAX: Final = 4096  # The one longest unheard of begins anew.
HELD_MAX: Final = 12  # Datagrams held for one address,
HOLDERS_MAX: Final = 64  # and addresses that some are held for.
HELD_FOR_S: Final = 1.0  # What is older is lost, as a packet may be.
ASK_EVERY_S: Final = 0.1
FEE: Final = 1000  # Bytes after which an address gets all that is for all.
FREE_EVERY_S: Final = 10.0  # The interval at which the smallest room asks an address without any credit.

Send = Callable[[bytes, Address], None]


class _Account:
    """An account of one address: what it has sent, and the answers that it may still get for it."""

    __slots__ = ("balance", "received")

    def __init__(self) -> None:
        self.balance = self.received = 0


class _Held:
    """The datagrams that one address is to get once it has paid."""

    __slots__ = ("asked_at", "datagrams")

    def __init__(self, now: float) -> None:
        self.asked_at = now - ASK_EVERY_S
        self.datagrams: deque[tuple[float, bytes]] = deque(maxlen=HELD_MAX)

    def size(self, now: float) -> int:
        """Return the bytes that are still worth sending."""
        while self.datagrams and now - self.datagrams[0][0] > HELD_FOR_S:
            self.datagrams.popleft()
        return sum(len(data) for _, data in self.datagrams)


class Credit:
    """The credit of each address with this node, and what is held back for lack of it."""

    def __init__(self, clock: Callable[[], float], send: Send) -> None:
        self._clock, self._send = clock, send
        self._accounts: OrderedDict[Address, _Account] = OrderedDict()  # The one longest unheard of first.
        self._held: OrderedDict[Address, _Held] = OrderedDict()

    def earn(self, source: Address, size: int) -> None:
        """Count bytes that came from an address, and send what was held for it, as far as they pay for it."""
        account = self._accounts.get(source)
        if account is None:
            account = self._accounts[source] = _Account()
            if len(self._accounts) > ADDRESSES_MAX:
                self._accounts.popitem(last=False)
        else:
            self._accounts.move_to_end(source)
        account.balance = min(CREDIT_MAX, account.balance + RATIO * size)
        account.received = min(FEE, account.received + size)
        if source in self._held:
            self._release(source)

    def knows(self, address: Address) -> bool:
        """Return whether anything came from an address but handshakes."""
        return address in self._accounts

    def lets_answer(self, to: Address, data: bytes) -> bool:
        """Return whether an answer may go at once; if not, it is held, and the address is asked to pay."""
        return self._spend(to, len(data)) or self._hold(to, data)

    def lets_listen(self, to: Address, data: bytes) -> bool:
        """Return whether what answers nothing may go to an address of no member; if not, it is asked for its fee."""
        account = self._accounts.get(to)
        paid = account is not None and account.received >= FEE
        return paid or self._spend(to, len(data)) or self._hold(to, data)

    def on_room(self, data: bytes, source: Address) -> None:
        """Take a room, and pay if it asks for that."""
        self.earn(source, len(data))
        short = int.from_bytes(data[1:HEAD_BYTES], "big")
        held = self._held.get(source)
        if short:
            self._send_room(source, 0, -(-short // RATIO))
        elif held is not None:
            self._ask(source, held, self._clock())

    def _hold(self, to: Address, data: bytes) -> bool:
        """Keep a datagram for later; return False, as it does not go now."""
        now, held = self._clock(), self._held.get(to)
        if held is None:
            held = self._held[to] = _Held(now)
            if len(self._held) > HOLDERS_MAX:
                self._held.popitem(last=False)
        held.datagrams.append((now, data))
        if now - held.asked_at >= ASK_EVERY_S:
            self._ask(to, held, now)
        return False

    def _ask(self, to: Address, held: _Held, now: float) -> None:
        account = self._accounts.get(to) or _Account()
        short = max(held.size(now) - account.balance, RATIO * (FEE - account.received))
        if not held.datagrams:
            return
        if account.balance >= HEAD_BYTES:
            held.asked_at = now
            wanted = min(-(-short // RATIO**2), account.balance // 2)  # Small answers go on meanwhile.
            self._send_room(to, short, wanted)
        elif now - held.asked_at >= FREE_EVERY_S:
            held.asked_at = now
            self._send(room(short, HEAD_BYTES), to)

    def _send_room(self, to: Address, short: int, wanted: int) -> None:
        """Send a room of the size that is wanted, as far as the address has credit for it."""
        account = self._accounts.get(to)
        size = min(max(wanted, HEAD_BYTES), ROOM_MAX, 0 if account is None else account.balance)
        if size >= HEAD_BYTES and self._spend(to, size):
            self._send(room(short, size), to)

    def _release(self, to: Address) -> None:
        held = self._held[to]
        held.size(self._clock())
        while held.datagrams and self._spend(to, len(held.datagrams[0][1])):
            self._send(held.datagrams.popleft()[1], to)
        if not held.datagrams:
            del self._held[to]

    def _spend(self, to: Address, size: int) -> bool:
        account = self._accounts.get(to)
        if account is None or account.balance < size:
            return False
        account.balance -= size
        return True


def room(short: int, size: int) -> bytes:
    return MARK + min(short, 2**32 - 1).to_bytes(HEAD_BYTES - 1, "big") + bytes(size - HEAD_BYTES)


def is_room(data: bytes) -> bool:
    """Return whether a datagram is a room: its padding is zeroes, so that garbage is none."""
    size = len(data)
    return data[:1] == MARK and HEAD_BYTES <= size <= ROOM_MAX and data.count(0, HEAD_BYTES) == size - HEAD_BYTES
