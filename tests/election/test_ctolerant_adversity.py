"""Agreement among enemies, theorems as checks, and mutants that must not survive.  [CTOL §V; reliability.md]"""

from collections.abc import Callable
from typing import Any

import pytest

from doyen.core.view import Member, Status
from doyen.election.ctolerant.config import Variant
from doyen.election.ctolerant.initiator import Initiator
from doyen.election.ctolerant.machine import CTolerant
from doyen.election.ctolerant.messages import Record, Response
from doyen.election.ctolerant.standpoint import Standpoint
from doyen.sim.runs import run_many
from doyen_papers.studies import adversity
from doyen_papers.studies.adversity import VARIANTS
from doyen_papers.studies.weakviews import elect

SAMPLE, SOAK, MUTANT_SEEDS = 300, 10_000, 400


def judge(outcomes: list[adversity.Outcome]) -> None:
    failed = [outcome for outcome in outcomes if outcome.complaint is not None]
    assert not failed, f"{len(failed)} of {len(outcomes)}:\n" + adversity.describe(failed[0])
    for fault in ("reorder", "loss", "duplicate", "crash", "rejoin", "initiator crash", "false removal"):
        assert sum(outcome.faults.get(fault, 0) for outcome in outcomes) > len(outcomes) / 20, f"{fault} never fires"


def test_agreement_over_a_sample_of_adversarial_seeds() -> None:
    judge(run_many(adversity.run, SAMPLE, 1))


@pytest.mark.soak
def test_agreement_over_ten_thousand_adversarial_seeds() -> None:
    judge(run_many(adversity.run, SOAK, 2))


def test_the_same_seed_is_the_same_run() -> None:
    assert adversity.run(7) == adversity.run(7)


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
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.initiator.__class__ = _CountsAll


class _AliveOnly(Standpoint):
    __slots__ = ()

    def is_present(self, member: Member) -> bool:
        return member.status is Status.ALIVE


class SuspectedIsMissing(CTolerant):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.point.__class__ = _AliveOnly


@pytest.mark.parametrize("mutant", [Overwrite, LowestHash, NoFinalFlag, NoAttemptNumber, SuspectedIsMissing])
def test_a_broken_variant_is_caught(mutant: type[CTolerant], tell: Callable[[str], None]) -> None:
    for count in range(1, MUTANT_SEEDS + 1):
        outcome = adversity.run(count - 1, build=mutant)
        if outcome.complaint is not None:
            tell(f"mutant {mutant.__name__}: caught after {count} seeds ({outcome.complaint[:80]})")
            return
    pytest.fail(f"{mutant.__name__} survived {MUTANT_SEEDS} seeds")


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
