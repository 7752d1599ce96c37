"""Chaos for elections by score, and broken variants, each of which it must catch.  [POLE]"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from doyen.core.clock import Instant
from doyen.core.host import Port
from doyen.core.ids import NodeId
from doyen.election.pole import Pole, Status
from doyen.election.pole.ballot import better
from doyen.election.pole.messages import ElectionOver, Propose, Vote
from doyen.sim.node import SimNode
from doyen_papers.studies.pole_chaos import CHANNEL, CONFIG, FAULTS, Ordeal, describe, run, study

SEEDS_MAX = 150


@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_a_sample_of_seeds(nodes: int) -> None:
    for seed in range(25):
        outcome = run(1_000_000 + seed, node_count=nodes)
        assert not outcome.complaints, describe(outcome)


@pytest.mark.soak
@pytest.mark.parametrize(("nodes", "runs"), [(3, 3000), (5, 4000), (7, 3000)])
def test_ten_thousand_seeds(nodes: int, runs: int) -> None:
    summary = study(nodes, runs=runs, seed=nodes)
    assert not summary.complaints, summary.complaints[0]
    assert (summary.leaders_per_epoch_max, summary.overlap, summary.epochs_back, summary.unfinished) == (1, 0.0, 0, 0)
    assert summary.settled_max < summary.settle_bound
    assert all(summary.faults[name] for name in FAULTS), summary.faults


def test_every_fault_fires_and_nothing_comes_of_it() -> None:
    summary = study(5, runs=25, seed=3, jobs=1)
    assert not summary.complaints, summary.complaints[0]
    assert (summary.leaders_per_epoch_max, summary.overlap, summary.epochs_back, summary.unfinished) == (1, 0.0, 0, 0)
    assert summary.settled_max < summary.settle_bound
    assert summary.reigns > 60
    assert all(summary.faults[name] for name in FAULTS), summary.faults


def test_a_selection_made_on_waking_and_told_after_a_slow_disk_is_not_late() -> None:
    outcome = run(5_000_133, node_count=3)
    assert not outcome.complaints, describe(outcome)


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(5).trace_hash == run(5).trace_hash != run(6).trace_hash


# Broken variants.


class EpochMissingFromTheOrder(Pole):
    """A newer epoch with a lower score is swallowed."""

    def _on_propose(self, sender: NodeId, theirs: Propose, now: Instant) -> None:
        best = self.ballot.best
        if self.chosen is None and best is not None and better(best, (theirs.standing, theirs.node)):
            self._answer_lesser(sender)
            self._count_proposer(sender, now)
        else:
            super()._on_propose(sender, theirs, now)


class VotersCountedAsProposers(Pole):
    """As printed: Alg. 1, line 65."""

    def _on_vote(self, sender: NodeId, vote: Vote, now: Instant) -> None:
        super()._on_vote(sender, vote, now)
        if self.chosen is None:
            self._count_proposer(sender, now)


class TimerRestartedByEachMessage(Pole):
    """As printed: Alg. 1, line 32."""

    _over_at: Instant = 0

    def _count_proposer(self, node: NodeId, now: Instant) -> None:
        super()._count_proposer(node, now)
        if self.status is Status.ELECTING and self.ballot.timed:
            self._over_at = now + self.config.election_timeout
            self.out.set_timer(ElectionOver(self.epoch), self._over_at)

    def _on_election_over(self, timer: ElectionOver, now: Instant) -> None:
        if now >= self._over_at:
            super()._on_election_over(timer, now)


class TimerLeftRunningIntoANewEpoch(Pole):
    def _on_election_over(self, timer: ElectionOver, now: Instant) -> None:
        super()._on_election_over(replace(timer, epoch=self.epoch), now)


class EpochLoweredByJoining(Pole):
    """As printed: Alg. 1, line 62."""

    def _join(self, epoch: int, leader: NodeId, now: Instant) -> None:
        if leader != self.me:
            self.voter.advance(epoch)
            self.choose(leader, now)


class PromiseNotDurable(Pole):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        newcomer = more.pop("newcomer") or more["restored"] is not None
        super().__init__(*arguments, **more | {"restored": None, "newcomer": newcomer, "durable": True})


class LeaseOnTheWallClock(Pole):
    wall: Callable[[], int]

    def _lease_is_over(self, now: Instant) -> bool:
        return super()._lease_is_over(now + self.wall())


class PromiseForgottenByARestart(Pole):
    """The file tells of the grant, but a new life does not wait until that leader's lease is over."""

    def start(self, now: Instant) -> None:
        super().start(now)
        self.voter.bound_until = 0


class LeaseOfAnyNumber(Pole):
    """Acts on grants, however old: no majority need be bound any more."""

    def _lease_is_over(self, now: Instant) -> bool:
        return False


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


def build_of(kind: type[Pole]) -> Callable[[Ordeal, SimNode, Port], Pole]:
    def build(ordeal: Ordeal, node: SimNode, port: Port) -> Pole:
        machine = kind(node.name, CONFIG, port, node.rng(CHANNEL), **ordeal.arguments(node))
        if isinstance(machine, LeaseOnTheWallClock):
            machine.wall = lambda: ordeal.walls.get(node.name, 0)
        return machine

    return build


def caught(kind: type[Pole]) -> tuple[int, str] | None:
    """The first seed that shows it, and how."""
    for seed in range(SEEDS_MAX):
        complaints = run(seed, build=build_of(kind)).complaints
        if complaints:
            return seed, complaints[0]
    return None


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_variant_is_caught(kind: type[Pole]) -> None:
    assert caught(kind) is not None
