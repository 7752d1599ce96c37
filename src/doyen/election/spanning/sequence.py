"""Counts elections: each has a higher sequence than all that its initiator has heard of."""

from doyen.core.effects import Out
from doyen.election.spanning.messages import SEQUENCE_MAX


class Sequence:
    """The highest sequence seen anywhere.

    Nothing that tells of a sequence leaves before it is durable, so no two incarnations use one twice.
    """

    def __init__(self, out: Out, restored: int | None) -> None:
        """Go on after the highest sequence of an earlier incarnation; None: nothing is kept."""
        self._out, self._keeps = out, restored is not None
        self.highest = restored or 0

    @property
    def is_used_up(self) -> bool:
        return self.highest >= SEQUENCE_MAX

    def note(self, sequence: int) -> None:
        if sequence > self.highest:
            self._set(sequence)

    def reset(self) -> None:
        """Begin again at 0: the sequences are used up, and everybody forgets."""
        self._set(0)

    def _set(self, sequence: int) -> None:
        self.highest = sequence
        if self._keeps:
            self._out.persist(sequence)
