"""A ring among enemies, with the theorems of [ARB] as checkers: what holds, and broken machines that are caught."""

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from broken import as_mutant
from msgspec.structs import replace
from storms import SEEDS

from doyen.core.clock import Instant, seconds
from doyen.core.machine import Hears, hears
from doyen.election.by_key.machine import LeaderByKey
from doyen.membership.ring.geometry import Seat, neighbours
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import LeftRing, NeighboursChanged, PairDropped, Requested
from doyen.membership.ring.pair import Electorate, Pair
from doyen.sim.churn import ChurnConfig, ChurnEvent
from doyen.sim.node import SimNode
from doyen.sim.runs import run_many
from doyen.sim.scenario import Result, Scenario, read_file, replay_line, simulate
from doyen.sim.scenario.run import configured_faults
from doyen.sim.world import World

STORM = read_file(Path(__file__).parents[2] / "scenarios/ring_storm.toml")


def with_ring(nodes: int, each_side: int, **more: Any) -> Scenario:
    ring = {**STORM.node["ring"], "neighbours": each_side, "expected_size": nodes, **more}
    random = replace(STORM.churn.random, up_min=nodes // 2 + 1)
    return replace(
        STORM,
        group=replace(STORM.group, nodes=nodes),
        node={**STORM.node, "ring": ring},
        churn=replace(STORM.churn, random=random),
    )


def judge(scenario: Scenario, results: list[Result]) -> None:
    for result in results:
        assert not result.violations, replay_line(scenario, result.seed)


@pytest.mark.parametrize(("nodes", "each_side", "runs"), [(5, 1, 5), (8, 2, 5), (9, 3, 3), (12, 4, 1)])
def test_no_theorem_is_violated(nodes: int, each_side: int, runs: int) -> None:
    scenario = with_ring(nodes, each_side)
    judge(scenario, run_many(partial(simulate, scenario), runs, each_side, jobs=1))


@pytest.mark.soak
@pytest.mark.parametrize(("nodes", "each_side"), [(5, 1), (8, 2), (9, 3), (12, 4)])
def test_no_theorem_is_violated_at_length(nodes: int, each_side: int) -> None:
    scenario = with_ring(nodes, each_side)
    judge(scenario, run_many(partial(simulate, scenario), SEEDS // 4, each_side))


@pytest.mark.parametrize("do", ["leave", "crash"])
def test_a_member_that_leaves_says_farewell_and_nobody_votes_on_it(do: Any) -> None:
    """As on a real node, which is there for what is to be said right after its last step."""
    told: list[str] = []

    def watch(world: World) -> None:
        def on_fact(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
            if isinstance(fact, Requested):
                told.append("voted")
            elif isinstance(fact, PairDropped) and fact.why == "left":
                told.append("left")

        world.sim.watchers.append(on_fact)

    quiet = ChurnConfig(events=(ChurnEvent(do=do, at=seconds(60), who=("n1",)),))
    simulate(replace(STORM, churn=quiet, run=replace(STORM.run, length=seconds(180))), 1, watch=watch)
    assert {*told} == ({"left"} if do == "leave" else {"voted"})


def test_every_fault_fires_and_every_theorem_is_looked_at() -> None:
    results = run_many(partial(simulate, STORM), 6, 1, jobs=1)
    judge(STORM, results)
    assert all(any(result.faults[fault] for result in results) for fault in configured_faults(STORM))
    assert all(any(result.looked[check] for result in results) for check in results[0].looked)
    assert {"lifespan", "recent", "recovery", "consistency", "joins", "alone"} < set(results[0].looked)


# Broken on purpose.


class StaysWhenVotedOut(Arbitration):
    def _leave_forced(self, *given: Any, **named: Any) -> None:
        pass


class AcksAfterSuspecting(Arbitration):
    def may_ack(self, pair: Pair) -> bool:
        return True


class OwnViewOfOthers(Arbitration):
    """Takes N_Q from P's own list."""

    def reflect(self, pair: Pair, version: int, members: tuple[Seat, ...]) -> None:
        known = {self.seat, *(other.seat for other in self.pairs.values())}
        super().reflect(pair, version, tuple(neighbours(pair.seat, known, self.config.neighbours)))


class NeverStops(LeaderByKey):
    """Leads on when another owns the key."""

    def on_neighbours_changed(self, fact: NeighboursChanged, now: Instant) -> None:
        if not self.is_leader:
            super().on_neighbours_changed(fact, now)

    def on_left_ring(self, fact: LeftRing, now: Instant) -> None:
        if not self.is_leader:
            super().on_left_ring(fact, now)

    HEARS: ClassVar[Hears] = (
        LeaderByKey.HEARS | hears(NeighboursChanged, on_neighbours_changed) | hears(LeftRing, on_left_ring)
    )


MUTANTS: dict[type[Any], str] = {  # And the check that kills it.
    StaysWhenVotedOut: "lifespan",
    AcksAfterSuspecting: "symmetric",
    OwnViewOfOthers: "upgrade",
    NeverStops: "told",
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_variant_is_caught(mutant: type[Any]) -> None:
    found = (simulate(STORM, seed, tamper=as_mutant(mutant)).violations for seed in range(30))
    assert next(violations for violations in found if violations)[0].check == MUTANTS[mutant]


def test_members_that_leave_for_want_of_two_thirds_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Electorate, "is_majority", lambda self, count, total: 3 * count > 2 * total)
    found = (simulate(STORM, seed).violations for seed in range(30))
    assert next(violations for violations in found if violations)[0].check == "majority"
