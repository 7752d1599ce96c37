"""What spreads on the leases: who came, who went, who is out of reach, who acts for which key.

Every member keeps a log of what was news to it, and each pair how much of it the other has read; lines ride on lease
messages until they are.  In quiet, news passes at least k members per T_l in both directions.
"""

from typing import TYPE_CHECKING, Final

from doyen.core.clock import Instant
from doyen.membership.arbitration.messages import News, NewsKind, ReignHeard, Said
from doyen.membership.arbitration.pair import Pair
from doyen.membership.ring import Name, Roster, Seat

if TYPE_CHECKING:
    from doyen.membership.arbitration.machine import Arbitration

LINES_MAX: Final = 8  # Per message: it must fit a datagram together with a neighbourhood.
LOG_MAX: Final = 4096


class Spread:
    def __init__(self, machine: "Arbitration", roster: Roster) -> None:
        self._m, self.roster = machine, roster
        self._log: list[News] = []
        self._trimmed = 0  # So many lines are gone from the front.
        self.lost: set[Name] = set()
        self.gone_at: dict[Name, Instant] = {}  # When we heard that it had died or left.
        self._reach: dict[Name, int] = {}  # The number of the latest word on it.
        self.reigns: dict[int, tuple[int, Seat]] = {}

    @property
    def length(self) -> int:
        return self._trimmed + len(self._log)

    def for_pair(self, pair: Pair) -> Said | None:
        """None, if there is nothing to say: the usual case."""
        news = pair.told < self._trimmed + len(self._log)
        version = pair.confirmed < pair.mine.number or pair.session <= 1
        if not (news or version or pair.owes):
            return None
        pair.owes = False
        start = max(pair.told - self._trimmed, 0)
        return Said(
            tuple(self._log[start : start + LINES_MAX]),
            start + self._trimmed,
            pair.heard,
            pair.mine.number if version else 0,
            tuple(sorted(pair.mine.members)) if version else None,
        )

    def read(self, pair: Pair, said: Said, now: Instant) -> None:
        if said.heard > pair.told:
            pair.told = min(said.heard, self.length)
        if said.members is not None:
            self._m.upgrades.reflect(pair, said.version, said.members)
        if said.news:
            pair.owes = True
            if pair.heard == 0 or said.first > pair.heard:
                pair.heard = said.first  # The other's log began, or was cut, later.
            fresh = said.news[max(pair.heard - said.first, 0) :]
            pair.heard += len(fresh)
            for line in fresh:
                self.learn(line, now)

    def learn(self, line: News, now: Instant) -> None:
        """One line, from anybody or oneself; passed on if it is news."""
        m, roster = self._m, self.roster
        name = line.seat.name
        match line.kind:
            case NewsKind.JOINED:
                if name == m.seat.name or not roster.add(line.seat):
                    return
            case NewsKind.DEAD | NewsKind.LEFT:
                if name == m.seat.name:
                    if line.kind is NewsKind.DEAD and m.is_member:
                        m.leave_forced("told", now)
                    return
                left = line.kind is NewsKind.LEFT
                if not roster.remove(line.seat, left=left):
                    return
                self.lost.discard(name)
                self.gone_at[name] = now
                if left:
                    m.on_peer_left(line.seat, now)
            case NewsKind.LOST | NewsKind.FOUND:
                if line.number <= self._reach.get(name, 0) or name == m.seat.name or line.seat not in roster:
                    return
                self._reach[name] = line.number
                (self.lost.add if line.kind is NewsKind.LOST else self.lost.discard)(name)
            case NewsKind.REIGN:
                if line.number <= self.reigns.get(line.key, (0, None))[0]:
                    return
                self.reigns[line.key] = line.number, line.seat
                m.out.emit(ReignHeard(line.key, line.number, line.seat))
        self._log.append(line)
        if len(self._log) > LOG_MAX:
            del self._log[: LOG_MAX // 2]
            self._trimmed += LOG_MAX // 2
        m.on_news(line, now)

    def tell_reach(self, seat: Seat, *, lost: bool, now: Instant) -> None:
        if (seat.name in self.lost) != lost:
            number = self._reach.get(seat.name, 0) + 1
            self.learn(News(NewsKind.LOST if lost else NewsKind.FOUND, seat, number), now)
