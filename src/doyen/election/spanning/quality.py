"""The quality of one node as a leader: given, or measured; the lowest there is while the node has resigned."""

from collections.abc import Callable
from math import isfinite, nan
from typing import Final

from doyen.core.ids import NodeId
from doyen.election.spanning.messages import Candidate

QUALITY_MAX: Final = 1e300


class Quality:
    """The quality that a node enters into an election, as it is on joining."""

    __slots__ = ("_measure", "_value", "resigned")

    def __init__(self, value: float, measure: Callable[[], float] | None) -> None:
        self._value = value  # As last given or measured.
        self._measure = measure  # Asked on joining, if given: a `Rating`, or any callable.
        self.resigned = False

    @property
    def value(self) -> float:
        return -QUALITY_MAX if self.resigned else self._value

    def give(self, value: float) -> None:
        if isfinite(value):
            self._value = value

    def candidate(self, node: NodeId) -> Candidate:
        """Return the node with its quality of this moment; the last value stands where none can be measured."""
        if self._measure is not None and not self.resigned:
            try:
                value = float(self._measure())
            except Exception:  # The application's mistake: an election must not stop for it.
                value = nan
            self.give(value)
        return Candidate(self.value, node)
