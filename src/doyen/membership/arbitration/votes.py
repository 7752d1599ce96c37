"""Votes: whose count, how many are enough, and what an arbitration or an upgrade has collected so far."""

from collections.abc import Mapping

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.membership.arbitration.arbitrator import Version
from doyen.membership.arbitration.config import ArbitrationConfig
from doyen.membership.arbitration.messages import Verdict
from doyen.membership.ring import Name, Seats


class Electorate:
    """Whose votes count in a group, and how many of them are enough."""

    def __init__(self, config: ArbitrationConfig, gone_at: Mapping[Name, Instant]) -> None:
        self._config, self._gone_at = config, gone_at

    def of(self, group: Seats, now: Instant) -> Seats:
        """Return the members of a group of whom a majority is needed.

        Deviation: a member that has been gone for T_arb no longer counts, unless as printed.  Of those who are left,
        any two majorities still meet: an asker that counts more of the gone needs more of the living.
        """
        if not self._config.abort_silent:
            return group
        gone, recent = self._gone_at, self._config.recent
        return frozenset(seat for seat in group if now - gone.get(seat.name, now) < recent)

    def is_majority(self, count: int, total: int) -> bool:
        """Whether `count` is more than half of `total`; exactly half is no majority."""
        return 2 * count > total


class Request(Struct, eq=False):
    """One arbitration, on the asker's side."""

    number: int
    group: Seats
    version: int  # Of the suspect's neighbourhood, as the asker knows it.
    deadline: Instant
    newer: Seats | None = None  # The group by a version that arbitrators know and the asker did not.
    votes: dict[Name, Verdict] = {}

    @property
    def groups(self) -> list[Seats]:
        return [self.group] if self.newer is None else [self.group, self.newer]

    @property
    def everyone(self) -> Seats:
        return self.group if self.newer is None else self.group | self.newer

    def has_vote(self, name: Name) -> bool:
        """Whether a member has voted; a stale vote asks to be asked again."""
        return self.votes.get(name, Verdict.STALE) is not Verdict.STALE

    @property
    def complete(self) -> bool:
        return all(self.has_vote(seat.name) for seat in self.everyone)

    def accepted(self, group: Seats) -> int:
        return sum(self.votes.get(seat.name) is Verdict.ACCEPT for seat in group)


class Proposal(Struct, eq=False):
    """One upgrade under way, on the proposer's side."""

    number: int
    version: Version
    group: Seats
    votes: dict[Name, bool] = {}

    def accepted(self, group: Seats) -> int:
        return sum(self.votes.get(seat.name, False) for seat in group)

    def silent(self, group: Seats) -> int:
        return sum(seat.name not in self.votes for seat in group)
