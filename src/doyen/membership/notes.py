"""Gossips what members say of themselves: a score, whether they may lead, a few words; the newest note counts.

A membership knows who is here; a note says what a member wishes the others to know.  Each member writes only its own
note, and numbers its versions; a member that hears a newer one passes it on, once, to a few; and after an `interval` a
member is asked whether it knows the same, so that a member that missed a note gets it in the end.  While nothing is
new, the intervals grow.

    say ─▶ News to `fan_out` members ─▶ each passes it on once ─▶ …
    after intervals ─▶ Sum to one member ─ differs ─▶ its News ─▶ what it lacks of ours
"""

from collections.abc import Mapping
from itertools import islice
from random import Random
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from doyen.core.clock import Duration, Instant, seconds
from doyen.core.codec import pieces
from doyen.core.commands import ChangeNote
from doyen.core.effects import Out
from doyen.core.hashes import blake2b
from doyen.core.ids import Count, Incarnation, Name, NodeId
from doyen.core.machine import Hears, hears
from doyen.core.view import MembershipView, ViewChanged
from doyen.errors import ConfigError

META_BYTES_MAX: Final = 512  # The words of one member, keys and values together.
NOTES_MAX: Final = 10_000
SLICES_MAX: Final = 8  # Datagrams in one answer.
INTERVAL: Final[Duration] = seconds(5)  # From news to the question whether another member knows the same,
INTERVAL_MAX: Final[Duration] = seconds(30)  # and between such questions while there is no news.
FAN_OUT: Final = 3  # How many members news are passed on to; with 1 most would miss them.
PAYLOAD: Final = 1100  # Bytes of notes in one message, which fit any datagram.

# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Note(Struct, frozen=True, array_like=True):
    """The statement of one member about itself."""

    node: Name
    incarnation: Annotated[Incarnation, Meta(ge=0)]
    version: Count
    score: float | None = None
    eligible: bool = True
    software: Annotated[str, Meta(max_length=32)] = ""
    words: dict[str, str] = {}

    def __post_init__(self) -> None:
        if words_size(self.words) > META_BYTES_MAX or self.score != self.score:
            raise ValueError("a note is too large, or its score no number")

    @property
    def age(self) -> tuple[int, int]:
        return self.incarnation, self.version


class News(Struct, frozen=True, array_like=True, tag="n"):
    """Carries notes; with `answer`, the receiver sends back what it knows better."""

    notes: tuple[Note, ...]
    answer: bool = False


class Sum(Struct, frozen=True, array_like=True, tag="s"):
    """Carries a sum over all notes of the sender; the receiver answers if its own differs."""

    sum: int


class SumIsSent(Struct, frozen=True, gc=False):
    """One member is asked whether it knows the same notes."""

    number: int = 0  # Of the news after which it was set.


class NotesChanged(Struct, frozen=True):
    """Some members say something new of themselves."""

    changed: tuple[NodeId, ...]


# ── The machine ─────────────────────────────────────────────────────────────────────────────────────────────


