"""The other candidates for one epoch: who stands, with which score."""

from doyen.core.ids import NodeId

CANDIDATES_MAX = 64


class Rivals:
    """The candidates for the highest epoch that anybody stood for."""

    def __init__(self) -> None:
        self._epoch = 0
        self._standing: dict[NodeId, float | None] = {}  # None: it gives way to everybody.

    def note(self, epoch: int, node: NodeId, standing: float | None) -> None:
        """Remember a candidate, unless it stands for an earlier epoch."""
        if epoch > self._epoch:
            self._epoch, self._standing = epoch, {}
        if epoch == self._epoch and len(self._standing) < CANDIDATES_MAX:
            self._standing[node] = standing

    def of(self, epoch: int) -> dict[NodeId, float | None]:
        return self._standing if self._epoch == epoch else {}
