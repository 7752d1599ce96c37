"""One step at a time: whole lists of effects."""

from random import Random
from typing import Any

import msgspec
import pytest

from doyen.core import FOREVER, Emit, Multicast, NodeId, Persist, ScoreGiven, Send, SetTimer, Term, ms, seconds
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.rank import STANDING_MAX
from doyen.election.announce.config import AnnounceConfig, bye_count
from doyen.election.announce.kind import LE_S
from doyen.election.announce.leaders import Leaders
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import (
    Announcement,
    AnnouncementRepeats,
    AskingEnds,
    Behind,
    Bye,
    LeaderIsCorrected,
    Query,
    QueryIsAnswered,
    SilenceIsNoticed,
    Status,
    WakeUp,
)
from doyen.errors import ConfigError
from doyen.testing import RecordingOut

A, B, C, D = (NodeId(name) for name in "abcd")
T_A, T_L, T_S = seconds(1), seconds(3), ms(500)


class FixedChance(Random):
    """Every draw is one half."""

    def random(self) -> float:
        return 0.5


def process(me: NodeId = B, *, out: RecordingOut, **given: Any) -> Announce:
    standing, place, corrects = given.pop("standing", 0), given.pop("place", None), given.pop("corrects", False)
    config = AnnounceConfig(announce_interval=T_A, listen_timeout=T_L, suppress_interval=given.pop("t_s", T_S), **given)
    return Announce(me, config, out, FixedChance(), standing=standing, place=place, corrects=corrects)


def elected(number: int, leader: NodeId) -> Emit:
    return Emit(LeaderElected(Term(number, leader)))


def lost(number: int, leader: NodeId, reason: str) -> Emit:
    return Emit(LeaderLost(Term(number, leader), reason))


@pytest.fixture
def out() -> RecordingOut:
    return RecordingOut()


