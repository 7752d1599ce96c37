"""A voter that does not stand: it votes and grants as others do, and is never a candidate.  [POLE]"""

from random import Random

from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.effects import Multicast, Send
from doyen.core.ids import NodeId
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import (
    ElectionEnds,
    Heartbeat,
    Propose,
    Resigned,
    ScoreQuery,
    ScoreReply,
    Vote,
)
from doyen.testing import RecordingOut

A, B, W = (NodeId(name) for name in "abw")
CONFIG = PoleConfig(election_timeout=ms(100), lease=seconds(1), heartbeat_interval=ms(200), resign_interval=FOREVER)


def witness(out: RecordingOut) -> Pole:
    made = Pole(W, CONFIG, out, Random(1), voters=(A, B, W), newcomer=True, stands=False, score=lambda *_: (9.0,))
    made.start(0)
    return made


def proposals(out: RecordingOut) -> list[Propose]:
    """Return the proposals that were sent since the last look, to whomever."""
    said = [effect.message for effect in out.take() if isinstance(effect, Multicast | Send)]
    return [message for message in said if isinstance(message, Propose)]


def test_it_proposes_nobody_until_it_knows_a_candidate() -> None:
    out = RecordingOut()
    machine = witness(out)
    assert [(said.epoch, said.standing, said.node) for said in proposals(out)] == [(1, (), None)]
    machine.on_message(A, Propose(1, (1.0,), A), 10)
    assert [(said.epoch, said.standing, said.node) for said in proposals(out)] == [(1, (1.0,), A)]


def test_it_chooses_a_candidate_and_grants_it() -> None:
    out = RecordingOut()
    machine = witness(out)
    for sender in (A, B):
        machine.on_message(sender, Propose(1, (1.0,), B), 10)
    machine.on_timer(ElectionEnds(1), 10 + CONFIG.election_timeout)
    assert machine.chosen == B
    machine.on_message(B, Heartbeat(1, 1, False), 20 + CONFIG.election_timeout)
    assert machine.voter.has_granted(1, B)


def test_it_is_never_elected_by_votes_or_as_an_heir_or_by_its_score() -> None:
    out = RecordingOut()
    machine = witness(out)
    for sender in (A, B):
        machine.on_message(sender, Vote(1, W), 10)
    assert machine.chosen is None
    machine.on_message(A, Heartbeat(3, 1, True), 20)
    out.take()
    machine.on_message(A, ScoreQuery(1), 30)
    assert out.take() == [Send(A, ScoreReply(1, ()))]
    machine.on_message(A, Resigned(3, W), 40)
    assert (machine.chosen, machine.epoch) == (None, 4)
    assert not machine.leads(40)


def test_who_hears_of_no_candidate_stays_one() -> None:
    """A voter that stands is not overwritten by a proposal of nobody, and stands in an epoch in which nobody did."""
    out = RecordingOut()
    machine = Pole(A, CONFIG, out, Random(1), voters=(A, B, W), newcomer=True, score=lambda *_: (1.0,))
    machine.start(0)
    out.take()
    for epoch in (1, 7):
        machine.on_message(W, Propose(epoch, (), None), 10 * epoch)
        assert machine.epoch == epoch
        assert {(said.epoch, said.node) for said in proposals(out)} == {(epoch, A)}
