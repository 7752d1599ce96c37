"""Links that are cut one by one: who hears whom, the shapes, and what a quorum election owes to those who are left."""

from itertools import combinations
from random import Random

import pytest

from doyen.sim.links import SHAPES, Links, Shape, cuts_of
from doyen.sim.scenario import Result, Scenario, simulate
from doyen.sim.scenario.defaults import completed
from doyen.sim.scenario.text import from_line, load, to_line

FIVE = "abcde"


def links_of(shape: Shape, hub: str | None = "c") -> Links[str]:
    cut = set(cuts_of(shape, FIVE, hub, Random(1).random))
    return Links(FIVE, lambda a, b: (a, b) not in cut)


def majority(nodes: object) -> bool:
    return len(list(nodes)) > 2  # type: ignore[call-overload]


def test_reach_need_not_be_transitive() -> None:
    star, chain, one_way = links_of("star"), links_of("chain"), links_of("one-way-star")
    assert star.components() == chain.components() == one_way.components() == [[*FIVE]]
    assert star.quorum_connected(FIVE, majority) == one_way.quorum_connected(FIVE, majority) == ["c"]
    assert chain.quorum_connected(FIVE, majority) == ["b", "c", "d"]
    assert [star.linked(node) for node in "ac"] == [["a", "c"], [*FIVE]]
    assert [chain.linked(node) for node in "abc"] == [["a", "b"], ["a", "b", "c"], ["b", "c", "d"]]


def test_one_relay_is_enough_in_a_star_and_not_in_a_chain_nor_where_a_link_leaves_one_way() -> None:
    shapes: list[Shape] = ["star", "one-way-star", "chain"]
    assert [links_of(shape).is_close(FIVE) for shape in shapes] == [True, True, False]
    assert links_of("chain").is_close("bcd") is False  # b and d have neighbours outside.
    cut = {(a, b) for a in FIVE for b in FIVE if (a == "e") != (b == "e")}
    assert Links(FIVE, lambda a, b: (a, b) not in cut).is_close("abcd")
    assert not Links(FIVE, lambda a, b: (a, b) not in cut - {("e", "a")}).is_close("abcd")


def test_the_last_of_a_one_way_star_is_heard_by_all_and_hears_the_hub_alone() -> None:
    cut = cuts_of("one-way-star", FIVE, "c", Random(1).random)
    assert not [pair for pair in cut if pair[0] == "e"]
    assert sorted(pair[0] for pair in cut if pair[1] == "e") == ["a", "b", "d"]


def test_random_graphs_have_links_of_every_kind() -> None:
    draw, kinds = Random(7).random, {0: 0, 1: 0, 2: 0}
    connected = 0
    for _ in range(200):
        cut = set(cuts_of("graph", FIVE, None, draw))
        for a, b in combinations(FIVE, 2):
            kinds[((a, b) in cut) + ((b, a) in cut)] += 1
        links = Links(FIVE, lambda a, b, cut=cut: (a, b) not in cut)  # type: ignore[misc]
        connected += bool(links.quorum_connected(FIVE, majority))
    assert min(kinds.values()) > 200 and 50 < connected < 195


# What a run shows.


def scenario(event: dict[str, object], *, election: str = "pole", length: str = "70s") -> Scenario:
    tables = {
        "node": {"election": election, "preset": "local"},
        "network": {"delay": {"mean": "100us"}},
        "churn": {"events": [{"at": "20s", **event}]},
        "run": {"quiet": "0s", "length": length},
    }
    return load(Scenario, completed(tables, "test"), "test")


def led(event: dict[str, object], **said: str) -> Result:
    return simulate(scenario(event, **said))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_counted_replayed_and_over_in_the_quiet_time(shape: Shape) -> None:
    who = {} if shape == "graph" else {"who": ["others"]}
    plan = scenario({"do": shape, **who}, election="spanning")
    result = simulate(plan)
    assert result.faults[shape] == 1 and result.faults["cut off"] > 0 and not result.violations
    assert simulate(from_line(to_line(plan))).trace_hash == result.trace_hash


def test_nobody_acts_beyond_a_lease_where_no_voter_has_a_majority() -> None:
    result = led({"do": "block", "who": ["n0", "n1", "n2"], "to": ["n3", "n4"]})
    assert result.led_beyond == 0.0 and result.led_when_due is not None and not result.violations
    parted = led({"do": "crash", "who": ["n2", "n3", "n4"]})
    assert parted.looked["held"] and parted.led < 0.4 and parted.led_beyond == 0.0 and not parted.violations