def leading(out: RecordingOut, **given: Any) -> Announce:
    machine = process(out=out, **given)
    machine.start(0)
    machine.on_timer(WakeUp(1), T_S // 2)
    assert machine.is_leader
    out.take()
    return machine


def following(out: RecordingOut, leader: NodeId = C, **given: Any) -> Announce:
    machine = process(out=out, **given)
    machine.start(0)
    machine.on_message(leader, Announcement(1, 0), 10)
    out.take()
    return machine


def test_le_5_1_2_a_process_waits_before_it_claims(out: RecordingOut) -> None:
    machine = process(out=out)
    machine.start(0)
    assert out.take() == [SetTimer(WakeUp(1), at=T_S // 2)]
    assert machine.leader == B  # Every process always names a leader …
    assert not machine.is_leader  # … but acts as one only from its first announcement on.


def test_le_5_1_1_le_a_claims_at_once(out: RecordingOut) -> None:
    process(out=out, t_s=0).start(7)
    assert out.take() == [elected(1, B), Multicast(Announcement(1, 0)), SetTimer(AnnouncementRepeats(1), at=7 + T_A)]


def test_le_5_1_a_leader_announces_every_interval(out: RecordingOut) -> None:
    machine = leading(out)
    machine.on_timer(AnnouncementRepeats(1), T_A)
    assert out.take() == [Multicast(Announcement(1, 0)), SetTimer(AnnouncementRepeats(1), at=2 * T_A)]


def test_le_5_1_hearing_a_greater_address_gives_up_leadership(out: RecordingOut) -> None:
    machine = leading(out)
    machine.on_message(C, Announcement(1, 0), T_A)
    assert out.take() == [lost(1, B, "outranked"), elected(1, C), SetTimer(SilenceIsNoticed(), at=T_A + T_L)]
    machine.on_timer(AnnouncementRepeats(1), T_A + 1)
    assert out.take() == []  # A stale timer: the reign it was set for is over.


def test_a_worse_claim_is_ignored_without_rebuttal(out: RecordingOut) -> None:
    machine = leading(out)
    machine.on_message(A, Announcement(0, 0), T_A)
    assert out.take() == []


def test_equality_refreshes_the_listen_timer(out: RecordingOut) -> None:
    machine = following(out)
    machine.on_message(C, Announcement(1, 0), seconds(2))
    machine.on_timer(SilenceIsNoticed(), T_L + 10)
    assert out.take() == [SetTimer(SilenceIsNoticed(), at=seconds(2) + T_L)]  # One timer, re-armed.
    assert machine.leader == C


def test_le_5_3_2_after_silence_le_s_redraws_and_le_a_announces_at_once(out: RecordingOut) -> None:
    machine = following(out)
    machine.on_timer(SilenceIsNoticed(), 10 + T_L)
    assert out.take() == [lost(1, C, "silent"), SetTimer(WakeUp(3), at=10 + T_L + T_S // 2)]
    assert machine.leader == B
    machine = following(out, t_s=0)
    machine.on_timer(SilenceIsNoticed(), 10 + T_L)
    now = 10 + T_L
    assert out.take() == [
        lost(1, C, "silent"),
        elected(2, B),
        Multicast(Announcement(2, 0)),
        SetTimer(AnnouncementRepeats(3), now + T_A),
    ]


def test_silence_one_instant_short_of_the_timeout_is_not_silence(out: RecordingOut) -> None:
    machine = following(out)
    machine.on_message(C, Announcement(1, 0), 11)
    machine.on_timer(SilenceIsNoticed(), 10 + T_L)
    assert out.take() == [SetTimer(SilenceIsNoticed(), at=11 + T_L)]


@pytest.mark.parametrize(("heard", "lifted"), [(1, 2), (7, 8)])
def test_a_leader_lifts_its_term_above_an_equal_or_higher_one_at_its_next_announcement(
    heard: int, lifted: int, out: RecordingOut
) -> None:
    machine = leading(out)
    assert machine.term_number == 1
    machine.on_message(A, Announcement(heard, 0), T_A // 2)
    assert out.take() == []  # Without an extra message.
    machine.on_timer(AnnouncementRepeats(1), T_A)
    assert out.take() == [
        elected(lifted, B),
        Multicast(Announcement(lifted, 0)),
        SetTimer(AnnouncementRepeats(1), at=2 * T_A),
    ]


def test_a_follower_is_told_when_its_leader_lifts_its_term(out: RecordingOut) -> None:
    machine = following(out)
    machine.on_message(C, Announcement(5, 0), 20)
    assert out.take() == [elected(5, C)]


def test_a_wild_term_cannot_use_up_all_terms(out: RecordingOut) -> None:
    machine = leading(out)
    for sender in (A, C):
        machine.on_message(sender, Announcement(2**50, 0), 20)
    machine.on_message(A, Query(2**50, 0), 20)
    assert machine.term_number == 1 and machine.is_leader


def test_terms_survive_a_restart_where_they_are_kept(out: RecordingOut) -> None:
    config = AnnounceConfig(announce_interval=T_A, listen_timeout=T_L, suppress_interval=0)
    machine = Announce(B, config, out, FixedChance(), restored=7)
    machine.start(0)
    assert out.take()[:3] == [Persist(8), elected(8, B), Multicast(Announcement(8, 0))]


def test_rank_decides_not_the_term(out: RecordingOut) -> None:
    machine = following(out, C)
    machine.on_message(C, Announcement(9, 0), 20)
    machine.on_message(D, Announcement(1, 0), 30)
    assert out.take() == [elected(9, C), elected(9, D)]  # The number is the greatest seen: it never goes back.
    machine.on_timer(SilenceIsNoticed(), 30 + T_L)
    assert out.take()[0] == lost(9, D, "silent")  # Under the term that was told.


def test_a_leader_that_lost_its_count_is_told_so_until_it_announces_a_later_term(out: RecordingOut) -> None:
    machine = following(out, C, corrects=True)
    machine.on_message(C, Announcement(9, 0), 20)
    out.take()
    machine.on_message(C, Announcement(1, 0), 30)  # Restarted, without its state.
    (timer,) = [effect.timer for effect in out.take() if isinstance(effect, SetTimer)]
    assert timer == LeaderIsCorrected(C)
    machine.on_timer(timer, 30 + 2 * T_A)
    assert out.take()[0] == Send(C, Behind(9))
    machine.on_timer(timer, 30 + 4 * T_A)  # It was lost.
    assert out.take()[0] == Send(C, Behind(9))
    machine.on_message(C, Announcement(10, 0), 40 + 4 * T_A)
    machine.on_timer(timer, 30 + 6 * T_A)
    assert out.take() == [elected(10, C)]


def test_a_leader_that_hears_that_it_is_behind_announces_a_later_term_at_once(out: RecordingOut) -> None:
    machine = leading(out)
    reign = AnnouncementRepeats(1)
    machine.on_message(A, Behind(9), 20)
    effects = out.take()
    assert effects[:2] == [elected(10, B), Multicast(Announcement(10, 0))]
    machine.on_timer(reign, 20 + T_A)  # The timer of before: there is one series of announcements.
    assert out.take() == []
    machine.on_message(A, Behind(9), 30)  # It is no news by now,
    machine.on_message(A, Behind(2**50), 30)  # nor is a wild term.
    assert out.take() == []


def test_a_better_standing_beats_a_greater_name(out: RecordingOut) -> None:
    machine = leading(out, standing=5)
    machine.on_message(C, Announcement(1, 4.5), T_A)
    assert machine.is_leader
    machine.on_message(A, Announcement(1, 6), T_A)
    assert machine.leader == A


# LE-M.


def test_le_5_4_3_in_le_m_the_wake_up_instant_is_the_claim(out: RecordingOut) -> None:
    machine = process(out=out, leader_is="earliest")
    machine.start(1000)
    machine.on_timer(WakeUp(1), 1000 + T_S // 2)
    assert Multicast(Announcement(1, -(1000 + T_S // 2))) in out.take()


def test_whoever_is_heard_before_waking_is_better_whatever_its_clock_says(out: RecordingOut) -> None:
    machine = process(out=out, leader_is="earliest")
    machine.start(0)
    late = -seconds(100)  # A clock far ahead of ours: it claims to have woken long after we shall.
    machine.on_message(A, Announcement(1, late), 5)
    assert machine.leader == A
    machine.on_timer(SilenceIsNoticed(), 5 + T_L)  # A false departure must not usurp it either:
    machine.on_timer(WakeUp(3), 5 + T_L + T_S // 2)
    assert Multicast(Announcement(2, late - 1)) in out.take()  # our value is now above its.
    machine.on_message(A, Announcement(1, late), 5 + T_L + T_S)
    assert machine.leader == A


# Extensions.


def test_le_5_7_a_leaving_leader_says_bye_and_receivers_redraw(out: RecordingOut) -> None:
    machine = leading(out)
    machine.leave(T_A)
    assert out.take() == [Multicast(Bye(1)), lost(1, B, "left")]
    assert machine.status is Status.ABSENT
    machine.on_message(C, Announcement(5, 0), T_A)
    assert machine.leader is None

    for t_s, spread in ((T_S, T_S), (0, T_A)):  # LE-A too does not announce at once.
        machine = following(out, t_s=t_s)
        machine.on_message(C, Bye(1), 50)
        assert out.take() == [lost(1, C, "left"), SetTimer(WakeUp(3), at=50 + spread // 2)]


def test_le_5_3_who_does_not_lead_departs_without_a_word_unless_all_say_bye(out: RecordingOut) -> None:
    following(out).leave(40)
    assert out.take() == []
    following(out, bye_from_all=True, bye_loss=0.2, group_size=3).leave(40)
    assert out.take() == [Multicast(Bye(1))] * 4


def test_a_bye_of_somebody_else_changes_nothing(out: RecordingOut) -> None:
    machine = following(out)
    machine.on_message(A, Bye(1), 50)
    assert out.take() == [] and machine.leader == C


@pytest.mark.parametrize(
    ("loss", "group", "target", "count"), [(0, 10, 0.99, 1), (0.4, 10, 0.99, 8), (0.1, 2, 0.9, 1), (0.5, 2, 0, 0)]
)
def test_byes_are_repeated_until_all_hear_one(loss: float, group: int, target: float, count: int) -> None:
    assert bye_count(AnnounceConfig(bye_loss=loss, group_size=group, bye_target_prob=target)) == count
    if count > 1:
        assert (1 - loss**count) ** (group - 1) >= target > (1 - loss ** (count - 1)) ** (group - 1)


def test_le_5_7_query_asks_first_and_silence_means_claim(out: RecordingOut) -> None:
    machine = process(out=out, t_s=0, query_timeout=ms(200))
    machine.start(0)
    assert out.take() == [Multicast(Query(0, 0)), SetTimer(AskingEnds(1), at=ms(200))]
    machine.on_timer(AskingEnds(1), ms(200))
    assert out.take()[:2] == [elected(1, B), Multicast(Announcement(1, 0))]


def test_a_leader_answers_a_worse_asker_and_yields_to_a_better_one(out: RecordingOut) -> None:
    machine = process(out=out, t_s=0, query_timeout=ms(200))
    machine.start(0)
    machine.on_timer(AskingEnds(1), ms(200))
    out.take()
    machine.on_message(A, Query(0, 0), ms(300))
    assert out.take() == [Send(A, Announcement(1, 0))]
    machine.on_message(C, Query(0, 0), ms(300))
    assert machine.leader == C


def test_suppress_then_query_suppresses_replies_too(out: RecordingOut) -> None:
    machine = process(out=out, query_timeout=ms(400))
    machine.start(0)
    machine.on_timer(WakeUp(1), T_S // 2)
    machine.on_timer(AskingEnds(1), T_S // 2 + ms(400))
    out.take()
    machine.on_message(A, Query(0, 0), seconds(1))
    assert out.take() == [SetTimer(QueryIsAnswered(1), at=seconds(1) + ms(100))]
    machine.on_timer(QueryIsAnswered(1), seconds(1) + ms(100))
    assert out.take() == [Multicast(Announcement(1, 0))]
    machine.on_message(A, Query(0, 0), seconds(1))
    machine.on_message(C, Announcement(1, 0), seconds(1) + 1)  # A better leader was heard meanwhile.
    out.take()
    machine.on_timer(QueryIsAnswered(1), seconds(1) + ms(100))
    assert out.take() == []


def test_with_k_leaders_a_process_yields_after_hearing_k_better(out: RecordingOut) -> None:
    machine = leading(out, leader_count=2)
    machine.on_message(C, Announcement(1, 0), T_A)
    assert machine.is_leader and machine.leaders == (C, B)
    machine.on_message(A, Announcement(1, 0), T_A)
    assert machine.leaders == (C, B)
    machine.on_message(D, Announcement(1, 0), T_A)
    assert not machine.is_leader and machine.leaders == (D, C)
    machine.on_timer(SilenceIsNoticed(), T_A + T_L)
    assert machine.leaders == (B,)


def test_gradual_ageing_lets_any_fresh_claim_replace_a_silent_leader(out: RecordingOut) -> None:
    machine = following(out, D, ageing_after=seconds(1.5))
    machine.on_message(C, Announcement(1, 0), seconds(1))
    assert machine.leader == D
    machine.on_message(C, Announcement(1, 0), seconds(2))
    assert machine.leader == C


def test_ageing_does_not_settle_on_a_worse_leader(out: RecordingOut) -> None:
    machine = following(out, D, ageing_after=seconds(1.5))
    machine.on_message(A, Announcement(1, 0), seconds(2))
    assert machine.status is Status.WAITING and machine.leader == B  # Better than the fresh one: it contends.


def test_a_bye_or_query_with_a_higher_term_lifts_the_leaders(out: RecordingOut) -> None:
    for message in (Bye(7), Query(7, 0)):
        machine = leading(out)
        machine.on_message(A, message, 20)
        out.take()
        machine.on_timer(AnnouncementRepeats(1), T_A)
        assert elected(8, B) in out.take()


def test_in_le_m_a_leader_answers_any_query(out: RecordingOut) -> None:
    machine = process(out=out, leader_is="earliest", t_s=0)
    machine.start(1000)
    out.take()
    machine.on_message(C, Query(0, 5), 2000)  # A slow clock: it seems to have woken long ago.
    assert out.take() == [Send(C, Announcement(1, -1000))]


def test_in_le_m_who_becomes_eligible_contends_where_there_is_room(out: RecordingOut) -> None:
    machine = process(out=out, leader_is="earliest", standing=None)
    machine.start(0)
    machine.on_score_given(ScoreGiven(1, 1), 10)
    assert machine.status is Status.WAITING


def test_a_better_score_makes_a_follower_contend_and_a_worse_one_of_its_leader_too(out: RecordingOut) -> None:
    machine = following(out)
    machine.on_score_given(ScoreGiven(1, 3), 20)
    assert out.take() == [SetTimer(WakeUp(3), at=20 + T_S // 2)]
    machine = following(out)
    machine.on_message(C, Announcement(1, -1), 20)
    assert out.take() == [SetTimer(WakeUp(3), at=20 + T_S // 2)]


def test_a_leader_whose_score_changes_says_so_at_its_next_announcement(out: RecordingOut) -> None:
    machine = leading(out)
    machine.on_score_given(ScoreGiven(1, 9), 20)
    assert out.take() == []
    machine.on_timer(AnnouncementRepeats(1), T_A)
    assert out.take()[0] == Multicast(Announcement(1, 9))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 2**70])
def test_a_hopeless_score_cannot_hurt(out: RecordingOut, score: float) -> None:
    machine = leading(out)
    machine.on_score_given(ScoreGiven(1, score), 20)
    machine.on_timer(AnnouncementRepeats(1), T_A)
    assert machine.is_leader


def test_who_may_not_lead_only_follows(out: RecordingOut) -> None:
    machine = process(out=out, standing=None)
    machine.start(0)
    assert out.take() == [] and machine.leader is None
    machine.on_message(A, Announcement(1, 0), 5)
    assert machine.leader == A
    machine.on_timer(SilenceIsNoticed(), 5 + T_L)
    assert machine.leader is None and machine.status is Status.FOLLOWING


def test_a_namesake_cannot_depose(out: RecordingOut) -> None:
    machine = leading(out)
    machine.on_message(B, Announcement(1, 99), 5)
    assert machine.is_leader and out.take() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"announce_interval": 0},
        {"announce_interval": FOREVER},
        {"listen_timeout": 0},
        {"suppress_interval": -1},
        {"leader_count": 0},
        {"leader_count": 65},
        {"bye_loss": 1.0},
        {"bye_target_prob": 1.0},
        {"group_size": 0},
        {"ageing_after": 0},
        {"query_timeout": -1},
        {"leader_is": "earliest", "rank_map": "perfect"},
    ],
)
def test_what_cannot_work_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        AnnounceConfig(**wrong)


@pytest.mark.parametrize("standing", [float("nan"), float("inf"), 2.0**63, -(2**62) - 1])
def test_hostile_claims_do_not_exist(standing: float) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(Announcement(1, standing)), type=Announcement)


def test_the_least_standing_there_is_can_lead_where_nobody_else_claims(out: RecordingOut) -> None:
    machine = process(out=out, standing=None)
    machine.start(0)
    machine.on_message(A, Announcement(1, -STANDING_MAX), 5)
    assert machine.leader == A


def test_a_machine_that_contradicts_itself_says_so(out: RecordingOut) -> None:
    assert leading(out).contradiction() is None
    spoilt = leading(out)
    spoilt.term_number = 0
    assert spoilt.contradiction() == "it acts under a term above the greatest it has seen"
    spoilt = leading(out)
    spoilt.status = Status.WAITING
    assert spoilt.contradiction() == "it leads and has nothing to announce, or the other way round"
    spoilt.status = Status.FOLLOWING
    assert spoilt.contradiction() == "it contends and has no claim, or the other way round"
    table = Leaders(1)
    table.enter((0, A))
    assert table.contradiction(None, [A]) is None and table.contradiction((0, A), []) is None
    for mine, heard in ((None, [B]), (None, []), (None, [A, B]), ((0, A), [B])):
        assert table.contradiction(mine, heard) == "the others in its table are not those it heard"


def test_le_s_without_suppression_is_refused() -> None:
    LE_S.check(AnnounceConfig())
    with pytest.raises(ConfigError, match="suppress_interval above 0"):
        LE_S.check(AnnounceConfig(suppress_interval=0))
