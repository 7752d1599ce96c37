"""The initiator's part: ask c+f+1 members, decide from c+1 answers, notify.  [CTOL Alg. 1–4, INITIATEELECTION]

    IDLE ─begin─▶ COLLECTING ─c+1 responses─▶ NOTIFIED ─final LEADER─▶ IDLE
      ▲  └─ too few known ─▶ WAITING ─back-off, or a larger view─┘│
      └── a better election is heard of ──┘      no LEADER: a new attempt ─▶ COLLECTING

Deviation [CTOL Alg. 1–4]: a NOTIFYLEADER whose LEADER does not come is repeated (`notify_retry_max`) before all
  members are asked anew: one lost message need not cost 2(c+f+1).  While optimistic variants still collect, it is
  repeated every response_timeout.
Deviation [CTOL Alg. 4, lines 13–17]: an empty set of leaders begins a new attempt only when all c+1 responses are in.
Deviation [CTOL Alg. 2, 4]: once all are in, the leader is notified again, finally; in the paper nobody can tell a
  tentative leader from a confirmed one, and an initiator that dies in between leaves a wrong one forever.
"""

from enum import Enum
from random import Random

from doyen.core.clock import Duration, Instant
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.churn import messages as msg
from doyen.election.churn.messages import ElectionId, Record
from doyen.election.churn.standpoint import WISHES_MAX, Standpoint
from doyen.election.churn.tally import Tally


class Role(Enum):
    """The states of a node as an initiator."""

    IDLE = "idle"
    WAITING = "waiting"  # Too few members are known for a safe election.
    COLLECTING = "collecting"
    NOTIFIED = "notified"  # The would-be leader was notified of the final choice.


