"""What a leader says of itself: once per term, on change and on request; a lost note is asked for, a few times."""

from random import Random
from typing import Any

import msgspec
import pytest

from doyen.core import Emit, Multicast, NodeId, Send, SetTimer, Term
from doyen.core.clock import ms
from doyen.core.commands import DescribeLeader
from doyen.core.ids import Address, Incarnation
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.membership.leadernote import (
    ASKS_MAX,
    Ask,
    AskIsSent,
    ChangeIsRepeated,
    Description,
    LeaderDescribed,
    LeaderNote,
)
from doyen.node.events import LeaderInfo
from doyen.testing import Cluster, RecordingOut

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def note(term: int = 1, version: int = 0, *, incarnation: int = 1, since: float = 1e9, **words: str) -> Description:
    return Description(Incarnation(incarnation), term, version, since, "10.0.0.1", 7600, words)


def machine() -> tuple[LeaderNote, RecordingOut]:
    out = RecordingOut()
    return LeaderNote(A, Incarnation(1), Address("10.0.0.1", 7600), {"url": "u"}, out, Random(1)), out


def elected(number: int, leader: NodeId) -> LeaderElected:
    return LeaderElected(Term(number, leader))


def test_a_leader_sends_its_note_once_per_term_when_its_node_has_said_since_when() -> None:
    leader, out = machine()
    leader.on_elected(elected(3, A), 0)
    assert out.take() == [] and leader.of(A) is None
    leader.on_describe(DescribeLeader(since=1e9), 0)
    assert out.take() == [Multicast(note(3, url="u"))]
    leader.on_elected(elected(3, A), 1)  # Some elections say it again.
    leader.on_describe(DescribeLeader(since=1e9), 1)
    assert out.take() == []
    leader.on_elected(elected(4, A), 2)
    leader.on_describe(DescribeLeader(since=1e9), 2)
    assert out.take() == [Multicast(note(4, url="u"))]


def test_a_leader_answers_whoever_asks_and_one_that_lost_does_not() -> None:
    leader, out = machine()
    leader.on_message(B, Ask(), 0)
    assert out.take() == []
    leader.on_elected(elected(3, A), 0)
    leader.on_describe(DescribeLeader(since=1e9), 0)
    out.take()
    leader.on_message(B, Ask(), 1)
    assert out.take() == [Send(B, note(3, url="u"))]
    leader.on_lost(LeaderLost(Term(3, A), "resigned"), 2)
    leader.on_message(B, Ask(), 3)
    leader.on_describe(DescribeLeader(words={"url": "v"}, version=1), 3)
    assert out.take() == []


def test_changed_words_are_repeated_unless_they_change_again() -> None:
    leader, out = machine()
    leader.on_elected(elected(3, A), 0)
    leader.on_describe(DescribeLeader(since=1e9), 0)
    out.take()
    leader.on_describe(DescribeLeader(words={"url": "v"}, version=4), ms(1))
    said = note(3, 4, url="v")
    assert out.take() == [
        Multicast(said),
        Emit(LeaderDescribed(A)),
        SetTimer(ChangeIsRepeated(4), ms(501)),
        SetTimer(ChangeIsRepeated(4), ms(2501)),
    ]
    leader.on_timer(ChangeIsRepeated(4), ms(501))
    assert out.take() == [Multicast(said)]
    leader.on_describe(DescribeLeader(words={"url": "w"}, version=5), ms(600))
    out.take()
    leader.on_timer(ChangeIsRepeated(4), ms(2501))
    assert out.take() == []


def test_a_note_that_comes_before_the_leader_is_named_spares_the_question() -> None:
    follower, out = machine()
    follower.on_message(B, note(2, url="b"), 0)
    assert out.take() == [] and follower.of(B) is None
    follower.on_elected(elected(2, B), 1)
    assert out.take() == []
    assert follower.of(B) == note(2, url="b")


def test_a_missing_note_is_asked_for_ever_less_often_and_then_no_more() -> None:
    follower, out = machine()
    follower.on_elected(elected(2, B), 0)
    waits, asks, now = [], 0, 0
    while True:
        found: list[Any] = out.take()
        asks += sum(effect == Send(B, Ask()) for effect in found)
        timers = [effect for effect in found if isinstance(effect, SetTimer)]
        if not timers:
            break
        waits.append(timers[0].at - now)
        now = timers[0].at
        follower.on_timer(timers[0].timer, now)
    assert asks == ASKS_MAX
    assert all(ms(50) * 2**i <= wait < ms(150) * 2**i for i, wait in enumerate(waits))