class Notes:
    """The note of this member, and those of the others."""

    __slots__ = ("_news_no", "_out", "_rng", "_sum", "_view", "_wait", "me", "notes")
    MESSAGES: ClassVar[Any] = News | Sum

    def __init__(self, own: Note, out: Out, rng: Random) -> None:
        self.me, self._out, self._rng = own.node, out, rng
        self.notes: dict[NodeId, Note] = {}
        self._sum = 0
        self._view: MembershipView | None = None
        self._news_no, self._wait = 0, INTERVAL
        self._keep(own)

    @property
    def own(self) -> Note:
        return self.notes[self.me]

    # Inputs.

    def start(self, now: Instant) -> None:
        self._out.set_timer(SumIsSent(), now + int(self._rng.random() * INTERVAL))

    def on_change_note(self, command: ChangeNote, now: Instant) -> None:
        """Replace what the command gives in this member's own note, and pass it on; the rest stays."""
        own = self.own
        if command.words is not None:
            check_words(command.words)
        said = Note(
            self.me,
            own.incarnation,
            own.version + 1,
            own.score if command.score is None else command.score,
            own.eligible if command.eligible is None else command.eligible,
            own.software,
            own.words if command.words is None else dict(command.words),
        )
        self._keep(said)
        self._pass_on((said,))
        self._compare_soon(now)
        self._out.emit(NotesChanged((self.me,)))

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        alone = self._view is None or not self._others()
        self._view = fact.view
        for node in fact.changed:
            if node not in fact.view and node != self.me:
                self._forget(node)
        others = self._others()
        if alone and others:  # A newcomer sends its own note, and asks for those of the others.
            self._pass_on((self.own,))
            self._out.send(self._rng.choice(others), Sum(self._sum))

    HEARS: ClassVar[Hears] = hears(ViewChanged, on_view_changed) | hears(ChangeNote, on_change_note)

    def on_message(self, sender: NodeId, message: News | Sum, now: Instant) -> None:
        if isinstance(message, Sum):
            if message.sum != self._sum:
                self._send_all(sender, answer=True)
            return
        fresh = tuple(note for note in message.notes if self._is_news(note))
        for note in fresh:
            self._keep(note)
        if message.answer:
            theirs = {note.node: note.age for note in message.notes}
            lacking = [note for node, note in self.notes.items() if node in theirs and note.age > theirs[node]]
            if self.me not in theirs:
                lacking.append(self.own)
            if lacking:
                self._send(sender, lacking, answer=False)
        elif 0 < len(fresh) <= 4:  # A whole list is no news to the others.
            self._pass_on(fresh)
        if fresh:
            self._compare_soon(now)
            self._out.emit(NotesChanged(tuple(note.node for note in fresh)))

    def on_timer(self, timer: SumIsSent, now: Instant) -> None:
        if timer.number != self._news_no:
            return
        others = self._others()
        if others:
            self._out.send(self._rng.choice(others), Sum(self._sum))
        self._out.set_timer(timer, now + self._wait)
        self._wait = min(2 * self._wait, INTERVAL_MAX)

    def _compare_soon(self, now: Instant) -> None:
        """Ask a member within one interval, as there is news; a question that is due sooner stays."""
        if self._wait > INTERVAL:
            self._news_no, self._wait = self._news_no + 1, INTERVAL
            self._out.set_timer(SumIsSent(self._news_no), now + int(self._rng.random() * self._wait))

    # Steps.

    def _is_news(self, note: Note) -> bool:
        known = self.notes.get(note.node)
        if note.node == self.me:
            return False  # No other member knows better what this one says.
        return len(self.notes) < NOTES_MAX if known is None else note.age > known.age

    def _keep(self, note: Note) -> None:
        self._forget(note.node)
        self.notes[note.node] = note
        self._sum ^= _hash(note)

    def _forget(self, node: NodeId) -> None:
        known = self.notes.pop(node, None)
        if known is not None:
            self._sum ^= _hash(known)

    def _others(self) -> list[NodeId]:
        return [] if self._view is None else [m.node for m in self._view.present() if m.node != self.me]

    def _pass_on(self, notes: tuple[Note, ...]) -> None:
        others = self._others()
        for node in self._rng.sample(others, min(FAN_OUT, len(others))):
            self._send(node, list(notes), answer=False)

    def _send_all(self, to: NodeId, *, answer: bool) -> None:
        """Send as many notes as a few datagrams hold, from a random one on, so that in large groups all get a turn."""
        names = list(self.notes)
        first = int(self._rng.random() * len(names))
        self._send(to, [self.notes[node] for node in names[first:] + names[:first]], answer=answer)

    def _send(self, to: NodeId, notes: list[Note], *, answer: bool) -> None:
        for piece in islice(pieces(notes, PAYLOAD), SLICES_MAX):
            self._out.send(to, News(piece, answer))


class ByScore:
    """Ranks by score, lower is better; a score that was not given is 0, and those that may not lead come last."""

    __slots__ = ("_ineligible", "_notes")

    def __init__(self, notes: Notes, *, ineligible: float) -> None:
        self._notes, self._ineligible = notes, ineligible

    def __call__(self, node: NodeId) -> float:
        note = self._notes.notes.get(node)
        if note is None:
            return 0.0
        return -(note.score or 0.0) if note.eligible else self._ineligible


def words_size(words: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) + 2 for key, value in words.items())


def check_words(words: Mapping[str, str]) -> None:
    if not isinstance(words, Mapping) or not all(isinstance(text, str) for pair in words.items() for text in pair):
        raise ConfigError(
            f"must have words for words, not {words!r}: give e.g. {{'zone': 'eu', 'cores': '8'}}", field="meta"
        )
    if any(not key or "=" in key for key in words):
        raise ConfigError(f"has a key that is empty or has a '=' in it: {words!r}", field="meta")
    if words_size(words) > META_BYTES_MAX:
        raise ConfigError(
            f"has {words_size(words)} bytes: every member carries it, so give at most {META_BYTES_MAX}", field="meta"
        )


def _hash(note: Note) -> int:
    text = f"{note.node}\0{note.incarnation}\0{note.version}".encode()
    return int.from_bytes(blake2b(text, digest_size=7).digest(), "big")
