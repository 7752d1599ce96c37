"""Puts the moments of several nodes into one order: a message is received after it was sent.

Among what may come next, wall clocks decide; the verdict does not depend on them, but where a recording ends.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.audit.moments import End, Log, Message, Moment
from doyen.election.pole import messages as msg
from doyen.net.handshake import AGAIN_S

SLACK_S = 1.0  # By which wall clocks may differ where a recording begins or ends.
EARLIER_S = SLACK_S + AGAIN_S  # To a node that comes late, what was sent before it came is said again.
# No recording of the node, or of this process of it; or the message is from before it begins, or after it ends.
UNSEEN: Final = ("node", "process", "before", "after")


class Placed(Struct, frozen=True):
    """A moment in its place."""

    moment: Moment
    # Of a message: "sent" as a recording shows, "will", "nobody", or why no recording could show it: one of UNSEEN.
    source: str = ""


class _Row:
    """The moments of one node, and how far they are laid."""

    def __init__(self, log: Log) -> None:
        self.lives = {life.incarnation: life for life in log.lives}
        self.moments: list[Moment] = []
        self.ends: dict[int, int] = {}  # By incarnation: where it ends.
        self.done = 0
        self._awake_at: dict[float, float] = {}
        for life in log.lives:
            last = life.moments[-1]
            self.ends[life.incarnation] = len(self.moments) + len(life.moments)
            self.moments += [*life.moments, replace(last, came=End(), deeds=())]
        self.sent: dict[tuple[int, bytes, str | None], int] = {}  # Where each message was first sent.
        for place, moment in enumerate(self.moments):
            for deed in moment.deeds:
                if isinstance(deed, Message):
                    self.sent.setdefault((deed.incarnation, deed.data, deed.to), place)

    def source(self, message: Message, at_s: float, by: "_Row") -> tuple[str, int]:
        """Return where a message comes from that another node heard, and after which moments of this one it may be."""
        life = self.lives.get(message.incarnation)
        if life is None:
            return "process", -1
        key = (message.incarnation, message.data)
        found = [self.sent[(*key, to)] for to in (None, message.to) if (*key, to) in self.sent]
        if found:
            return "sent", min(found)
        if self.may_be_before(message, at_s, by):
            return "before", -1
        if at_s >= life.moments[-1].at_s - SLACK_S:
            will = isinstance(message.message, msg.Resigned)
            return ("will", self.ends[message.incarnation]) if will else ("after", -1)
        return "nobody", -1

    def may_be_before(self, message: Message, at_s: float, by: "_Row") -> bool:
        """Return whether a message may have been sent before the recording of its process begins."""
        life = self.lives.get(message.incarnation)
        return life is not None and not life.is_whole and at_s <= by.awake_at(life.moments[0].at_s + EARLIER_S)

    def awake_at(self, at_s: float) -> float:
        """Return that moment; where this node was asleep then, one shortly after it woke: it hears old messages."""
        found = self._awake_at.get(at_s)
        if found is None:
            found = at_s
            for earlier, later in pairwise(self.moments):
                if earlier.at_s <= at_s < later.at_s and later.at_s - earlier.at_s > SLACK_S:
                    found = later.at_s + SLACK_S
            self._awake_at[at_s] = found
        return found


def laid(logs: list[Log]) -> Iterator[Placed]:
    """Yield the moments of all nodes in one order."""
    rows = {log.node: _Row(log) for log in logs}
    while True:
        heads = [row for row in rows.values() if row.done < len(row.moments)]
        if not heads:
            return
        free = [(row, placed) for row in heads if (placed := _placed(rows, row.moments[row.done])) is not None]
        if not free:  # Each waits for another: one was sent before, and the same again; or no such run can have been.
            waiting = [(row, row.moments[row.done]) for row in heads]
            free = [(row, Placed(moment, "before")) for row, moment in waiting if _may_be_before(rows, moment)]
        if not free:
            free = [min(((row, Placed(moment, "nobody")) for row, moment in waiting), key=lambda at: at[1].moment.at_s)]
        row, placed = min(free, key=lambda found: found[1].moment.at_s)
        row.done += 1
        yield placed


def _placed(rows: dict[str, _Row], moment: Moment) -> Placed | None:
    """Return a moment in its place; None while it waits for what it hears."""
    came = moment.came
    if not isinstance(came, Message):
        return Placed(moment)
    row = rows.get(came.sender)
    source, after = ("node", -1) if row is None else row.source(came, moment.at_s, rows[moment.node])
    return None if row is not None and after >= row.done else Placed(moment, source)


def _may_be_before(rows: dict[str, _Row], moment: Moment) -> bool:
    came, by = moment.came, rows[moment.node]
    return isinstance(came, Message) and came.sender in rows and rows[came.sender].may_be_before(came, moment.at_s, by)
