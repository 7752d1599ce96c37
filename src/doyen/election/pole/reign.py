"""A leader's side of things: the epoch it claims, the lease it holds, and the heartbeats that both live on.

A reign may claim a higher epoch while it goes on under its old one: whoever grants the new one is bound to the same
leader, so such an ack prolongs the lease as well.
"""

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.lease import Beats, Lease
from doyen.election.pole.messages import Heartbeat, HeartbeatDue
from doyen.election.pole.resignation import Rivals


class Reign:
    """Of one process: none, a claim, a lease, or both."""

    def __init__(self, config: PoleConfig, size: int, out: Out) -> None:
        self._config, self._size, self._out = config, size, out
        self._beats = Beats(config.lease)
        self.claim: Lease | None = None
        self.lease: Lease | None = None
        self.tenure = 0  # Tells the timers of one reign from those of another.
        self.since: Instant = 0
        self.rivals = Rivals(config)

    def end(self) -> None:
        """Of claim and lease alike."""
        self.claim = self.lease = None
        self.tenure += 1

    def open_claim(self, now: Instant) -> None:
        """Of another epoch than before: nobody has granted it yet."""
        if self.claim is None:
            self._out.set_timer(HeartbeatDue(self.tenure), now + self._config.heartbeat_interval)
        self.claim = Lease(self._size, self._config.lease)

    def begin(self, now: Instant) -> None:
        """The claim has its majority: it is the lease from now on."""
        if self.lease is None:
            self.since, self.rivals = now, Rivals(self._config)
        self.lease = self.claim

    def beat(self, epoch: int, acting: bool, now: Instant) -> None:
        self._out.multicast(Heartbeat(epoch, self._beats.send(now), acting))

    def sent_at(self, number: int) -> Instant | None:
        return self._beats.sent_at(number)

    def answered(self, voter: NodeId, sent_at: Instant, now: Instant) -> bool:
        """Whether the claim has just got its majority."""
        assert self.claim is not None
        self.claim.answered(voter, sent_at)
        if self.lease is not None and self.lease is not self.claim:
            self.lease.answered(voter, sent_at)
        return self.lease is not self.claim and self.claim.until > now
