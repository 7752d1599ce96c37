"""Arbitrated membership by simulation: reference values and scenarios."""

import os
import subprocess
import sys

import pytest
from storms import SEEDS

from doyen.core.clock import ms, seconds
from doyen_papers.studies.arbitration import ArbitrationSetting, Ring, simulate, study
from doyen_papers.studies.arbitration_scenarios import SCENARIOS, play


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    assert play(name, 1) is None


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_with_many_seeds(name: str) -> None:
    for seed in range(2, 2 + SEEDS // len(SCENARIOS)):
        assert play(name, seed) is None, f"seed {seed}"


def test_one_crash_gives_54_requests_and_detection_between_one_and_two_leases() -> None:
    summary = study(ArbitrationSetting(mode="paper", crash=1), 20, seed=3)
    found = summary.detection.per_monitor
    assert summary.requests.per_failure == 54
    assert summary.survivors.min == summary.survivors.max == 31 and summary.forced_departures.max == 0
    assert found.min is not None and found.max is not None and 1 <= found.min and found.max < 2
    assert summary.recovery_start.max is not None and summary.recovery_start.max < 4.5 + 1e-6
    assert not any(summary.violations.values()) and summary.mutual_deaths == 0


@pytest.mark.parametrize(
    ("setting", "by_event"),
    [
        (ArbitrationSetting(mode="paper", arbiters="central", events=3, crash=1, crash_arbiters=1), [31, 30, 0]),
        (ArbitrationSetting(mode="paper", events=8, crash=2), [30, 28, 26, 24, 22, 20, 18, 16]),
        (ArbitrationSetting(mode="paper", nodes=64, crash=4, adjacent=True), [0]),
        (ArbitrationSetting(mode="paper", nodes=2, crash=1), [0]),
        (ArbitrationSetting(mode="paper", nodes=5, crash=2), [3]),
        (ArbitrationSetting(mode="paper", nodes=7, crash=3, adjacent=True), [4]),
    ],
)
def test_reference_survivors_for_any_seed(setting: ArbitrationSetting, by_event: list[int]) -> None:
    for seed in (1, 2):
        assert simulate(setting, seed).by_event == by_event


def test_one_joiner_takes_four_leases_slotted_and_one_and_three_round_trips_otherwise() -> None:
    assert simulate(ArbitrationSetting(mode="paper", joins=1), 1).joins == [4.0]
    (took,) = simulate(ArbitrationSetting(joins=1, delay=ms(10)), 1).joins
    assert 1.0 < took <= 1.08


def test_twenty_joiners_into_ten_nodes_at_k_5_finish() -> None:
    run = simulate(ArbitrationSetting(nodes=10, neighbours=5, joins=20), 1)
    assert run.members == 30 and not any(run.violations.values())


def test_a_percent_of_loss_costs_next_to_nobody_and_as_printed_a_tenth_of_that_costs_half() -> None:
    practical = simulate(ArbitrationSetting(loss=0.01, seconds=30), 1)
    assert practical.survivors >= 30 and not any(practical.violations.values())
    # Each lost request or ack costs one node, so 32·exp(−60 · 12 · 0.001) = 15.6 stay, less what falls over besides.
    printed = study(ArbitrationSetting(mode="paper", loss=0.001, seconds=60), 6, seed=1)
    assert printed.survivors.mean is not None and printed.survivors.mean <= 19


def test_repair_after_three_failures_is_over_in_8_leases_and_at_most_doubles_the_traffic() -> None:
    ring = Ring(ArbitrationSetting(nodes=64, rejoin=False, delay=ms(1)), 1)
    lease = ring.config.lease
    ring.run(2 * lease)
    for seats in ([5, 25, 45], [2, 30, 50]):
        living = sorted(machine.seat for machine in ring.members())
        for place in seats:
            ring.crash(ring.nodes[living[place].node])
        counts = []
        for _ in range(8):
            before = ring.sim.message_count
            ring.run(lease)
            counts.append(ring.sim.message_count - before)
        assert ring.is_settled() and max(counts) <= 2 * 12 * len(living)


def test_bounds_hold_under_drift() -> None:
    run = simulate(ArbitrationSetting(crash=2, events=2, drift=0.05), 2)
    assert run.survivors == 28 and not any(run.violations.values())


def test_cost_at_rest_is_4k_messages_per_lease_whatever_n() -> None:
    for nodes in (64, 256, 1024):
        ring = Ring(ArbitrationSetting(nodes=nodes), 1)
        ring.sim.run(until=seconds(1))
        before = ring.sim.message_count
        ring.sim.run(until=seconds(3))
        assert (ring.sim.message_count - before) / nodes / 2 == pytest.approx(12, rel=0.02)


def test_the_owner_of_the_key_leads_and_its_successor_waits() -> None:
    ring = Ring(ArbitrationSetting(leader=True), 1)
    ring.run(2 * ring.config.lease)
    ((first, since),) = ring.watch.acting.items()
    assert since <= ring.config.lease
    crashed_at = ring.sim.now
    ring.crash(ring.nodes[first])  # type: ignore[index]
    ring.rest(least=8)
    ((second, since),) = ring.watch.acting.items()
    assert second != first
    assert 3.5 <= (since - crashed_at) / ring.config.lease <= 5
    assert not any(ring.watch.violations.values())


def test_figures_do_not_depend_on_the_hashes_of_names() -> None:
    flags = ("--runs=2", "--jobs=1", "--nodes=10", "--crash=2", "--joins=2", "--json")
    called = [sys.executable, "-c", "from doyen.cli import main; main()", "sim", "arbitration", *flags]
    found = {
        subprocess.run(called, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
