"""The leaders that a process names: at most k of them, the best first."""

from collections.abc import Collection
from typing import Final

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId, Term
from doyen.core.rank import STANDING_MAX, Claim
from doyen.election.announce.messages import Announcement

NOBODY: Final[Claim] = (-STANDING_MAX - 1, NodeId(""))
UNBEATABLE: Final[Claim] = (STANDING_MAX + 1, NodeId(""))


class Heard:
    """A leader that this process names, other than itself."""

    __slots__ = ("at", "node", "said", "told")

    def __init__(self, node: NodeId, said: Announcement, at: Instant, told: Term) -> None:
        self.node = node
        self.said, self.at = said, at  # Its last announcement, and when that was heard.
        self.told = told  # The term of the last `LeaderElected` that named it.


NOTHING: Final = Heard(NodeId(""), Announcement(0, 0), 0, Term(0, NodeId("")))


class PassedOver:
    """The best of those that claimed lately and were no better than whom the process names."""

    __slots__ = ("_best", "_lasts")

    def __init__(self, lasts: Duration) -> None:
        self._best, self._lasts = NOTHING, lasts

    def note(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        best = self._best
        if now - best.at > self._lasts or (message.standing, sender) >= (best.said.standing, best.node):
            self._best = Heard(sender, message, now, Term(message.term, sender))

    def take(self, now: Instant, leave_out: Collection[NodeId]) -> Heard | None:
        """Return the one that counts now, unless it is to be left out, and forget it."""
        best, self._best = self._best, NOTHING
        return best if now - best.at <= self._lasts and best.node and best.node not in leave_out else None


class Leaders:
    """The claims of the leaders that a process names, its own included while it contends."""

    __slots__ = ("_count_max", "bar", "claims")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max  # k.
        self.claims: list[Claim] = []  # The best first.
        self.bar: Claim = UNBEATABLE  # What a claim must beat to enter.

    @property
    def full(self) -> bool:
        return len(self.claims) == self._count_max

    def enter(self, claim: Claim) -> None:
        claims = self.claims
        claims.append(claim)
        if len(claims) > 1:
            claims.sort(reverse=True)
        self.bar = claims[-1] if self.full else NOBODY

    def remove(self, node: NodeId) -> None:
        self.claims = [held for held in self.claims if held[1] != node]
        self.bar = NOBODY

    def clear(self) -> None:
        """Name nobody, and let nobody enter."""
        self.claims, self.bar = [], UNBEATABLE

    def contradiction(self, mine: Claim | None, heard: Collection[NodeId]) -> str | None:
        """Return what contradicts itself, given this process's own claim and whom it heard; None if nothing does."""
        claims = self.claims
        if len(claims) > self._count_max:
            return f"{len(claims)} leaders in its table, at most {self._count_max} may be"
        if len(claims) > 1 and claims != sorted(claims, reverse=True):
            return "its table is not in order"
        if mine is not None and mine not in claims:
            return "it contends, and its claim is not in its own table"
        others = [node for _, node in claims if mine is None or node != mine[1]]
        if len(others) != len(heard) or any(node not in heard for node in others):
            return "the others in its table are not those it heard"
        return None
