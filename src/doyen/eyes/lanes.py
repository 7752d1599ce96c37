"""Lanes: what happened to each member over time, as data that a page, a file or a terminal draws.

    Lanes(title="orders", lanes=(Lane(id="ant"),), spans=(Span(lane="ant", begin=1.2, end=3.4, kind="leads", …),), …)

A span holds for a while (a reign, a suspicion), a mark is one instant, an arrow is a message, and a window concerns all
lanes (a partition).  All instants are seconds since `epoch`.  `Fold` makes lanes from the events of a node.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

SPANS_MAX: Final = 2000  # What a fold keeps; the oldest goes first.
MARKS_MAX: Final = 4000
CLOCKS_S: Final = 1.0  # Wall clocks of two hosts may differ by this, and less of it is not shown.
LANES_MAX: Final = 512  # The lane where nothing happened for longest makes room.

# The kinds that are drawn; any other is drawn like a note.
SPAN_KINDS: Final = ("leads", "named", "suspected", "paused", "down", "left")
MARK_KINDS: Final = (
    *("elected", "lost", "resigned", "joined", "alive", "suspected", "failed", "left"),
    *("started", "stopped", "note", "bad"),
)
WINDOW_KINDS: Final = ("cut", "simulated", "bad", "unsure")


class Lane(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One horizontal lane: a member."""

    id: str
    label: str = ""  # Shown instead of the id.
    note: str = ""  # Shown beside it, such as an address.


