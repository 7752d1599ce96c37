"""What neighbours last said of themselves: how far the leader is, and who has disagreed with me for how long."""

from collections.abc import Collection

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.election.spanning.messages import Candidate, ElectionId, State

View = tuple[ElectionId | None, NodeId | None]


class Watch:
    """Soft state about neighbours, fed by their `State`s."""

    __slots__ = ("_differs", "_heard", "distance")

    def __init__(self) -> None:
        self.distance = 0  # Hops to the leader: never more than the truth, and without limit if there is none.
        self._heard: dict[NodeId, tuple[View, int, Instant]] = {}
        self._differs: dict[NodeId, tuple[View, View, Instant]] = {}

    def hear(self, node: NodeId, state: State, now: Instant) -> None:
        leader = state.leader.node if state.leader is not None and state.progress == "idle" else None
        self._heard[node] = ((state.election, leader), state.distance, now)

    def forget(self, node: NodeId) -> None:
        self._heard.pop(node, None)
        self._differs.pop(node, None)

    def count(self, view: View, since: Instant, now: Instant) -> int:
        """One more than the nearest neighbour with the same leader says; one more each time if there is none."""
        near = [distance for said, distance, at in self._heard.values() if said == view and since <= at <= now]
        self.distance = max(min(near, default=self.distance), 0) + 1
        return self.distance

    def lasts(self, node: NodeId, mine: View, theirs: View, now: Instant, patience: Duration) -> bool:
        """Whether we have differed in this very way for longer than messages are under way."""
        found = self._differs.get(node)
        if found is None or found[:2] != (mine, theirs) or found[2] > now:
            self._differs[node] = (mine, theirs, now)
            return False
        return now - found[2] >= patience

    def keep(self, neighbours: Collection[NodeId]) -> None:
        """Nobody else says anything."""
        for node in (self._heard.keys() | self._differs.keys()) - set(neighbours):
            self.forget(node)

    def agrees(self, node: NodeId) -> None:
        self._differs.pop(node, None)


def view_of(election: ElectionId | None, leader: Candidate | None) -> View:
    return election, leader.node if leader is not None else None
