"""What a voter remembers of the leader that it gave up, of its links, and of its disk."""

import pytest

from doyen.core.clock import ms
from doyen.core.ids import NodeId
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.connectivity import Links, Lookout, Sight
from doyen.election.pole.messages import HeartbeatAck, Propose, Vote
from doyen.election.pole.promise import Voter
from doyen.testing import RecordingOut

A, B = NodeId("a"), NodeId("b")


@pytest.mark.parametrize("gone", [False, True])
def test_a_leader_that_is_given_up_is_kept_as_lost_and_one_that_is_gone_as_heard_until_now(gone: bool) -> None:
    lookout = Lookout(PoleConfig())
    lookout.give_up(50, gone=gone)
    assert lookout.lost is None, "nobody was seen"
    lookout.seen = Sight(epoch=3, leader=A, acting=True, heard_at=20)
    lookout.give_up(50, gone=gone)
    assert lookout.lost is not None
    assert (lookout.lost.epoch, lookout.lost.leader, lookout.lost.heard_at) == (3, A, 50 if gone else 20)


def test_a_link_goes_both_ways_once_the_other_answers_until_it_says_that_it_does_not_hear() -> None:
    links = Links(A, ms(100))
    assert links.received(B, Propose(1, (), None, heard=()), 0)  # It does not hear this voter, and is to know.
    assert links.both_ways(0) == {A} and links.heard(0) == (B,)
    assert links.received(B, Propose(1, (), None, heard=()), 1)  # As often as it says so.
    assert not links.received(B, HeartbeatAck(1, 1, True), 2)
    assert links.both_ways(2) == {A, B}
    assert not links.received(B, Propose(1, (), None, heard=(A,)), ms(100))
    assert links.received(B, Vote(1, B), ms(201))  # Nothing was heard of it for longer than the window.


def test_a_vote_says_how_long_ago_the_leader_was_heard() -> None:
    sight = Sight(leader=B, epoch=3, acting=True, heard_at=ms(20))
    assert sight.vote(ms(75)) == Vote(3, B, 55, True)
    assert sight.vote(ms(10)) == Vote(3, B, 0, True)  # By a clock that was set back.


def test_the_slowest_of_the_last_writes_is_what_a_disk_takes() -> None:
    voter = Voter(A, None, RecordingOut(), durable=True)
    assert voter.write_time == 0 and voter.is_written
    for epoch, took in ((1, ms(3)), (2, ms(40)), (3, ms(5))):
        voter.advance(epoch)
        assert not voter.is_written
        voter.now += took
        voter.written()
    assert voter.write_time == ms(40) and voter.is_written
