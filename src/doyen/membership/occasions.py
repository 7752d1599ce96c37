"""Remembers which occasions were done, and asks the other members before one is done again: `doyen run --once`.

An occasion has a key (a date, say).  The runner that did it notifies all members that are present, again until each
has acknowledged; a member acknowledges once its own record is durable.  A runner that is about to act asks all first.

    Inquire  ─▶ Question to all ─▶ Undone of all, or patience over ─▶ Inquired, with those that are silent
                                └▶ Done of one ─▶ OccasionDone
    Conclude ─▶ record ─▶ Done to all ─▶ Noted of all, or patience over ─▶ Concluded, with those that are silent

The promise is *at least once*: the occasion may be done again if the member that did it dies before others know, if a
member could not be reached, or if nobody who remembers is up.  The empty key stands for "this gathering": it is
remembered while somebody is there, and never on a disk (decision 120).

`now` grows from boot to boot, so records are dated by the wall clock: `epoch` is its time where `now` was 0.
"""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from doyen.core.clock import Duration, Instant, ms, seconds
from doyen.core.commands import Conclude, Inquire, Kept, Recall
from doyen.core.effects import Out
from doyen.core.ids import Incarnation, Name, NodeId
from doyen.core.machine import Hears, hears
from doyen.core.view import Status, ViewChanged
from doyen.errors import ConfigError

KEY_BYTES_MAX: Final = 100
OCCASIONS_MAX: Final = 1000  # What is remembered at once; those that end soonest make room.
STRANGERS_MAX: Final = 1000  # Members that were heard before the membership named them.
RETRY: Final[Duration] = ms(200)  # Between two copies to a member that has not answered.
PATIENCE: Final[Duration] = seconds(3)  # How long a member that is present may be silent.
REMEMBER_MAX: Final[Duration] = seconds(10 * 365 * 24 * 3600)

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────

Key = Annotated[str, Meta(max_length=KEY_BYTES_MAX)]
Nanoseconds = Annotated[int, Meta(ge=0, le=2**62)]


class Question(Struct, frozen=True, gc=False, array_like=True, tag="q"):
    """Asks whether that occasion was done."""

    key: Key


class Undone(Struct, frozen=True, gc=False, array_like=True, tag="u"):
    """Says that the sender does not know that occasion to be done."""

    key: Key


class Done(Struct, frozen=True, gc=False, array_like=True, tag="d"):
    """Says who did that occasion, when by its wall clock, and for how long from now that is to be remembered."""

    key: Key
    by: Name
    at: Nanoseconds
    left: Annotated[int, Meta(gt=0, le=REMEMBER_MAX)]


class Noted(Struct, frozen=True, gc=False, array_like=True, tag="n"):
    """Acknowledges `Done`: the sender keeps it."""

    key: Key


class RetryIsDue(Struct, frozen=True, gc=False):
    """Members that have not answered get another copy, unless patience is over."""


# ── Record and facts ────────────────────────────────────────────────────────────────────────────────────────


class Memory(Struct, frozen=True):
    """The record on the disk; a directory may be used for several groups, each with its own occasions."""

    group: str
    done: tuple[Kept, ...]


class OccasionDone(Struct, frozen=True):
    """The occasion was done, by another member or in an earlier incarnation."""

    key: str
    by: NodeId
    at: int


class Inquired(Struct, frozen=True):
    """Nobody who answered knows the occasion to be done; these members did not answer."""

    silent: tuple[NodeId, ...]


class Concluded(Struct, frozen=True):
    """The others were notified: some know that the occasion is done, and some did not answer, or have failed."""

    told: tuple[NodeId, ...]
    silent: tuple[NodeId, ...]


# ── The machine ─────────────────────────────────────────────────────────────────────────────────────────────


