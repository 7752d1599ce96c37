"""Is somebody else the better leader by now, and clearly and lastingly so?  [POLE §5]

Ours: the paper says "based on some threshold".  Another must be better by a margin, in several comparisons in a row,
and nobody resigns before it has led for a cool-down: so a node whose score flaps takes leadership at most once per
cool-down.  Handing over takes no election: the heir is named, and claims the next epoch.
"""

from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.messages import QueryDue, Resigned, ScoreQuery, Standing

if TYPE_CHECKING:
    from doyen.election.pole.machine import Pole


class Rivals:
    """One reign's comparisons."""

    def __init__(self, config: PoleConfig) -> None:
        self._config = config
        self.number = 0
        self._replies: dict[NodeId, Standing] = {}
        self._challenger: NodeId | None = None
        self._rounds = 0

    def ask(self) -> int:
        self.number += 1
        self._replies.clear()
        return self.number

    def reply(self, node: NodeId, number: int, standing: Standing) -> None:
        if number == self.number:
            self._replies[node] = standing

    @property
    def best(self) -> NodeId | None:
        """Of those that answered the last question, and measured anything."""
        able = [node for node, standing in self._replies.items() if standing]
        return max(able, key=lambda node: (self._replies[node], order(node)), default=None)

    def winner(self, mine: Standing) -> NodeId | None:
        """Who has been better often enough, after one more round of replies."""
        best = self.best
        if best is None or not clearly_better(self._replies[best], mine, self._config.resign_margin):
            self._challenger, self._rounds = None, 0
            return None
        self._rounds = self._rounds + 1 if best == self._challenger else 1
        self._challenger = best
        return best if self._rounds >= self._config.resign_rounds else None


def clearly_better(theirs: Standing, mine: Standing, margin: float) -> bool:
    """By more than the margin, in the first part that differs; ids do not count."""
    for one, other in zip(theirs, mine, strict=False):
        if one != other:
            return one - other > margin * abs(other)
    return len(theirs) > len(mine)


def compare(pole: "Pole", now: Instant) -> None:
    """[POLE §5] Is there a better leader?  Scores include the present one."""
    reign, config = pole.reign, pole.config
    winner = reign.rivals.winner(pole.scores.look(pole.epoch, None) or ())
    if winner is not None and now - reign.since >= config.cool_down:
        resign(pole, now, winner)
        return
    pole.out.multicast(ScoreQuery(reign.rivals.ask()))
    pole.out.set_timer(QueryDue(reign.tenure), now + config.resign_interval)


def resign(pole: "Pole", now: Instant, to: NodeId | None) -> None:
    """Of a leader."""
    epoch, heir = pole.epoch, to or pole.reign.rivals.best
    pole.stop_leading("resigned")
    pole.voter.advance(epoch + 1)  # The barrier: nobody hears of the end before this node's own application does.
    pole.out.multicast(Resigned(epoch, heir))
    pole.modest_in = epoch + 1
    _succeed(pole, heir, now)


def on_resigned(pole: "Pole", sender: NodeId, message: Resigned, now: Instant) -> None:
    pole.voter.release(sender, message.epoch)
    if pole.chosen == sender and message.epoch >= pole.epoch:
        pole.lose("resigned")
        pole.voter.advance(message.epoch + 1)
        _succeed(pole, message.to, now)


def _succeed(pole: "Pole", heir: NodeId | None, now: Instant) -> None:
    """In an epoch of its own, without an election if there is an heir."""
    if heir is None or heir not in pole.voters:
        pole.begin_epoch(pole.epoch, now)
    else:
        pole.choose(heir, now)
