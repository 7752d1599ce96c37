"""What SWIM does outside of its periods: watchers of a leader, confirmations by helpers, news at once (decision 29)."""

from random import Random
from typing import Any, TypeVar

import pytest

from doyen.core import Incarnation, Member, NodeId, Send, SetTimer, Status, ms, seconds
from doyen.core.ids import Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.view import ViewChanged, ViewEditor
from doyen.membership.missing import DigestWanted, MissingConfig, MissingEstimator, ViewSum, digest_of, sum_of
from doyen.membership.swim.config import SwimConfig, suspicion_max, suspicion_min
from doyen.membership.swim.machine import Swim
from doyen.membership.swim.messages import (
    Ack,
    Beat,
    BeatIsMissed,
    BeatsAreSent,
    Gossip,
    HelpersAreAsked,
    Nack,
    NewsAreSent,
    Ping,
    PingRequest,
    SuspectIsPinged,
    SuspicionExpires,
    Update,
    VerdictIsDue,
    Word,
)
from doyen.membership.swim.roster import Acquaintances
from doyen.membership.swim.watch import WATCHED_MAX, Watched
from doyen.testing import RecordingOut

A, B = NodeId("a"), NodeId("b")
NAMES = "abcdefgh"
LAN = SwimConfig.lan(len(NAMES))
QUIET = SwimConfig(beat_interval=seconds(1), watch_timeout=ms(600), suspicion_max_mult=3.0)
T = TypeVar("T")


@pytest.fixture
def out() -> RecordingOut:
    return RecordingOut()


def member(out: RecordingOut, config: SwimConfig) -> Swim:
    known = Acquaintances(Member(node=NodeId(name), incarnation=Incarnation(1)) for name in NAMES)
    machine = Swim(A, config, out, Random(1), known=known)
    machine.start(0)
    while timers(out.take(), NewsAreSent):
        machine.on_timer(NewsAreSent(), 0)  # It notifies the others of itself.
    return machine


