"""A leader's will at a voter: it ends the term that it names, at once, and no other."""

from random import Random

import pytest

from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.effects import Send
from doyen.core.ids import Incarnation, NodeId
from doyen.core.link import LinkBroken
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import Heartbeat, HeartbeatAck, Propose, Resigned, ScoreQuery, Status
from doyen.election.pole.promise import Voter
from doyen.testing import RecordingOut

A, B, C = (NodeId(name) for name in "abc")
CONFIG = PoleConfig(election_timeout=ms(100), lease=seconds(2), heartbeat_interval=ms(500), resign_interval=FOREVER)
ROUND = ms(1)


def own_score(epoch: int, gone: NodeId | None) -> tuple[float, ...]:
    return (1.0,)


def bound(epoch: int) -> tuple[Pole, RecordingOut]:
    """A voter, a, that has just granted b that epoch."""
    out = RecordingOut()
    machine = Pole(A, CONFIG, out, Random(1), voters=(A, B, C), newcomer=True, durable=False, score=own_score)
    machine.start(0)
    machine.on_message(B, Heartbeat(epoch, 1, True), ROUND)
    assert granted(out.take(), B, epoch)
    return machine, out


def granted(effects: list[object], to: NodeId, epoch: int) -> bool:
    return any(
        isinstance(effect, Send)
        and effect.to == to
        and isinstance(effect.message, HeartbeatAck)
        and (effect.message.epoch, effect.message.granted) == (epoch, True)
        for effect in effects
    )


def claimed_by(machine: Pole, out: RecordingOut, epoch: int, at: int) -> bool:
    """Whether c, which says that a majority has granted it the epoch, is granted it here as well."""
    out.take()
    machine.on_message(C, Heartbeat(epoch, 1, True), at)
    return granted(out.take(), C, epoch)


def test_a_will_frees_its_voters_at_once() -> None:
    machine, out = bound(3)
    assert not claimed_by(machine, out, 4, 2 * ROUND)
    machine, out = bound(3)
    machine.on_message(B, Resigned(3), 2 * ROUND)
    assert claimed_by(machine, out, 4, 3 * ROUND)


def test_a_claim_that_waits_for_the_promise_to_a_dead_leader_is_granted_when_its_will_comes() -> None:
    """The connection tells of the death before everything that acted has ended."""
    machine, out = bound(3)
    machine.on_link_broken(LinkBroken(B, Incarnation(1), gone=True), 2 * ROUND)
    assert not claimed_by(machine, out, machine.epoch + 1, 3 * ROUND)
    machine.on_message(B, Resigned(3), 4 * ROUND)
    assert granted(out.take(), C, machine.epoch)


def ends_no_other_term() -> None:
    """Play the will of term 3 to a voter that has granted its author term 5: stolen, or late."""
    machine, out = bound(5)
    machine.on_message(B, Resigned(3), 2 * ROUND)
    machine.on_message(B, Resigned(3, C), 2 * ROUND)
    assert machine.leader == B
    assert not claimed_by(machine, out, 6, 3 * ROUND)


def test_a_will_ends_no_other_term_than_its_own() -> None:
    ends_no_other_term()


def test_a_will_that_is_not_bound_to_its_term_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Voter.release
    monkeypatch.setattr(Voter, "release", lambda self, leader, epoch: sound(self, leader, self.promise.granted_epoch))
    with pytest.raises(AssertionError):
        ends_no_other_term()


@pytest.mark.parametrize("how", ["its will", "its connection"])
def test_the_election_after_it_waits_for_no_proposal_of_the_dead(how: str) -> None:
    machine, _ = bound(3)
    if how == "its will":
        machine.on_message(B, Resigned(3), 2 * ROUND)
    else:
        machine.on_link_broken(LinkBroken(B, Incarnation(1), gone=True), 2 * ROUND)
    assert machine.status is Status.ELECTING
    machine.on_message(C, Propose(machine.epoch, (0.5,), C), 3 * ROUND)
    assert machine.chosen == A


def test_a_voter_that_resigned_and_is_heard_again_is_waited_for() -> None:
    machine, _ = bound(3)
    machine.on_message(B, Resigned(3), 2 * ROUND)
    machine.on_message(B, ScoreQuery(1), 3 * ROUND)
    machine.on_message(C, Propose(machine.epoch, (0.5,), C), 4 * ROUND)
    assert machine.chosen is None
    machine.on_message(B, Propose(machine.epoch, (2.0,), B), 5 * ROUND)
    assert machine.chosen == B


@pytest.mark.parametrize("heir", [A, C])
def test_an_heir_is_chosen_also_where_the_connection_tells_of_the_death_before_the_will(heir: NodeId) -> None:
    """Else those that had the will first would wait for the heir's claim, and those that had not for proposals."""
    machine, _ = bound(3)
    machine.on_link_broken(LinkBroken(B, Incarnation(1), gone=True), 2 * ROUND)
    assert machine.status is Status.ELECTING and machine.chosen is None
    machine.on_message(B, Resigned(3, heir), 3 * ROUND)
    assert machine.chosen == heir
    assert machine.status is (Status.CLAIMING if heir == A else Status.CHOSEN)


def test_a_claim_that_was_heard_goes_before_the_heir() -> None:
    machine, out = bound(3)
    machine.on_link_broken(LinkBroken(B, Incarnation(1), gone=True), 2 * ROUND)
    machine.on_message(C, Propose(machine.epoch, (0.5,), A, ("a",), stands=False), 3 * ROUND)
    assert machine.chosen is None
    machine.on_message(C, Heartbeat(machine.epoch, 1, False), 4 * ROUND)
    machine.on_message(B, Resigned(3, A), 5 * ROUND)
    assert machine.chosen == C and granted(out.take(), C, machine.epoch)


def test_a_will_names_no_leader_of_an_election_after_another_term() -> None:
    machine, _ = bound(3)
    machine.on_link_broken(LinkBroken(B, Incarnation(1), gone=True), 2 * ROUND)
    machine.on_message(B, Resigned(2, C), 3 * ROUND)
    machine.on_message(C, Resigned(3, A), 3 * ROUND)
    assert machine.chosen is None
