"""Agreement among enemies, theorems as checks, and mutants that must not survive.  [CTOL §V; reliability.md]"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from broken import as_mutant
from msgspec.structs import replace
from storms import SEEDS

from doyen.core.clock import Instant, ms, seconds
from doyen.core.ids import NodeId
from doyen.core.view import Member, Status
from doyen.election.churn.config import Variant
from doyen.election.churn.initiator import Initiator
from doyen.election.churn.machine import CTolerant
from doyen.election.churn.messages import Query, Record, Response
from doyen.election.churn.standpoint import Standpoint
from doyen.sim.churn import ChurnConfig, ChurnEvent
from doyen.sim.network import Delay, NetworkConfig
from doyen.sim.runs import run_many
from doyen.sim.scenario import Result, Scenario, read_file, replay_line, simulate
from doyen.sim.scenario.run import configured_faults
from doyen.sim.scenario.schema import Group, RunConfig
from doyen_papers.studies.weakviews import elect

VARIANTS: tuple[Variant, ...] = ("base", "optimistic", "preferred", "hybrid")
ADVERSITY = read_file(Path(__file__).parents[2] / "scenarios/adversity.toml")
SAMPLE, MUTANT_SEEDS = 15, 100


def with_variant(variant: Variant) -> Scenario:
    """Base and optimistic elect the lowest hash, as [CTOL Thm 1] has it; the others go by the default rank."""
    rank = {"rank": "hash"} if variant in ("base", "optimistic") else {}
    return replace(ADVERSITY, node={**ADVERSITY.node, "election": variant, **rank})


def judge(scenario: Scenario, results: list[Result]) -> None:
    failed = [result for result in results if result.violations or not result.agreed]
    assert not failed, f"{len(failed)} of {len(results)}:\n{replay_line(scenario, failed[0].seed)}"
    fired = {fault for fault in configured_faults(scenario) if any(result.faults[fault] for result in results)}
    assert fired == configured_faults(scenario)
    assert all(any(result.looked[check] for result in results) for check in results[0].looked)


@pytest.mark.parametrize("variant", VARIANTS)
def test_agreement_over_a_sample_of_adversarial_seeds(variant: Variant) -> None:
    scenario = with_variant(variant)
    judge(scenario, run_many(partial(simulate, scenario), SAMPLE, 1, jobs=1))


@pytest.mark.soak
@pytest.mark.parametrize("variant", VARIANTS)
def test_agreement_over_ten_thousand_adversarial_seeds(variant: Variant) -> None:
    scenario = with_variant(variant)
    judge(scenario, run_many(partial(simulate, scenario), SEEDS // len(VARIANTS), 2))


# ── Mutants ─────────────────────────────────────────────────────────────────────────────────────────────────


class Overwrite(CTolerant):
    """As the pseudo-code says: whatever LEADER comes last."""

    def accepts(self, record: Record) -> bool:
        return record != self.held


class LowestHash(CTolerant):
    """As the text says: the lowest hash, until it is lost."""

    def accepts(self, record: Record) -> bool:
        if self.held is None or self.leader is None or record.leader == self.held.leader:
            return super().accepts(record)
        return self.point.order(record.leader) < self.point.order(self.held.leader)


class NoFinalFlag(CTolerant):
    """Any LEADER will do."""

    def ends(self, record: Record) -> bool:
        return True


class _CountsAll(Initiator):
    __slots__ = ()

    def counts(self, response: Response) -> bool:
        return True


class NoAttemptNumber(CTolerant):
    def start(self, now: Instant) -> None:
        super().start(now)
        self.initiator.__class__ = _CountsAll


class _AliveOnly(Standpoint):
    __slots__ = ()

    def is_present(self, member: Member) -> bool:
        return member.status is Status.ALIVE


class SuspectedIsMissing(CTolerant):
    def start(self, now: Instant) -> None:
        super().start(now)
        self.point.__class__ = _AliveOnly


MUTANTS: dict[type[CTolerant], tuple[Variant, str]] = {  # The variant it shows in, and the check that kills it.
    Overwrite: ("base", "terms"),
    LowestHash: ("hybrid", "terms"),
    NoFinalFlag: ("hybrid", "record"),
    NoAttemptNumber: ("base", "answers"),
    SuspectedIsMissing: ("base", "passed over"),
}
FIRST_SEED = {NoFinalFlag: 130, NoAttemptNumber: 30, SuspectedIsMissing: 108}  # From 0 on they are caught as well.


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_variant_is_caught(mutant: type[CTolerant], tell: Callable[[str], None]) -> None:
    variant, killer = MUTANTS[mutant]
    for seed in range(first := FIRST_SEED.get(mutant, 0), first + MUTANT_SEEDS):
        violations = simulate(with_variant(variant), seed, tamper=as_mutant(mutant)).violations
        if violations:
            tell(f"mutant {mutant.__name__}: caught by seed {seed} ({violations[0].text[:80]})")
            assert violations[0].check == killer
            return
    pytest.fail(f"{mutant.__name__} survived {MUTANT_SEEDS} seeds")


class AnswersTwice(CTolerant):
    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        for _ in range(2 if isinstance(message, Query) else 1):
            super().on_message(sender, message, now)


def test_ctol_lemma_1_bounds_the_messages_of_a_calm_election_and_of_no_resignation() -> None:
    """Whoever resigns tells more members than it needs answers from that it does not wish to lead."""
    node = {"election": "base", "preset": "local", "ctolerant": {"missing_max": 1, "failure_max": 1}}
    resigns = ChurnEvent(do="resign", at=seconds(20), who=("leader",), lasting=seconds(5))
    scenario = Scenario(
        group=Group(nodes=8),
        node=node,
        network=NetworkConfig(delay=Delay(mean=ms(1))),
        churn=ChurnConfig(events=(resigns,)),
        run=RunConfig(length=seconds(70), quiet=seconds(45)),
    )
    results = [simulate(scenario, seed) for seed in range(4)]
    assert all(not result.violations and result.faults["resign"] for result in results)
    assert sum(result.looked["messages"] for result in results) > 1
    broken = [simulate(scenario, seed, tamper=as_mutant(AnswersTwice)).violations for seed in range(4)]
    assert {violation.check for violations in broken for violation in violations} == {"messages"}


# ── Theorems ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("variant", ["base", "optimistic"])
def test_ctol_theorem_1_safety_whoever_is_asked(variant: Variant) -> None:
    """The lowest is missing from exactly c views; whichever c+1 are asked, it is elected."""
    for seed in range(40):
        c = seed % 4
        lacking: dict[int, tuple[int, ...]] = dict.fromkeys(range(7 - c, 7), (0,))
        assert elect(lacking, size=8, c=c, variant=variant, seed=seed) == [0] * 8


def test_ctol_theorem_2_liveness_despite_f_dead() -> None:
    for variant in VARIANTS:
        assert elect({}, size=8, c=2, f=2, dead=(5, 6), variant=variant) == [0] * 5 + [None, None, 0]


def test_ctol_theorem_3_fewer_queries_elect_a_wrong_leader() -> None:
    """Only c+f are asked, f of them are dead, and the c left lack the lowest: with c = 2, f = 1."""
    lacking: dict[int, tuple[int, ...]] = {4: (0,), 5: (0,)}
    wrong = elect(lacking, size=8, c=1, f=1, dead=(6,), asked=(4, 5, 6))  # As if c+f = 3 sufficed.
    assert set(wrong) - {None} == {1}
    right = elect(lacking, size=8, c=2, f=1, dead=(6,), asked=(4, 5, 6, 3))
    assert set(right) - {None} == {0}


def test_ctol_theorem_3_c_exceeded_by_one_elects_a_wrong_leader() -> None:
    assert set(elect({3: (0,), 4: (0,), 5: (0,)}, size=8, c=2, asked=(3, 4, 5))) == {1}
