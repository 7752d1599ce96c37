"""SWIM one step at a time: whole lists of effects.  Names that begin with swim_ or lifeguard_ hold one sentence."""

from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from doyen.core import FOREVER, Address, Emit, Member, NodeId, Send, SetTimer, Status, ms, seconds
from doyen.core.ids import Incarnation
from doyen.core.link import LinkBroken
from doyen.core.seeds import OwnAddressChanged, SeedsChanged
from doyen.core.view import ViewChanged
from doyen.errors import ConfigError
from doyen.membership.fading import CountsAreHalved
from doyen.membership.swim.config import SwimConfig, suspicion_max, suspicion_min
from doyen.membership.swim.digests import BITS, Digests, branches, fingerprint, is_branch
from doyen.membership.swim.dissemination import Rumours, payload_max, repeats
from doyen.membership.swim.machine import Swim
from doyen.membership.swim.messages import (
    INCARNATION_MAX,
    NOBODY,
    AbsentAreForgotten,
    Ack,
    Digest,
    DigestsAreCompared,
    Entries,
    Gossip,
    HelperAck,
    HelpersAreAsked,
    MemberSuspected,
    Message,
    Nack,
    PeriodBegins,
    Ping,
    PingRequest,
    RelayFails,
    SuspicionExpires,
    Update,
    Word,
)
from doyen.membership.swim.probe import RoundRobin
from doyen.membership.swim.roster import Acquaintances
from doyen.membership.swim.roundtrip import RoundTripEstimated, RoundTrips
from doyen.membership.swim.suspicion import dogpile
from doyen.testing import RecordingOut

A, B, C, D, E = (NodeId(name) for name in "abcde")
PERIOD, TIMEOUT = seconds(1), ms(300)
PLAIN = SwimConfig(helper_count=2, unhealthy_half_life=FOREVER).plain()
FULL = SwimConfig(helper_count=2)
SUSPICION = suspicion_min(PLAIN, 5)


class FixedChance(Random):
    """Every draw is 0, and shuffling leaves the order alone."""

    def random(self) -> float:
        return 0.0

    def shuffle(self, x: Any) -> None:
        pass


@pytest.fixture
def out() -> RecordingOut:
    return RecordingOut()


def member(out: RecordingOut, config: SwimConfig = PLAIN, *, others: str = "bcde", **given: Any) -> Swim:
    """Node a, started, who knows the others; nothing of that is left in `out`."""
    known = Acquaintances(Member(node=NodeId(name), incarnation=1) for name in "a" + others)  # type: ignore[arg-type]
    machine = Swim(A, config, out, FixedChance(), known=known if others else None, **given)
    machine.start(0)
    if others:
        drain(machine, out, asked_by=C)
    out.take()
    return machine


def drain(machine: Swim, out: RecordingOut, asked_by: NodeId) -> None:
    """Let a member ping until every rumour has been told often enough; of that nothing is left in `out`."""
    said: Any = "something"
    while said:
        out.take()
        machine.on_message(asked_by, Ping(0, A), 0)
        ((said,),) = [[effect.message.updates] for effect in out.take() if isinstance(effect, Send)]


def digests(machine: Swim) -> Digests:
    """The sums over those who are present in the machine's view."""
    found = Digests()
    for member in machine.view.members.values():
        if member.present:
            found.add(member.node, member.incarnation)
    return found


def root(machine: Swim) -> tuple[tuple[int, int], ...]:
    return ((1, digests(machine).sum(1)),)


def probing(out: RecordingOut, config: SwimConfig = PLAIN) -> Swim:
    """a has just pinged b."""
    machine = member(out, config)
    machine.on_timer(PeriodBegins(0), 0)
    assert out.take()[0] == Send(B, Ping(1, B))
    return machine


def said(node: NodeId, incarnation: int, word: Word, by: NodeId = NOBODY) -> Update:
    return Update(node, incarnation, word, by)  # type: ignore[arg-type]


def changed(machine: Swim, *nodes: NodeId) -> Emit:
    return Emit(ViewChanged(machine.view, nodes))


def status(machine: Swim, node: NodeId) -> tuple[Status, int]:
    return machine.view[node].status, machine.view[node].incarnation


# ── Probing ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_start_scatters_the_first_period_and_shows_the_view(out: RecordingOut) -> None:
    machine = Swim(A, PLAIN, out, FixedChance())
    machine.start(ms(5))
    assert out.take() == [
        SetTimer(PeriodBegins(0), at=ms(5)),
        SetTimer(DigestsAreCompared(), at=ms(5)),
        changed(machine, A),
    ]


