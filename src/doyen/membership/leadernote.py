"""Lets every member know what the leader says of itself: its address, its words, and since when it leads.

An election names a leader and says nothing else of it.  So the leader sends a note, once per term, to all; a member
that names a leader and has no note of this term asks for it, a few times.  Nothing is sent while nothing changes.

    elected ─▶ Description to all ─ lost ─▶ Ask, after 0.1 s, 0.2 s, 0.4 s, … ─▶ Description to the one that asks
    the leader's words change ─▶ Description to all, a few times

There is one machine per election; it follows that election's facts.  `since` is the leader's own wall clock, so that
all members show the same; a machine has no clock, so its node gives it (`DescribeLeader`).
"""

from math import isfinite
from random import Random
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from doyen.core.clock import Duration, Instant, ms
from doyen.core.commands import DescribeLeader
from doyen.core.effects import Out
from doyen.core.ids import Address, Count, Incarnation, NodeId, TermNumber
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Hears, hears
from doyen.core.seeds import OwnAddressChanged
from doyen.membership.notes import META_BYTES_MAX, words_size

ASK_AFTER: Final[Duration] = ms(100)  # Until the first question: the leader's note is on its way.  Then doubled.
ASKS_MAX: Final = 9  # The last comes after 51 s or so; a leader of an earlier version never answers.
REPEATS: Final[tuple[Duration, ...]] = (ms(500), ms(2500))  # After a change of words, which nobody asks for.
HOST_MAX: Final = 255
SINCE_MAX: Final = 2.0**40  # Seconds: any date that a calendar can show.

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Ask(Struct, frozen=True, gc=False, array_like=True, tag="a"):
    """Asks the leader for its note."""


class Description(Struct, frozen=True, array_like=True, tag="t"):
    """The note of a leader; the newest counts."""

    incarnation: Annotated[Incarnation, Meta(ge=0)]
    term: TermNumber
    version: Count  # Of the words.
    since: Annotated[
        float, Meta(ge=-SINCE_MAX, lt=SINCE_MAX)
    ]  # The leader's wall clock when it was elected, in seconds.
    host: Annotated[str, Meta(max_length=HOST_MAX)] = ""  # Where others reach it; "": it does not know.
    port: Annotated[int, Meta(ge=0, lt=65536)] = 0
    words: dict[str, str] = {}

    def __post_init__(self) -> None:
        if words_size(self.words) > META_BYTES_MAX or not self.host.isprintable() or not isfinite(self.since):
            raise ValueError("a leader's note is too large, or says what cannot be")

    @property
    def age(self) -> tuple[int, int, int]:
        return self.incarnation, self.term, self.version

    @property
    def address(self) -> Address | None:
        return Address(self.host, self.port) if self.host else None


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class AskIsSent(Struct, frozen=True, gc=False):
    """The leader is asked for its note, unless it has come."""

    number: int  # How often somebody was named when it was set.
    asked: int  # How often the leader was asked before.


class ChangeIsRepeated(Struct, frozen=True, gc=False):
    """The leader repeats a note whose words have changed, for members that missed it."""

    version: int


# ── Facts ───────────────────────────────────────────────────────────────────────────────────────────────────


class LeaderDescribed(Struct, frozen=True, gc=False):
    """The note of the leader that this node names has come, or has changed."""

    leader: NodeId


# ── The machine ─────────────────────────────────────────────────────────────────────────────────────────────


