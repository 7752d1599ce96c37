"""Answers heartbeats for a voter: the first answer in an epoch is its grant, durable before it leaves (decision 30).

A heartbeat may come too early: from a node that is not chosen here yet, or while the voter is still bound to another.
The last such heartbeat is kept, and answered when its time has come.
"""

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.pole.messages import Heartbeat, HeartbeatAck, PromiseEnds
from doyen.election.pole.promise import Voter


class Grants:
    """The answers of one voter, and the heartbeat that it keeps."""

    def __init__(self, voter: Voter, guard: Duration, out: Out) -> None:
        self._voter, self._guard, self._out = voter, guard, out
        self._kept: tuple[NodeId, Heartbeat] | None = None

    def keep(self, leader: NodeId, beat: Heartbeat) -> None:
        self._kept = (leader, beat)

    def forget(self) -> None:
        self._kept = None

    def kept(self, leader: NodeId | None, epoch: int) -> Heartbeat | None:
        """Return the kept heartbeat if it is of that leader and epoch, and keep none any longer."""
        kept, self._kept = self._kept, None
        return kept[1] if kept is not None and (kept[0], kept[1].epoch) == (leader, epoch) else None

    def refuse(self, leader: NodeId, beat: Heartbeat) -> None:
        """Refuse an epoch, and name the promised one, so that the leader can take one above it."""
        self._out.send(leader, HeartbeatAck(self._voter.promise.epoch, beat.number, False))

    def acknowledge(self, leader: NodeId, beat: Heartbeat, now: Instant) -> None:
        """Acknowledge a heartbeat of the chosen leader, in the promised epoch; refuse or keep it where that must be."""
        voter = self._voter
        if not voter.may_grant(beat.epoch, leader):
            self.refuse(leader, beat)
            return
        if not voter.has_granted(beat.epoch, leader):
            free_at = voter.free_at(leader)
            if now < free_at:
                if self._kept is None or self._kept[1].epoch != beat.epoch:
                    self._out.set_timer(PromiseEnds(beat.epoch), free_at)
                self.keep(leader, beat)
                return
            voter.advance(beat.epoch, leader)
        voter.bound_until = now + self._guard
        self._out.send(leader, HeartbeatAck(beat.epoch, beat.number, True))
