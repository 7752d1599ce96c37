"""Keeps the reign of a leader: the epoch that it claims, its lease, and the heartbeats on which both depend.

A reign may claim a higher epoch while it goes on under its old one: a voter that grants the new one is bound to the
same leader, so such an ack prolongs the lease as well.
"""

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.lease import Beats, Lease
from doyen.election.pole.messages import Heartbeat, HeartbeatDue
from doyen.election.pole.resignation import Rivals


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
            self._out.set_timer(HeartbeatDue(self.tenure), now + self._config.heartbeat_interval)
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
