"""Quorum elections where links are cut one by one: whoever reaches a majority leads, soon; broken ones are caught."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from broken import as_mutant
from msgspec.structs import replace
from storms import check_caught

from doyen.core.clock import Instant, ms, seconds
from doyen.core.ids import NodeId
from doyen.election.pole import messages as msg
from doyen.election.pole.connectivity import Sight
from doyen.election.pole.machine import Pole
from doyen.sim.runs import run_many
from doyen.sim.scenario import Result, Scenario, read_file, replay_line, simulate
from doyen.sim.scenario.shrink import shrink
from doyen_papers.studies.pole_chaos import STORM

WALK = read_file(Path(__file__).parents[2] / "scenarios/graph_walk.toml")
SEEDS_MAX = 40


def walk(nodes: int, **pole: Any) -> Scenario:
    return replace(WALK, group=replace(WALK.group, nodes=nodes), node=WALK.node | {"pole": pole})


def shaped(*shapes: str, **pole: Any) -> Scenario:
    """The walk, through these shapes instead of random graphs; the hub does not lead."""
    event = WALK.churn.events[0]
    events = tuple(
        replace(event, do=shape, who=("others",), at=event.at + i * event.every, every=0)
        for i, shape in enumerate(shapes)
    )
    return replace(walk(5, **pole), churn=replace(WALK.churn, events=events))


def check(plan: Scenario, results: list[Result]) -> None:
    for result in results:
        assert not result.violations, replay_line(plan, result.seed)
        assert result.led_beyond == 0.0 and result.looked["held"]
    assert sum(result.looked["led"] for result in results) >= len(results)
    assert fmean(result.led_when_due for result in results if result.led_when_due is not None) >= 0.99


def test_every_graph_lasts_for_three_bounds() -> None:
    for nodes in (3, 5, 7):
        config = walk(nodes).config()
        kind = config.election_kind()
        assert kind is not None and 3 * config.worst_case(kind).settling <= WALK.churn.events[0].every


@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_whoever_reaches_a_majority_leads(nodes: int, tell: Callable[[str], None]) -> None:
    plan = walk(nodes)
    results = [simulate(plan, seed) for seed in range(5)]
    check(plan, results)
    due = fmean(result.led_when_due or 1.0 for result in results)
    tell(f"{nodes} voters: led {due:.2%} when due, {fmean(result.led for result in results):.2%} of all the time")


def test_star_chain_and_one_way_star_are_led() -> None:
    result = simulate(STAR)
    check(STAR, [result])
    assert result.led > 0.95 and all(result.faults[shape] == 1 for shape in ("star", "chain", "one-way-star"))


def test_as_printed_nobody_leads_in_a_star_and_it_shrinks() -> None:
    """[POLE] has no such condition: the best score stands, whoever can hear it."""
    plan = shaped("star", connected=False)

    def fails(scenario: Scenario) -> str | None:
        violations = simulate(scenario).violations
        return violations[0].check if violations else None

    assert fails(plan) == "led"
    shrunk = shrink(plan, fails, tries_max=25)
    assert shrunk is not None and shrunk.check == "led" and shrunk.scenario.run.length < plan.run.length


@pytest.mark.soak
@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_many_walks(nodes: int) -> None:
    plan = walk(nodes)
    check(plan, run_many(partial(simulate, plan), 1000, nodes))


# Broken variants.


class BestScoreStandsWithoutAMajority(Pole):
    def is_connected(self, now: Instant) -> bool:
        return True


class OneWayCountsAsTwoWay(Pole):
    def is_connected(self, now: Instant) -> bool:
        return self.electorate.is_majority({self.me, *self.links.heard(now)})


class LinksAreRememberedForEver(Pole):
    was_connected = False

    def is_connected(self, now: Instant) -> bool:
        self.was_connected = self.was_connected or super().is_connected(now)
        return self.was_connected


class HearsayVouchesForHearsay(Pole):
    """What was told counts as heard just now, so that two vouch for a dead leader to each other forever."""

    def on_told(self, source: NodeId, sight: Sight, now: Instant) -> None:
        super().on_told(source, replace(sight, heard_at=now), now)


class SilentWithoutAQuorum(Pole):
    """A voter that has heard no quorum of proposals answers no claim, nor waits for one that it is told of."""

    def on_claim(self, sender: NodeId, beat: msg.Heartbeat, now: Instant) -> None:
        if self.ballot.has_quorum:
            super().on_claim(sender, beat, now)

    def on_told(self, source: NodeId, sight: Sight, now: Instant) -> None:
        if sight.acting or self.ballot.has_quorum:
            super().on_told(source, sight, now)


class PendingCountedAsAGrant(Pole):
    def on_message(self, sender: NodeId, message: msg.Message, now: Instant) -> None:
        if isinstance(message, msg.Pending):
            message = msg.HeartbeatAck(message.epoch, message.number, True)
        super().on_message(sender, message, now)


def bound_by_an_earlier_life() -> Scenario:
    """The leader is cut off, and others restart, bound to it; the greatest, long cut off itself, is not bound."""
    cut, restart = STORM.churn.events[:2]
    events = []
    for begins_at in (seconds(2), seconds(8), seconds(14)):
        events += [
            replace(cut, do="resign", who=("leader",), to=("n2",), at=begins_at, every=0, lasting=ms(100), name=""),
            replace(cut, who=("n4",), at=begins_at + ms(500), every=0, lasting=seconds(3), name="alone"),
            replace(cut, who=("n2",), at=begins_at + ms(3500), every=0),
            replace(restart, who=("n0", "n1", "n3"), at=begins_at + ms(3500), every=0),
        ]
    quiet = replace(STORM.network, loss=replace(STORM.network.loss, prob=0.0), duplicate_prob=0.0, reorder_prob=0.0)
    churn = replace(STORM.churn, random=type(STORM.churn.random)(), events=tuple(events))
    return replace(STORM, node=STORM.node | {"pole": STORM.node["pole"] | {"lease": "2s"}}, network=quiet, churn=churn)


STAR = shaped("star", "chain", "one-way-star")
BROKEN: dict[type[Pole], Scenario] = {
    BestScoreStandsWithoutAMajority: walk(5),
    OneWayCountsAsTwoWay: walk(5),
    LinksAreRememberedForEver: walk(5),
    HearsayVouchesForHearsay: walk(7),
    SilentWithoutAQuorum: STAR,
    PendingCountedAsAGrant: bound_by_an_earlier_life(),
}
FIRST = {HearsayVouchesForHearsay: 12}  # The earlier seeds do not catch it.


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_variant_is_caught(kind: type[Pole], tell: Callable[[str], None]) -> None:
    """Sound voters survive the very same run."""
    plan, first = BROKEN[kind], FIRST.get(kind, 0)
    seed = check_caught(plan, as_mutant(kind), kind.__name__, range(first, SEEDS_MAX), tell)
    assert not simulate(plan, seed).violations
