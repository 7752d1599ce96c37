"""Chaos for elections that a store decides, and broken variants, each of which it must catch."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from broken import as_mutant
from msgspec.structs import replace

from doyen.core.clock import Instant, ms
from doyen.election.engine.machine import Engine
from doyen.election.engine.messages import Status, ToStore
from doyen.sim.folder import SimFolder
from doyen.sim.runs import run_many
from doyen.sim.scenario import Scenario, read_file, replay_line, simulate
from doyen.sim.scenario.run import configured_faults

STORM = read_file(Path(__file__).parents[2] / "scenarios/engine_storm.toml")
SEEDS = int(os.environ.get("DOYEN_SEEDS", "10000"))
SEEDS_MAX = 100


def storm(nodes: int, store_ms: int) -> Scenario:
    return replace(STORM, group=replace(STORM.group, nodes=nodes), run=replace(STORM.run, disk_delay=ms(store_ms)))


@pytest.mark.parametrize(("nodes", "store_ms"), [(2, 8), (3, 0), (3, 12)])
def test_a_sample_of_seeds(nodes: int, store_ms: int) -> None:
    plan = storm(nodes, store_ms)
    results = [simulate(plan, 1000 + seed) for seed in range(6)]
    for result in results:
        assert not result.violations, replay_line(plan, result.seed)
        assert result.agreed
    fired = {name for name in configured_faults(plan) if any(result.faults.get(name) for result in results)}
    assert fired == configured_faults(plan)
    assert sum(result.leader_changes for result in results) > 30


@pytest.mark.soak
@pytest.mark.parametrize(("nodes", "store_ms"), [(2, 8), (3, 0), (3, 8), (3, 30), (5, 8)])
def test_many_seeds(nodes: int, store_ms: int) -> None:
    plan = storm(nodes, store_ms)
    for result in run_many(partial(simulate, plan), SEEDS // 5, nodes + store_ms):
        assert not result.violations and result.agreed, replay_line(plan, result.seed)


# Broken variants.


class NoWaitAfterTheClaim(Engine):
    def acts_from(self, now: Instant) -> Instant:
        return now


class LeaseFromTheAnswer(Engine):
    """Counts its lease from when the store's answer comes, which may be long after it was asked."""

    def lease_after(self, asked: ToStore, now: Instant) -> Instant:
        return now + self.config.lease


class LeaseWithoutItsOwnClock(Engine):
    """Acts until an answer says that it must not."""

    def leads(self, now: Instant) -> bool:
        return self.status is Status.LEADING


class AWillOfAnyTermFrees(Engine):
    """Takes a resignation of an earlier term for one of the record's."""

    def is_vacated(self) -> bool:
        return self.record is not None and self.vacated is not None and self.vacated[0] <= self.record.epoch


BROKEN = [NoWaitAfterTheClaim, LeaseFromTheAnswer, LeaseWithoutItsOwnClock, AWillOfAnyTermFrees]


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_variant_is_caught(kind: type[Engine], tell: Callable[[str], None]) -> None:
    _is_caught(as_mutant(kind), kind.__name__, tell)


def test_a_swap_that_does_not_compare_is_caught(monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]) -> None:
    sound = SimFolder.do

    def overwriting(self: SimFolder, step: Any) -> Any:
        return sound(self, replace(step, expected=self.record) if isinstance(step, ToStore) else step)

    monkeypatch.setattr(SimFolder, "do", overwriting)
    _is_caught(None, "a swap that does not compare", tell)


def _is_caught(tamper: Callable[..., Any] | None, name: str, tell: Callable[[str], None]) -> None:
    for seed in range(20, 20 + SEEDS_MAX):
        violations = simulate(STORM, seed, tamper=tamper).violations
        if violations:
            tell(f"mutant {name}: caught by {violations[0].check} after {seed - 19} seeds")
            return
    pytest.fail(f"{name} survived {SEEDS_MAX} seeds")