class LeaderNote:
    """The note of one election's leader: this node's own while it leads, else the one that the leader sent."""

    __slots__ = ("_answered", "_early", "_leads", "_named", "_number", "_out", "_own", "_rng", "_sent", "me", "told")
    MESSAGES: ClassVar[Any] = Ask | Description

    def __init__(
        self,
        me: NodeId,
        incarnation: Incarnation,
        address: Address | None,
        words: dict[str, str],
        out: Out,
        rng: Random,
        *,
        version: int = 0,
    ) -> None:
        self.me = me
        self._out, self._rng = out, rng
        host, port = ("", 0) if address is None else (address.host, address.port)
        self._own = Description(incarnation, 1, version, 0.0, host, port, words)
        self._leads = False  # And its node has said since when.
        self._sent: Description | None = None  # What all were told last in this reign.
        self._named: tuple[NodeId, int] | None = None  # The leader, and its term.
        self._number = 0  # Of times that somebody was named.
        self._answered = False  # The leader has sent a note since it was named.
        self.told: Description | None = None  # By the leader that is named.
        self._early: tuple[NodeId, Description] | None = None  # By somebody who may be named next.

    def of(self, leader: NodeId) -> Description | None:
        """Return the note of that leader, if this node names it and has its note."""
        if leader == self.me:
            return self._own if self._leads else None
        return self.told if self._named is not None and self._named[0] == leader else None

    # Inputs.

    def start(self, now: Instant) -> None:
        pass

    def on_elected(self, fact: LeaderElected, now: Instant) -> None:
        """Ask the leader for its note, unless it has come; the note of this node itself waits for `DescribeLeader`."""
        leader, number = fact.term.leader, fact.term.number
        if self._named == (leader, number):
            return
        if self._named is None or self._named[0] != leader:
            self.told = None
            if self._early is not None and self._early[0] == leader:
                self.told = self._early[1]
        self._named, self._number, self._answered = (leader, number), self._number + 1, False
        if leader == self.me:
            self._own = replace(self._own, term=number)
        elif self._is_wanting:
            self._ask_later(0, now)

    def on_lost(self, fact: LeaderLost, now: Instant) -> None:
        leader = fact.term.leader
        if leader == self.me:
            self._leads, self._sent = False, None
        if self._named is not None and self._named[0] == leader:
            if self.told is not None:
                self._early = (leader, self.told)  # It may be named again.
            self._named = self.told = None

    def on_describe(self, command: DescribeLeader, now: Instant) -> None:
        """Take what the note of this node is to say, and send it to all if this node leads."""
        own = self._own
        if command.since is not None:
            own, self._leads = replace(own, since=command.since), True
        if command.words is not None:
            own = replace(own, words=dict(command.words), version=command.version)
        self._own = own
        if self._leads and own != self._sent:
            self._sent = own
            self._out.multicast(own)
            if command.words is not None:
                self._out.emit(LeaderDescribed(self.me))
                for wait in REPEATS:
                    self._out.set_timer(ChangeIsRepeated(own.version), now + wait)

    def on_own_address_changed(self, fact: OwnAddressChanged, now: Instant) -> None:
        """Say the new address in this node's note, at once if it leads."""
        self._own = replace(self._own, host=fact.address.host, port=fact.address.port, version=self._own.version + 1)
        if self._leads:
            self._sent = self._own
            self._out.multicast(self._own)
            self._out.emit(LeaderDescribed(self.me))

    HEARS: ClassVar[Hears] = (
        hears(LeaderElected, on_elected)
        | hears(LeaderLost, on_lost)
        | hears(DescribeLeader, on_describe)
        | hears(OwnAddressChanged, on_own_address_changed)
    )

    def on_message(self, sender: NodeId, message: Ask | Description, now: Instant) -> None:
        if sender == self.me:
            return
        if isinstance(message, Ask):
            if self._leads:
                self._out.send(sender, self._own)
        elif self._named is not None and sender == self._named[0]:
            self._answered = True
            if self.told is None or message.age > self.told.age:
                self.told = message
                self._out.emit(LeaderDescribed(sender))
        elif self._early is None or self._early[0] != sender or message.age > self._early[1].age:
            self._early = (sender, message)

    def on_timer(self, timer: AskIsSent | ChangeIsRepeated, now: Instant) -> None:
        if isinstance(timer, ChangeIsRepeated):
            if self._leads and timer.version == self._own.version:
                self._out.multicast(self._own)
        elif timer.number == self._number and self._named is not None and self._is_wanting:
            self._out.send(self._named[0], Ask())
            if timer.asked + 1 < ASKS_MAX:
                self._ask_later(timer.asked + 1, now)

    # Steps.

    @property
    def _is_wanting(self) -> bool:
        """Return whether the leader's note of this term is still to come.

        Members of a weak election may number one reign differently, so any note counts that came since it was named.
        """
        if self._named is None or self._answered:
            return False
        return self.told is None or self.told.term < self._named[1]

    def _ask_later(self, asked: int, now: Instant) -> None:
        wait = int((0.5 + self._rng.random()) * ASK_AFTER * 2**asked)  # Not all members at one instant.
        self._out.set_timer(AskIsSent(self._number, asked), now + wait)