class Initiator:
    """Conducts one election at a time, in as many attempts as it takes."""

    def __init__(self, point: Standpoint, out: Out, rng: Random) -> None:
        self._point, self._out, self._rng = point, out, rng
        self.role = Role.IDLE
        self.election: ElectionId | None = None
        self.attempt = 0
        self.shortage: msg.CannotElect | None = None  # Why it waits.
        self._tally = Tally(point, 0)
        self._needed = 1  # c+1 of this attempt.
        self._asked_count = 1  # c+f+1.
        self._x = self._y = 0
        self._sequence = 0  # That of the last NOTIFYLEADER in this election,
        self._heard_sequence = 0  # and that of the last LEADER that answered one.
        self._chosen: NodeId | None = None  # The member that was notified.
        self._deadline = Deadline()  # Without a new RESPONSE by then more members are asked.
        self._tries = 0  # Attempts in vain, for want of members.

    # Inputs.

    def begin(self, now: Instant) -> None:
        """Begin an election above all that were heard of."""
        config = self._point.config
        self._open()
        # [CTOL Alg. 1, 2] are Algorithms 3 and 4 with one candidate and nobody excluded.
        x, y = (config.candidate_count, config.unhealthy_count) if config.preferred else (1, 0)
        self._attempt(x, y, now)

    def appoint(self, leader: NodeId, because: str, now: Instant) -> None:
        """Begin an election whose outcome is known, as the leader hands over."""
        self._open()
        if because and self.election is not None:  # First, so that it is known when the leader is named.
            self._point.handed_over = msg.HandedOver(self.election, because[: msg.BECAUSE_MAX])
            self._out.multicast(self._point.handed_over)
        self._x, self._y = 1, 0
        self.role, self.shortage = Role.NOTIFIED, None
        self._notify(leader, True, now)

    def stop(self) -> None:
        """End the election: a better one is under way, or this one is over."""
        self.role, self.shortage = Role.IDLE, None

    def counts(self, response: msg.Response) -> bool:
        """Return whether a response is to the present attempt; others stem from an earlier view, or another x and y."""
        return response.attempt == self.attempt

    def on_response(self, sender: NodeId, response: msg.Response, now: Instant) -> None:
        if self.role is not Role.COLLECTING or response.election != self.election or not self.counts(response):
            return
        if not self._tally.add(sender, response):
            return
        self._deadline.at = now + self._point.timeout
        leaders = self._tally.leaders()
        self._out.emit(msg.ResponseCounted(sender, self._tally.excluded(), self._tally.candidates(), leaders))
        complete = len(self._tally.received) >= self._needed
        if complete and not leaders:
            # [CTOL Alg. 3, lines 39–40] GETNEXTX, GETNEXTY.
            self._attempt(min(len(self._point.known()), self._x + 1), max(0, self._y - 1), now)
        elif complete:
            self._become_notified(leaders[0], now)
        elif self._point.config.optimistic and leaders and leaders[0] != self._chosen:
            self._notify(leaders[0], False, now)

    def on_record(self, record: Record, now: Instant) -> None:
        """Note that a LEADER was accepted, and end if it is the answer to the final NOTIFYLEADER."""
        if self.role is Role.IDLE or record.election != self.election:
            return
        self._heard_sequence = max(self._heard_sequence, record.sequence)
        if record.final and record.sequence == self._sequence:
            self.stop()

    def on_view(self, changed: tuple[NodeId, ...], now: Instant) -> None:
        if self.role is Role.WAITING and len(self._point.known()) >= self._point.asked_count():
            self._attempt(self._x, self._y, now)
        elif self.role is Role.NOTIFIED and self._chosen in changed and self._point.is_dead(self._chosen):
            self._attempt(self._x, self._y, now)  # It will not answer: no need to wait for the timeout.

    def ask_more(self, timer: msg.MoreAreAsked, now: Instant) -> None:
        """[CTOL Alg. 1, lines 5–7] Ask as many further members as are missing."""
        if self.role is not Role.COLLECTING or (timer.number, timer.attempt) != (self._number, self.attempt):
            return
        if not self._deadline.is_over(timer, now, self._out):
            return
        others = [node for node in self._point.known() if node not in self._tally.received]
        if len(others) + len(self._tally.received) < self._needed:
            self._become_waiting(now)
            return
        self._ask(others, self._asked_count - len(self._tally.received))
        self._deadline.move(now + self._point.timeout, timer, self._out)

    def on_notify_repeats(self, timer: msg.NotifyRepeats, now: Instant) -> None:
        if timer.number != self._number or timer.sequence != self._sequence or self._chosen is None:
            return
        if self.role not in (Role.COLLECTING, Role.NOTIFIED) or self._heard_sequence >= self._sequence:
            return
        final = self.role is Role.NOTIFIED
        if final and timer.repeat >= self._point.config.notify_retry_max:
            self._attempt(self._x, self._y, now)  # [CTOL Alg. 1, lines 13–15]
        else:
            self._tell(self._chosen, final, timer.repeat + 1, now)

    def on_back_off_ends(self, timer: msg.BackOffEnds, now: Instant) -> None:
        if self.role is Role.WAITING and (timer.number, timer.tries) == (self._number, self._tries):
            self._attempt(self._x, self._y, now)

    # Steps.

    @property
    def _number(self) -> int:
        return 0 if self.election is None else self.election.number

    def _open(self) -> None:
        """Take the next number for an election of this node."""
        point = self._point
        point.number += 1
        self.election = point.best = ElectionId(point.number, point.me, point.incarnation)
        self.attempt = self._sequence = self._heard_sequence = self._tries = 0

    def _attempt(self, x: int, y: int, now: Instant) -> None:
        assert self.election is not None
        self._x, self._y = x, y
        self._asked_count, self._needed = self._point.asked_count(), self._point.missing_max() + 1
        known = self._point.known()
        if len(known) < self._asked_count:
            self._become_waiting(now)
            return
        self._become_collecting(known, now)

    def _become_collecting(self, known: list[NodeId], now: Instant) -> None:
        assert self.election is not None
        self.role, self.shortage = Role.COLLECTING, None
        self.attempt += 1
        self._tries = 0
        self._chosen = None
        self._tally = Tally(self._point, self._y)
        self._out.emit(msg.AttemptBegan(self.election, self.attempt))
        self._ask(known, self._asked_count)
        self._deadline.fired()  # The timer of an earlier attempt does not count.
        self._deadline.move(now + self._point.timeout, msg.MoreAreAsked(self._number, self.attempt), self._out)

    def _become_waiting(self, now: Instant) -> None:
        """Wait, in a state that can be seen and that ends by itself, instead of an endless loop."""
        config = self._point.config
        self.role = Role.WAITING
        self._tries += 1
        shortage = msg.CannotElect(len(self._point.known()), self._point.asked_count())
        if shortage != self.shortage:
            self.shortage = shortage
            self._out.emit(shortage)
        wait: Duration = min(self._point.timeout * 2 ** min(self._tries, 30), config.back_off_max)
        self._out.set_timer(msg.BackOffEnds(self._number, self._tries), now + wait)

    def _become_notified(self, leader: NodeId, now: Instant) -> None:
        assert self.role is Role.COLLECTING
        self.role = Role.NOTIFIED
        self._notify(leader, True, now)

    def _ask(self, known: list[NodeId], count: int) -> None:
        assert self.election is not None
        point = self._point
        wishes = point.wishes()
        query = msg.Query(self.election, self.attempt, self._x, self._y, wishes)
        if wishes:  # More members than those whose answers are needed should know them.
            count = max(count, WISHES_MAX)
        for node in self._rng.sample(known, min(count, len(known))):
            self._out.send(node, query)

    def _notify(self, leader: NodeId, final: bool, now: Instant) -> None:
        assert self.election is not None
        self._chosen = leader
        self._sequence += 1
        self._out.emit(msg.Decided(self.election, self.attempt, self._sequence, final, leader))
        self._tell(leader, final, 0, now)

    def _tell(self, leader: NodeId, final: bool, repeat: int, now: Instant) -> None:
        assert self.election is not None
        self._out.send(leader, msg.NotifyLeader(self.election, self._sequence, final))
        self._out.set_timer(msg.NotifyRepeats(self._number, self._sequence, repeat), now + self._point.timeout)
