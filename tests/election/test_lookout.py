"""What a voter remembers of the leader that it gave up."""

import pytest

from doyen.core.ids import NodeId
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.connectivity import Lookout, Sight

A = NodeId("a")


@pytest.mark.parametrize("gone", [False, True])
def test_a_leader_that_is_given_up_is_kept_as_lost_and_one_that_is_gone_as_heard_until_now(gone: bool) -> None:
    lookout = Lookout(PoleConfig())
    lookout.give_up(50, gone=gone)
    assert lookout.lost is None, "nobody was seen"
    lookout.seen = Sight(epoch=3, leader=A, acting=True, heard_at=20)
    lookout.give_up(50, gone=gone)
    assert lookout.lost is not None
    assert (lookout.lost.epoch, lookout.lost.leader, lookout.lost.heard_at) == (3, A, 50 if gone else 20)
