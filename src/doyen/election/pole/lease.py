"""The lease of a leader: it may act as long as a majority is bound to it, by its own monotonic clock.

Each ack names the heartbeat that it answers, and counts from when that one was *sent*, so that no voter is bound for
less (decision 30).  So a lease ends, in true time, before the voters that made it may turn to another.
"""

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId


class Lease:
    """The acks of one claim or reign."""

    def __init__(self, size: int, length: Duration) -> None:
        self._quorum, self._length = size // 2 + 1, length
        self._anchors: dict[NodeId, Instant] = {}

    def answered(self, voter: NodeId, sent_at: Instant) -> None:
        self._anchors[voter] = max(sent_at, self._anchors.get(voter, sent_at))

    @property
    def until(self) -> Instant:
        """Return when the acks of the last majority run out; -1 if there is no majority."""
        if len(self._anchors) < self._quorum:
            return -1
        return sorted(self._anchors.values(), reverse=True)[self._quorum - 1] + self._length


class Beats:
    """The instants at which heartbeats were sent, as far back as a lease reaches."""

    def __init__(self, keep: Duration) -> None:
        self._keep = keep
        self.number = 0
        self._sent_at: dict[int, Instant] = {}

    def send(self, now: Instant) -> int:
        self.number += 1
        self._sent_at[self.number] = now
        while self._sent_at[oldest := next(iter(self._sent_at))] < now - self._keep:
            del self._sent_at[oldest]
        return self.number

    def sent_at(self, number: int) -> Instant | None:
        return self._sent_at.get(number)