def test_swim_3_1_each_period_pings_one_member(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_timer(PeriodBegins(0), ms(10))
    assert out.take() == [
        Send(B, Ping(1, B)),
        SetTimer(HelpersAreAsked(1), at=ms(10) + TIMEOUT),
        SetTimer(PeriodBegins(1), at=ms(10) + PERIOD),
    ]


def test_swim_3_1_a_ping_is_acked(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, Ping(7, A), 0)
    assert out.take() == [Send(B, Ack(7))]


def test_consul_2430_a_ping_for_another_at_the_same_address_is_not_answered(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, Ping(7, C), 0)
    assert out.take() == []
    assert machine.misdirected_count == 1


def test_swim_3_1_after_the_timeout_helpers_are_asked_and_never_the_suspect_itself(out: RecordingOut) -> None:
    machine = probing(out)
    machine.on_timer(HelpersAreAsked(1), TIMEOUT)
    asked = out.take()
    assert len(asked) == 2
    for effect in asked:
        assert isinstance(effect, Send) and effect.to in (C, D, E)
        assert effect.message == PingRequest(1, B, "", 0, False)


def test_helpers_are_not_asked_once_it_answered(out: RecordingOut) -> None:
    machine = probing(out)
    machine.on_message(B, Ack(1), ms(10))
    machine.on_timer(HelpersAreAsked(1), TIMEOUT)
    assert out.take() == []


def test_an_ack_from_another_than_the_target_is_none(out: RecordingOut) -> None:
    machine = probing(out)
    machine.on_message(C, Ack(1), ms(10))
    machine.on_timer(HelpersAreAsked(1), TIMEOUT)
    assert len(out.take()) == 2


def test_a_late_ack_says_nothing_about_this_probe(out: RecordingOut) -> None:
    machine = probing(out)
    machine.on_message(B, Ack(1), ms(10))
    machine.on_timer(PeriodBegins(1), PERIOD)
    assert out.take()[0] == Send(C, Ping(2, C))
    machine.on_message(C, Ack(1), PERIOD + 1)
    machine.on_timer(HelpersAreAsked(2), PERIOD + TIMEOUT)
    assert out.take(), "c has not answered"


def test_a_stale_period_is_ignored(out: RecordingOut) -> None:
    machine = probing(out)
    machine.on_timer(PeriodBegins(0), ms(500))
    assert out.take() == []


def test_swim_3_1_a_helper_pings_for_another_and_passes_the_ack_on(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, PingRequest(9, C, "", 0, False), 0)
    assert out.take() == [Send(C, Ping(1, C))]
    machine.on_message(C, Ack(1), ms(5))
    assert out.take() == [Send(B, HelperAck(9))]
    machine.on_message(C, Ack(1), ms(6))
    assert out.take() == []


def test_a_helper_that_does_not_know_the_target_uses_the_address_it_was_given(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, PingRequest(9, NodeId("x"), "10.0.0.9", 7600, False), 0)
    assert out.take() == [Send(Address("10.0.0.9", 7600), Ping(1, NodeId("x")))]


def test_swim_3_1_an_indirect_ack_counts(out: RecordingOut) -> None:
    machine = probing(out)
    machine.on_timer(HelpersAreAsked(1), TIMEOUT)
    helper = out.take()[0].to  # type: ignore[union-attr]
    machine.on_message(helper, HelperAck(1), ms(600))  # type: ignore[arg-type]
    machine.on_timer(PeriodBegins(1), PERIOD)
    assert status(machine, B) == (Status.ALIVE, 1)


def test_an_indirect_ack_from_who_was_not_asked_does_not(out: RecordingOut) -> None:
    machine = probing(out)
    machine.on_timer(HelpersAreAsked(1), TIMEOUT)
    machine.on_message(B, HelperAck(1), ms(600))
    machine.on_timer(PeriodBegins(1), PERIOD)
    assert status(machine, B) == (Status.SUSPECTED, 1)


def test_swim_4_2_silence_makes_a_suspect_and_not_a_corpse(out: RecordingOut) -> None:
    machine = probing(out)
    machine.on_timer(PeriodBegins(1), PERIOD)
    assert status(machine, B) == (Status.SUSPECTED, 1)
    assert machine.view[B].suspicion_count == 1
    assert out.take() == [
        SetTimer(SuspicionExpires(B, 1), at=PERIOD + SUSPICION),
        Emit(MemberSuspected(B, A)),
        Send(C, Ping(2, C, (said(B, 1, Word.SUSPECTED, A),))),
        SetTimer(HelpersAreAsked(2), at=PERIOD + TIMEOUT),
        SetTimer(PeriodBegins(2), at=2 * PERIOD),
        changed(machine, B),
    ]


def test_who_suspects_whom_is_told_for_logs(out: RecordingOut) -> None:
    machine = probing(out, FULL)
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, D),)), ms(10))
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), ms(20))  # Heard from C itself: another accuser.
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), ms(30))
    told = [effect.fact for effect in out.take() if isinstance(effect, Emit)]
    assert [fact for fact in told if isinstance(fact, MemberSuspected)] == [
        MemberSuspected(B, D),
        MemberSuspected(B, C),
    ]


def test_round_trips_are_told_once_some_are_known_and_when_they_change() -> None:
    trips = RoundTrips()
    told = [trips.note(B, ms(20)) for _ in range(40)]
    assert told[:4] == [None] * 4 and told[4] is not None and told[4].mean == ms(20)
    assert told[-1] is None  # Nothing new.
    (slow,) = [news for news in [trips.note(B, ms(100))] if news is not None]
    assert slow.timeout > ms(100)


def test_each_members_own_round_trip_is_kept_where_so_wanted_and_no_more_than_that() -> None:
    trips = RoundTrips()
    trips.note(B, ms(20))
    assert trips.by_member == {}
    trips.members_max = 2
    for member, took in ((B, 20), (C, 80), (C, 160), (B, 20)):
        trips.note(member, ms(took))
    assert trips.by_member == {B: ms(20), C: ms(90)}
    trips.note(D, ms(1))
    assert set(trips.by_member) == {B, D}, "the one longest unheard of is forgotten"


def test_acks_of_probes_are_measured_and_helpers_answers_are_not(out: RecordingOut) -> None:
    machine = member(out)
    facts, now = [], 0
    for number in range(9):
        machine.on_timer(PeriodBegins(number), now)
        (ping,) = [effect for effect in out.effects if isinstance(effect, Send)]
        assert ping.message == Ping(number + 1, ping.to)
        machine.on_message(ping.to, Ack(number + 1), now + ms(7))
        facts += [effect.fact for effect in out.take() if isinstance(effect, Emit)]
        now += PERIOD
    (news, *_) = [fact for fact in facts if isinstance(fact, RoundTripEstimated)]
    assert news.mean == ms(7)


def test_swim_4_3_round_robin_probes_everybody_once_a_round() -> None:
    names = [NodeId(f"n{i}") for i in range(20)]
    order = RoundRobin(names.copy(), Random(1))
    rounds = [[order.next() for _ in names] for _ in range(3)]
    assert all(sorted(map(str, r)) == sorted(names) for r in rounds)
    assert rounds[0] != rounds[1], "reshuffled after each round"


