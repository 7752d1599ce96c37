"""SWIM's member list: who is forgotten when."""

from doyen.core import FOREVER, Incarnation, Member, NodeId, seconds
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.messages import Update, Word
from doyen.membership.swim.roster import Roster

A, B, C, D = (NodeId(name) for name in "abcd")
CONFIG = SwimConfig(failed_kept=seconds(100), left_kept=seconds(10), tombstone_kept=seconds(1000))


def roster(config: SwimConfig = CONFIG) -> Roster:
    return Roster(Member(node=A, incarnation=Incarnation(1)), config)


def put(members: Roster, node: NodeId, word: Word, now_s: float, incarnation: int = 1) -> None:
    members.put(Update(node, Incarnation(incarnation), word), seconds(now_s))


def test_absent_members_are_forgotten_in_their_time_and_those_that_left_sooner() -> None:
    members = roster()
    put(members, B, Word.FAILED, 0)
    put(members, C, Word.LEFT, 5)
    assert members.reap(seconds(14.9)) == []
    assert members.reap(seconds(15)) == [C]
    assert members.reap(seconds(100)) == [B] and members.failed == []
    assert set(members.view.members) == {A} and set(members.tombstones) == {B, C}


def test_one_that_came_back_does_not_keep_others_from_being_forgotten() -> None:
    members = roster()
    put(members, B, Word.FAILED, 0)
    put(members, C, Word.FAILED, 1)
    put(members, B, Word.ALIVE, 2, incarnation=2)
    assert members.reap(seconds(101)) == [C]
    assert set(members.view.members) == {A, B}


def test_one_that_failed_again_is_kept_from_then_on() -> None:
    members = roster()
    put(members, B, Word.FAILED, 0)
    put(members, B, Word.ALIVE, 1, incarnation=2)
    put(members, B, Word.FAILED, 50, incarnation=2)
    assert members.reap(seconds(149)) == []
    assert members.reap(seconds(150)) == [B]


def test_the_next_look_is_when_the_first_member_or_tombstone_is_due() -> None:
    members = roster()
    assert members.reap_at() == FOREVER
    put(members, B, Word.LEFT, 0)
    assert members.reap_at() == seconds(10)
    members.reap(seconds(10))
    assert members.reap_at() == seconds(1010)  # The tombstone.
    put(members, C, Word.FAILED, 20)
    assert members.reap_at() == seconds(120)
    put(members, D, Word.FAILED, 950)
    members.reap(seconds(120))
    assert members.reap_at() == seconds(1010)  # Before D, at 1050.
    members.reap(seconds(1010))
    assert set(members.tombstones) == {C} and members.reap_at() == seconds(1050)


def test_more_absent_members_than_allowed_are_forgotten_at_once_the_oldest_first() -> None:
    members = roster(SwimConfig(failed_kept=seconds(100), absent_max=2))
    nodes = [NodeId(f"n{i}") for i in range(5)]
    for i, node in enumerate(nodes):
        put(members, node, Word.FAILED, i)
    assert members.absent_count == 5
    assert members.reap(seconds(5)) == nodes[:3]
    assert members.absent_count == 2 and members.failed == nodes[3:]
    assert list(members.tombstones) == nodes[1:3]  # Nor are more remembered.