def test_an_answer_is_a_fact_and_ends_the_questions() -> None:
    follower, out = machine()
    follower.on_elected(elected(2, B), 0)
    (due,) = out.take()
    assert isinstance(due, SetTimer)
    follower.on_message(B, note(2, url="b"), 1)
    assert out.take() == [Emit(LeaderDescribed(B))]
    follower.on_timer(due.timer, due.at)
    follower.on_message(B, note(2, url="b"), due.at)  # Twice the same is no news.
    assert out.take() == []


def test_a_question_of_an_earlier_leader_is_not_sent_to_the_next() -> None:
    follower, out = machine()
    follower.on_elected(elected(2, B), 0)
    (due,) = out.take()
    follower.on_elected(elected(3, C), 1)
    out.take()
    follower.on_timer(due.timer, due.at)  # type: ignore[union-attr]
    assert out.take() == []
    follower.on_timer(AskIsSent(2, 0), due.at)  # type: ignore[union-attr]
    assert out.take()[0] == Send(C, Ask())


def test_the_newest_note_counts_and_only_that_of_the_leader() -> None:
    follower, _ = machine()
    follower.on_elected(elected(2, B), 0)
    follower.on_message(B, note(2, 1, url="new"), 1)
    follower.on_message(B, note(2, 0, url="late"), 2)
    follower.on_message(C, note(9, 9, url="nobody"), 3)
    assert follower.of(B) == note(2, 1, url="new") and follower.of(C) is None
    follower.on_message(B, note(1, 0, incarnation=2, url="started anew"), 4)
    assert follower.of(B) == note(1, 0, incarnation=2, url="started anew")


def test_one_answer_is_enough_also_where_the_leader_numbers_its_term_otherwise() -> None:
    follower, out = machine()
    follower.on_message(B, note(1, url="b"), 0)
    follower.on_elected(elected(5, B), 1)
    (due,) = out.take()
    assert isinstance(due, SetTimer)
    follower.on_timer(due.timer, due.at)
    asked, again = out.take()
    assert asked == Send(B, Ask()) and isinstance(again, SetTimer)
    follower.on_message(B, note(1, url="b"), due.at + 1)
    follower.on_timer(again.timer, again.at)
    assert out.take() == []


def test_a_leader_that_is_named_again_is_known_and_asked_for_its_new_term() -> None:
    follower, out = machine()
    follower.on_elected(elected(2, B), 0)
    follower.on_message(B, note(2, url="b"), 1)
    follower.on_lost(LeaderLost(Term(2, B), "silent"), 2)
    assert follower.of(B) is None
    out.take()
    follower.on_elected(elected(2, B), 3)
    assert out.take() == [] and follower.of(B) == note(2, url="b")
    follower.on_elected(elected(3, B), 4)
    assert follower.of(B) == note(2, url="b")  # Until it has said otherwise.
    assert [type(effect) for effect in out.take()] == [SetTimer]


@pytest.mark.parametrize(
    "told",
    [
        ["t", 1, 1, 0, float("nan")],
        ["t", 1, 1, 0, 1e300],
        ["t", 1, 0, 0, 1.0],
        ["t", -1, 1, 0, 1.0],
        ["t", 1, 1, 0, 1.0, "x" * 256, 1],
        ["t", 1, 1, 0, 1.0, "\x1b[2J", 1],
        ["t", 1, 1, 0, 1.0, "h", 65536],
        ["t", 1, 1, 0, 1.0, "h", 1, {"k": "v" * 600}],
    ],
)
def test_what_cannot_be_is_refused(told: list[Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=LeaderNote.MESSAGES)


def agree(cluster: Cluster) -> bool:
    found = {None if info is None else msgspec.json.encode(info) for info in listed(cluster)}
    return len(found) == 1 and all(info is not None and info.meta == {"zone": "eu"} for info in listed(cluster))


def listed(cluster: Cluster) -> list[LeaderInfo | None]:
    stacks = [cluster.stack(name) for name in cluster.up()]
    return [stack.leader_info(stack.reigns[""]) for stack in stacks]


ELECTIONS = [{"election": "announce", "membership": "none"}, {"election": "hybrid"}]


@pytest.mark.parametrize("fields", ELECTIONS)
def test_all_show_the_same_as_soon_as_they_name_the_leader(fields: dict[str, Any]) -> None:
    cluster = Cluster(5, seed=3, meta=("zone=eu",), **fields)
    first = cluster.run_until_leader()
    cluster.run_for("20ms")
    assert agree(cluster)
    cluster.crash(first)
    cluster.run_until_leader(other_than=first)
    cluster.run_for("20ms")
    assert agree(cluster)


@pytest.mark.parametrize("fields", ELECTIONS)
@pytest.mark.parametrize("seed", range(4))
def test_lost_notes_are_asked_for(fields: dict[str, Any], seed: int) -> None:
    cluster = Cluster(5, loss=0.4, seed=seed, meta=("zone=eu",), **fields)
    cluster.run_until(lambda: agree(cluster), within="60s")