def sent(effects: list[Any], kind: type[T]) -> list[tuple[Any, T]]:
    return [(e.to, e.message) for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def timers(effects: list[Any], kind: type[T]) -> list[tuple[T, int]]:
    return [(e.timer, e.at) for e in effects if isinstance(e, SetTimer) and isinstance(e.timer, kind)]


def test_a_leader_sends_heartbeats_to_the_same_few_and_stops_when_it_leads_no_more(out: RecordingOut) -> None:
    machine, term = member(out, QUIET), Term(3, A)
    machine.on_leader_elected(LeaderElected(term), 0)
    effects = out.take()
    watchers = [to for to, _ in sent(effects, Beat)]
    assert len({*watchers}) == 3 and timers(effects, BeatsAreSent) == [(BeatsAreSent(), seconds(1))]
    machine.on_leader_elected(LeaderElected(Term(4, A)), ms(10))  # A higher term of its own: no second timer.
    assert not out.take()
    machine.on_timer(BeatsAreSent(), seconds(1))
    assert [to for to, _ in sent(out.take(), Beat)] == watchers
    machine.on_leader_lost(LeaderLost(Term(4, A), "resigned"), ms(1500))
    machine.on_timer(BeatsAreSent(), seconds(2))
    assert not out.take()


def test_a_watcher_that_is_suspected_is_replaced(out: RecordingOut) -> None:
    machine = member(out, QUIET)
    machine.on_leader_elected(LeaderElected(Term(1, A)), 0)
    before = [to for to, _ in sent(out.take(), Beat)]
    machine.on_message(before[1], Gossip((Update(before[0], Incarnation(1), Word.SUSPECTED, before[1]),)), ms(5))
    machine.on_timer(BeatsAreSent(), seconds(1))
    after = [to for to, _ in sent(out.take(), Beat)]
    assert len({*after}) == 3 and before[0] not in after and {*before[1:]} < {*after}


def test_others_do_not_beat_and_nobody_does_as_published(out: RecordingOut) -> None:
    machine = member(out, QUIET)
    machine.on_leader_elected(LeaderElected(Term(1, B)), 0)
    plain = member(RecordingOut(), SwimConfig())
    plain.on_leader_elected(LeaderElected(Term(1, A)), 0)
    assert not out.take()


def test_a_watcher_probes_a_leader_whose_heartbeat_is_missing_and_forgets_it_if_it_answers(out: RecordingOut) -> None:
    machine, missed = member(out, QUIET), BeatIsMissed(B)
    machine.on_message(B, Beat(1300), 0)
    machine.on_message(B, Beat(1300), seconds(1))
    assert timers(out.take(), BeatIsMissed) == [(missed, ms(1300))]
    machine.on_timer(missed, ms(1300))
    assert out.take() == [SetTimer(missed, ms(2300))]  # It has moved.
    machine.on_timer(missed, ms(2300))
    effects = out.take()
    ((to, ping),) = sent(effects, Ping)
    assert to == B and timers(effects, VerdictIsDue) == [(VerdictIsDue(ping.ping_no), ms(2900))]
    machine.on_message(B, Ack(ping.ping_no), ms(2310))
    machine.on_timer(VerdictIsDue(ping.ping_no), ms(2900))
    assert machine.view[B].status is Status.ALIVE
    machine.on_timer(missed, ms(9000))
    assert not out.take()


@pytest.mark.parametrize(("nacks", "given"), [(3, suspicion_min(LAN, 8)), (0, suspicion_max(LAN, 8))])
def test_helpers_that_find_a_leader_silent_shorten_its_suspicion(out: RecordingOut, nacks: int, given: int) -> None:
    machine, missed = member(out, LAN), BeatIsMissed(B)
    machine.on_message(B, Beat(100), 0)
    machine.on_timer(missed, ms(100))
    ((_, ping),) = sent(out.take(), Ping)
    machine.on_timer(HelpersAreAsked(ping.ping_no), ms(300))
    helpers = [to for to, _ in sent(out.take(), PingRequest)]
    for helper in helpers[:nacks]:
        machine.on_message(helper, Nack(ping.ping_no), ms(500))
    machine.on_timer(VerdictIsDue(ping.ping_no), ms(600))
    effects = out.take()
    assert machine.view[B].status is Status.SUSPECTED
    assert min(at for _, at in timers(effects, SuspicionExpires)) == ms(600) + given
    assert [to for to, _ in sent(effects, Ping)] == [B]  # So that it can refute.
    assert timers(effects, SuspectIsPinged)[0][1] == ms(600) + LAN.recheck_interval


def test_an_accuser_pings_its_suspect_ever_more_slowly_until_it_refutes(out: RecordingOut) -> None:
    machine, again = member(out, LAN), SuspectIsPinged(B, 1, ms(200))
    machine.on_message(B, Beat(100), 0)
    machine.on_timer(BeatIsMissed(B), ms(100))
    ((_, ping),) = sent(out.take(), Ping)
    machine.on_timer(VerdictIsDue(ping.ping_no), ms(600))
    out.take()
    machine.on_timer(SuspectIsPinged(B, 1, 2 * again.wait), ms(800))
    effects = out.take()
    assert timers(effects, SuspectIsPinged) == [(SuspectIsPinged(B, 1, ms(800)), ms(1200))]
    ((_, ping),) = sent(effects, Ping)
    assert Update(B, Incarnation(1), Word.SUSPECTED, A) in ping.updates
    machine.on_message(B, Ack(ping.ping_no, (Update(B, Incarnation(2), Word.ALIVE),)), ms(810))
    out.take()
    machine.on_timer(SuspectIsPinged(B, 1, ms(800)), ms(1200))
    assert not out.take()


def test_news_is_sent_at_once_and_again_until_it_was_repeated_often_enough(out: RecordingOut) -> None:
    machine = member(out, LAN)
    now = ms(10)
    machine.on_message(B, Gossip((Update(NodeId("h"), Incarnation(1), Word.FAILED),)), now)
    effects, told = out.take(), 0
    while effects:
        news = sent(effects, Gossip)
        assert 0 < len(news) <= 3
        told += sum(any(update.node == "h" for update in message.updates) for _, message in news)
        assert [at for _, at in timers(effects, NewsAreSent)] in ([], [now + LAN.gossip_interval])
        if not timers(effects, NewsAreSent):
            break
        now += LAN.gossip_interval
        machine.on_timer(NewsAreSent(), now)
        effects = out.take()
    assert told == 6  # λ⌈ln(N+1)⌉, N = 7.
    machine.on_timer(NewsAreSent(), now + seconds(1))
    assert not out.take()


def test_a_watch_does_not_end_before_helpers_can_answer() -> None:
    assert SwimConfig(beat_interval=seconds(1), ack_timeout=ms(500), watch_timeout=ms(500)).watch_patience == ms(1000)


def test_views_that_are_alike_are_compared_by_a_sum_and_others_by_their_digests(out: RecordingOut) -> None:
    editor = ViewEditor()
    machine = MissingEstimator(A, MissingConfig.quiet(), out, Random(1))
    names = {NodeId(name) for name in NAMES}
    for node in names:
        editor.put(Member(node=node))
    machine.on_view_changed(ViewChanged(editor.view, tuple(names)), 0)
    machine.on_message(B, ViewSum(sum_of(digest_of(names, 0, 1))), 0)
    assert not out.take()
    machine.on_message(B, ViewSum(sum_of(digest_of(names - {NodeId("h")}, 0, 1))), 0)
    assert out.take() == [Send(B, DigestWanted())]
    machine.on_message(B, DigestWanted(), 0)
    assert out.take() == [Send(B, digest_of(names, 0, 1))]


def test_beats_of_strangers_and_of_more_leaders_than_there_may_be_are_not_waited_for(out: RecordingOut) -> None:
    machine = member(out, QUIET)
    for sender in (A, NodeId("stranger")):
        machine.on_message(sender, Beat(100), ms(1))
        assert timers(out.take(), BeatIsMissed) == []
    watched = Watched(out)
    for i in range(WATCHED_MAX + 1):
        watched.on_beat(NodeId(f"n{i}"), Beat(100), 0)
    assert len(timers(out.take(), BeatIsMissed)) == WATCHED_MAX
    watched.on_beat(NodeId("n0"), Beat(100), ms(50))  # One that is watched already still counts.
    assert not watched.is_missed(BeatIsMissed(NodeId("n0")), ms(100))