def test_swim_4_3_newcomers_are_inserted_at_random_places() -> None:
    places = set()
    for seed in range(40):
        order = RoundRobin([NodeId(f"n{i}") for i in range(9)], Random(seed))
        order.next()
        order.add(NodeId("x"))
        drawn = [order.next() for _ in range(18)]
        places.add(drawn.index(NodeId("x")))
        assert drawn.count(NodeId("x")) <= 2
    assert len(places) > 5


def test_who_leaves_the_order_and_returns_is_in_it_once() -> None:
    order = RoundRobin([A, B, C], Random(1))
    order.remove(B)
    order.add(B)
    assert sorted(str(order.next()) for _ in range(3)) == ["a", "b", "c"]
    order.remove(A)
    order.remove(B)
    order.remove(C)
    assert order.next() is None


# ── Suspicion and incarnations ──────────────────────────────────────────────────────────────────────────────


def test_swim_4_2_a_suspect_that_does_not_refute_has_failed(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), 0)
    out.take()
    machine.on_timer(SuspicionExpires(B, 1), SUSPICION - 1)
    assert status(machine, B) == (Status.SUSPECTED, 1), "deadlines are kept"
    machine.on_timer(SuspicionExpires(B, 1), SUSPICION)
    assert status(machine, B) == (Status.FAILED, 1)
    assert out.take() == [SetTimer(AbsentAreForgotten(), at=SUSPICION + PLAIN.failed_kept), changed(machine, B)]


def test_swim_4_2_refutation_by_a_higher_incarnation_ends_suspicion(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), 0)
    machine.on_message(B, Gossip((said(B, 2, Word.ALIVE),)), 10)
    assert status(machine, B) == (Status.ALIVE, 2)
    machine.on_timer(SuspicionExpires(B, 1), SUSPICION)
    assert status(machine, B) == (Status.ALIVE, 2)


def test_a_timer_of_a_refuted_suspicion_does_not_end_the_next_one(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), 0)
    machine.on_message(B, Gossip((said(B, 2, Word.ALIVE),)), 10)
    machine.on_message(C, Gossip((said(B, 2, Word.SUSPECTED, C),)), SUSPICION - 1)
    machine.on_timer(SuspicionExpires(B, 1), SUSPICION)
    assert status(machine, B) == (Status.SUSPECTED, 2)


@pytest.mark.parametrize(
    ("held", "heard", "wins"),
    [
        # [SWIM §4.2] "Alive overrides suspect and alive of lower incarnations; suspect overrides alive of equal ones."
        ((1, Word.ALIVE), (1, Word.SUSPECTED), True),
        ((1, Word.SUSPECTED), (1, Word.ALIVE), False),
        ((1, Word.SUSPECTED), (2, Word.ALIVE), True),
        ((2, Word.ALIVE), (1, Word.SUSPECTED), False),
        ((2, Word.ALIVE), (1, Word.FAILED), False),  # Deviation: a corpse of an earlier life.
        ((1, Word.FAILED), (1, Word.ALIVE), False),
        ((1, Word.FAILED), (1, Word.SUSPECTED), False),
        ((1, Word.FAILED), (2, Word.ALIVE), True),  # Rejoin.
        ((1, Word.SUSPECTED), (1, Word.FAILED), True),
        ((1, Word.FAILED), (1, Word.LEFT), True),
        ((1, Word.LEFT), (1, Word.FAILED), False),
        ((1, Word.LEFT), (2, Word.ALIVE), True),
    ],
)
def test_swim_4_2_order_of_news(out: RecordingOut, held: tuple[int, Word], heard: tuple[int, Word], wins: bool) -> None:
    machine = member(out)
    machine.on_message(C, Gossip((said(B, *held, C),)), 0)
    machine.on_message(D, Gossip((said(B, *heard, D),)), 1)
    incarnation, word = heard if wins else held
    assert status(machine, B) == (tuple(Status)[word], incarnation)


@pytest.mark.parametrize("word", [Word.SUSPECTED, Word.FAILED, Word.LEFT])
def test_swim_4_2_refutation_raises_incarnation(out: RecordingOut, word: Word) -> None:
    machine = member(out)
    machine.on_message(B, Ping(3, A, (said(A, 1, word, B),)), 0)
    assert machine.incarnation == 2
    assert out.take() == [Send(B, Ack(3, (said(A, 2, Word.ALIVE),))), changed(machine, A)]


def test_an_accusation_of_an_older_incarnation_is_answered_but_raises_nothing(out: RecordingOut) -> None:
    machine = member(out, incarnation=5)
    machine.on_message(B, Ping(3, A, (said(A, 4, Word.SUSPECTED, B),)), 0)
    assert machine.incarnation == 5
    assert out.take() == [Send(B, Ack(3, (said(A, 5, Word.ALIVE),)))]


def test_memberlist_311_a_newborn_takes_over_the_count_of_its_earlier_life(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, Gossip((said(A, 9, Word.ALIVE),)), 0)
    assert machine.incarnation == 10


def test_an_incarnation_that_nobody_could_top_is_not_believed(out: RecordingOut) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(Gossip((said(B, 2**63 - 1, Word.FAILED),))), type=Message)


def test_lifeguard_the_suspect_is_told_first(out: RecordingOut) -> None:
    machine = probing(out, FULL)
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), 0)
    drain(machine, out, asked_by=C)
    machine.on_message(B, Ping(4, A), 1)
    assert out.take() == [Send(B, Ack(4, (said(B, 1, Word.SUSPECTED, A),)))]


def test_a_falsely_removed_member_is_told_by_whom_it_speaks_to_and_returns(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Gossip((said(B, 1, Word.FAILED),)), 0)
    drain(machine, out, asked_by=C)
    machine.on_message(B, Ping(4, A), 1)
    assert out.take() == [Send(B, Ack(4, (said(B, 1, Word.FAILED, A),)))]
    machine.on_message(B, Ping(5, A, (said(B, 2, Word.ALIVE),)), 2)
    assert status(machine, B) == (Status.ALIVE, 2)


