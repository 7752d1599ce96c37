"""One election as a node sees it: who leads, since when, and whether it is this node itself."""

from typing import Any

from doyen.core.clock import Instant
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost

LEASED = ("pole",)


class Reign:
    """Follows what an election tells.  `mine` is the term under which this node itself leads, if it does."""

    __slots__ = ("channel", "kind", "lost_because", "machine", "me", "mine", "name", "since", "term", "term_max")

    def __init__(self, name: str, channel: str, kind: str, me: NodeId) -> None:
        self.name, self.channel, self.kind, self.me = name, channel, kind, me
        self.machine: Any = None
        self.term: Term | None = None  # Whom this node names.
        self.mine: Term | None = None
        self.since: Instant = 0  # When that came to be, on this node's clock.
        self.term_max = 0  # The greatest number seen.
        self.lost_because = ""

    @property
    def leader(self) -> NodeId | None:
        return None if self.term is None else self.term.leader

    @property
    def status(self) -> str:
        """The machine's own word for where it stands, or ours."""
        status = getattr(self.machine, "status", None)
        value = getattr(status, "value", None)
        if isinstance(value, str) and hasattr(self.machine, "leaders"):  # Announce-listen has the finest words.
            return value
        return "leading" if self.mine is not None else "following" if self.term is not None else "waiting"

    def lease_until(self) -> Instant | None:
        """Until when this node may act without hearing anything further; None: the election gives no lease."""
        if self.kind not in LEASED:
            return None
        lease = self.machine.lease  # Not by getattr: whoever renames it must hear of it, or watchdogs would sleep.
        return None if lease is None else int(lease.until)

    def is_leader(self, now: Instant) -> bool:
        """By the clock alone, where there is a lease."""
        if self.mine is None:
            return False
        leads = getattr(self.machine, "leads", None)
        if leads is not None:
            return bool(leads(now))
        lease = self.lease_until()
        return lease is None or now < lease

    def note(self, fact: LeaderElected | LeaderLost, now: Instant) -> None:
        term = fact.term
        self.term_max = max(self.term_max, term.number)
        if isinstance(fact, LeaderLost):
            if term.leader == self.me:
                self.mine = None
            if self.term is not None and self.term.leader == term.leader:
                self.term, self.since, self.lost_because = None, now, fact.reason
            return
        if self.leader != term.leader:
            self.since = now
        self.term = term
        if term.leader == self.me:
            self.mine = term
        elif self.mine is not None and not self._shared():
            self.mine = None

    def _shared(self) -> bool:
        """Several may lead at once by configuration."""
        config = getattr(self.machine, "config", None)
        return bool(getattr(config, "leader_count", 1) > 1)
