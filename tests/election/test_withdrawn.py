"""A withdrawn claim at a voter: it frees whoever answered that claim, and nobody who answered a later one."""

from random import Random

import pytest

from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.effects import Multicast, Send
from doyen.core.ids import NodeId, Term
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import Heartbeat, HeartbeatAck, Pending, Propose, Resigned, Status
from doyen.election.pole.promise import Voter, VoterRecord
from doyen.testing import RecordingOut

A, B, C = (NodeId(name) for name in "abc")
CONFIG = PoleConfig(election_timeout=ms(100), lease=seconds(2), heartbeat_interval=ms(500), resign_interval=FOREVER)
ROUND = ms(1)


def own_score(epoch: int, gone: NodeId | None) -> tuple[float, ...]:
    return (1.0,)


def voter(restored: VoterRecord | None = None) -> tuple[Pole, RecordingOut]:
    out = RecordingOut()
    machine = Pole(
        A, CONFIG, out, Random(1), voters=(A, B, C), newcomer=True, durable=False, score=own_score, restored=restored
    )
    machine.start(0)
    return machine, out


def grants(machine: Pole, out: RecordingOut, to: NodeId, beat: Heartbeat, at: int) -> bool:
    """Whether that heartbeat is granted at once."""
    out.take()
    machine.on_message(to, beat, at)
    acks = [e.message for e in out.take() if isinstance(e, Send) and isinstance(e.message, HeartbeatAck)]
    return any((ack.epoch, ack.number, ack.granted) == (beat.epoch, beat.number, True) for ack in acks)


def test_a_withdrawn_claim_frees_whoever_granted_it() -> None:
    machine, out = voter()
    assert grants(machine, out, B, Heartbeat(3, 5, False), ROUND)
    machine.on_message(B, Resigned(3, None, 5), 2 * ROUND)
    assert grants(machine, out, C, Heartbeat(4, 1, True), 3 * ROUND)


def test_a_late_claim_that_was_withdrawn_is_not_granted() -> None:
    machine, out = voter()
    machine.on_message(B, Resigned(3, None, 5), ROUND)
    assert not grants(machine, out, B, Heartbeat(3, 5, False), 2 * ROUND)
    assert grants(machine, out, B, Heartbeat(3, 6, False), 3 * ROUND)


def bound_by_the_later_claim() -> None:
    """A withdrawal comes when its author has claimed the same epoch again, and leads."""
    machine, out = voter()
    assert grants(machine, out, B, Heartbeat(3, 6, True), ROUND)
    machine.on_message(B, Resigned(3, None, 5), 2 * ROUND)
    assert machine.term == Term(3, B)
    assert not grants(machine, out, C, Heartbeat(4, 1, True), 3 * ROUND)


def test_a_late_withdrawal_frees_nobody_who_answered_the_same_epoch_again() -> None:
    bound_by_the_later_claim()


def test_a_withdrawal_that_is_not_bound_to_its_heartbeats_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Voter, "let_go", lambda self, claimant, epoch, number: self.release(claimant, epoch))
    with pytest.raises(AssertionError):
        bound_by_the_later_claim()


def test_a_late_withdrawal_frees_nobody_who_answered_a_lower_epoch_since() -> None:
    """A claimant that is not bound to its epoch may go back to an earlier leader, and inherit from that one."""
    machine, out = voter()
    assert grants(machine, out, B, Heartbeat(6, 9, True), ROUND)
    machine.on_message(B, Resigned(7, None, 5), 2 * ROUND)
    assert machine.term == Term(6, B)
    assert not grants(machine, out, C, Heartbeat(8, 1, True), 3 * ROUND)


def test_a_leader_of_a_lower_epoch_than_it_once_withdrew_is_named() -> None:
    """The storm's seed 5003108: one voter named nobody for as long as that leader led."""
    machine, out = voter()
    machine.on_message(B, Resigned(7, None, 5), ROUND)
    assert grants(machine, out, B, Heartbeat(6, 9, True), 2 * ROUND)
    assert machine.term == Term(6, B)


def test_a_voter_that_was_started_anew_is_freed_by_no_withdrawal() -> None:
    """An earlier incarnation may have answered a later claim of the same epoch."""
    machine, out = voter(VoterRecord(3, 3, B))
    machine.on_message(B, Resigned(3, None, 5), ROUND)
    assert not grants(machine, out, C, Heartbeat(4, 1, True), 2 * ROUND)
    assert grants(machine, out, C, Heartbeat(4, 2, True), CONFIG.guard + 3 * ROUND)


def claiming() -> tuple[Pole, RecordingOut, Heartbeat]:
    """A node that claims an epoch, but cannot grant it itself yet, as it is bound to the leader of an earlier one."""
    machine, out = voter(VoterRecord(1, 1, C))
    machine.on_message(B, Propose(2, (0.5,), B, (A, C)), ROUND)
    machine.on_message(C, Propose(2, (0.5,), C, (A, B)), ROUND)
    assert machine.status is Status.CLAIMING
    claim = next(e.message for e in out.take() if isinstance(e, Multicast) and isinstance(e.message, Heartbeat))
    return machine, out, claim


def test_a_claimant_says_up_to_which_heartbeat_it_withdraws_and_counts_no_late_answer_to_those() -> None:
    machine, out, claim = claiming()
    machine.on_message(B, Pending(claim.epoch, claim.number), 2 * ROUND)
    machine.on_message(C, Heartbeat(1, 1, True), 3 * ROUND)  # The earlier leader acts after all.
    assert Multicast(Resigned(claim.epoch, None, claim.number)) in out.take()
    machine.on_message(C, Resigned(1, A), 4 * ROUND)
    assert machine.status is Status.CLAIMING and machine.epoch == claim.epoch
    machine.on_message(B, HeartbeatAck(claim.epoch, claim.number, True), 5 * ROUND)  # B may be free by now.
    assert machine.status is Status.CLAIMING
    again = next(e.message for e in out.take() if isinstance(e, Multicast) and isinstance(e.message, Heartbeat))
    machine.on_message(B, HeartbeatAck(again.epoch, again.number, True), 6 * ROUND)
    assert machine.leads(6 * ROUND)
