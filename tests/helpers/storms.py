"""What storms of several elections have in common: no seed breaks a promise, and a broken machine is caught."""

import os
from collections.abc import Callable, Iterable
from functools import partial

import pytest
from msgspec.structs import replace

from doyen.core.clock import ms
from doyen.sim.runs import run_many
from doyen.sim.scenario import Scenario, replay_line, simulate
from doyen.sim.scenario.run import configured_faults
from doyen.sim.world import Tamper

SEEDS = int(os.environ.get("DOYEN_SEEDS", "10000"))  # Of each promise in the soak, shared out among its storms.


def of_size(storm: Scenario, nodes: int, disk_ms: int) -> Scenario:
    return replace(storm, group=replace(storm.group, nodes=nodes), run=replace(storm.run, disk_delay=ms(disk_ms)))


def check_sample(plan: Scenario) -> None:
    results = [simulate(plan, 1000 + seed) for seed in range(6)]
    for result in results:
        assert not result.violations, replay_line(plan, result.seed)
        assert result.agreed
    fired = {name for name in configured_faults(plan) if any(result.faults.get(name) for result in results)}
    assert fired == configured_faults(plan)
    assert sum(result.leader_changes for result in results) > 30


def check_many(plan: Scenario, first: int) -> None:
    for result in run_many(partial(simulate, plan), SEEDS // 5, first):
        assert not result.violations and result.agreed, replay_line(plan, result.seed)


def check_caught(
    plan: Scenario, tamper: Tamper | None, name: str, seeds: Iterable[int], tell: Callable[[str], None]
) -> int:
    """Return the seed that catches a broken machine; one that survives all fails the test."""
    for count, seed in enumerate(seeds, 1):
        violations = simulate(plan, seed, tamper=tamper).violations
        if violations:
            tell(f"mutant {name}: caught by {violations[0].check} after {count} seeds")
            return seed
    pytest.fail(f"{name} survived all seeds")
