"""Two hosts and a witness in the storm: one of the two leads, the witness never."""

from pathlib import Path
from typing import Any

import pytest
from broken import as_mutant
from msgspec.structs import replace

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.election.pole.machine import Pole
from doyen.sim.scenario import Scenario, read_file, replay_line, simulate

STORM = read_file(Path(__file__).parents[2] / "scenarios/pole_storm.toml")


class NeverLeadsIfItOnlyVotes(Pole):
    """The sound machine, which stops the run if a voter that does not stand leads or names itself."""

    only_votes = False

    def start(self, now: Instant) -> None:
        self.only_votes = not self.stands
        super().start(now)

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        super().on_message(sender, message, now)
        self.judge()

    def on_timer(self, timer: Any, now: Instant) -> None:
        super().on_timer(timer, now)
        self.judge()

    def judge(self) -> None:
        assert not self.only_votes or (not self.is_leader and self.named != self.me), f"{self.me} leads"


class StandsAllTheSame(NeverLeadsIfItOnlyVotes):
    def start(self, now: Instant) -> None:
        self.only_votes, self.stands = not self.stands, True
        Pole.start(self, now)


def storm() -> Scenario:
    """Return the storm of the strong election with two that stand and one that does not; nobody loses its file."""
    random = replace(STORM.churn.random, disk_lost_prob=0.0)
    group = replace(STORM.group, nodes=3, observer_count=1)
    return replace(STORM, group=group, churn=replace(STORM.churn, random=random))


def test_one_of_the_two_leads_and_the_witness_never() -> None:
    plan, leaders = storm(), set()
    for seed in range(12):
        result = simulate(plan, seed, tamper=as_mutant(NeverLeadsIfItOnlyVotes))
        assert not result.violations, (result.violations, replay_line(plan, seed))
        assert result.agreed and result.leaders != ["n2"]
        leaders |= {*result.leaders}
    assert leaders == {"n0", "n1"}


def test_a_witness_that_stands_is_caught() -> None:
    for seed in range(30):
        if simulate(storm(), seed, tamper=as_mutant(StandsAllTheSame)).violations:
            return
    pytest.fail("it survived 30 seeds")
