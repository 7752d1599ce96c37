"""The judge: what it must object to, and what it must let pass.  Histories are written by hand, in milliseconds."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from msgspec.structs import replace

from doyen.core.clock import ms
from doyen.sim.links import Links, Shape, cuts_of
from doyen_lab.proving.combination import find_combination
from doyen_lab.proving.history import Life, Record
from doyen_lab.proving.judge import CHECKS, Expectation, Truth, Verdict, judge, together
from doyen_lab.proving.reach import note_links, note_overheard
from doyen_lab.proving.running import Running

QUORUM = Expectation(strong=True, voter_count=3, lease=ms(1000))
WEAK = Expectation(strong=False, voter_count=3)


def life(label: str, *, number: int = 1, durable: bool = True, name: str | None = None) -> Life:
    return Life(label, name or label, number, durable=durable)


def acts(actor: Life, term: int, first: int, last: int) -> Life:
    """Every 20 ms, both ends included."""
    actor.add(Record(kind="begin", at=ms(first), term=term))
    for at in range(first, last + 1, 20):
        actor.add(Record(kind="act", at=ms(at), term=term))
    return actor


def elected(seer: Life, at: int, term: int, leader: str) -> Life:
    seer.add(Record(kind="elected", at=ms(at), term=term, leader=leader))
    return seer


def truth(at: int, *regions: str, bound: int = 500, settled: int | None = None, quiet: bool = True) -> Truth:
    """Regions as "n0 n1"."""
    made = tuple(frozenset(f"{label}#1" for label in region.split()) for region in regions)
    settled_at = {} if settled is None else {made[0]: ms(settled)}
    return Truth(at=ms(at), regions=made, bound=ms(bound), why="after a fault", quiet=quiet, settled_at=settled_at)


def judged(
    promise: Expectation,
    *lives: Life,
    truths: tuple[Truth, ...] = (),
    end: int = 10_000,
    faults: Mapping[str, int] | None = None,
    wanted: tuple[str, ...] = (),
    checks: tuple[str, ...] = (),
) -> Verdict:
    return judge(lives, truths, promise, ended_at=ms(end), faults=faults or {}, wanted=wanted, checks=checks)


def test_one_after_the_other_is_what_a_quorum_promises() -> None:
    verdict = judged(QUORUM, acts(life("n0"), 1, 0, 2000), acts(life("n1"), 2, 2020, 4000))
    assert (verdict.violations, verdict.together_s, verdict.terms) == ((), 0.0, 2)
    assert verdict.acts == 101 + 100


def test_two_at_once_breaks_a_quorums_promise() -> None:
    verdict = judged(QUORUM, acts(life("n0"), 1, 0, 2000), acts(life("n1"), 2, 1900, 4000))
    assert "two at once: n0#1 (term 1) acted 100 ms after n1#1 (term 2) had begun" in verdict.violations
    assert verdict.together_s == pytest.approx(0.1)


def test_a_leader_that_wakes_up_and_acts_once_more_is_caught() -> None:
    """The paused leader's single act, in the middle of its successor's reign."""
    sleeper = acts(acts(life("n0"), 1, 0, 1000), 1, 3000, 3000)
    verdict = judged(QUORUM, sleeper, acts(life("n1"), 2, 2100, 4000))
    assert any(text.startswith("two at once: n0#1") for text in verdict.violations)
    assert any(text.startswith("terms went back: n0#1 acted in term 1") for text in verdict.violations)


def test_where_links_are_cut_one_by_one_a_majority_is_whom_one_hears_and_is_heard_by() -> None:
    """A star around n2: n0 and n1 have no majority, although all hang together."""
    star = replace(truth(0, "n0 n1 n2"), minority=frozenset({"n0#1", "n1#1"}))
    idle = (life("n0"), life("n1"), life("n2"))
    late = judged(QUORUM, acts(life("n0"), 1, 0, 2000), *idle[1:], truths=(star,), end=2000).violations
    assert late == ("n0#1 acted 2000 ms after it had lost the majority",)
    assert judged(QUORUM, *idle[:2], acts(life("n2"), 1, 400, 10_000), truths=(star,)).violations == ()
    assert judged(QUORUM, *idle, truths=(star,)).violations == (
        "nobody acted in {n0#1, n1#1, n2#1} for 9.5 s, after a fault",
    )
    none_can = replace(star, minority=frozenset({"n0#1", "n1#1", "n2#1"}))
    assert judged(QUORUM, *idle, truths=(none_can,)).violations == ()


def test_who_relays_nothing_owes_a_leader_to_each_that_listens() -> None:
    """A star around n2: several may act, and n1 hears none of them."""
    heard = replace(truth(0, "n0 n1 n2"), earshots=(frozenset({"n0#1", "n2#1"}), frozenset({"n1#1", "n2#1"})))
    both = (acts(life("n0"), 1, 0, 9990), acts(life("n1"), 1, 0, 9990))
    assert judged(WEAK, *both, truths=(heard,)).violations == ()
    assert judged(WEAK, both[0], truths=(heard,)).violations == (
        "nobody whom one hears acted, of {n1#1, n2#1}, after a fault",
    )


def test_in_a_longer_chain_two_of_a_weak_election_may_act_but_not_nobody_nor_two_once_it_has_healed() -> None:
    """n0 and n2 neither hear each other nor have a neighbour in common (decision 98)."""
    chain = truth(0, "n0 n1 n2", settled=400)
    stretched = replace(chain, stretched=chain.regions)
    both = (acts(life("n0"), 1, 0, 4990), acts(life("n2"), 1, 0, 4990))
    assert not judged(WEAK, *both, truths=(chain,), end=5000).holds
    assert judged(WEAK, *both, truths=(stretched,), end=5000).violations == ()
    assert judged(WEAK, life("n0"), truths=(stretched,), end=5000).violations == (
        "nobody acted in {n0#1, n1#1, n2#1} for 4.5 s, after a fault",
    )
    healed = judged(WEAK, *both, truths=(stretched, truth(2000, "n0 n1 n2")), end=5000)
    assert healed.violations == ("two acted at once in {n0#1, n1#1, n2#1} for 2480 ms, settled, after a fault",)


def test_who_hears_anothers_leader_need_not_have_its_own_but_somebody_must_act_there() -> None:
    """n0 is not heard, and hears n1 and n2 (decision 98)."""
    apart = truth(0, "n0", "n1 n2")
    overheard = replace(apart, overheard={apart.regions[0]: apart.regions[1]})
    one = acts(life("n1"), 2, 400, 4990)
    assert judged(WEAK, one, truths=(apart,), end=5000).violations == (
        "nobody acted in {n0#1} for 4.5 s, after a fault",
    )
    assert judged(WEAK, one, truths=(overheard,), end=5000).violations == ()
    assert len(judged(WEAK, life("n1"), truths=(overheard,), end=5000).violations) == 2


def test_only_who_is_heard_by_a_region_is_overheard() -> None:
    nodes = [Running(life(f"n{i}"), i, cast(Any, None), Path()) for i in range(3)]
    noted = replace(truth(0, "n0", "n1 n2"), overheard={})
    note_overheard(noted, Links(nodes, lambda a, b: a is b or a.index > 0))
    assert noted.overheard == {frozenset({"n0#1"}): frozenset({"n1#1", "n2#1"})}


@pytest.mark.parametrize(
    ("election", "shape", "two_may"),
    [
        ("hybrid", "chain", True),
        ("hybrid", "star", False),
        ("hybrid", "one-way-star", False),
        ("pole", "chain", False),
        ("announce", "chain", False),
    ],
)
def test_where_two_may_act_is_a_matter_of_the_promise_and_of_the_links(
    election: str, shape: Shape, two_may: bool
) -> None:
    nodes = [Running(life(f"n{i}"), i, cast(Any, None), Path()) for i in range(5)]
    cut = set(cuts_of(shape, nodes, nodes[2], Random(1).random))
    links = Links(nodes, lambda a, b: (a, b) not in cut)
    noted = truth(0, "n0 n1 n2 n3 n4")
    note_links(noted, links, links, [f"n{i}" for i in range(5)], find_combination(election))
    assert noted.stretched == (noted.regions if two_may else ())


def test_two_leaders_of_one_term_are_caught_although_they_never_met() -> None:
    verdict = judged(QUORUM, acts(life("n0"), 5, 0, 1000), acts(life("n1"), 5, 2000, 3000))
    assert verdict.violations == ("term 5 had two: n0#1, n1#1",)


def test_a_second_life_must_not_act_under_the_firsts_term() -> None:
    verdict = judged(QUORUM, acts(life("n0"), 5, 0, 1000), acts(life("n0", number=2), 5, 2000, 3000))
    assert verdict.violations == ("term 5 had two: n0#1, n0#2",)


def test_a_leader_cut_off_may_act_for_a_lease_and_not_longer() -> None:
    cut = (truth(0, "n0 n1 n2"), truth(2000, "n1 n2", "n0", bound=5000))
    assert judged(QUORUM, acts(life("n0"), 1, 0, 3000), truths=cut, end=3001).holds
    late = judged(QUORUM, acts(life("n0"), 1, 0, 3020), truths=cut, end=3021)
    assert late.violations == ("n0#1 acted 1020 ms after it had lost the majority",)


def test_who_still_starts_may_already_vote() -> None:
    """A majority that the ground has not seen joining yet is one all the same."""
    starting = truth(0, "n0")
    starting.possible = (frozenset({"n0#1", "n1#1"}),)
    assert judged(QUORUM, acts(life("n0"), 1, 1500, 2000), truths=(starting,), end=2000).holds


def test_named_terms_never_go_back() -> None:
    seer = elected(elected(life("n0"), 0, 4, "n1"), 100, 3, "n2")
    assert judged(WEAK, seer).violations == ("n0#1 named n2 of term 3 after a term 4",)


def test_named_terms_never_go_back_over_restarts_where_there_is_a_disk() -> None:
    first, second = elected(life("n0"), 0, 4, "n1"), elected(life("n0", number=2), 100, 1, "n0")
    assert not judged(WEAK, first, second).holds
    forgetful = (
        elected(life("n0", durable=False), 0, 4, "n1"),
        elected(life("n0", number=2, durable=False), 100, 1, "n0"),
    )
    assert judged(WEAK, *forgetful).holds


def test_weak_elections_may_have_two_across_a_partition() -> None:
    truths = (truth(0, "n0", "n1 n2", bound=500),)
    verdict = judged(WEAK, acts(life("n0"), 1, 0, 4000), acts(life("n1"), 1, 0, 4000), truths=truths, end=4000)
    assert (verdict.holds, verdict.together_s) == (True, 4.0)


def test_weak_elections_must_not_have_two_in_one_region_once_the_bound_is_over() -> None:
    lives = acts(life("n0"), 1, 0, 4000), acts(life("n1"), 1, 0, 2000)
    assert judged(WEAK, *lives, truths=(truth(0, "n0 n1 n2", bound=2000),), end=4000).holds
    late = judged(WEAK, *lives, truths=(truth(0, "n0 n1 n2", bound=500),), end=4000)
    assert late.violations == ("two acted at once in {n0#1, n1#1, n2#1} for 1500 ms, settled, after a fault",)


def test_what_the_machine_itself_was_late_is_added_to_the_bound_but_not_beyond_reason() -> None:
    lives = acts(life("n0"), 1, 0, 4000), acts(life("n1"), 1, 0, 2000)

    def holds(bound: int, late: int) -> bool:
        found = truth(0, "n0 n1 n2", bound=bound)
        found.lateness = ms(late)
        return judged(WEAK, *lives, truths=(found,), end=4000).holds

    assert holds(800, 60) and not holds(800, 50)  # 0.8 s, and ten times 60 ms; two may act for another 0.6 s.
    assert holds(400, 80) and not holds(300, 80)  # At most twice the bound is added.


def test_a_region_that_was_seen_to_settle_must_stay_so() -> None:
    lives = acts(life("n0"), 1, 0, 4000), acts(life("n1"), 1, 2000, 3000)
    truths = (truth(0, "n0 n1 n2", bound=9000, settled=500),)
    assert "two acted at once" in judged(WEAK, *lives, truths=truths, end=4000).violations[0]


@pytest.mark.parametrize("promise", [QUORUM, WEAK])
def test_a_region_in_which_nobody_acts_after_the_bound_is_a_failure(promise: Expectation) -> None:
    truths = (truth(0, "n0 n1 n2", bound=500),)
    verdict = judged(promise, acts(life("n0"), 1, 0, 400), truths=truths, end=4000)
    assert verdict.violations == ("nobody acted in {n0#1, n1#1, n2#1} for 3.5 s, after a fault",)


def test_a_minority_need_not_have_a_leader_where_a_quorum_is_needed() -> None:
    truths = (truth(0, "n0", bound=500),)
    assert judged(QUORUM, life("n0"), truths=truths, end=4000).holds
    assert judged(
        Expectation(strong=False, voter_count=3, majority_only=True), life("n0"), truths=truths, end=4000
    ).holds
    assert not judged(WEAK, life("n0"), truths=truths, end=4000).holds


def test_while_packets_are_lost_no_bound_holds() -> None:
    assert judged(WEAK, life("n0"), truths=(truth(0, "n0 n1", quiet=False),), end=4000).holds


def test_a_fault_that_never_happened_proves_nothing() -> None:
    verdict = judged(WEAK, wanted=("killed", "packets lost"), faults={"killed": 1, "packets lost": 0})
    assert verdict.violations == ("the fault never happened: packets lost",)


def test_a_check_that_had_nothing_to_look_at_proves_nothing() -> None:
    verdict = judged(QUORUM, checks=CHECKS)
    assert verdict.violations == tuple(f"there was nothing to judge: {check}" for check in CHECKS)
    seer = elected(elected(life("n2"), 0, 1, "n0"), 4000, 2, "n1")
    lives = acts(life("n0"), 1, 0, 2500), acts(life("n1"), 2, 4000, 9000), seer
    cut = truth(0, "n0 n1 n2", settled=100), truth(2000, "n1 n2", "n0", bound=3000)
    verdict = judged(QUORUM, *lives, truths=cut, end=9000, checks=CHECKS)
    assert verdict.violations == ()
    assert verdict.checked == {
        "acts": 126 + 251,
        "namings": 2,
        "successions": 1,
        "quiet regions": 2,
        "leaders cut off": 1,
    }


def test_a_weak_promise_is_not_asked_for_what_only_a_quorum_has() -> None:
    assert judged(WEAK, checks=("leaders cut off",)).holds


def test_a_witness_that_fails_is_no_witness() -> None:
    broken = life("n0")
    broken.add(Record(kind="failed", at=0, reason="witness: ValueError()"))
    assert judged(WEAK, broken).violations == ("n0#1: witness: ValueError()",)


def test_together_counts_an_instant_once_however_many_act() -> None:
    three = [acts(life(f"n{i}"), 1, 0, 1000).stretches()[0] for i in range(3)]
    assert together(three) == ms(1000)
    assert together(three[:1]) == 0


def test_a_pause_ends_a_stretch_and_a_stop_does_too() -> None:
    actor = acts(acts(acts(life("n0"), 1, 0, 100), 1, 120, 200), 1, 900, 1000)
    assert [(s.first, s.last) for s in actor.stretches()] == [
        (ms(0), ms(100)),
        (ms(120), ms(200)),
        (ms(900), ms(1000)),
    ]


def test_who_said_that_it_stopped_acts_no_more() -> None:
    actor = acts(life("n0"), 1, 0, 100)
    assert actor.acts(ms(500)) and not actor.acts(ms(700))
    actor.add(Record(kind="stop", at=ms(110)))
    assert not actor.acts(ms(120))
