"""The links of one node: which neighbours there are, and what each of them last said of itself."""

from collections.abc import Container, Iterable
from typing import Any

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.election.spanning.messages import Candidate, ElectionId, State, newer

View = tuple[ElectionId | None, NodeId | None]  # The newest election that a node knows, and the leader that it names.


class Links:
    """The neighbours, and soft state about each; nothing is sent to anybody else."""

    __slots__ = ("_differs", "_heard", "_me", "_out", "distance", "notified_at", "peers", "unnotified")

    def __init__(self, me: NodeId, neighbours: Iterable[NodeId], out: Out) -> None:
        self._me, self._out = me, out
        self.peers: list[NodeId] = sorted(set(neighbours) - {me}, key=order)
        self.notified_at: Instant = 0  # When the neighbours of that time were notified of the newest election.
        self.unnotified: set[NodeId] = set()  # Those whose links came up since.
        self.distance = 0  # Hops to the leader: never more than the truth, and without limit if there is none.
        self._heard: dict[NodeId, tuple[View, int, Instant]] = {}
        self._differs: dict[NodeId, tuple[View, View, Instant]] = {}

    def gain(self, peer: NodeId) -> None:
        self.peers = sorted([*self.peers, peer], key=order)
        self.unnotified.add(peer)

    def lose(self, peer: NodeId) -> None:
        self.peers.remove(peer)
        self.unnotified.discard(peer)
        self._forget(peer)

    def notified(self, now: Instant) -> None:
        """Note that all neighbours are being notified of a newer election."""
        self.notified_at = now
        self.unnotified.clear()

    def repair(self, now: Instant) -> None:
        """Make sense of whatever memory holds: only neighbours say anything, and nothing was done later than now."""
        self.peers = sorted(set(self.peers) - {self._me}, key=order)
        for peer in (self._heard.keys() | self._differs.keys()) - set(self.peers):
            self._forget(peer)
        self.notified_at = min(self.notified_at, now)
        self.unnotified &= set(self.peers)

    # Sending.

    def send(self, peer: NodeId, message: Any) -> None:
        """Send a message to a neighbour; corrupted memory may name somebody who is none."""
        if peer in self.peers:
            self._out.send(peer, message)

    def send_each(self, peers: Container[NodeId], message: Any) -> None:
        """Send a message to those of the peers that are neighbours, from the lowest."""
        for peer in self.peers:
            if peer in peers:
                self._out.send(peer, message)

    def send_all(self, message: Any, *, but: NodeId | None = None) -> None:
        for peer in self.peers:
            if peer != but:
                self._out.send(peer, message)

    # Comparing.

    def hear(self, peer: NodeId, state: State, now: Instant) -> None:
        leader = state.leader if state.progress == "idle" else None
        self._heard[peer] = (view_of(state.election, leader), state.distance, now)

    def count(self, view: View, since: Instant, now: Instant) -> int:
        """Count the hops to the leader: one more than the nearest neighbour with the same view said since then; one
        more than last time if there is no such neighbour."""
        near = [distance for said, distance, at in self._heard.values() if said == view and since <= at <= now]
        self.distance = max(min(near, default=self.distance), 0) + 1
        return self.distance

    def differs(self, peer: NodeId, mine: View, theirs: View, now: Instant, wait: Duration) -> bool:
        """Return whether the two views have differed in this very way for as long as messages may be under way."""
        found = self._differs.get(peer)
        if found is None or found[:2] != (mine, theirs) or found[2] > now:
            self._differs[peer] = (mine, theirs, now)
            return False
        return now - found[2] >= wait

    def agrees(self, peer: NodeId) -> None:
        self._differs.pop(peer, None)

    def will_hear(
        self, peer: NodeId, mine: ElectionId | None, theirs: ElectionId | None, now: Instant, wait: Duration
    ) -> bool:
        """Return whether the peer is behind only because this node's message of a newer election is still under way."""
        return now - self.notified_at <= wait and peer not in self.unnotified and newer(mine, theirs)

    def _forget(self, peer: NodeId) -> None:
        self._heard.pop(peer, None)
        self._differs.pop(peer, None)


def view_of(election: ElectionId | None, leader: Candidate | None) -> View:
    return election, leader.node if leader is not None else None
