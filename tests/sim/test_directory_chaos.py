"""Chaos for elections by a shared directory, and broken variants, each of which it must catch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken import as_mutant
from broken_directories import BROKEN
from storms import check_caught, check_many, check_sample, of_size

from doyen.election.directory.machine import Directory
from doyen.election.directory.steps import Link, Replace, Step
from doyen.sim.folder import SimFolder
from doyen.sim.scenario import read_file

STORM = read_file(Path(__file__).parents[2] / "scenarios/directory_storm.toml")
SEEDS = range(20, 120)


@pytest.mark.parametrize(("nodes", "disk_ms"), [(2, 8), (3, 0), (3, 12)])
def test_a_sample_of_seeds(nodes: int, disk_ms: int) -> None:
    check_sample(of_size(STORM, nodes, disk_ms))


@pytest.mark.soak
@pytest.mark.parametrize(("nodes", "disk_ms"), [(2, 8), (3, 0), (3, 8), (3, 12), (5, 8)])
def test_many_seeds(nodes: int, disk_ms: int) -> None:
    check_many(of_size(STORM, nodes, disk_ms), nodes + disk_ms)


# Broken variants.


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_variant_is_caught(kind: type[Directory], tell: Callable[[str], None]) -> None:
    check_caught(STORM, as_mutant(kind), kind.__name__, SEEDS, tell)


def test_a_claim_that_overwrites_is_caught(monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]) -> None:
    sound = SimFolder.do

    def overwriting(self: SimFolder, step: Step) -> Any:
        return sound(self, Replace(step.name, step.data) if isinstance(step, Link) else step)

    monkeypatch.setattr(SimFolder, "do", overwriting)
    check_caught(STORM, None, "a claim that overwrites", SEEDS, tell)
