"""Chaos for elections by score, and broken variants, each of which it must catch.  [POLE]"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from broken import as_mutant
from broken_voters import LeaseOfAnyNumber, PromiseForgottenByARestart, PromiseNotDurable
from msgspec.structs import replace
from storms import check_caught

from doyen.core.clock import Instant, ms, seconds
from doyen.core.ids import NodeId
from doyen.election.pole.ballot import better
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import ElectionEnds, Message, Propose, Status, Vote
from doyen.sim.node import SimNode
from doyen.sim.runs import run_many
from doyen.sim.scenario import Scenario, read_file, replay_line, simulate
from doyen_papers.studies.pole_chaos import FAULTS, STORM, scenario, study

STORM_FILE = Path(__file__).parents[2] / "scenarios/pole_storm.toml"
SEEDS_MAX = 150


def with_disk(disk_ms: int, nodes: int) -> Scenario:
    plan = scenario(nodes)
    return replace(plan, run=replace(plan.run, disk_delay=ms(disk_ms)))


@pytest.mark.parametrize(("nodes", "disk_ms"), [(3, 0), (5, 150), (7, 2)])
def test_a_sample_of_seeds(nodes: int, disk_ms: int) -> None:
    plan = with_disk(disk_ms, nodes)
    for seed in range(20):
        result = simulate(plan, 1_000_000 + seed)
        assert not result.violations, replay_line(plan, result.seed)
        assert result.agreed


@pytest.mark.soak
@pytest.mark.parametrize(("nodes", "runs"), [(3, 3000), (5, 4000), (7, 3000)])
def test_ten_thousand_seeds(nodes: int, runs: int) -> None:
    for disk_ms in (0, 2, 30, 150):
        for result in run_many(partial(simulate, with_disk(disk_ms, nodes)), runs // 4, nodes + disk_ms):
            assert not result.violations, replay_line(with_disk(disk_ms, nodes), result.seed)


def test_every_fault_fires_and_nothing_comes_of_it() -> None:
    summary = study(5, runs=25, seed=3, jobs=1)
    assert not summary.complaints, summary.complaints[0]
    assert (summary.leaders_per_epoch_max, summary.overlap, summary.epochs_back, summary.unfinished) == (1, 0.0, 0, 0)
    assert summary.settled_max < summary.settle_bound
    assert summary.reigns > 60
    assert set(summary.faults) == {*FAULTS, "slow disk"} and all(summary.faults.values()), summary.faults


def test_the_command_runs_the_file() -> None:
    assert read_file(STORM_FILE) == STORM == scenario(5)


# Broken variants.


class EpochMissingFromTheOrder(Pole):
    """A newer epoch with a lower score is swallowed."""

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        best = self.ballot.best
        if isinstance(message, Propose) and self.chosen is None and best is not None and message.node is not None:
            if better(best, (message.standing, message.node)):
                message = replace(message, epoch=self.epoch)
        super().on_message(sender, message, now)


class VotersCountedAsProposers(Pole):
    """As printed: Alg. 1, line 65."""

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        super().on_message(sender, message, now)
        if isinstance(message, Vote) and self.chosen is None and self.ballot.best is not None:
            super().on_message(sender, self.proposal(now), now)


class TimerRestartedByEachMessage(Pole):
    """As printed: Alg. 1, line 32."""

    ends_at: Instant = 0

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        super().on_message(sender, message, now)
        if isinstance(message, Propose) and message.epoch == self.epoch:
            if self.status is Status.ELECTING and self.ballot.timed:
                self.ends_at = now + self.config.election_timeout
                self.out.set_timer(ElectionEnds(self.epoch), self.ends_at)

    def on_timer(self, timer: Any, now: Instant) -> None:
        if not isinstance(timer, ElectionEnds) or now >= self.ends_at:
            super().on_timer(timer, now)


class TimerLeftRunningIntoANewEpoch(Pole):
    def on_timer(self, timer: Any, now: Instant) -> None:
        late = isinstance(timer, ElectionEnds) and timer.epoch != self.epoch
        if late and self.status is Status.ELECTING and self.ballot.best is not None:
            self.select(now)
        else:
            super().on_timer(timer, now)


class EpochLoweredByJoining(Pole):
    """As printed: Alg. 1, line 62."""

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        if isinstance(message, Vote) and self.chosen is None and message.epoch < self.voter.promise.epoch:
            self.voter.advance(message.epoch)
        super().on_message(sender, message, now)


class LeaseOnTheWallClock(Pole):
    wall: Callable[[], Instant]

    def leads(self, now: Instant) -> bool:
        return super().leads(now + self.wall())


BROKEN = [
    EpochMissingFromTheOrder,
    VotersCountedAsProposers,
    TimerRestartedByEachMessage,
    TimerLeftRunningIntoANewEpoch,
    EpochLoweredByJoining,
    PromiseNotDurable,
    LeaseOnTheWallClock,
    PromiseForgottenByARestart,
    LeaseOfAnyNumber,
]


def tamper_with(mutate: Callable[..., Any]) -> Callable[[SimNode, str, Any, Any], Any]:

    def tamper(node: SimNode, channel: str, port: Any, machine: Any) -> Any:
        machine = mutate(node, channel, port, machine)
        if isinstance(machine, LeaseOnTheWallClock):
            machine.wall = lambda: seconds((0, -3, 2, -1)[(node.sim.now // seconds(3) + node.index) % 4])
        return machine

    return tamper


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_variant_is_caught(kind: type[Pole], tell: Callable[[str], None]) -> None:
    check_caught(STORM, tamper_with(as_mutant(kind)), kind.__name__, range(SEEDS_MAX), tell)
