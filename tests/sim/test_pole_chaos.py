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
from doyen.election.pole.messages import ElectionEnds, Message, Propose, Vote
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

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        best = self.ballot.best
        if isinstance(message, Propose) and self.chosen is None and best is not None:
            if better(best, (message.standing, message.node)):
                message = replace(message, epoch=self.epoch)
        super().on_message(sender, message, now)


class VotersCountedAsProposers(Pole):
    """As printed: Alg. 1, line 65."""

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        super().on_message(sender, message, now)
        if isinstance(message, Vote) and self.chosen is None and self.ballot.best is not None:
            super().on_message(sender, self.ballot.proposal(), now)


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
        super().on_timer(ElectionEnds(self.epoch) if isinstance(timer, ElectionEnds) else timer, now)


class EpochLoweredByJoining(Pole):
    """As printed: Alg. 1, line 62."""

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        free = self.chosen is None
        super().on_message(sender, message, now)
        if isinstance(message, Vote) and free and self.chosen == message.leader != self.me:
            self.voter.advance(message.epoch)


class PromiseNotDurable(Pole):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        newcomer = more.pop("newcomer") or more["restored"] is not None
        super().__init__(*arguments, **more | {"restored": None, "newcomer": newcomer, "durable": True})


class LeaseOnTheWallClock(Pole):
    wall: Callable[[], int]

    def leads(self, now: Instant) -> bool:
        return super().leads(now + self.wall())


class PromiseForgottenByARestart(Pole):
    """The file tells of the grant, but a new incarnation does not wait until that leader's lease is over."""

    def start(self, now: Instant) -> None:
        super().start(now)
        self.voter.bound_until = 0


class LeaseOfAnyNumber(Pole):
    """Acts on grants, however old: no majority need be bound any more."""

    def leads(self, now: Instant) -> bool:
        return self.is_leader


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
