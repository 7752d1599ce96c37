"""POLE's voters are replaced one by one: the roll call before it, and how a node that was none begins to vote."""

from random import Random

import pytest

from doyen.core import Emit, Multicast, NodeId, Send, SetTimer, Term, ms, seconds
from doyen.core.commands import ChangeVoters
from doyen.core.effects import RecordDurable
from doyen.core.leadership import ChangeEnded
from doyen.election.pole.charter import Roll
from doyen.election.pole.chartered import ROLL_MIN
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import (
    Charter,
    ElectionBegun,
    Heartbeat,
    HeartbeatAck,
    Present,
    Propose,
    RollCall,
    RollEnds,
    WaitEnds,
)
from doyen.errors import LocalProtocolError
from doyen.testing import RecordingOut

A, B, C, D = (NodeId(name) for name in "abcd")


def leading(out: RecordingOut, election_timeout: int) -> Pole:
    """Return A, which leads in epoch 1 by the answers of B and C, from 20 on."""
    config = PoleConfig(election_timeout=election_timeout, lease=seconds(10), retry_max=seconds(4), connected=False)
    machine = Pole(A, config, out, Random(1), voters=(A, B, C), newcomer=True, score=lambda epoch, gone: (5.0,))
    machine.start(0)
    for voter in (B, C):
        machine.on_message(voter, Propose(1, (1.0,), voter), 10)
    machine.on_message(B, HeartbeatAck(1, 1, True), 20)
    machine.on_record_durable(RecordDurable(), 20)
    assert machine.is_leader
    out.take()
    return machine


@pytest.mark.parametrize("election_timeout", [ms(100), seconds(2)])
def test_those_that_shall_vote_have_an_elections_time_to_answer_the_roll_call(election_timeout: int) -> None:
    out = RecordingOut()
    machine = leading(out, election_timeout)
    machine.change_voters(ChangeVoters(7, frozenset((A, B, D))), ms(30))
    assert out.take() == [
        Multicast(RollCall(7)),
        SetTimer(RollEnds(7), ms(30) + max(election_timeout, ROLL_MIN)),
    ]
    machine.on_message(B, Present(7, True), ms(31))
    machine.on_timer(RollEnds(6), ms(32))  # Of an earlier command.
    assert out.take() == []
    machine.on_timer(RollEnds(7), ms(30) + max(election_timeout, ROLL_MIN))
    (refused,) = [effect.fact for effect in out.take() if isinstance(effect, Emit)]
    assert isinstance(refused, ChangeEnded) and refused.number == 7 and "d" in refused.refused
    assert machine.electorate.voters == {A, B, C}


def observer(out: RecordingOut) -> Pole:
    """Return D, which is no voter, and has named C in epoch 7."""
    config = PoleConfig(election_timeout=ms(100), lease=seconds(1), connected=False)
    machine = Pole(D, config, out, Random(1), voters=(A, B, C), newcomer=True, score=lambda epoch, gone: (5.0,))
    machine.start(0)
    machine.on_message(C, Heartbeat(7, 1, True), 10)
    assert machine.term == Term(7, C) and not machine.voting
    out.take()
    return machine


def test_who_begins_to_vote_while_nobody_leads_stands_above_every_epoch_that_it_knows() -> None:
    out = RecordingOut()
    machine = observer(out)
    later = 10 + machine.config.guard
    for number in range(4):  # Whichever counts.
        machine.on_timer(WaitEnds(number), later)
    assert machine.term is None
    machine.on_message(C, Charter(7, 1, b"", 1, (A, B, D)), later + 1)
    assert machine.voting and Emit(ElectionBegun(8)) in out.take()


def test_who_begins_to_vote_under_a_leader_follows_it_and_grants_nobody_else_for_a_guard() -> None:
    out = RecordingOut()
    machine = observer(out)
    machine.on_message(C, Charter(7, 1, b"", 1, (A, B, D)), 30)
    assert machine.voting and machine.epoch == 7 and machine.chosen == C
    out.take()
    machine.on_message(A, Heartbeat(8, 1, False), 40)
    granted = [
        effect for effect in out.take() if isinstance(effect, Send) and getattr(effect.message, "granted", False)
    ]
    assert granted == []


@pytest.mark.parametrize("names", ["", "abc", "a", "abcde", "ade", "xyz"])
def test_voters_are_changed_one_at_a_time(names: str) -> None:
    machine = leading(RecordingOut(), ms(200))
    assert machine.electorate.voters == frozenset("abc")
    with pytest.raises(LocalProtocolError, match="one at a time"):
        machine.check_voters(frozenset(map(NodeId, names)))
    for allowed in ("ab", "abcd", "abd"):
        machine.check_voters(frozenset(map(NodeId, allowed)))


def test_a_change_is_refused_that_would_leave_voters_of_whom_no_majority_answers() -> None:
    now = Electorate(0, frozenset(map(NodeId, "abc")))
    after = frozenset(map(NodeId, "abcd"))
    two = Roll(1, after, {NodeId("a"), NodeId("d")}, set())
    assert "no majority answers: b, c must run first" in two.refusal(now)
    assert Roll(1, after, {*two.able, NodeId("c")}, set()).refusal(now) == ""
    assert "d does not answer" in Roll(1, after, set(map(NodeId, "abc")), set()).refusal(now)
    assert "d has no record of earlier votes" in Roll(1, after, set(map(NodeId, "abc")), {NodeId("d")}).refusal(now)
