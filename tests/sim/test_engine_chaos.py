"""Chaos for elections that a store decides, and broken variants, each of which it must catch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken import as_mutant
from msgspec.structs import replace
from storms import check_caught, check_many, check_sample, of_size

from doyen.core.clock import Instant
from doyen.election.engine.machine import Engine
from doyen.election.engine.messages import Status, ToStore
from doyen.sim.folder import SimFolder
from doyen.sim.scenario import read_file

STORM = read_file(Path(__file__).parents[2] / "scenarios/engine_storm.toml")
SEEDS = range(20, 120)


@pytest.mark.parametrize(("nodes", "store_ms"), [(2, 8), (3, 0), (3, 12)])
def test_a_sample_of_seeds(nodes: int, store_ms: int) -> None:
    check_sample(of_size(STORM, nodes, store_ms))


@pytest.mark.soak
@pytest.mark.parametrize(("nodes", "store_ms"), [(2, 8), (3, 0), (3, 8), (3, 30), (5, 8)])
def test_many_seeds(nodes: int, store_ms: int) -> None:
    check_many(of_size(STORM, nodes, store_ms), nodes + store_ms)


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
    check_caught(STORM, as_mutant(kind), kind.__name__, SEEDS, tell)


def test_a_swap_that_does_not_compare_is_caught(monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]) -> None:
    sound = SimFolder.do

    def overwriting(self: SimFolder, step: Any) -> Any:
        return sound(self, replace(step, expected=self.record) if isinstance(step, ToStore) else step)

    monkeypatch.setattr(SimFolder, "do", overwriting)
    check_caught(STORM, None, "a swap that does not compare", SEEDS, tell)
