"""Finds members that run something else than this node: another election, membership or rank.

Packets carry a digest of what must be the same on every member.  A node that hears another digest than its own asks the
sender what it runs, and says what it runs itself; so both know, whichever heard the other first.

    bee ──packet, digest of [hybrid, swim, …]──▶ ant      ant runs something else
        ◀─Runs [announce, none, …], answer me───          bee knows
        ──Runs [hybrid, swim, …]───────────────▶          and so does ant

For the first half minute of a process, and after each change, every packet carries the digest; later every fourth does,
by chance.  One side's digest is enough, so two that meet at all know within a few packets, and an idle group pays less
than a byte for each.  A named election (`election/mail`) has a digest of its own, which concerns those who take part.

Nothing is refused for a difference, and a packet without a digest (version 0.1.0) says nothing.  But a node that has
never acted lets others act that run something else: those that may act already, and those that started before it
(decision 174).  While it does, it asks them again and again, and so knows whether they are still there.

Nothing is sent from here.  Without a key strangers can make differences up, so what is kept of them is bounded, and so
is the pace of all that is said.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from doyen.core.clock import Duration, Instant, ms, seconds
from doyen.core.hashes import blake2b
from doyen.core.ids import Incarnation, NodeId
from doyen.core.kinds import title_of

CHANNEL: Final = "alike"
CARRIED_ALWAYS: Final[Duration] = seconds(30)  # After the start, and after each change.
CARRIED_LATER_PROB: Final = 0.25
ASK_EVERY: Final[Duration] = seconds(1)  # The least time between two questions to one member.
ALL_APART: Final[Duration] = ms(100)  # The least time between two questions to whomever,
ANSWERS_APART: Final[Duration] = ms(10)  # and between two answers, which are no longer than what they answer.
DIFFERENCES_MAX: Final = 256  # The one longest unheard of is forgotten first.
OVER_AFTER: Final[Duration] = seconds(60)  # A member that was not heard for this time no longer differs.

Word: TypeAlias = Annotated[str, Meta(max_length=64)]


class Runs(Struct, frozen=True, array_like=True, tag="R"):
    """Says what the sender runs in an election: its kind, its membership, …"""

    election: Word  # Its name; the group's own is "".
    words: Annotated[dict[Word, Word], Meta(max_length=8)]
    answer: bool = False  # The receiver is to say what it runs.
    may_act: bool = False  # The sender waits for nothing before its first act.

    def __post_init__(self) -> None:
        if not all(text.isprintable() for text in (self.election, *self.words, *self.words.values())):
            raise ValueError("what a member runs must be printable")


class MemberDiffers(Struct, frozen=True):
    """A fact: that member runs something else than this node in an election of both."""

    member: NodeId
    election: str
    theirs: dict[str, str]
    ours: dict[str, str]

    def __str__(self) -> str:
        keys = [key for key in self.ours | self.theirs if self.ours.get(key) != self.theirs.get(key)]
        if "election" in keys:  # The rest may well follow from it.
            keys = ["election"]
        where = f" in the election {self.election!r}" if self.election else ""
        ours, theirs = _text(self.ours, keys), _text(self.theirs, keys)
        return f"{self.member} runs {theirs}{where}, this node runs {ours}: give both the same"


class _Difference:
    """One member and one election in which it runs something else."""

    __slots__ = ("asked_at", "heard_at", "incarnation", "is_answered", "may_act", "theirs")

    def __init__(self, incarnation: Incarnation, now: Instant) -> None:
        self.incarnation, self.heard_at = incarnation, now
        self.asked_at: Instant = now - ASK_EVERY
        self.is_answered = self.may_act = False  # By this incarnation.
        self.theirs: dict[str, str] | None = None  # None: it has not said yet.


class Alike:
    """Compares digests, and keeps who differs."""

    def __init__(self, rng: Random, may_act: Callable[[str], bool] = lambda election: False) -> None:
        self._rng, self._may_act = rng, may_act  # Whether this node may act in an election, by its name.
        self._ours: dict[str, dict[str, str]] = {}  # By the election's name; the group's own is "".
        self._digests: dict[str, int] = {}
        self._always_until: Instant = 0
        self._said_at: Instant = -ALL_APART
        self._answered_at: Instant = -ANSWERS_APART
        self._found: OrderedDict[tuple[NodeId, str], _Difference] = OrderedDict()  # The longest unheard of first.

    def declare(self, election: str, words: Mapping[str, str], now: Instant) -> None:
        """Take what this node runs in an election from now on."""
        self._ours[election], self._digests[election] = dict(words), digest_of(words)
        self._always_until = now + CARRIED_ALWAYS

    def carried(self, channel: str, now: Instant) -> int | None:
        """Return the digest that goes with a packet on this channel, or None where this one goes without."""
        if now < self._always_until or self._rng.random() < CARRIED_LATER_PROB:
            return self._digests.get(_election(channel))
        return None

    def on_digest(
        self, sender: NodeId, incarnation: Incarnation, channel: str, digest: object, now: Instant
    ) -> Runs | None:
        """Compare the digest of a packet with our own; return what to ask its sender, if they differ."""
        election = _election(channel)
        ours = self._digests.get(election)
        if ours is None:
            return None  # This node takes no part in it.
        if digest == ours:
            self._found.pop((sender, election), None)
            return None
        found = self._difference(sender, incarnation, election, now)
        if found is None or found.is_answered or now - found.asked_at < ASK_EVERY or not self._may_say(now):
            return None
        found.asked_at = now
        return self._runs(election, answer=True)

    def on_runs(
        self, sender: NodeId, incarnation: Incarnation, runs: Runs, now: Instant
    ) -> tuple[MemberDiffers | None, Runs | None]:
        """Take what a member runs; return the difference, where it is news, and what to answer."""
        ours = self._ours.get(runs.election)
        if ours is None:
            return None, None
        if runs.words == ours:
            self._found.pop((sender, runs.election), None)
            return None, None
        found = self._difference(sender, incarnation, runs.election, now)
        if found is None:
            return None, None
        is_news, found.theirs, found.is_answered = runs.words != found.theirs, runs.words, True
        found.may_act = runs.may_act
        answer = None
        if runs.answer and now - self._answered_at >= ANSWERS_APART:
            self._answered_at = now
            answer = self._runs(runs.election)
        return (MemberDiffers(sender, runs.election, runs.words, ours) if is_news else None), answer

    def differing(self, now: Instant) -> list[MemberDiffers]:
        """Return the members that run something else, as far as they have said what, and were heard lately."""
        return [
            MemberDiffers(member, election, found.theirs, self._ours[election])
            for (member, election), found in self._found.items()
            if found.theirs is not None and now - found.heard_at < OVER_AFTER
        ]

    def ahead(
        self, election: str, me: Incarnation, within: Duration, now: Instant
    ) -> tuple[list[MemberDiffers], list[MemberDiffers]]:
        """Return the members that run something else and were heard within that time, of two sorts.

        The first may act already.  The second may not, but started before this node, whose incarnation is `me`.
        """
        acting: list[MemberDiffers] = []
        earlier: list[MemberDiffers] = []
        for (member, which), found in self._found.items():
            if which != election or found.theirs is None or now - found.heard_at >= within:
                continue
            if found.theirs.get("election") != "none" and (found.may_act or found.incarnation < me):
                differs = MemberDiffers(member, election, found.theirs, self._ours[election])
                (acting if found.may_act else earlier).append(differs)
        return acting, earlier

    def questions(self, election: str, now: Instant) -> Iterator[tuple[NodeId, Runs]]:
        """Yield whom to ask again whether it still runs something else in that election, and may act."""
        for (member, which), found in self._found.items():
            if which == election and now - found.asked_at >= ASK_EVERY and self._may_say(now):
                found.asked_at = now
                yield member, self._runs(election, answer=True)

    def _runs(self, election: str, *, answer: bool = False) -> Runs:
        return Runs(election, self._ours[election], answer, self._may_act(election))

    def differs(self, sender: NodeId) -> bool:
        """Return whether a packet of that sender had another digest, even if it has not said what it runs."""
        return any(member == sender for member, _ in self._found)

    def _difference(self, sender: NodeId, incarnation: Incarnation, election: str, now: Instant) -> _Difference | None:
        found = self._found.get((sender, election))
        if found is None:
            if now - self._said_at < ALL_APART:
                return None  # Too many at once: it will be heard again.
            found = self._found[sender, election] = _Difference(incarnation, now)
            if len(self._found) > DIFFERENCES_MAX:
                self._found.popitem(last=False)
        elif found.incarnation != incarnation:
            found.incarnation, found.is_answered, found.may_act = incarnation, False, False
        found.heard_at = now
        self._found.move_to_end((sender, election))
        return found

    def _may_say(self, now: Instant) -> bool:
        if now - self._said_at < ALL_APART:
            return False
        self._said_at = now
        return True


def digest_of(words: Mapping[str, str]) -> int:
    """Return a number from 1 to 65535 that is the same for the same words, and hardly for others."""
    text = "\0".join(f"{key}={value}" for key, value in sorted(words.items()))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % 65_535 + 1


def _text(words: Mapping[str, str], keys: Iterable[str]) -> str:
    return " and ".join(
        title_of(words.get(key, "none")) if key == "election" else f"{key} {words.get(key, 'none')}" for key in keys
    )


def _election(channel: str) -> str:
    """Return the election that a channel belongs to: `election/mail` to mail, all others to the group's own."""
    return channel.partition("/")[2]