def test_lifeguard_4_b_suspicion_shrinks_with_independent_accusers(out: RecordingOut) -> None:
    machine = member(out, FULL)
    most, least = suspicion_max(FULL, 5), suspicion_min(FULL, 5)
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), 0)
    assert SetTimer(SuspicionExpires(B, 1), at=most) in out.take()
    machine.on_message(D, Gossip((said(B, 1, Word.SUSPECTED, C),)), 5)
    assert out.take() == [], "the same accuser again"
    for accuser, confirmations in ((D, 1), (E, 2), (NodeId("x"), 3)):
        machine.on_message(D, Gossip((said(B, 1, Word.SUSPECTED, accuser),)), 10)
        at = dogpile(least, most, confirmations, 3)
        assert out.take() == [SetTimer(SuspicionExpires(B, 1), at=at), Emit(MemberSuspected(B, accuser))]
    machine.on_message(D, Gossip((said(B, 1, Word.SUSPECTED, NodeId("y")),)), 10)
    assert out.take() == [], "K are enough"
    assert machine.accusers(B)[:3] == (C, D, E) and machine.accusers(D) == ()
    assert dogpile(least, most, 3, 3) == least
    machine.on_timer(SuspicionExpires(B, 1), least)
    assert status(machine, B)[0] is Status.FAILED


def test_in_a_group_too_small_for_confirmations_suspicion_is_as_short_as_it_gets(out: RecordingOut) -> None:
    machine = member(out, FULL, others="bc")
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), 0)
    assert SetTimer(SuspicionExpires(B, 1), at=suspicion_min(FULL, 3)) in out.take()


# ── Local health ────────────────────────────────────────────────────────────────────────────────────────────


def test_lifeguard_4_a_a_failed_probe_makes_the_next_period_longer(out: RecordingOut) -> None:
    machine = probing(out, FULL)
    machine.on_timer(PeriodBegins(1), PERIOD)
    assert machine.health.count == 1
    effects = out.take()
    assert SetTimer(PeriodBegins(2), at=PERIOD + 2 * PERIOD) in effects
    assert SetTimer(HelpersAreAsked(2), at=PERIOD + 2 * TIMEOUT) in effects


def test_lifeguard_4_a_each_nack_that_does_not_come_counts(out: RecordingOut) -> None:
    machine = probing(out, FULL)
    machine.on_timer(HelpersAreAsked(1), TIMEOUT)
    helpers = [effect.to for effect in out.take() if isinstance(effect, Send)]
    assert len(helpers) == 2
    machine.on_message(helpers[0], Nack(1), ms(700))  # type: ignore[arg-type]
    machine.on_timer(PeriodBegins(1), PERIOD)
    assert machine.health.count == 1
    assert status(machine, B)[0] is Status.SUSPECTED


def test_lifeguard_4_a_success_heals_and_refuting_hurts(out: RecordingOut) -> None:
    machine = probing(out, FULL)
    machine.on_message(C, Gossip((said(A, 1, Word.SUSPECTED, C),)), 0)
    assert machine.health.count == 1
    machine.on_message(B, Ack(1), 1)
    machine.on_timer(PeriodBegins(1), PERIOD)
    assert machine.health.count == 0


