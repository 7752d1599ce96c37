"""Follows one node's elections, on its own clock: when it led, what it saw, and why it named whom.

The same class watches a node in a recording and one in a simulation: both have a `Stack`.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct

from doyen.core.clock import NEVER, Instant
from doyen.core.leadership import HandOverDue, LeaderElected, LeaderLost, VotersChanged
from doyen.core.reasons import lost_words
from doyen.core.view import Member, Status, ViewChanged
from doyen.errors import DoyenError
from doyen.node.explain import explain_at
from doyen.node.reign import Entry, Reign
from doyen.node.stack import Stack

MARKS_MAX: Final = 20_000  # Of one node; what is left off is counted.
EXPLAINED_MAX: Final = 2_000


class Stretch(Struct):
    """A time in which a node led one term: it acted (`leads`), or was named and did not act (`named`)."""

    election: str
    kind: Literal["leads", "named"]
    term: int
    begin: Instant
    end: Instant
    latest: Instant = 0  # It may have lasted until then: its process was killed, and nobody saw when.
    lease: Instant | None = None


class Noted(Struct, frozen=True):
    """Something that one node saw, or did."""

    at: Instant
    election: str
    kind: str
    label: str
    why: str = ""


class Explained(Struct, frozen=True):
    """The answer of `doyen explain` on one node, from that instant on."""

    at: Instant
    election: str
    leader: str | None
    sentence: str
    lines: tuple[tuple[str, str], ...]


class Watch:
    """Watches one incarnation of one node.  `convert` turns instants of its own clock into those that are kept."""

    def __init__(self, stack: Stack, convert: Callable[[Instant], Instant] = lambda at: at) -> None:
        self.stack, self._convert = stack, convert
        self.stretches: list[Stretch] = []
        self.noted: list[Noted] = []
        self.explained: list[Explained] = []
        self.left_off = 0  # Marks and explanations that were too many.
        self.decided = ""  # What the input under way has decided, in words.
        self._open: dict[str, Stretch] = {}
        self._status: dict[str, Status] = {}
        self._last: Entry | None = None  # Of an election's history, as far as it was followed.

    def observe(self, channel: str, fact: Any, now: Instant) -> None:
        """Follow a fact of the node's machines, once the stack has."""
        reign = self.stack.reign_on(channel)
        if isinstance(fact, ViewChanged):
            for node in fact.changed:
                self._on_member(node, fact.view.members.get(node), now)
        if reign is None:
            return
        match fact:
            case LeaderElected(term):
                label = f"{self.stack.site.node} names {term.leader}, term {term.number}"
                self.note(now, "elected", label, str(reign.why), reign.name)
            case LeaderLost(term):
                kind = "resigned" if fact.reason == "resigned" else "lost"
                label = f"{self.stack.site.node} no longer names {term.leader}, term {term.number}"
                self.note(now, kind, label, lost_words(fact), reign.name)
            case HandOverDue(to, because):
                self.note(now, "note", f"it ought to hand over to {to}", because, reign.name)
            case VotersChanged(number, voters):
                self.note(now, "note", f"voters, set {number}: {', '.join(voters)}", "", reign.name)
        last = reign.history[-1] if reign.history else None
        if last is not None and last is not self._last:
            self._last = last
            if last.kind not in ("elected", "lost"):
                self.note(now, "bad" if last.kind == "shortage" else "note", last.text, "", reign.name)
            self.explain(reign, now)

    def _on_member(self, node: str, member: Member | None, now: Instant) -> None:
        before = self._status.get(node)
        status = None if member is None else member.status
        if status is None:
            self._status.pop(node, None)
        else:
            self._status[node] = status
        me = self.stack.site.node
        if node == me or status is before or (status is None and before in (Status.FAILED, Status.LEFT)):
            return
        back = before is None or before in (Status.FAILED, Status.LEFT)
        kind = "joined" if back and status is Status.ALIVE else "left" if status is None else status.value
        words = {"joined": "is here", "alive": "is alive again", "suspected": "is suspected", "left": "has left"}
        self.note(now, kind, f"{me}: {node} {words.get(kind, kind)}")

    def note(self, at: Instant, kind: str, label: str, why: str = "", election: str = "") -> None:
        """Add a mark; while an input is under way, it is what that input decided."""
        self.decided = self.decided or label
        if len(self.noted) < MARKS_MAX:
            self.noted.append(Noted(self._convert(at), election, kind, label, why))
        else:
            self.left_off += 1

    def explain(self, reign: Reign, now: Instant) -> None:
        """Keep why this node names whom it names, from now on."""
        at = self._convert(now)
        if self.explained and (self.explained[-1].at, self.explained[-1].election) == (at, reign.name):
            self.explained.pop()  # Only the last word of an instant counts.
        if len(self.explained) >= EXPLAINED_MAX:
            self.left_off += 1
            return
        try:
            found = explain_at(self.stack, reign, now)
        except DoyenError:  # The address of a store is no part of a recording.
            return
        lines = tuple(line for line in found.lines if line[0] not in ("seen", "lease"))
        self.explained.append(Explained(at, reign.name, found.leader, found.sentence, lines))

    # Acting.

    def step(self, now: Instant) -> None:
        """Look who acts, after an input at that instant."""
        for name, reign in self.stack.reigns.items():
            if reign.mine is not None or name in self._open:
                self._look(name, reign, now)

    def _look(self, name: str, reign: Reign, now: Instant) -> None:
        at = self._convert(now)
        self._expire(name, at)
        kind: Literal["leads", "named"] = "leads" if reign.is_leader(now) else "named"
        open_ = self._open.get(name)
        term = 0 if reign.mine is None else reign.mine.number
        if open_ is not None and (reign.mine is None or open_.kind != kind or open_.term != term):
            self._close(name, at)
            open_ = None
        if open_ is None and reign.mine is not None:
            open_ = self._open[name] = Stretch(name, kind, term, at, at)
            self.explain(reign, now)  # Whether it acts is part of that.
        if open_ is not None:
            open_.end = at
            lease = reign.lease_until() if kind == "leads" else None
            open_.lease = None if lease is None or lease >= NEVER else self._convert(lease)

    def _expire(self, name: str, at: Instant) -> None:
        """End a stretch whose lease ran out before that instant."""
        open_ = self._open.get(name)
        if open_ is not None and open_.lease is not None and open_.lease < at:
            self._close(name, max(open_.begin, open_.lease))

    def _close(self, name: str, at: Instant) -> None:
        found = self._open.pop(name)
        found.end = found.latest = at
        if found.end > found.begin:
            self.stretches.append(found)

    @property
    def leads(self) -> bool:
        """Return whether the node was named leader when it was last looked at."""
        return bool(self._open)

    def pause(self, begin: Instant) -> None:
        """End all that lasts: the process did not run from then on.  The next step looks anew."""
        for name in [*self._open]:
            self._expire(name, begin)
            if name in self._open:
                self._close(name, max(self._open[name].begin, begin))

    def stop(self, at: Instant, latest: Instant) -> None:
        """End all that lasts: the node stopped at that instant, or at a later one that nobody saw."""
        for name in [*self._open]:
            self._expire(name, at)
            if name in self._open:
                lease = self._open[name].lease
                self._close(name, at)
                if self.stretches and self.stretches[-1].end == at:
                    self.stretches[-1].latest = max(at, latest if lease is None else min(latest, lease))
