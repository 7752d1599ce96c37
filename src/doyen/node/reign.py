"""One election as a node sees it: who leads, since when, whether it is this node itself, and why.

A `Reign` follows what its machine emits, once, and is the only state that a node keeps of an election: the
application's side (`campaign`), `explain`, metrics, HTTP and the control socket all read it.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId, Term
from doyen.core.kinds import Election, ElectionKind
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.reasons import Reasons, Remark
from doyen.node.gate import Gate
from doyen.node.histogram import Histogram

KEPT_MAX: Final = 64  # Lines of history that are kept.


class Entry(Struct, frozen=True):
    """One line of an election's history."""

    at: float  # Wall clock.
    clock: Instant
    text: str
    kind: str = ""
    leader: str | None = None  # Of a line that names or drops one.
    term: int | None = None
    why: str = ""


class Reign:
    """One election of one node.  `mine` is the term under which this node itself leads, if it does."""

    def __init__(
        self, name: str, channel: str, kind: ElectionKind, me: NodeId, wall: Callable[[], float] = time.time
    ) -> None:
        self.name, self.channel, self.kind, self.me = name, channel, kind, me
        self._wall = wall
        self.machine: Election | None = None
        self.gate: Gate | None = None  # The first act waits for it; None: nothing waits, as in the simulator.
        self.term: Term | None = None  # Whom this node names.
        self.mine: Term | None = None
        self.since: Instant = 0  # When that came to be, on this node's clock,
        self.since_wall = 0.0  # and on the clock that people read.
        self.term_max = 0  # The greatest number seen.
        self.change_count = 0  # How often another leader was named than the last.
        self.lost_because = ""
        self.takeovers = Histogram()  # How long this node named no leader after it had lost one.
        self._lost_at: Instant | None = None  # When, while that is so.
        self.account = kind.account()
        self.history: deque[Entry] = deque(maxlen=KEPT_MAX)
        self.begun: Entry | None = None  # How the present election began.
        self.elected: Entry | None = None  # When the leader was named here.
        self.ended: Entry | None = None  # How the last reign ended.
        self.shortage = ""  # Why nobody can be elected, while that is so.
        self.silence = ""  # Which voters are silent, while nobody leads for that.
        self.why = Reasons("")  # The reasons of the leader that was named last.
        self._named_last: NodeId | None = None

    @property
    def leader(self) -> NodeId | None:
        return None if self.term is None else self.term.leader

    @property
    def status(self) -> str:
        """Return the machine's own word for where it stands, or ours."""
        stage = "" if self.machine is None else self.machine.stage
        return stage or ("leading" if self.mine is not None else "following" if self.term is not None else "waiting")

    @property
    def expected(self) -> NodeId | None:
        """Return the leader that this node names, or will name if nobody better is heard while its machine waits."""
        named = self.machine.named if self.machine is not None and self.machine.stage else None
        return named or self.leader

    @property
    def took(self) -> Duration | None:
        """Return how long the election of the leader took, if it began here; None where another began it."""
        if self.begun is None or self.elected is None or self.account.initiator not in ("", self.me):
            return None
        took = self.elected.clock - self.begun.clock
        return took if took >= 0 else None

    def lease_until(self) -> Instant | None:
        """Return the end of the lease, if nothing further is heard; None where the election gives no lease."""
        return None if self.machine is None else self.machine.lease_until()

    @property
    def baton_bytes(self) -> int | None:
        """Return the size of what is handed on, as far as it has come here; None: this election hands nothing on."""
        baton = None if self.machine is None else self.machine.baton
        return None if baton is None else len(baton)

    def is_leader(self, now: Instant) -> bool:
        """Return whether this node may act as leader at this instant; by the clock alone, where there is a lease."""
        opened = self.gate is None or self.gate.open
        return opened and self.mine is not None and self.machine is not None and self.machine.leads(now)

    @property
    def waits_for(self) -> str:
        """Return what this node waits for before it acts, if it is named leader and does not act yet."""
        if self.mine is None:
            return ""
        if self.gate is not None and not self.gate.open:
            return self.gate.why
        return "" if self.machine is None else self.machine.waits_for

    @property
    def alone(self) -> str:
        """Return why this node began to act although it had heard nobody, if it did; others may have come since."""
        return self.gate.alone if self.gate is not None and self.gate.open and self.mine is not None else ""

    def acts(self, now: Instant) -> bool | None:
        """Return whether the leader acts, or still waits for its first act; None: another leads, which alone knows."""
        return None if self.leader != self.me else self.is_leader(now)

    def go_on(self, before: "Reign") -> None:
        """Go on where the same election was left, on machines that were built anew."""
        self.term, self.mine, self.since, self.since_wall = before.term, before.mine, before.since, before.since_wall
        self.account, self.history, self.shortage, self.why = (
            before.account,
            before.history,
            before.shortage,
            before.why,
        )
        self.begun, self.elected, self.ended = before.begun, before.elected, before.ended

    # What the machine emits.

    def note(self, fact: Any, now: Instant) -> Remark | None:
        """Follow one fact; return what it is worth saying of it, besides who leads."""
        if isinstance(fact, LeaderElected):
            self._on_elected(fact.term, now)
            return None
        if isinstance(fact, LeaderLost):
            self._on_lost(fact, now)
            return None
        final = self.account.final
        remark = self.account.note(fact)
        if self.account.final != final and self.term is not None and self.machine is not None:
            self.why = self.account.reasons(self.machine, self.term)  # A tentative leader became final.
        if remark is not None:
            entry = self._add(now, remark.text, remark.kind)
            if remark.kind == "begun":
                self.begun, self.shortage = entry, ""
            elif remark.kind == "shortage":
                self.shortage = remark.text
        return remark

    def _on_elected(self, term: Term, now: Instant) -> None:
        self.term_max = max(self.term_max, term.number)
        if self.leader != term.leader:
            self.since, self.since_wall = now, self._wall()
        if self._lost_at is not None:
            self.takeovers.observe(now - self._lost_at)
            self._lost_at = None
        if self._named_last != term.leader:
            self._named_last, self.change_count = term.leader, self.change_count + 1
        self.term = term
        if term.leader == self.me:
            self.mine = term
        elif self.mine is not None and (self.machine is None or self.machine.leader_count == 1):
            self.mine = None
        self.shortage = ""
        if self.machine is None:
            self.why = Reasons("named while it started")
        else:
            self.why = self.account.reasons(self.machine, term)
        text = f"{term.leader} leads, term {term.number}: {self.why}"
        self.elected = self._add(now, text, "elected", term, str(self.why))

    def _on_lost(self, fact: LeaderLost, now: Instant) -> None:
        term = fact.term
        self.term_max = max(self.term_max, term.number)
        if term.leader == self.me:
            self.mine = None
        if self.term is not None and self.term.leader == term.leader:
            self.term, self.since, self.lost_because = None, now, fact.reason
            self._lost_at = None if fact.reason == "outranked" else now  # A better one is named: nobody is missed.
        text = f"{term.leader} no longer leads, term {term.number}: {fact.reason}"
        self.ended = self._add(now, text, "lost", term, fact.reason)

    def _add(self, now: Instant, text: str, kind: str, term: Term | None = None, why: str = "") -> Entry:
        named = () if term is None else (term.leader, term.number, why)
        entry = Entry(self._wall(), now, text, kind, *named)
        self.history.append(entry)
        return entry


def clock_text(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"