def test_lifeguard_4_a_a_helper_says_nack_when_it_hears_nothing_either(out: RecordingOut) -> None:
    machine = member(out, FULL)
    machine.on_message(B, PingRequest(9, C, "", 0, True), 0)
    assert out.take() == [Send(C, Ping(1, C)), SetTimer(RelayFails(1), at=TIMEOUT * 4 // 5)]
    machine.on_timer(RelayFails(1), TIMEOUT * 4 // 5)
    assert out.take() == [Send(B, Nack(9))]
    machine.on_message(C, Ack(1), TIMEOUT)
    assert out.take() == [Send(B, HelperAck(9))], "late is better than never"


def test_who_slept_itself_accuses_nobody(out: RecordingOut) -> None:
    machine = probing(out, FULL)
    machine.on_timer(PeriodBegins(1), PERIOD + seconds(5))
    assert status(machine, B)[0] is Status.ALIVE
    assert machine.health.count == 1


def test_who_slept_through_a_suspicion_gives_it_time(out: RecordingOut) -> None:
    machine = member(out, FULL)
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), 0)
    out.take()
    late = suspicion_max(FULL, 5) + seconds(30)
    machine.on_timer(SuspicionExpires(B, 1), late)
    assert status(machine, B)[0] is Status.SUSPECTED
    assert out.take() == [SetTimer(SuspicionExpires(B, 1), at=late + PERIOD)]
    machine.on_timer(SuspicionExpires(B, 1), late + PERIOD)
    assert status(machine, B)[0] is Status.FAILED


def test_who_slept_gives_a_member_whose_host_says_that_it_is_gone_no_longer_than_an_ack_takes(
    out: RecordingOut,
) -> None:
    machine = member(out, FULL)
    machine.on_link_broken(LinkBroken(B, Incarnation(1), gone=True), 0)
    out.take()
    late = FULL.ack_timeout + seconds(1)
    machine.on_timer(SuspicionExpires(B, 1), late)
    assert out.take() == [SetTimer(SuspicionExpires(B, 1), at=late + FULL.ack_timeout)]
    machine.on_timer(SuspicionExpires(B, 1), late + FULL.ack_timeout)
    assert status(machine, B)[0] is Status.FAILED


def test_helpers_wait_for_a_member_known_to_be_slow(out: RecordingOut) -> None:
    machine = probing(out, FULL)
    machine.on_message(B, Ack(1), ms(350))
    for number in range(1, 4):  # c, d, e answer at once.
        machine.on_timer(PeriodBegins(number), number * PERIOD)
        machine.on_message("cde"[number - 1], Ack(number + 1), number * PERIOD + 1)  # type: ignore[arg-type]
    out.take()
    machine.on_timer(PeriodBegins(4), 4 * PERIOD)
    assert out.take()[:2] == [Send(B, Ping(5, B)), SetTimer(HelpersAreAsked(5), at=4 * PERIOD + ms(700))]


# ── Dissemination ───────────────────────────────────────────────────────────────────────────────────────────


def test_swim_4_1_an_update_is_repeated_lambda_log_n_times(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Gossip((said(B, 2, Word.ALIVE),)), 0)
    out.take()
    for number in range(20):
        machine.on_message(D, Ping(number, A), 1)
    told = [len(effect.message.updates) for effect in out.take()]  # type: ignore[union-attr]
    times = repeats(PLAIN, 5)
    assert told == [1] * times + [0] * (20 - times)
    assert times == 4


def test_swim_4_1_updates_told_less_often_go_first() -> None:
    rumours = Rumours()
    rumours.put(said(B, 1, Word.ALIVE))
    size = len(msgspec.msgpack.encode(said(B, 1, Word.ALIVE)))
    assert [*rumours.take(size, 3)] == [said(B, 1, Word.ALIVE)]
    rumours.put(said(C, 1, Word.ALIVE))
    assert [*rumours.take(size, 3)] == [said(C, 1, Word.ALIVE)]
    assert [*rumours.take(2 * size, 3)] == [said(B, 1, Word.ALIVE), said(C, 1, Word.ALIVE)]
    assert [*rumours.take(2 * size, 3)] == [said(B, 1, Word.ALIVE), said(C, 1, Word.ALIVE)]
    assert [*rumours.take(9 * size, 3)] == [] and not rumours


@pytest.mark.parametrize("seed", range(6))
def test_swim_4_1_whole_tiers_move_as_their_updates_would_one_by_one(seed: int) -> None:
    rng, rumours = Random(seed), Rumours()
    waiting: list[tuple[int, int, Update]] = []  # (times sent, when it came to be there, update)
    for step in range(0, 30_000, 100):
        who, what, room, times_max = NodeId(f"n{rng.randrange(20)}"), rng.random(), rng.choice((30, 90, 900)), 5
        if what < 0.6:
            waiting = [entry for entry in waiting if entry[2].node != who]
            waiting.append((0, step, said(who, rng.randrange(3000), Word.ALIVE)))
            rumours.put(waiting[-1][2])
        if what >= 0.6:
            due = sorted(waiting, key=lambda entry: entry[:2])
            sizes = [len(msgspec.msgpack.encode(update)) for _, _, update in due]
            count = sum(sum(sizes[: i + 1]) <= room for i in range(len(due)))
            assert [*rumours.take(room, times_max)] == [update for _, _, update in due[:count]]
            moved = [(times + 1, step + i, update) for i, (times, _, update) in enumerate(due[:count])]
            waiting = due[count:] + [entry for entry in moved if entry[0] < times_max]
        assert len(rumours) == len(waiting)


def test_news_of_a_member_replaces_what_was_said_before() -> None:
    rumours = Rumours()
    rumours.put(said(B, 1, Word.SUSPECTED, C))
    rumours.put(said(B, 2, Word.ALIVE))
    assert [*rumours.take(1000, 9)] == [said(B, 2, Word.ALIVE)]


def test_messages_never_outgrow_the_datagram_of_the_real_codec(out: RecordingOut) -> None:
    from doyen.core import Codec

    room = payload_max("orders", A, "membership", datagram_max=400)
    machine = member(out, payload_max=room)
    machine.on_message(B, Gossip(tuple(said(NodeId(f"name-{i:03}"), 1, Word.ALIVE) for i in range(60))), 0)
    out.take()
    codec, sizes = Codec("orders", datagram_max=400), []
    for number in range(300):
        machine.on_message(B, Ping(number, A), 1)
        sizes.append(len(codec.encode(A, 2**62, "membership", out.take()[0].message)))  # type: ignore[union-attr,arg-type]
    assert 370 < max(sizes) <= 400
    assert sizes[-1] < 60, "and in the end there is nothing more to say"


# ── Joining, leaving, forgetting ────────────────────────────────────────────────────────────────────────────


def test_seeds_are_asked_at_once_and_again_for_ever(out: RecordingOut) -> None:
    seed = Address("10.0.0.1", 7600)
    machine = Swim(A, FULL, out, FixedChance(), seeds=[seed], address=Address("10.0.0.2", 7600))
    machine.start(0)
    own = Update(A, 1, Word.ALIVE, NodeId(""), "10.0.0.2", 7600)  # type: ignore[arg-type]
    assert out.take() == [
        SetTimer(PeriodBegins(0), at=0),
        Send(seed, Digest(root(machine), (own,))),
        SetTimer(DigestsAreCompared(), at=0),
        changed(machine, A),
    ]
    for second in range(1000):
        machine.on_timer(DigestsAreCompared(), seconds(second))
        effects = out.take()
        assert effects[0].to == seed  # type: ignore[union-attr]
        assert effects[1] == SetTimer(DigestsAreCompared(), at=seconds(second + 1))


def test_a_node_does_not_join_itself(out: RecordingOut) -> None:
    here = Address("10.0.0.1", 7600)
    machine = Swim(A, FULL, out, FixedChance(), seeds=[here], address=here)
    machine.start(0)
    machine.on_timer(DigestsAreCompared(), 0)
    assert not [effect for effect in out.take() if isinstance(effect, Send)]


def test_a_lone_nodes_loop_goes_on(out: RecordingOut) -> None:
    machine = member(out, FULL, others="")
    for number in range(5):
        machine.on_timer(PeriodBegins(number), number * PERIOD)
        assert out.take() == [SetTimer(PeriodBegins(number + 1), at=(number + 1) * PERIOD)]


def test_leaving_is_said_to_several_and_answered_to_who_has_not_heard(out: RecordingOut) -> None:
    machine = member(out)
    machine.leave(0)
    effects = out.take()
    goodbye = Gossip((said(A, 1, Word.LEFT),))
    assert effects[-1] == changed(machine, A)
    assert [e.message for e in effects if isinstance(e, Send)] == [goodbye] * 4
    assert {e.to for e in effects if isinstance(e, Send)} == {B, C, D, E}
    machine.on_message(B, Gossip((said(A, 1, Word.FAILED),)), 1)
    machine.on_timer(PeriodBegins(0), PERIOD)
    assert out.take() == [] and machine.incarnation == 1
    machine.leave(2)
    assert out.take() == []
    for number in range(20):
        machine.on_message(B, Ping(number, A), 3)
        assert out.take() == [Send(B, Ack(number, (said(A, 1, Word.LEFT),)))]


def test_who_left_has_not_failed(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, Gossip((said(B, 1, Word.LEFT),)), 0)
    assert status(machine, B)[0] is Status.LEFT
    assert out.take() == [SetTimer(AbsentAreForgotten(), at=PLAIN.left_kept), changed(machine, B)]
    machine.on_timer(DigestsAreCompared(), 0)
    assert [effect.to for effect in out.take() if isinstance(effect, Send)] == [E], "it is not tried again"


def test_the_dead_are_forgotten_in_time_and_stay_dead_by_their_tombstone(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Gossip((said(B, 3, Word.FAILED),)), 0)
    out.take()
    machine.on_timer(AbsentAreForgotten(), PLAIN.failed_kept)
    assert B not in machine.view
    assert changed(machine, B) in out.take()
    machine.on_message(C, Gossip((said(B, 3, Word.ALIVE), said(B, 2, Word.SUSPECTED, C))), PLAIN.failed_kept + 1)
    assert B not in machine.view
    machine.on_message(C, Gossip((said(B, 4, Word.ALIVE),)), PLAIN.failed_kept + 2)
    assert status(machine, B) == (Status.ALIVE, 4)


def test_tombstones_do_not_last_for_ever(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Gossip((said(B, 3, Word.FAILED),)), 0)
    machine.on_timer(AbsentAreForgotten(), PLAIN.failed_kept)
    machine.on_message(C, Gossip((said(B, 3, Word.ALIVE),)), PLAIN.failed_kept + 1)
    assert B not in machine.view
    machine.on_timer(AbsentAreForgotten(), PLAIN.failed_kept + PLAIN.tombstone_kept)
    machine.on_message(C, Gossip((said(B, 3, Word.ALIVE),)), PLAIN.failed_kept + PLAIN.tombstone_kept + 1)
    assert status(machine, B) == (Status.ALIVE, 3)


def test_the_absent_and_their_tombstones_are_bounded(out: RecordingOut) -> None:
    config = SwimConfig(absent_max=10).plain()
    machine = member(out, config)
    for i in range(100):
        node = NodeId(f"x{i}")
        machine.on_message(C, Gossip((said(node, 1, Word.ALIVE), said(node, 1, Word.FAILED))), i)
    assert len(machine.view) == 5 + 10
    for i in range(100):
        machine.on_message(C, Gossip((said(NodeId(f"x{i}"), 1, Word.ALIVE),)), 100)
    absent = {member.node for member in machine.view.members.values() if not member.present}
    unbelieved = {NodeId(f"x{i}") for i in range(100)} - set(machine.view.members)
    assert absent == {NodeId(f"x{i}") for i in range(90, 100)}
    assert unbelieved == {NodeId(f"x{i}") for i in range(80, 90)}, "those that still have a tombstone"


def test_made_up_members_are_bounded(out: RecordingOut) -> None:
    machine = member(out, SwimConfig(present_max=8).plain())
    for i in range(100):
        machine.on_message(C, Gossip((said(NodeId(f"x{i}"), 1, Word.ALIVE),)), i)
    assert len(machine.view) == 8
    machine.on_message(C, Gossip((said(B, 9, Word.ALIVE),)), 200)  # Who is known is heard of as before.
    assert status(machine, B) == (Status.ALIVE, 9)
    machine.on_message(C, Gossip((said(B, 9, Word.LEFT), said(NodeId("late"), 1, Word.ALIVE))), 201)
    assert NodeId("late") in machine.view


def test_what_its_subject_could_not_refute_is_not_believed(out: RecordingOut) -> None:
    machine, last = member(out), INCARNATION_MAX - 1
    for word in (Word.SUSPECTED, Word.FAILED, Word.LEFT):
        machine.on_message(C, Gossip((said(B, last, word),)), 0)
    assert status(machine, B) == (Status.ALIVE, 1)
    machine.on_message(C, Gossip((said(A, last - 1, Word.FAILED),)), 0)  # Of me, one below: refuted by the last.
    assert machine.incarnation == last


def test_unknown_dead_stay_unknown(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Gossip((said(NodeId("x"), 3, Word.FAILED), said(NodeId("y"), 3, Word.LEFT))), 0)
    assert out.take() == []


def test_a_stranger_is_offered_a_comparison_but_not_at_every_word(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(NodeId("x"), Ping(1, A), 0)
    assert out.take() == [Send(NodeId("x"), Ack(1)), Send(NodeId("x"), Digest(root(machine)))]
    machine.on_message(NodeId("x"), Ping(2, A), 1)
    assert out.take() == [Send(NodeId("x"), Ack(2))]


# ── Anti-entropy ────────────────────────────────────────────────────────────────────────────────────────────


def test_equal_views_cost_one_small_message(out: RecordingOut) -> None:
    first, second = member(out), member(out)
    first.on_timer(DigestsAreCompared(), 0)
    offered = out.take()[0].message  # type: ignore[union-attr]
    assert offered == Digest(root(first))
    second.on_message(A, offered, 0)
    assert out.take() == []


def test_sums_do_not_depend_on_history() -> None:
    one, other = Digests(), Digests()
    names = [NodeId(f"n{i}") for i in range(300)]
    for name in names:
        one.add(name, 1)
    for name in reversed(names):
        other.add(name, 7)
        other.change(name, 7, 1)
    other.add(NodeId("x"), 1)
    assert one.sum(1) != other.sum(1)
    other.remove(NodeId("x"), 1)
    assert one.sum(1) == other.sum(1)
    assert sum(one.count(branch) for branch, _ in one.children(1)) == 300
    for branch, total in one.children(1):
        expected = 0
        for _, below in one.children(branch):
            expected ^= below
        assert total == expected


def test_few_members_are_exchanged_at_once_and_the_better_known_comes_back(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, Gossip((said(C, 4, Word.ALIVE),)), 0)
    drain(machine, out, asked_by=B)
    machine.on_message(B, Digest(((1, 12345),)), 0)
    (sent,) = out.take()
    assert isinstance(sent, Send) and sent.message.branches == (1,) and sent.message.answer
    assert {u.node: u.incarnation for u in sent.message.updates} == {A: 1, B: 1, C: 4, D: 1, E: 1}
    machine.on_message(B, Entries((1,), True, (said(B, 1, Word.ALIVE), said(C, 1, Word.ALIVE))), 0)
    (sent,) = out.take()
    assert isinstance(sent, Send) and sent.message.branches == () and not sent.message.answer
    assert {u.node: u.incarnation for u in sent.message.updates} == {A: 1, C: 4, D: 1, E: 1}


def test_a_branch_that_is_alike_does_not_hide_the_next_one(out: RecordingOut) -> None:
    machine = member(out)
    ((one, total), *_) = root(machine)
    machine.on_message(B, Digest(((one, total), (one, total + 1))), 0)
    (sent,) = out.take()
    assert isinstance(sent, Send) and sent.message.branches == (one,)


def test_many_members_are_compared_branch_by_branch(out: RecordingOut) -> None:
    known = Acquaintances(Member(node=NodeId(f"n{i:03}"), incarnation=1) for i in range(400))  # type: ignore[arg-type]
    machine = Swim(A, PLAIN, out, FixedChance(), known=known)
    machine.start(0)
    drain(machine, out, asked_by=NodeId("n002"))
    machine.on_message(NodeId("n001"), Digest(((1, 12345),)), 0)
    (sent,) = out.take()
    assert isinstance(sent, Send)
    assert sent.message == Digest(tuple(digests(machine).children(1)))


def test_memberlist_312_hearsay_of_a_death_is_suspicion_and_never_revives(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Entries((), False, (said(B, 1, Word.FAILED),)), 0)
    assert status(machine, B) == (Status.SUSPECTED, 1)
    machine.on_message(C, Gossip((said(D, 1, Word.FAILED),)), 0)
    machine.on_message(C, Entries((), False, (said(D, 1, Word.ALIVE), said(D, 2, Word.FAILED))), 0)
    assert status(machine, D) == (Status.FAILED, 1), "somebody's old list, and somebody's later obituary"
    assert E in machine.view and status(machine, E)[0] is Status.ALIVE
    machine.on_message(C, Entries((), False, (said(E, 1, Word.LEFT),)), 0)
    assert status(machine, E)[0] is Status.LEFT, "a leave is on its own word"


def test_failed_members_and_seeds_are_tried_one_a_round(out: RecordingOut) -> None:
    machine = member(out, FULL)
    machine.on_message(C, Gossip((said(B, 1, Word.FAILED),)), 0)
    drain(machine, out, asked_by=C)
    machine.on_timer(DigestsAreCompared(), 0)
    sent = [effect for effect in out.take() if isinstance(effect, Send)]
    assert sent[-1] == Send(B, Digest(root(machine), (said(B, 1, Word.FAILED, A),)))
    assert len(sent) == 2


# ── Unhealthiness ───────────────────────────────────────────────────────────────────────────────────────────


def test_suspicions_are_counted_and_fade(out: RecordingOut) -> None:
    machine = member(out, FULL)
    for incarnation in range(1, 5):
        machine.on_message(C, Gossip((said(B, incarnation, Word.SUSPECTED, C),)), 0)
        machine.on_message(C, Gossip((said(B, incarnation + 1, Word.ALIVE),)), 0)
    assert machine.view[B].suspicion_count == 4
    assert [e for e in out.take() if isinstance(e, SetTimer) and e.timer == CountsAreHalved()] == [
        SetTimer(CountsAreHalved(), at=FULL.unhealthy_half_life)
    ]
    for expected in (2, 1, 0):
        machine.on_timer(CountsAreHalved(), 0)
        assert machine.view[B].suspicion_count == expected
    assert out.take()[-1] == changed(machine, B)


def test_in_the_papers_setting_they_only_grow(out: RecordingOut) -> None:
    machine = member(out, SwimConfig.paper())
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), 0)
    assert not [e for e in out.take() if isinstance(e, SetTimer) and e.timer == CountsAreHalved()]


