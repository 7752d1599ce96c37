"""Gets a process its own score: from a callable, or from the world.  [POLE §3.2, get-score]"""

from collections.abc import Callable
from math import isfinite

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.rank import ORACLE_PARTS_MAX, OracleStanding, ScoreGiven, ScoreWanted

# `score(epoch, gone)`: this process's standing if that leader has crashed; None while too little was measured.
Score = Callable[[int, NodeId | None], OracleStanding | None]


class Scores:
    """The source of scores.  The wait for a score is bounded: for a callable from the start of the process, for the
    world from each question."""

    def __init__(self, score: Score | None, out: Out, timeout: Duration) -> None:
        self._score, self._out, self._timeout = score, out, timeout
        self._given: OracleStanding | None = None
        self.patient_until: Instant = 0

    def start(self, now: Instant) -> None:
        self.patient_until = now + self._timeout

    def ask(self, epoch: int, gone: NodeId | None, now: Instant) -> OracleStanding | None:
        """Return the standing for an election; None: not yet; () if the wait is over."""
        if self._score is None:
            self._out.emit(ScoreWanted(epoch))
            self.patient_until = now + self._timeout
            return None
        standing = self._scored(epoch, gone)
        return () if standing is None and now >= self.patient_until else standing

    def look(self, epoch: int, gone: NodeId | None) -> OracleStanding | None:
        """Return the standing as far as it is known now."""
        return self._scored(max(epoch, 1), gone)

    def told(self, epoch: int, stands: bool) -> OracleStanding:
        """Return the standing to report to the leader of this epoch, which names its heir by it: that for the next one
        (decision 182).

        It is () if there is none, or this voter never leads.
        """
        return (self.look(epoch + 1, None) if stands else None) or ()

    def given(self, fact: ScoreGiven) -> OracleStanding:
        self._given = sound((fact.value,))
        return self._given

    def _scored(self, epoch: int, gone: NodeId | None) -> OracleStanding | None:
        if self._score is None:
            return self._given
        standing = self._score(epoch, gone)
        return None if standing is None else sound(standing)


def sound(standing: OracleStanding) -> OracleStanding:
    """Return a standing as it can be sent; what is no number counts as not measured, which is below all that was."""
    try:
        parts = tuple(float(part) for part in standing)
    except (TypeError, ValueError, OverflowError):
        return ()
    return parts if len(parts) <= ORACLE_PARTS_MAX and all(map(isfinite, parts)) else ()
