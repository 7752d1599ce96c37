"""Medley: what differs from SWIM."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from doyen.core import FOREVER, Member, NodeId, Send, Term, ms, seconds
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.errors import ConfigError
from doyen.membership.medley.config import MedleyConfig
from doyen.membership.medley.machine import Hops, Medley
from doyen.membership.medley.targets import NearFirst
from doyen.membership.swim.messages import Ack, PeriodBegins, Ping, PingMe
from doyen.membership.swim.roster import Acquaintances
from doyen.testing import RecordingOut
from doyen_papers.studies.membership import MembershipSetting, simulate

NAMES = [NodeId(f"n{i}") for i in range(1, 8)]
HOPS = dict(zip(NAMES, (1, 1, 2, 2, 3, 4, 6), strict=True))


def targets(**given: Any) -> NearFirst:
    return NearFirst(NAMES.copy(), Random(1), MedleyConfig(**given), lambda node: HOPS[node])


def machine(out: RecordingOut, **given: Any) -> Medley:
    known = Acquaintances(Member(node=NodeId(name), incarnation=1) for name in ("me", *NAMES))  # type: ignore[arg-type]
    made = Medley(NodeId("me"), MedleyConfig(**given), out, Random(1), distance=lambda node: HOPS[node], known=known)
    made.start(0)
    out.take()
    return made


def sent(out: RecordingOut) -> list[Send]:
    """What was sent since the last call, without the rumours on it."""
    return [Send(e.to, replace(e.message, updates=())) for e in out.take() if isinstance(e, Send)]


def test_medley_targets_are_chosen_with_probability_1_over_distance_to_the_m() -> None:
    order = targets(turn_max_mult=1e6)
    drawn = Counter(order.next() for _ in range(20_000))
    total = sum(hops**-3 for hops in HOPS.values())
    for name, hops in HOPS.items():
        assert drawn[name] / 20_000 == pytest.approx(hops**-3 / total, rel=0.05)


def test_medley_exponent_0_is_swims_even_choice() -> None:
    order = targets(distance_exponent=0.0)
    drawn = Counter(order.next() for _ in range(700))
    assert set(drawn.values()) <= {99, 100, 101}


def test_medley_the_time_between_two_pings_of_a_member_is_bounded() -> None:
    order, last, gap = targets(turn_max_mult=8.0), dict.fromkeys(NAMES, 0), 0
    for turn in range(1, 5000):
        node = order.next()
        assert node is not None
        gap = max(gap, turn - last[node])
        last[node] = turn
    assert gap <= 8 * len(NAMES) + len(NAMES)


def test_medley_drawn_targets_have_the_same_shares_and_no_bound() -> None:
    order, drawn, last, gap = targets(time_bounded=False), Counter[NodeId](), dict.fromkeys(NAMES, 0), 0
    for turn in range(1, 20_000):
        node = order.next()
        assert node is not None
        drawn[node] += 1
        gap, last[node] = max(gap, turn - last[node]), turn
    total = sum(hops**-3 for hops in HOPS.values())
    for name, hops in HOPS.items():
        assert drawn[name] / 20_000 == pytest.approx(hops**-3 / total, rel=0.2, abs=0.001)
    assert gap > 100 * len(NAMES)
    order.hurry(NAMES[-1])
    order.hurry(NAMES[-2])
    order.remove(NAMES[-1])
    assert order.next() == NAMES[-2]  # Who asked for it, and is still here.
    for name in NAMES[:-1]:
        order.remove(name)
    assert order.next() is None


def test_members_come_and_go() -> None:
    order = targets()
    for name in NAMES[1:]:
        order.remove(name)
    assert {order.next() for _ in range(10)} == {NAMES[0]}
    order.remove(NAMES[0])
    assert order.next() is None and order.starved(10**12) is None
    order.add(NAMES[3])
    order.remove(NAMES[3])
    order.add(NAMES[3])
    assert [order.next() for _ in range(3)] == [NAMES[3]] * 3


class Drawn(Random):
    """Draws one number again and again."""

    def __init__(self, drawn: float) -> None:
        super().__init__(1)
        self.drawn = drawn

    def random(self) -> float:
        return self.drawn


@pytest.mark.parametrize("drawn", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("here", [3, 5, 6])
def test_a_newcomer_has_its_first_turn_at_the_point_of_its_stride_that_was_drawn(drawn: float, here: int) -> None:
    rng = Drawn(0.95)  # All others are due near the end of their stride, which is as long.
    order = NearFirst(NAMES[:here], rng, MedleyConfig(distance_exponent=0.0), lambda node: 1)
    rng.drawn = drawn
    order.add(NAMES[6])
    turns = [order.next() for _ in range(here + 1)]
    assert turns.index(NAMES[6]) == (0 if drawn < 0.95 else here)


@pytest.mark.parametrize("drawn", [0.0, 0.5])
@pytest.mark.parametrize("turns_before", [0, 10, 500])
def test_a_newcomer_gets_its_share_and_makes_up_for_no_turn_before_it_came(drawn: float, turns_before: int) -> None:
    rng = Drawn(drawn)
    order = NearFirst(NAMES[:6], rng, MedleyConfig(distance_exponent=0.0), lambda node: 1)
    for _ in range(turns_before):
        order.next()
    order.add(NAMES[6])
    turns = Counter(order.next() for _ in range(70))
    assert set(turns) == {*NAMES} and all(9 <= count <= 11 for count in turns.values())


def test_when_a_member_goes_that_is_not_the_nearest_nobodys_distance_is_asked_for() -> None:
    asked: list[NodeId] = []

    def distance(node: NodeId) -> float:
        asked.append(node)
        return HOPS[node]

    order = NearFirst(NAMES.copy(), Random(1), MedleyConfig(active_feedback_periods=1.0), distance)
    assert asked == NAMES
    asked.clear()
    order.remove(NAMES[1])  # As near, and later.
    order.remove(NAMES[6])
    assert asked == []
    order.remove(NAMES[0])
    order.starved(0)
    assert set(asked) == set(NAMES[2:6]) and order.starved(10**12) == NAMES[2]


def test_medley_passive_feedback_who_is_pinged_too_seldom_weighs_more() -> None:
    before, after = targets(), targets()
    for _ in range(20):
        after.on_waited(NAMES[6], 60_000)
        after.on_waited(NAMES[0], 100)
    once, then = (Counter(order.next() for _ in range(5000)) for order in (before, after))
    assert then[NAMES[6]] > 1.3 * once[NAMES[6]]
    assert then[NAMES[0]] < 0.7 * once[NAMES[0]]
    ignoring = targets(passive_feedback=False)
    for _ in range(20):
        ignoring.on_waited(NAMES[6], 60_000)
    assert Counter(ignoring.next() for _ in range(5000)) == once


def test_medley_passive_feedback_makes_a_weight_at_most_four_times_as_great_or_as_small() -> None:
    order = targets(distance_exponent=0.0)
    for _ in range(20):
        order.on_waited(NAMES[6], 60_000)
        order.on_waited(NAMES[0], 100)
    turns = Counter(order.next() for _ in range(5000))
    assert turns[NAMES[6]] / turns[NAMES[3]] == pytest.approx(4, rel=0.05)
    assert turns[NAMES[0]] / turns[NAMES[3]] == pytest.approx(1 / 4, rel=0.05)


def test_medley_an_ack_tells_how_long_nobody_had_pinged() -> None:
    out = RecordingOut()
    made = machine(out)
    made.on_message(NAMES[0], Ping(1, NodeId("me")), seconds(1))
    made.on_message(NAMES[1], Ping(2, NodeId("me")), seconds(4))
    assert sent(out) == [Send(NAMES[0], Ack(1, (), 1)), Send(NAMES[1], Ack(2, (), 3001))]
    made.on_message(NAMES[2], Ack(99, (), 8000), seconds(4))
    told, untold = (Counter(each.targets.next() for _ in range(5000)) for each in (made, machine(out)))
    assert told[NAMES[2]] > 1.1 * untold[NAMES[2]]


def test_medley_active_feedback_who_is_not_pinged_asks_its_nearest() -> None:
    out = RecordingOut()
    made = machine(out, active_feedback_periods=4.0)
    made.on_timer(PeriodBegins(0), 0)
    out.take()
    made.on_timer(PeriodBegins(1), seconds(8))
    assert sent(out)[0] == Send(NAMES[0], PingMe())
    asked = machine(out)
    asked.on_message(NAMES[6], PingMe(), 0)
    asked.on_timer(PeriodBegins(0), 0)
    assert sent(out)[0] == Send(NAMES[6], Ping(1, NAMES[6]))


def test_medley_paper_timers() -> None:
    paper = MedleyConfig.paper()
    assert (paper.period, paper.ack_timeout, paper.helper_count) == (seconds(2), ms(500), 3)
    assert (paper.suspicion_timeout, paper.distance_exponent) == (seconds(16), 3.0)
    assert paper.sync_interval == FOREVER and not paper.lifeguard


def test_medley_spends_fewer_hops_than_an_even_choice() -> None:
    near, even = (
        simulate(MembershipSetting(protocol=protocol, drop=0.0, seconds=60, warm_up=10, crash=0), 1)
        for protocol in ("medley", "swim")
    )
    assert near.hop_bytes_per_node_second / near.bytes_per_node_second < 0.6 * (
        even.hop_bytes_per_node_second / even.bytes_per_node_second
    )


@pytest.mark.parametrize("wrong", [{"distance_exponent": -1}, {"turn_max_mult": 0}, {"ack_timeout": seconds(3)}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        MedleyConfig(**wrong)


def test_whoever_leads_is_watched_as_if_it_were_near_until_it_leads_no_more() -> None:
    far = NAMES[-1]
    order = targets(leader_weight=1.0)
    order.favour(far)
    order.on_waited(far, 1)  # It is pinged often, and says so: all the same.
    drawn = Counter(order.next() for _ in range(4000))
    assert drawn[far] == pytest.approx(drawn[NAMES[0]], rel=0.05)
    order.favour(None)
    drawn = Counter(order.next() for _ in range(4000))
    assert drawn[far] < drawn[NAMES[0]] / 5
    published, same = targets(), targets()
    published.favour(far)
    assert [published.next() for _ in range(400)] == [same.next() for _ in range(400)]


def test_an_election_above_tells_whom_to_watch() -> None:
    medley = machine(RecordingOut(), leader_weight=1.0)
    far, term = NAMES[-1], Term(1, NAMES[-1])
    medley.on_leader_elected(LeaderElected(term), ms(1))
    assert Counter(medley.targets.next() for _ in range(400))[far] > 50
    medley.on_leader_lost(LeaderLost(term, "silent"), ms(2))
    assert Counter(medley.targets.next() for _ in range(400))[far] < 30
    medley.on_leader_elected(LeaderElected(Term(2, NodeId("me"))), ms(3))  # Itself: nobody to watch.


def test_medley_a_drawn_member_that_asks_twice_for_a_ping_is_next_once() -> None:
    order, far, stranger = targets(time_bounded=False), NAMES[-1], NodeId("stranger")
    for node in (far, stranger, far):
        order.hurry(node)
    assert order.next() == far
    assert far not in [order.next() for _ in range(5)]
    order.hurry(far)
    assert order.next() == far  # It may ask again.


def test_a_member_of_unknown_distance_is_a_neighbour() -> None:
    hops = Hops({"far": 5.0})
    assert (hops(NodeId("far")), hops(NodeId("anybody"))) == (5.0, 1.0)


def test_medley_whoever_is_not_pinged_for_long_asks_its_nearest_neighbour() -> None:
    order, period = targets(active_feedback_periods=3), MedleyConfig().period
    assert order.starved(seconds(50)) is None  # It counts from its first look.
    assert order.starved(seconds(50) + 3 * period - 1) is None
    assert order.starved(seconds(50) + 3 * period) == NAMES[0]
    assert order.starved(seconds(50) + 4 * period) is None  # It has asked just now.
    order.on_pinged(seconds(80))
    assert order.starved(seconds(80) + 3 * period - 1) is None
    order.remove(NAMES[0])
    assert order.starved(seconds(80) + 3 * period) == NAMES[1]
    assert targets(active_feedback_periods=0).starved(seconds(500)) is None


def test_medley_who_has_left_asks_nobody_for_a_ping() -> None:
    for leaves in (False, True):
        out = RecordingOut()
        one = machine(out, active_feedback_periods=1)
        one.on_timer(PeriodBegins(0), 0)
        if leaves:
            one.leave(1)
        out.take()
        one.on_timer(PeriodBegins(1), 10 * MedleyConfig().period)
        asked = [effect for effect in sent(out) if isinstance(effect.message, PingMe)]
        assert bool(asked) is not leaves


def test_medley_the_nearest_that_is_left_is_asked_whatever_its_name() -> None:
    hops = {NodeId("a"): 4.0, NodeId("b"): 2.0, NodeId("c"): 1.0, NodeId("d"): 3.0}
    order = NearFirst([*hops], Random(1), MedleyConfig(active_feedback_periods=1), lambda node: hops[node])
    asked, now = [], seconds(50)
    for _ in range(4):
        order.on_pinged(now)
        now += MedleyConfig().period
        node = order.starved(now)
        assert node is not None
        asked.append(node)
        order.remove(node)
    assert asked == ["c", "b", "d", "a"]


def test_medley_the_bound_between_two_pings_holds_when_members_have_come_and_gone() -> None:
    hops = {NodeId(f"n{i}"): float(1 + i % 9) for i in range(60)}
    order = NearFirst([*hops][:20], Random(1), MedleyConfig(turn_max_mult=2.0), lambda node: hops[node])
    for name in [*hops][20:]:
        order.add(name)
    for name in [*hops][:40]:
        order.remove(name)
    left = [*hops][40:]
    last, gap = dict.fromkeys(left, 0), 0
    for turn in range(1, 800):
        node = order.next()
        assert node is not None
        gap, last[node] = max(gap, turn - last[node]), turn
    assert max(gap, *(800 - at for at in last.values())) <= 3 * len(left)


def test_medley_feedback_of_a_stranger_does_not_count_once_it_comes() -> None:
    plain, told = targets(), targets()
    stranger = NodeId("stranger")
    HOPS[stranger] = 2
    told.on_waited(stranger, 60_000)
    for order in (plain, told):
        order.add(stranger)
    del HOPS[stranger]
    assert [plain.next() for _ in range(300)] == [told.next() for _ in range(300)]


@pytest.mark.parametrize("lifeguard", [False, True])
def test_medley_uses_lifeguard_whole_or_not_at_all(lifeguard: bool) -> None:
    swim = MedleyConfig(lifeguard=lifeguard).swim()
    found = (swim.suspicion_max_mult, swim.health_max, swim.confirmation_count, swim.tell_suspect)
    assert found == ((2.0, 8, 3, True) if lifeguard else (1.0, 0, 0, False))