# ── Configuration ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_papers_preset_has_every_extension_off() -> None:
    paper = SwimConfig.paper()
    assert not paper.lifeguard and paper.sync_interval == FOREVER and not paper.tell_suspect
    assert suspicion_max(paper, 49) == suspicion_min(paper, 49)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ack_timeout": seconds(1)},
        {"period": 0},
        {"helper_count": -1},
        {"suspicion_max_mult": 0.5},
        {"absent_max": 0},
        {"present_max": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        SwimConfig(**wrong)


def test_a_death_is_passed_on_at_once_and_only_once_where_so_many_are_to_be_told(out: RecordingOut) -> None:
    machine = member(out, msgspec.structs.replace(PLAIN, tell_death_count=2))
    news = Gossip((said(B, 1, Word.FAILED),))
    machine.on_message(C, news, ms(1))
    told = [effect for effect in out.take() if isinstance(effect, Send)]
    assert len({send.to for send in told} & {C, D, E}) == len(told) == 2
    assert all(isinstance(send.message, Gossip) and said(B, 1, Word.FAILED) in send.message.updates for send in told)
    machine.on_message(D, news, ms(2))
    assert [effect for effect in out.take() if isinstance(effect, Send)] == []
    plain = member(out)
    plain.on_message(C, news, ms(1))
    assert [effect for effect in out.take() if isinstance(effect, Send)] == []


@pytest.mark.parametrize(("others", "left"), [("", False), ("bcde", False), ("", True)])
def test_new_seeds_are_asked_at_once_by_who_is_alone(out: RecordingOut, others: str, left: bool) -> None:
    old, new = Address("10.0.0.1", 7600), Address("10.0.0.2", 7600)
    machine = member(out, FULL, others=others, seeds=[old])
    if left:
        machine.leave(0)
        out.take()
    machine.on_seeds_changed(SeedsChanged((old, new)), 1)
    asked = [e.to for e in out.take() if isinstance(e, Send)]
    assert asked == ([new] if not others and not left else [])


def test_an_estimate_follows_round_trips_that_have_become_longer() -> None:
    trips = RoundTrips()
    for _ in range(40):
        trips.note(B, ms(20))
    told = [news for _ in range(60) if (news := trips.note(B, ms(80))) is not None]
    assert ms(70) < told[-1].mean <= ms(80) < told[-1].timeout
    assert [news.mean for news in told] == sorted(news.mean for news in told)


FINGERPRINTS = [1786339900719625571, 15132144614551596490, 8157411837810621908]  # As version 0.1.0 has them.


def test_fingerprints_are_alike_on_all_members_also_of_other_versions() -> None:
    found = [fingerprint(A, 0), fingerprint(A, 1), fingerprint(NodeId("node-17"), 2**40)]
    assert found == FINGERPRINTS and len({*found}) == 3


def test_only_a_node_of_the_tree_of_digests_is_a_branch() -> None:
    named = {branch for name in ("a", "b", "node-17") for branch in branches(NodeId(name))}
    assert all(map(is_branch, named)) and 1 in named
    deepest = max(named)
    assert not any(map(is_branch, (0, -1, -16, 2, 1 << (BITS - 1), deepest << BITS)))


@pytest.mark.parametrize("room", range(10, 50, 2))
def test_news_for_a_suspect_that_does_not_fit_is_left_out_and_the_message_goes_all_the_same(
    out: RecordingOut, room: int
) -> None:
    machine = Swim(A, replace(PLAIN, tell_suspect=True), out, FixedChance(), payload_max=room)
    machine.start(0)
    machine.on_message(C, Gossip((said(B, 1, Word.ALIVE), said(C, 1, Word.ALIVE))), 0)
    machine.on_message(C, Gossip((said(B, 1, Word.SUSPECTED, C),)), 0)
    out.take()
    machine.on_message(B, Ping(7, A), 1)
    (ack,) = [e.message for e in out.take() if isinstance(e, Send) and isinstance(e.message, Ack)]
    fits = (
        len(msgspec.msgpack.encode(Ack(7, (said(B, 1, Word.SUSPECTED, C),)))) <= room - 4
    )  # The length takes some bytes.
    assert ack.ping_no == 7 and isinstance(ack.updates, tuple)
    assert len(msgspec.msgpack.encode(ack)) <= room and (bool(ack.updates) or not fits)


def test_a_suspicion_is_long_where_too_few_helpers_could_confirm_it_though_there_are_members_enough() -> None:
    few = SwimConfig(helper_count=1, confirmation_count=2, nack_confirms=True)
    enough = SwimConfig(helper_count=2, confirmation_count=2, nack_confirms=True)
    assert few.longest_suspicion(10) > enough.longest_suspicion(10)
    assert few.longest_suspicion(3) == enough.longest_suspicion(3), "nobody else could confirm it"


def test_what_a_message_says_of_others_counts_also_after_what_it_says_of_the_receiver(out: RecordingOut) -> None:
    machine = member(out)
    old = said(B, 0, Word.SUSPECTED)
    machine.on_message(C, Ping(9, A, (said(A, 1, Word.SUSPECTED, C), old, said(D, 5, Word.ALIVE))), 0)
    assert machine.view.members[D].incarnation == 5 and machine.view.members[B].incarnation == 1


def test_a_suspicion_ends_the_sooner_the_more_confirm_it() -> None:
    """[Lifeguard §IV-B]"""
    assert [dogpile(ms(2000), ms(10_000), count, 3) for count in (0, 1, 3)] == [ms(10_000), ms(6000), ms(2000)]
    assert dogpile(ms(2000), ms(10_000), 9, 3) == dogpile(ms(2000), ms(10_000), 0, 0) == ms(2000)


def test_a_member_that_moves_is_a_new_incarnation_at_its_new_address(out: RecordingOut) -> None:
    here, there = Address("10.0.0.1", 1), Address("10.0.0.2", 1)
    machine = Swim(A, PLAIN, out, FixedChance(), address=here)
    before = machine.incarnation
    machine.on_own_address_changed(OwnAddressChanged(here), 0)
    assert machine.incarnation == before and out.take() == []
    machine.on_own_address_changed(OwnAddressChanged(there), 0)
    assert machine.incarnation == before + 1 and machine.view.members[A].address == there
    out.take()
    machine.on_message(B, Ping(1, A), 0)
    (ack,) = [sent.message for sent in out.take() if isinstance(sent, Send) and isinstance(sent.message, Ack)]
    assert [(update.host, update.incarnation) for update in ack.updates if update.node == A] == [
        (there.host, before + 1)
    ]
