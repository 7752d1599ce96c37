"""Decides when a store's own leader should move: to a server that an oracle holds for better, and not too often.

No IO: a look at the servers goes in, and the server that should lead comes out.
"""

from collections.abc import Mapping

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.score.oracles import Oracle, Situation


class Look(Struct, frozen=True, kw_only=True):
    """The servers at one instant; names are those of the store's configuration."""

    leader: str | None
    servers: tuple[str, ...]  # All that are configured.
    rtt_ms: Mapping[str, Mapping[str, float]]  # By the server that measured it; one that does not answer has none.
    rates: Mapping[str, float]  # Requests per second from clients.


class Verdict(Struct, frozen=True, kw_only=True):
    """The result of one look at the servers."""

    scores: Mapping[str, float | None]  # By server; None: too little is known of it.
    best: str | None
    move_to: str | None  # None: leave the leader where it is.
    why: str


class Steering:
    """Compares the leader with the best server, look after look."""

    def __init__(self, oracle: Oracle, *, margin: float, looks: int, cooldown: Duration) -> None:
        """The best must be better by `margin` (0.1: a tenth) in `looks` looks one after the other."""
        self._oracle, self._margin, self._looks, self._cooldown = oracle, margin, looks, cooldown
        self._better: tuple[str, str] | None = None  # The leader, and who is better.
        self._better_count = 0
        self._moved_at: Instant | None = None

    def look(self, look: Look, now: Instant) -> Verdict:
        """Return what should be done."""
        scores = {name: self._score(look, name) for name in look.servers}
        known = {name: score for name, score in scores.items() if score is not None}
        higher = self._oracle.parts[0].higher_wins
        order = sorted(known, key=lambda name: (-known[name] if higher else known[name], name != look.leader, name))
        best = order[0] if order else None

        def stay(why: str) -> Verdict:
            return Verdict(scores=scores, best=best, move_to=None, why=why)

        if look.leader is None:
            self._better = None
            return stay("the store has no leader")
        if look.leader not in known or best is None:
            self._better = None
            return stay(f"too little is known of {look.leader}, which leads")
        if not self._is_better(known[best], known[look.leader], higher):
            self._better = None
            better = "" if best == look.leader else f": {best} is not better by {self._margin:.0%}"
            return stay(f"{look.leader} leads, and may go on{better}")
        if self._better != (look.leader, best):
            self._better, self._better_count = (look.leader, best), 0
        self._better_count += 1
        if self._better_count < self._looks:
            return stay(f"{best} is better than {look.leader}: seen {self._better_count} of {self._looks} times")
        if self._moved_at is not None and now - self._moved_at < self._cooldown:
            return stay(f"{best} is better than {look.leader}, but leadership was moved a moment ago")
        why = f"{best} is better than {look.leader} ({known[best]:.4g} against {known[look.leader]:.4g})"
        return Verdict(scores=scores, best=best, move_to=best, why=why)

    def tried(self, now: Instant) -> None:
        """Note that leadership was moved, or that the store refused: either way the next try waits."""
        self._moved_at, self._better = now, None

    def _is_better(self, best: float, leader: float, higher: bool) -> bool:
        gain = best - leader if higher else leader - best
        return gain > self._margin * abs(leader)

    def _score(self, look: Look, name: str) -> float | None:
        if name not in look.rtt_ms:
            return None
        situation = Situation(
            me=NodeId(name),
            voters=tuple(map(NodeId, look.servers)),
            rtt={NodeId(other): trip for other, trip in look.rtt_ms[name].items()},
            rates={NodeId(other): rate for other, rate in look.rates.items()},
        )
        return self._oracle.score(situation)
