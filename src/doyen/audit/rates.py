"""Compares the rates of the clocks of several recordings, by the messages between them.

A lease and a guard are counted on two clocks, and no clock may run faster than another by more than guard/lease, which
is (1+ρ)/(1−ρ).  A message is received after it was sent.  So if one node first hears a message and later sends one,
all of that lies between the moment at which the other sent the first and that at which it heard the second:

    slow    sent ────────────────────────── heard        at most this time, by its clock
                  ╲                        ╱
    fast           heard ───────────── sent              at least this time, by its clock

Two clocks have rates within the bound, which may change, and an offset, exactly if no such pair of messages says
otherwise.  Wall clocks do not count.  Each process has a clock of its own, as its machine may have been started anew.

Of messages with the same bytes the first that was sent and the first that was heard count.  Where the beginning of a
recording was overwritten, only those count that cannot have been sent before, too.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from doyen.audit.moments import Life, Log, Message, Moment, Resume
from doyen.core.clock import Duration, ms
from doyen.election.pole import messages as msg

COARSE: Final = ms(10)  # The coarsest clocks that are read in steps have steps of this length.


class Misfit(Struct, frozen=True):
    """Two clocks of which one runs faster than the other by more than is allowed, and the messages that prove it."""

    sent: Moment  # By the slow one,
    came: Moment  # to the fast one, which
    answered: Moment  # sent something then, or later,
    heard: Moment  # to the slow one.
    allowed: float

    @property
    def rate(self) -> float:
        """Return how many times as fast the clock is at least; infinite: all rates are too low."""
        slow = self.heard.now - self.sent.now
        return (self.answered.now - self.came.now) / slow if slow > 0 else float("inf")

    def __str__(self) -> str:
        slow, fast = self.heard.now - self.sent.now, self.answered.now - self.came.now
        begin = f"{self.sent.node}'s clock went on by {slow / 1e9:.6f} s from {_inputs(self.sent, self.heard)}, and "
        meanwhile = f"{self.came.node}'s within that by {fast / 1e9:.6f} s from {_inputs(self.came, self.answered)}"
        if slow <= 0:
            return f"{begin}{meanwhile}: no rates of the two clocks explain that"
        return f"{begin}{meanwhile}: that is {self.rate:.6g} times as fast, and drift_max allows {self.allowed:.6g}"


def _inputs(first: Moment, last: Moment) -> str:
    if first.path == last.path:
        return f"input {first.line} to {last.line} of {first.path}"
    return f"input {first.line} of {first.path} to {last.line} of {last.path}"


def misfit(logs: Sequence[Log]) -> Misfit | None:
    """Return the two clocks that contradict guard/lease the most; None if no two do."""
    guard, lease = logs[0].config.guard, logs[0].config.lease
    talks = {(life.node, life.incarnation): _Talk(life) for log in logs for life in log.lives}
    found = [one for talk in talks.values() if (one := _fastest(talk, talks, guard, lease)) is not None]
    return max(found, key=lambda one: one[0])[1] if found else None


class _Talk:
    """The messages of one process: where each was first sent and first heard."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.node, self.incarnation = life.node, life.incarnation
        self.sent: dict[tuple[str | None, bytes], Moment] = {}
        self.heard: dict[tuple[str, int, bytes], Moment] = {}
        first = life.moments[0].came
        self._granted = first.record.granted if isinstance(first, Resume) else -1
        self._least: int | None = None  # The number of the first heartbeat that is there.
        for moment in life.moments:
            came = moment.came
            if isinstance(came, Message):
                self.heard.setdefault((came.sender, came.incarnation, came.data), moment)
            for deed in moment.deeds:
                if isinstance(deed, Message) and self._is_first(deed.message):
                    self.sent.setdefault((deed.to, deed.data), moment)

    def _is_first(self, message: object) -> bool:
        """Return whether the first time that it was sent is in the recording."""
        if isinstance(message, msg.Resigned):  # A will has the same bytes, and no recording has its sending.
            return False
        if self.life.is_whole:
            return True
        if isinstance(message, msg.HeartbeatAck):
            return message.granted and message.epoch > self._granted
        if isinstance(message, msg.Heartbeat):  # Each has a greater number than those before.
            self._least = message.number if self._least is None else self._least
            return message.number > self._least
        return False

    def sending(self, message: Message, to: str) -> Moment | None:
        """Return where the message was first sent to that node, alone or with all others."""
        found = [self.sent[whom, message.data] for whom in (to, None) if (whom, message.data) in self.sent]
        return min(found, key=lambda moment: moment.now, default=None)


def _fastest(
    fast: _Talk, talks: dict[tuple[str, int], _Talk], most: Duration, least: Duration
) -> tuple[int, Misfit] | None:
    """Return the clock against which this one is too fast by the most, and by how much, times the lease."""
    tightest: dict[tuple[str, int], tuple[int, Moment, Moment]] = {}
    found: tuple[int, Misfit] | None = None
    for moment in fast.life.moments:
        came = moment.came
        if isinstance(came, Message) and came.sender != fast.node:
            key = (came.sender, came.incarnation)
            sent = talks[key].sending(came, fast.node) if key in talks else None
            if sent is not None:
                value = least * moment.now - most * sent.now
                if key not in tightest or value < tightest[key][0]:
                    tightest[key] = (value, sent, moment)
        for deed in moment.deeds:
            if not isinstance(deed, Message):
                continue
            for process, (value, asked, came_at) in tightest.items():
                if deed.to not in (None, process[0]):
                    continue
                heard = talks[process].heard.get((fast.node, fast.incarnation, deed.data))
                if heard is None or fast.sending(deed, process[0]) is not moment:
                    continue
                over = least * (moment.now - COARSE) - most * heard.now - value
                if over > (0 if found is None else found[0]):
                    found = over, Misfit(asked, came_at, moment, heard, most / least)
    return found
