"""Why this one leads: what a node has heard of its elections, kept short, told in words.

Every line is from facts that this node saw itself; what only others know is not guessed.
"""

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from doyen.agent.promises import promise_of
from doyen.agent.reign import Reign
from doyen.core.clock import Instant
from doyen.core.leadership import LeaderElected, LeaderLost

if TYPE_CHECKING:
    from doyen.api.node import Node

KEPT_MAX: Final = 64  # Facts remembered per election.


class Entry(Struct, frozen=True):
    at: float  # Wall clock.
    clock: Instant
    text: str
    kind: str = ""


class Explanation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `doyen explain`."""

    group: str
    election: str
    kind: str
    node: str  # Whose word this is.
    leader: str | None
    term: int | None
    sentence: str
    lines: tuple[tuple[str, str], ...]
    history: tuple[Entry, ...]
    promise: str
    strong: bool
    sort: str  # weak, timed or quorum.
    lease_left_s: float | None = None


class Chronicle:
    """One election's."""

    def __init__(self, reign: Reign) -> None:
        self.reign = reign
        self.entries: deque[Entry] = deque(maxlen=KEPT_MAX)
        self.ended: Entry | None = None  # How the last reign ended.
        self.started: Entry | None = None  # How the present election began.
        self.initiator = ""
        self.asked: dict[str, int] = {}  # By whom was answered, in order.
        self.candidates: tuple[str, ...] = ()
        self.excluded: tuple[tuple[str, int], ...] = ()
        self.elected: Entry | None = None
        self.final: Entry | None = None
        self.shortage = ""

    def note(self, fact: Any, now: Instant) -> None:
        """Whatever the election tells; by the fact's name, for protocols differ."""
        match type(fact).__name__:
            case "LeaderElected":
                self._on_elected(fact, now)
            case "LeaderLost":
                self._on_lost(fact, now)
            case "AttemptBegan":
                self.asked, self.candidates, self.excluded, self.shortage = {}, (), (), ""
                self.started = self._add(now, f"election of term {fact.election.number} begun here", "begun")
                self.initiator = fact.election.initiator
            case "ResponseCounted":
                self.asked[fact.sender] = 1
                self.excluded, self.candidates = fact.excluded, fact.candidates
            case "LeaderHeld":
                self.initiator = fact.record.election.initiator
                if fact.record.final and (self.final is None or self.final.text != str(fact.record.term)):
                    self.final = Entry(time.time(), now, str(fact.record.term))
            case "Selected":
                self.candidates = fact.proposers
                self._add(now, f"epoch {fact.epoch}: {fact.leader} chosen from {', '.join(fact.proposers)}", "chosen")
            case "EpochPromised":
                self.started = self._add(now, f"epoch {fact.epoch} begun", "begun")
            case "CannotElect" | "NotVoting":
                self.shortage = str(fact)
                self._add(now, str(fact), "shortage")

    def _add(self, now: Instant, text: str, kind: str) -> Entry:
        entry = Entry(time.time(), now, text, kind)
        self.entries.append(entry)
        return entry

    def _on_elected(self, fact: LeaderElected, now: Instant) -> None:
        self.shortage = ""
        self.elected = self._add(now, f"{fact.term.leader} leads, term {fact.term.number}", "elected")

    def _on_lost(self, fact: LeaderLost, now: Instant) -> None:
        self.ended = self._add(now, f"{fact.term.leader} leads no more, term {fact.term.number}: {fact.reason}", "lost")


def explain(node: "Node", chronicle: Chronicle) -> Explanation:
    reign, config = chronicle.reign, node.config
    promise = promise_of(reign.kind, config.rank, config.ring.partition)
    term, which = reign.term, f'"{config.group}"' + (f" / {reign.name}" if reign.name else "")
    if term is None:
        why = chronicle.shortage or (chronicle.ended.text if chronicle.ended else "no election has ended yet")
        sentence = f"Nobody leads {which} as far as {node.name} knows: {why}."
    else:
        who = f"{term.leader} (this node)" if term.leader == node.name else term.leader
        sentence = f"{who} leads {which} (term {term.number}) because {promise.because}."
    lines = [("election", _election_line(chronicle, reign.kind))]
    if chronicle.candidates:
        lines.append(("candidates", _candidates_line(node, chronicle)))
    if chronicle.asked and chronicle.initiator == node.name:
        lines.append(("answered", f"{', '.join(chronicle.asked)}{_tolerance(reign)}"))
    if chronicle.started and chronicle.elected and chronicle.elected.clock >= chronicle.started.clock:
        took = (chronicle.elected.clock - chronicle.started.clock) / 1e6
        lines.append(("took", f"{took:.0f} ms, as seen from {node.name}"))
    lease = reign.lease_until()
    left = None if lease is None else max(0.0, (lease - node.clock()) / 1e9)
    if left is not None:
        lines.append(("lease", f"{left:.3f} s left, unless it is renewed"))
    lines.append(("promise", promise.in_short))
    return Explanation(
        group=config.group,
        election=reign.name,
        kind=reign.kind,
        node=node.name,
        leader=reign.leader,
        term=None if term is None else term.number,
        sentence=sentence,
        lines=tuple(lines),
        history=tuple(chronicle.entries),
        promise=promise.in_short,
        strong=promise.strong,
        sort=promise.sort,
        lease_left_s=left,
    )


def _election_line(chronicle: Chronicle, kind: str) -> str:
    parts = [kind]
    if chronicle.elected is not None:
        parts.append(f"named here at {clock_text(chronicle.elected.at)}")
    if chronicle.initiator:
        parts.append(f"begun by {chronicle.initiator}")
    if chronicle.ended is not None:
        parts.append(f"after: {chronicle.ended.text}")
    return ", ".join(parts)


def _tolerance(reign: Reign) -> str:
    """Churn-tolerant elections: how many views may lack a member, and how sure that is."""
    point = getattr(reign.machine, "point", None)
    if point is None:
        return ""
    given = reign.machine.config.missing_max
    how = f"estimated, {100 * point.confidence:.0f} % sure" if given == "auto" else "as configured"
    return f" (c+1 = {point.missing_max() + 1}; c = {point.missing_max()} {how})"


def _candidates_line(node: "Node", chronicle: Chronicle) -> str:
    shown = []
    for name in chronicle.candidates[:8]:
        note = node.agent.stack.note(name)  # type: ignore[arg-type]
        shown.append(name if note is None or note.score is None else f"{name} {note.score:g}")
    shown += [f"{name} excluded: suspected {count} times" for name, count in chronicle.excluded[:8]]
    return " · ".join(shown)


def clock_text(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"
