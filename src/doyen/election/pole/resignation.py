"""Finds out whether another voter would be the better leader by now, clearly and lastingly.  [POLE §5]

Ours: the paper says "based on some threshold".  Another must be better by a margin, in several comparisons in a row,
and a leader does not resign before it has led for a cool-down: so a node whose score flaps takes leadership at most
once per cool-down.  Handing over takes no election: the heir is named, and claims the next epoch.
"""

from collections.abc import Collection
from typing import Final

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.core.rank import OracleStanding
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.messages import ScoreQuery

ASKED_LEASES: Final = 3  # The longest time between two questions for scores, in leases.
TURNS: Final = 2  # After this many heartbeats all have answered, as half of the others answer each.


class Rivals:
    """The comparisons of one reign: the standings of the other voters, and who has been better how often in a row."""

    def __init__(self, config: PoleConfig, out: Out, now: Instant = 0) -> None:
        self._config, self._out = config, out
        self.number = 0
        self._replies: dict[NodeId, OracleStanding] = {}
        self._earlier: dict[NodeId, OracleStanding] = {}  # To the question before, while this one is being answered.
        self._challenger: NodeId | None = None
        self._heir: NodeId | None = None  # Who takes over once it says that it reaches a majority.
        self._rounds = 0
        self.compared_at = self._asked_at = now
        self._turns = TURNS if config.connected or config.resign_interval < FOREVER else 0

    def ask(self, now: Instant, silent: Collection[NodeId] = ()) -> int:
        """Begin a question; the voters that do not answer any more are forgotten."""
        self.number += 1
        self._asked_at = now
        self._earlier = {node: standing for node, standing in self._replies.items() if node not in silent}
        self._replies = {}
        self._turns = TURNS
        return self.number

    @property
    def is_asking(self) -> bool:
        """Return whether the next heartbeat asks those that answer it for their scores."""
        return self._turns > 0

    def asked(self, *, everybody: bool) -> None:
        """Note that a heartbeat has asked those that answer it, or everybody."""
        self._turns = 0 if everybody else self._turns - 1

    def refresh(self, now: Instant, silent: Collection[NodeId] = ()) -> None:
        """Ask for the scores where they are compared rarely or never, as the leader says who would be next."""
        if self._config.connected and now - self._asked_at >= ASKED_LEASES * self._config.lease:
            self.ask(now, silent)

    def is_due(self, now: Instant) -> bool:
        """Return whether it is time to compare standings, and to ask for new ones by the next heartbeat."""
        return now - self.compared_at >= self._config.resign_interval

    def compare(
        self, mine: OracleStanding, led_for: Duration, now: Instant, silent: Collection[NodeId] = ()
    ) -> NodeId | None:
        """End a comparison and begin the next; return the voter to which the leader hands over at once.

        A voter that shall become the leader is asked first whether it reaches a majority, or nobody would lead for a
        while (decision 33).
        """
        self.compared_at = now
        winner = self.winner(mine)
        self._heir = winner if led_for >= self._config.cool_down else None
        if self._heir is not None and not self._config.connected:
            return self._heir
        number = self.ask(now, silent)
        if self._heir is not None:
            self._out.send(self._heir, ScoreQuery(number, True))
        return None

    def told(self, node: NodeId, standing: OracleStanding) -> None:
        """Note the standing that came with an ack."""
        self._replies[node] = standing

    def reply(self, node: NodeId, number: int, standing: OracleStanding, connected: bool = False) -> bool:
        """Note a reply; return whether the leader hands over to its sender."""
        if number != self.number:
            return False
        self._replies[node] = standing
        return connected and node == self._heir

    @property
    def best(self) -> NodeId | None:
        """Return the best of those that answered the last question, and measured anything."""
        known = self._known
        able = [node for node, standing in known.items() if standing]
        return max(able, key=lambda node: (known[node], order(node)), default=None)

    @property
    def _known(self) -> dict[NodeId, OracleStanding]:
        return self._earlier | self._replies

    def winner(self, mine: OracleStanding) -> NodeId | None:
        """Count one more round of replies; return the voter that has been better often enough in a row."""
        best = self.best
        if best is None or not clearly_better(self._known[best], mine, self._config.resign_margin):
            self._challenger, self._rounds = None, 0
            return None
        self._rounds = self._rounds + 1 if best == self._challenger else 1
        self._challenger = best
        return best if self._rounds >= self._config.resign_rounds else None


def clearly_better(theirs: OracleStanding, mine: OracleStanding, margin: float) -> bool:
    """Return whether a standing is better by more than the margin, in the first part that differs, ids aside."""
    for one, other in zip(theirs, mine, strict=False):
        if one != other:
            return one - other > margin * abs(other)
    return len(theirs) > len(mine)
