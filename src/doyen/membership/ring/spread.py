"""Spreads news on the leases: who came, who went, who is out of reach, who acts for which key.

Every member keeps a log of what was news to it, and each pair how much of it the other has read; lines ride on lease
messages until they are.  In quiet, news passes at least k members per T_l in both directions.
"""

from collections.abc import Iterable
from typing import Final

from doyen.core.clock import Instant
from doyen.membership.ring.geometry import Name, Roster, Seat, distance
from doyen.membership.ring.messages import News, NewsKind, RosterPart, RosterWanted, Said
from doyen.membership.ring.pair import Pair
from doyen.membership.ring.room import ROOM, fitting, size

LINES_MAX: Final = 8  # Per message, and no more than fit a datagram together with a neighbourhood.
LOG_MAX: Final = 4096
PART_MAX: Final = 24  # Seats in a piece of the member list, and no more than fit a datagram.


class Spread:
    """The member list and the log of its changes."""

    def __init__(self, roster: Roster, *, is_whole: bool) -> None:
        self.roster = roster
        self.is_whole = is_whole  # Whether the list is all there: a newcomer gets it piece by piece.
        self.lost: set[Name] = set()  # Out of reach.
        self.gone_at: dict[Name, Instant] = {}  # When this node heard that a member had died or left.
        self._log: list[News] = []
        self._trimmed = 0  # Lines that are gone from the front of the log.
        self._reach: dict[Name, int] = {}  # The number of the latest line on whether a member is in reach.
        self._reigns: dict[int, News] = {}  # The latest, by key.

    @property
    def length(self) -> int:
        return self._trimmed + len(self._log)

    def for_pair(self, pair: Pair) -> Said | None:
        """Return what is to ride on the next lease message; None, the usual case, if there is nothing."""
        news = pair.told < self._trimmed + len(self._log)
        version = pair.confirmed < pair.mine.number or pair.session <= 1
        if not (news or version or pair.owes):
            return None
        pair.owes = False
        start = max(pair.told - self._trimmed, 0)
        members = tuple(sorted(pair.mine.members)) if version else None
        lines = fitting(self._log[start : start + LINES_MAX], ROOM - size(members))
        return Said(lines, start + self._trimmed, pair.heard, pair.mine.number if version else 0, members)

    def read(self, pair: Pair, said: Said) -> tuple[News, ...]:
        """Return the lines that this pair had not brought before, to be learned."""
        if said.heard > pair.told:
            pair.told = min(said.heard, self.length)
        if not said.news:
            return ()
        pair.owes = True
        if pair.heard == 0 or said.first > pair.heard:
            pair.heard = said.first  # The other's log began, or was cut, later.
        fresh = said.news[max(pair.heard - said.first, 0) :]
        pair.heard += len(fresh)
        return fresh

    def learn(self, line: News, me: Name, now: Instant) -> bool:
        """Take a line from anybody or from this node itself; return whether it is news, and so passed on."""
        name, roster = line.seat.name, self.roster
        if name == me and line.kind is not NewsKind.REIGN:
            return False
        match line.kind:
            case NewsKind.JOINED:
                if not roster.add(line.seat):
                    return False
            case NewsKind.DEAD | NewsKind.LEFT:
                if not roster.remove(line.seat, left=line.kind is NewsKind.LEFT):
                    return False
                self.lost.discard(name)
                self.gone_at[name] = now
            case NewsKind.LOST | NewsKind.FOUND:
                if line.number <= self._reach.get(name, 0) or line.seat not in roster:
                    return False
                self._reach[name] = line.number
                (self.lost.add if line.kind is NewsKind.LOST else self.lost.discard)(name)
            case NewsKind.REIGN:
                latest = self._reigns.get(line.key)
                if latest is not None and not _is_later(line, latest):
                    return False
                self._reigns[line.key] = line
        self._log.append(line)
        if len(self._log) > LOG_MAX:
            del self._log[: LOG_MAX // 2]
            self._trimmed += LOG_MAX // 2
        return True

    def learn_list(self, seats: Iterable[Seat], gone: Iterable[Name], me: Name, *, whole: bool) -> None:
        """Take somebody else's list, without passing it on."""
        for node, incarnation in gone:
            self.roster.remove(Seat(0, node, incarnation), left=False)
        for seat in seats:
            if seat.name != me:
                self.roster.add(seat)
        self.is_whole = self.is_whole or whole

    def reach(self, seat: Seat, *, lost: bool) -> News | None:
        """Return the line that says that a member is out of reach, or in reach again; None if that is known."""
        if (seat.name in self.lost) == lost:
            return None
        return News(NewsKind.LOST if lost else NewsKind.FOUND, seat, self._reach.get(seat.name, 0) + 1)

    def part(self, message: RosterWanted, me: Seat) -> RosterPart:
        """Return the piece of the member list that a newcomer asks for."""
        seats = self.roster.after(message.after, PART_MAX + 1)
        gone: tuple[Name, ...] = ()
        reigns: tuple[News, ...] = ()
        if message.after < 0:  # The first piece: the latest of both, in a third of the room each.
            gone = fitting(tuple(self.roster.gone)[: -PART_MAX // 2 - 1 : -1], ROOM // 3)[::-1]
            reigns = fitting(tuple(self._reigns.values())[: -LINES_MAX - 1 : -1], ROOM // 3)[::-1]
        part = fitting(seats[:PART_MAX], ROOM - size(gone) - size(reigns))
        return RosterPart(me.incarnation, message.incarnation, part, gone, len(seats) > len(part), reigns)


def _is_later(line: News, latest: News) -> bool:
    """Return whether a reign came after another; of two in one term the nearer to the key, which took it back."""
    if line.number != latest.number:
        return line.number > latest.number
    return distance(line.seat.point, line.key) < distance(latest.seat.point, line.key)