class Occasions:
    """One member's memory of occasions, and its questions about the one occasion that it is here for."""

    MESSAGES: ClassVar[Any] = Question | Undone | Done | Noted
    RECORD: ClassVar[Any] = Memory

    def __init__(
        self,
        me: NodeId,
        group: str,
        key: str,
        out: Out,
        *,
        epoch: int,
        restored: Memory | None,
    ) -> None:
        self.me, self.group, self.key, self.epoch = me, group, key, epoch
        self._out = out
        self.done: dict[str, Kept] = {}
        if restored is not None and restored.group == group:
            self.done = {kept.key: kept for kept in restored.done}
        self._others: dict[NodeId, tuple[Status, Incarnation]] = {}  # The members of the view.
        self._strangers: set[NodeId] = set()  # Those that spoke here before the view had them.
        self._unanswered: set[NodeId] = set()
        self._untold: set[NodeId] = set()
        self._told: set[NodeId] = set()
        self._ask_until: Instant = 0
        self._tell_until: Instant = 0
        self._inquiring = self._telling = self._retrying = False

    # Inputs.

    def start(self, now: Instant) -> None:
        self._see(now)

    def on_recall(self, command: Recall, now: Instant) -> None:
        for kept in command.done:
            known = self.done.get(kept.key)
            if known is None or known.until < kept.until:
                self.done[kept.key] = kept
        self._see(now)

    def on_inquire(self, command: Inquire, now: Instant) -> None:
        self._inquiring, self._ask_until = True, now + PATIENCE
        self._unanswered = set(self._reachable())
        self._ask(self._unanswered, now)
        self._settle(now)

    def on_conclude(self, command: Conclude, now: Instant) -> None:
        at = self.epoch + now
        self._keep(Kept(self.key, self.me, at, at + min(command.remember, REMEMBER_MAX)), now)
        self._telling, self._tell_until = True, now + PATIENCE
        self._untold, self._told = set(self._reachable()), set()
        self._tell(self._untold, now)
        self._settle(now)

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        fresh = []
        for node in fact.changed:
            member = fact.view.members.get(node)
            before = self._others.pop(node, None)
            self._strangers.discard(node)
            if member is None or node == self.me:
                continue
            self._others[node] = (member.status, member.incarnation)
            was_here = before is not None and before[0] in _PRESENT and before[1] == member.incarnation
            if member.present and not was_here:
                fresh.append(node)
            elif not member.present:
                self._unanswered.discard(node)
                self._untold.discard(node)
        if fresh:
            self._meet(fresh, now)
        self._settle(now)

    HEARS: ClassVar[Hears] = (
        hears(ViewChanged, on_view_changed)
        | hears(Inquire, on_inquire)
        | hears(Conclude, on_conclude)
        | hears(Recall, on_recall)
    )

    def on_message(self, sender: NodeId, message: Question | Undone | Done | Noted, now: Instant) -> None:
        if sender not in self._others and len(self._strangers) < STRANGERS_MAX:
            self._strangers.add(sender)
        match message:
            case Question(key):
                kept = self._remembered(key, now)
                self._out.send(sender, Undone(key) if kept is None else self._done(kept, now))
            case Undone(key) if key == self.key:
                self._unanswered.discard(sender)
            case Done(key, by, at, left):
                if self._remembered(key, now) is None:
                    self._keep(Kept(key, by, at, self.epoch + now + left), now)
                self._out.send(sender, Noted(key))  # The port holds it until the record is durable.
                if key == self.key:
                    self._see(now)
            case Noted(key) if key == self.key and sender in self._untold:
                self._untold.discard(sender)
                self._told.add(sender)
        self._settle(now)

    def on_timer(self, timer: RetryIsDue, now: Instant) -> None:
        self._retrying = False
        if now < self._ask_until:
            self._ask(self._unanswered, now)
        if self._telling and now < self._tell_until:
            self._tell(self._untold, now)
        self._settle(now)

    # Steps.

    def _reachable(self) -> list[NodeId]:
        present = [node for node, (status, _) in self._others.items() if status in _PRESENT]
        return sorted({*present, *self._strangers})

    def _meet(self, nodes: list[NodeId], now: Instant) -> None:
        """Ask members that have just come, and notify them if this member has done the occasion."""
        if self._telling:
            self._untold.update(nodes)
            self._tell(nodes, now)
        elif self._remembered(self.key, now) is None:
            if not self._inquiring:
                self._ask_until = now + PATIENCE
            self._unanswered.update(nodes)
            self._ask(nodes, now)

    def _ask(self, nodes: Iterable[NodeId], now: Instant) -> None:
        for node in sorted(nodes):
            self._out.send(node, Question(self.key))
            self._retry_later(now)

    def _tell(self, nodes: Iterable[NodeId], now: Instant) -> None:
        kept = self._remembered(self.key, now)
        for node in sorted(nodes) if kept is not None else ():
            assert kept is not None
            self._out.send(node, self._done(kept, now))
            self._retry_later(now)

    def _retry_later(self, now: Instant) -> None:
        if not self._retrying:
            self._retrying = True
            self._out.set_timer(RetryIsDue(), now + RETRY)

    def _settle(self, now: Instant) -> None:
        """Say how a question or a notification went, once everybody has answered or patience is over."""
        if self._inquiring and (not self._unanswered or now >= self._ask_until):
            self._inquiring = False
            if self._remembered(self.key, now) is None:
                self._out.emit(Inquired(tuple(sorted(self._unanswered))))
        if self._telling and (not self._untold or now >= self._tell_until):
            self._telling = False
            failed = {node for node, (status, _) in self._others.items() if status is Status.FAILED}
            self._out.emit(Concluded(tuple(sorted(self._told)), tuple(sorted(self._untold | failed))))

    def _see(self, now: Instant) -> None:
        """Emit it if the occasion is known to be done."""
        kept = self._remembered(self.key, now)
        if kept is not None:
            self._out.emit(OccasionDone(kept.key, kept.by, kept.at))

    def _remembered(self, key: str, now: Instant) -> Kept | None:
        kept = self.done.get(key)
        return kept if kept is not None and kept.until > self.epoch + now else None

    def _done(self, kept: Kept, now: Instant) -> Done:
        return Done(kept.key, kept.by, kept.at, min(kept.until - self.epoch - now, REMEMBER_MAX))

    def _keep(self, kept: Kept, now: Instant) -> None:
        lasting = [known for known in self.done.values() if known.key != kept.key and known.until > self.epoch + now]
        lasting.sort(key=lambda known: -known.until)
        self.done = {known.key: known for known in (kept, *lasting[: OCCASIONS_MAX - 1])}
        if kept.key == self.key:
            self._unanswered.clear()  # There is nothing left to ask.
        if kept.key:
            self._out.persist(Memory(self.group, tuple(known for known in self.done.values() if known.key)))


_PRESENT: Final = (Status.ALIVE, Status.SUSPECTED)


def check_key(key: str) -> None:
    """Raise `ConfigError` for a key that cannot name an occasion."""
    if not key or not key.isprintable() or len(key.encode()) > KEY_BYTES_MAX:
        raise ConfigError(
            f"{key[:KEY_BYTES_MAX]!r} cannot name an occasion: give 1 to {KEY_BYTES_MAX} printable bytes, "
            "e.g. a date: --once 2026-03-01"
        )
