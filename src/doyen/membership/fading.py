"""Suspicions of long ago count less: from time to time the counts of all members that were suspected are halved."""

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.view import ViewEditor


class CountsAreHalved(Struct, frozen=True, gc=False):
    """The suspicion counts of all members are halved."""


class Fading:
    """The members whose suspicion counts are not 0, and when these counts are halved next."""

    __slots__ = ("_due", "_editor", "_half_life", "nodes")

    def __init__(self, editor: ViewEditor, half_life: Duration) -> None:
        self._editor, self._half_life = editor, half_life
        self.nodes: set[NodeId] = set()
        self._due = Deadline()

    def begin(self, now: Instant, out: Out) -> None:
        """Set the timer, unless it is set already; `FOREVER` is never scheduled."""
        if self._half_life < FOREVER:
            self._due.move(now + self._half_life, CountsAreHalved(), out)

    def halve(self, now: Instant, out: Out) -> list[NodeId]:
        """Halve all counts; return the members whose counts changed."""
        self._due.fired()
        view = self._editor.view
        faded = sorted(node for node in self.nodes if node in view)
        for node in faded:
            self._editor.put(replace(view[node], suspicion_count=view[node].suspicion_count // 2))
        self.nodes = {node for node in faded if view[node].suspicion_count}
        if self.nodes:
            self.begin(now, out)
        return faded
