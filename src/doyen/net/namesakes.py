"""Two processes of one name: the later one gives up (decision 90).

A process that hears its own name from an earlier one gives up, once it is clear that it hears no straggler of its own
former incarnation.  But two that never hear each other do not find out by themselves; a node that hears both does.  A
later incarnation of a name is believed at once, for processes restart; if the earlier one then goes on sending, not
just one late message, it is no former incarnation but another process.  From then on the earlier one is heard, as it
was there first, the later one is not, and is notified.

An earlier incarnation that was never heard before is no straggler: it may be a restart under a clock that was set back.
It is believed at once, too.

Nothing is sent from here: a `Judgement` says what is to be done with a datagram, and about it.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import Duration, Instant, seconds
from doyen.core.ids import Address, Incarnation, NodeId

CHANNEL: Final = "namesake"
GIVES_UP_AFTER: Final[Duration] = seconds(3)  # Longer than a packet of a former incarnation may be on its way.
RIVALRIES_MAX: Final = 256  # Names with two incarnations; the one longest unheard of is forgotten first.
MESSAGES_APART: Final[Duration] = seconds(1)  # A burst that was held up on its way counts as one message.
MESSAGES_MIN: Final = 4  # From that many messages on it is no straggler.
SILENT_AFTER: Final[Duration] = seconds(30)  # The earlier process is gone: the later one may have the name.
NOTIFY_EVERY: Final[Duration] = seconds(1)


class Namesake(Struct, frozen=True, array_like=True, tag="N"):
    """A notice to the later of two processes: an earlier one, there, has your name."""

    incarnation: int
    host: str
    port: int

    def __post_init__(self) -> None:
        if len(self.host) > 64 or not 0 < self.port < 65536 or not 0 <= self.incarnation < 2**63:
            raise ValueError("no process can be there")


class Arrival(NamedTuple):
    """The source of a datagram, our own address, and the instant at which it came."""

    source: Address
    ours: Address
    now: Instant


class Judgement(Struct, frozen=True):
    """Says whether a datagram is heard, and what is done about the process that sent it."""

    heard: bool
    reason: str = ""  # Why it is not heard: the name under which that is counted.
    complaint: str = ""  # What to say about it in the log.
    notice: Namesake | None = None  # What to send to where it came from.
    gives_up: bool = False  # This process is the later one of its name, and must stop.


HEARD: Final = Judgement(True)
ECHO: Final = Judgement(False, "echo")  # Our own multicast, heard back.
OUTLIVED: Final = Judgement(False, "outlived")  # A message of an incarnation that a later one has followed.
RIVAL: Final = Judgement(False, "rival")  # A message of the later of two that both go on.


class _Rivalry:
    """Two incarnations of one name, and what was heard of each."""

    __slots__ = ("count", "earlier", "earlier_came_second", "heard_at", "later", "notified_at", "proven", "where")

    def __init__(self, earlier: Incarnation, later: Incarnation, now: Instant, *, earlier_came_second: bool) -> None:
        self.earlier, self.later, self.earlier_came_second = earlier, later, earlier_came_second
        self.count = 0  # Messages of the earlier one since the later one began,
        self.heard_at: Instant = now - MESSAGES_APART  # and when the last of them came.
        self.where: Address | None = None  # The earlier one.
        self.proven = False
        self.notified_at: Instant = now - NOTIFY_EVERY


class Namesakes:
    """Judges datagrams by the name and the incarnation of their senders."""

    def __init__(self, me: NodeId, incarnation: Incarnation) -> None:
        self._me, self._incarnation = me, incarnation
        self._earlier: tuple[Incarnation, Instant] | None = None  # An earlier process of our name: since when heard.
        self._answered_at: Instant = -NOTIFY_EVERY  # A later process of our name.
        self._rivalries: OrderedDict[NodeId, _Rivalry] = OrderedDict()

    def is_settled(self, name: NodeId, incarnation: Incarnation, known: Incarnation | None) -> bool:
        """Return whether a name is not ours and has one known incarnation, as in nearly all datagrams."""
        return known in (None, incarnation) and name != self._me and name not in self._rivalries

    def judge(self, name: NodeId, incarnation: Incarnation, known: Incarnation | None, came: Arrival) -> Judgement:
        """Judge a datagram; `known` is the incarnation under which that name was heard last."""
        if name == self._me:
            return ECHO if incarnation == self._incarnation else self._of_our_name(incarnation, came)
        found = self._rivalry(name, incarnation, incarnation if known is None else known, came.now)
        if incarnation == found.earlier:
            return self._of_earlier(found, came)
        return self._of_later(found, name, came)

    # Our own name.

    def on_notice(self, notice: Namesake, now: Instant) -> Judgement:
        """Judge a notice: somebody has heard an earlier process of our name, there."""
        return self._is_called_like_us(Incarnation(notice.incarnation), Address(notice.host, notice.port), now)

    def _of_our_name(self, theirs: Incarnation, came: Arrival) -> Judgement:
        """Answer a later process: if we are its only seed it hears nothing else of us, for we know nobody there."""
        judged = self._is_called_like_us(theirs, came.source, came.now)
        if theirs <= self._incarnation or came.now - self._answered_at < NOTIFY_EVERY:
            return judged
        self._answered_at = came.now
        return replace(judged, notice=Namesake(self._incarnation, came.ours.host, came.ours.port))

    def _is_called_like_us(self, theirs: Incarnation, where: Address, now: Instant) -> Judgement:
        """Judge that another process, there, has our name: two of one name would both lead."""
        complaint = f"another process at {where} is called {self._me!r} too: rename one"
        gives_up = False
        if theirs <= self._incarnation:  # A later one will hear us, and give up.
            if self._earlier is None or self._earlier[0] != theirs:
                self._earlier = (theirs, now)
            else:
                gives_up = now - self._earlier[1] > GIVES_UP_AFTER
        return Judgement(False, "namesake", complaint, gives_up=gives_up)

    def is_doubted(self, now: Instant) -> bool:
        """Return whether an earlier process of our name was heard lately, so that this one may have to give up."""
        return self._earlier is not None and now - self._earlier[1] <= 2 * GIVES_UP_AFTER

    # Other names.

    def _rivalry(self, name: NodeId, incarnation: Incarnation, known: Incarnation, now: Instant) -> _Rivalry:
        rivalries = self._rivalries
        found = rivalries.get(name)
        if found is None or incarnation not in (found.earlier, found.later):
            earlier, later = sorted((incarnation, known))
            found = rivalries[name] = _Rivalry(earlier, later, now, earlier_came_second=incarnation < known)
            if len(rivalries) > RIVALRIES_MAX:
                rivalries.popitem(last=False)
        rivalries.move_to_end(name)
        return found

    def _of_earlier(self, found: _Rivalry, came: Arrival) -> Judgement:
        now = came.now
        found.where = came.source
        if now - found.heard_at >= MESSAGES_APART:
            found.heard_at, found.count = now, found.count + 1
            found.proven = found.proven or found.count >= MESSAGES_MIN
        return HEARD if found.proven or found.earlier_came_second else OUTLIVED

    def _of_later(self, found: _Rivalry, name: NodeId, came: Arrival) -> Judgement:
        now = came.now
        if now - found.heard_at > SILENT_AFTER:
            del self._rivalries[name]
            return HEARD
        if not found.proven:
            return HEARD
        if now - found.notified_at < NOTIFY_EVERY:
            return RIVAL
        found.notified_at = now
        assert found.where is not None
        complaint = f"two processes are called {name!r}, at {found.where} and, later, at {came.source}: rename one"
        notice = Namesake(found.earlier, found.where.host, found.where.port)
        return Judgement(False, "rival", complaint, notice)
