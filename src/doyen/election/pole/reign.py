"""Keeps the reign of a leader: the epoch that it claims, its lease, and the heartbeats on which both depend.

A reign may claim a higher epoch while it goes on under its old one: a voter that grants the new one is bound to the
same leader, so such an ack prolongs the lease as well.

A leader may act as long as a majority is bound to it, by its own monotonic clock.  Each ack names the heartbeat that it
answers, and counts from when that one was *sent*, so that no voter is bound for less (decision 30).  So a lease ends,
in true time, before the voters that made it may turn to another.
"""

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.messages import Heartbeat, HeartbeatIsSent
from doyen.election.pole.resignation import Rivals


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


class Reign:
    """The claim and the lease of one process; it may have neither, one, or both."""

    def __init__(self, config: PoleConfig, size: int, out: Out) -> None:
        self._config, self._size, self._out = config, size, out
        self._beats = Beats(config.lease)
        self.claim: Lease | None = None
        self.lease: Lease | None = None
        self.tenure = 0  # Distinguishes the timers of one reign from those of another.
        self.since: Instant = 0
        self.rivals = Rivals(config)

    def end(self) -> None:
        """End claim and lease alike."""
        self.claim = self.lease = None
        self.tenure += 1

    def open_claim(self, now: Instant) -> None:
        """Begin a claim of another epoch than before, which nobody has granted yet."""
        if self.claim is None:
            self._out.set_timer(HeartbeatIsSent(self.tenure), now + self._config.heartbeat_interval)
        self.claim = Lease(self._size, self._config.lease)

    def begin(self, now: Instant) -> None:
        """Make the claim the lease, as it has its majority."""
        if self.lease is None:
            self.since, self.rivals = now, Rivals(self._config)
        self.lease = self.claim

    def beat(self, epoch: int, acting: bool, now: Instant) -> None:
        self._out.multicast(Heartbeat(epoch, self._beats.send(now), acting))

    def sent_at(self, number: int) -> Instant | None:
        return self._beats.sent_at(number)

    def answered(self, voter: NodeId, sent_at: Instant, now: Instant) -> bool:
        """Count an ack; return whether the claim has just got its majority."""
        assert self.claim is not None
        self.claim.answered(voter, sent_at)
        if self.lease is not None and self.lease is not self.claim:
            self.lease.answered(voter, sent_at)
        return self.lease is not self.claim and self.claim.until > now