class Span(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A time in which something held for one member."""

    lane: str
    begin: float
    end: float | None = None  # None: it still holds.
    kind: str
    label: str = ""
    why: str = ""  # The sentence that explains it.
    lease: float | None = None  # When the lease of a reign runs out, unless it is renewed.


class Mark(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened at one instant; on the lane "" it happened to all members."""

    lane: str = ""
    at: float
    kind: str
    label: str
    why: str = ""


class Arrow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message from one member to another; without `heard` it was lost."""

    sender: str
    receiver: str
    sent: float
    heard: float | None = None
    label: str = ""


class Window(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A time in which something held for all: a partition, or a time that was simulated."""

    begin: float
    end: float | None = None
    kind: str
    label: str = ""


class Lanes(Struct, frozen=True, kw_only=True):
    """A whole picture."""

    title: str
    epoch: float | None = None  # The wall clock at instant 0, in Unix seconds; None: the time is made up.
    begin: float = 0.0
    end: float = 0.0
    live: bool = False  # Whether `end` goes on with the clock.
    lanes: tuple[Lane, ...] = ()
    spans: tuple[Span, ...] = ()
    marks: tuple[Mark, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    windows: tuple[Window, ...] = ()


# ── From events ─────────────────────────────────────────────────────────────────────────────────────────────

_STATES: Final = {"suspected": "suspected", "failed": "down", "left": "left"}  # The span that a state is shown as.
_REIGNS: Final = ("leads", "named")
LOST: Final = {  # The reasons of a lost leadership, as clauses.
    "silent": "nothing was heard of it for too long",
    "gone": "its process has ended",
    "left": "it left on its own word",
    "outranked": "a better one is named",
    "resigned": "it resigned on its own word",
}


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a picture that grows: what a reader does to the lanes that it has."""

    lane: Lane | None = None  # A new lane.
    open: Span | None = None
    close: Span | None = None  # The open span of this lane and kind ends at its `end`.
    mark: Mark | None = None


class Fold:
    """Makes lanes from the events of one node, as they come; what it keeps is bounded."""

    def __init__(self, title: str, election: str = "", *, leader_count: int = 1) -> None:
        self.title, self.election, self.leader_count = title, election, leader_count
        self.lanes: dict[str, Lane] = {}
        self.marks: deque[Mark] = deque(maxlen=MARKS_MAX)
        self._ended: deque[Span] = deque(maxlen=SPANS_MAX)
        self._open: dict[tuple[str, bool], Span] = {}  # By lane, and whether it is a reign.
        self.begin: float | None = None

    def add(self, event: dict[str, Any]) -> list[Change]:
        """Take an event, as the JSON of `Event` has it; return what it changes."""
        kind, at = event["kind"], event["at"]
        done: list[Change] = []
        if kind in ("elected", "lost", "shortage", "waiting", "alone") and event.get("election", "") != self.election:
            return done
        self.begin = at if self.begin is None else min(self.begin, at)
        member, why = event.get("member") or "", event.get("reason") or ""
        match kind:
            case "elected":
                done += self._elected(event["leader"], event.get("term"), at, why, event.get("already", False))
            case "lost":
                leader, resigned = event["leader"], why == "resigned"
                done += self._close(leader, at, reign=True)
                label = f"{leader} {'resigned' if resigned else 'no longer leads'} (term {event.get('term')})"
                done += self._mark(leader, at, "resigned" if resigned else "lost", label, LOST.get(why, why))
            case "joined" | "alive" | "suspected" | "failed" | "left":
                done += self._state(member, kind, at, event)
            case "forgotten":
                done += self._close(member, at, reign=False)
                done += self._mark(member, at, "note", f"{member} is forgotten", "")
            case "accused":
                known = self._open.get((member, False))
                if known is not None and known.kind == "suspected":  # The first accuser is named with the suspicion.
                    by = ", ".join(event.get("by", ()))
                    done += self._mark(member, at, "suspected", f"{by} suspects {member}, too", "")
            case "differs":
                done += self._mark(member, at, "bad", f"{member} runs something else", why)
            case "shortage":
                done += self._mark("", at, "bad", "nobody can be elected", why)
            case "waiting":
                done += self._mark("", at, "note", "named leader, does not act yet", why)
            case "alone":
                done += self._mark("", at, "bad", "leads alone", why)
            case "stopped":
                done += self._mark("", at, "stopped", "this node has ended", why)
        return done

    def led_before(self, leader: str, since: float) -> list[Change]:
        """Show that a leader led before this node named it, by the leader's own clock, and beside whom."""
        span, done = self._open.get((leader, True)), list[Change]()
        if span is None:
            return done
        reigns = [reign for reign in self._ended if reign.kind in _REIGNS and reign.end is not None]
        begin = max([since, *(reign.end for reign in reigns if reign.lane == leader and reign.end is not None)])
        if span.begin - begin < CLOCKS_S:
            return done
        why = f"{leader} says so itself, by its own clock; this node had not heard of it"
        earlier = replace(span, begin=begin, end=span.begin, why=why)
        for other in reigns:
            both = min(other.end or 0.0, span.begin) - max(other.begin, begin)
            if other.lane != leader and both >= CLOCKS_S:
                label = f"{leader} led beside {other.lane} for {both:.0f} s, until now"
                done += self._mark(leader, span.begin, "bad", label, why)
        self._ended.append(earlier)
        self.begin = begin if self.begin is None else min(self.begin, begin)
        return [*done, Change(open=earlier)]

    def did_not_run(self, node: str, begin: float, end: float) -> list[Change]:
        """Show that the process of the node that tells all this was stopped: it did not lead meanwhile."""
        done, reign = list[Change](), self._open.get((node, True))
        done += self._close(node, begin, reign=True)
        label, why = f"{node} did not run for {end - begin:.1f} s", "its own timers fired this much too late"
        paused = Span(lane=node, begin=begin, end=end, kind="paused", label=label, why=why)
        self._ended.append(paused)
        done += [*self._lane(node), Change(open=paused), *self._mark(node, end, "note", label, why)]
        if reign is not None:  # It goes on, unless what it hears next ends it.
            done += self._begin(replace(reign, begin=max(end, reign.begin)))
        return done

    def whole(self, now: float) -> Lanes:
        """Return all that is kept."""
        return Lanes(
            title=self.title,
            epoch=0.0,
            begin=now if self.begin is None else min(self.begin, now),
            end=now,
            live=True,
            lanes=tuple(sorted(self.lanes.values(), key=lambda lane: lane.id)),
            spans=(*self._ended, *self._open.values()),
            marks=tuple(self.marks),
        )

    def _elected(self, leader: str, term: int | None, at: float, why: str, already: bool) -> Iterable[Change]:
        if self.leader_count == 1:
            for lane, reign in [*self._open]:
                if reign and lane != leader:
                    yield from self._close(lane, at, reign=True)
        label = f"{leader} leads" + ("" if term is None else f" (term {term})")
        if (leader, True) not in self._open:
            yield from self._begin(Span(lane=leader, begin=at, kind="leads", label=label, why=why))
        if not already:
            yield from self._mark(leader, at, "elected", label, why)

    def _state(self, member: str, kind: str, at: float, event: dict[str, Any]) -> Iterable[Change]:
        yield from self._lane(member, event.get("address") or "")
        yield from self._close(member, at, reign=False)
        by = ", ".join(event.get("by", ()))
        label = {
            "joined": f"{member} is here",
            "alive": f"{member} is alive again",
            "suspected": f"{member} is suspected" + (f" by {by}" if by else ""),
            "failed": f"{member} is held to have failed",
            "left": f"{member} left on its own word",
        }[kind]
        if kind in _STATES:
            yield from self._begin(Span(lane=member, begin=at, kind=_STATES[kind], label=label))
        why = "it did not answer in time" if kind == "suspected" else event.get("reason") or ""
        yield from self._mark(member, at, kind, label, why)

    def _lane(self, name: str, note: str = "") -> Iterable[Change]:
        """Have a lane of that name, the last in the order in which something happened."""
        if not name:
            return
        known = self.lanes.pop(name, None)
        lane = self.lanes[name] = Lane(id=name, note=note or (known.note if known else ""))
        if lane != known:
            yield Change(lane=lane)
        if len(self.lanes) > LANES_MAX:
            over = next(iter(self.lanes))
            del self.lanes[over]
            for reign in (True, False):
                self._open.pop((over, reign), None)

    def _begin(self, span: Span) -> Iterable[Change]:
        yield from self._lane(span.lane)
        self._open[span.lane, span.kind in _REIGNS] = span
        yield Change(open=span)

    def _close(self, lane: str, at: float, *, reign: bool) -> Iterable[Change]:
        span = self._open.pop((lane, reign), None)
        if span is not None:
            ended = replace(span, end=max(at, span.begin))
            self._ended.append(ended)
            yield Change(close=ended)

    def _mark(self, lane: str, at: float, kind: str, label: str, why: str) -> Iterable[Change]:
        yield from self._lane(lane)
        mark = Mark(lane=lane, at=at, kind=kind, label=label, why=why)
        self.marks.append(mark)
        yield Change(mark=mark)
