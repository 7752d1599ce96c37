"""The theorems of [ARB] as items: each must be a miss where the machine is broken, also if only some members are."""

from contextlib import nullcontext
from random import Random
from typing import Any

import pytest

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.membership.ring import geometry
from doyen.membership.ring.admission import Admission
from doyen.membership.ring.arbitrator import Arbitrator, Judgement
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import Verdict
from doyen.membership.ring.pair import Pair
from doyen_papers.analysis.arbitration import arbitrator_sets, arbitrator_sets_bound
from doyen_papers.papers import paper
from doyen_papers.papers.arb import theorems
from doyen_papers.papers.arb.loads import apart, busiest, drawn, requests_around
from doyen_papers.papers.item import Budget
from doyen_papers.papers.running import expected_of, reproduce
from doyen_papers.studies.ring_theorems import NODES


def missed(name: str, runs: int = 8) -> set[str]:
    """Run one item, and return its cells that are misses and not expected to be."""
    found = paper("arb")
    items = [item for item in found.items if item.id == f"arb/{name}"]
    budget = Budget(runs=runs, seed=1, jobs=1, engine="machine")
    (done,) = reproduce(found, items, expected_of(found), budget, lambda what, total: nullcontext(lambda runs: None))
    assert done.cells
    return {cell.where for cell in done.misses if not cell.explained}


def is_odd(node: NodeId) -> bool:
    return node[-1] in "13579"


LIMITS = ("longest", "shortest")
SOUND = ("theorem1", "theorem2", "theorem3", "theorem4", "theorem5", "theorem6", "theorem7", "theorem8")


@pytest.mark.parametrize("name", [*SOUND, "corollary1", "corollary2", "corollary3", "overhead"])
def test_a_sound_ring_keeps_every_theorem(name: str) -> None:
    assert missed(name, 3) == set()


def test_theorem_1_is_missed_where_upgrades_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arbitration, "reflect", lambda *_: None)
    assert len(missed("theorem1", 2)) == 2


def test_theorems_2_and_5_are_missed_where_some_monitors_never_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    suspect = Arbitration._suspect

    def deaf(self: Arbitration, *more: Any) -> None:
        if not is_odd(self.seat.node):
            suspect(self, *more)

    monkeypatch.setattr(Arbitration, "_suspect", deaf)
    assert len(missed("theorem2", 3)) == 4
    assert len(missed("theorem5", 3)) == 2


def test_theorem_3_is_missed_where_some_ack_whom_they_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the other side's lease never times out, and there is no second timeout at all in these runs."""
    may_ack = Arbitration.may_ack

    def acks(self: Arbitration, pair: Pair) -> bool:
        return is_odd(self.seat.node) or may_ack(self, pair)

    monkeypatch.setattr(Arbitration, "may_ack", acks)
    wanted = {f"{arbiters}: first timeout to the second, {end}" for arbiters in theorems.BOTH for end in LIMITS}
    assert missed("theorem3") >= wanted


def test_theorem_4_and_corollary_2_are_missed_where_both_are_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arbitrator, "judge", lambda *_: Judgement(Verdict.ACCEPT))
    assert missed("theorem4") == {"pairwise: suspicion to departure, longest"}  # The central group has its own memory.
    assert len(missed("corollary2", 4)) == 2


@pytest.mark.parametrize(("leases", "end"), [(1, "shortest"), (3, "longest")])
def test_corollary_3_is_missed_where_the_wait_is_another(
    leases: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArbitrationConfig, "recent", property(lambda self: leases * self.lease))
    assert missed("corollary3", 2) == {f"{arbiters}: suspicion to recovery, {end}" for arbiters in theorems.BOTH}


def test_theorem_7_is_missed_where_nobody_keeps_its_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(self: Admission, *more: Any) -> bool:
        return True

    monkeypatch.setattr(Admission, "_is_free", always)
    monkeypatch.setattr(Admission, "admits", always)
    assert missed("theorem7") == {"violations of consistency"}


def test_theorem_8_is_missed_where_a_phase_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    from doyen.membership.ring.join import SLOT_OVER, Joiner

    on_step = Joiner.on_step
    waited: set[int] = set()

    def late(self: Joiner, timer: Any, now: Instant, out: Any) -> None:
        if timer.step == SLOT_OVER and timer.phase == 2 and id(self) not in waited:
            waited.add(id(self))
            out.set_timer(timer, now + self._config.lease // 10)
        else:
            on_step(self, timer, now, out)

    monkeypatch.setattr(Joiner, "on_step", late)
    assert missed("theorem8", 2) == {"after phase 1, longest"}


def test_the_groups_of_a_node_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the printed bound there are 72 at most; a count of larger groups is another number."""
    assert theorems.groups_of_a_node() == arbitrator_sets(3) < arbitrator_sets_bound(3)
    everybody = frozenset(geometry.seat(NodeId(f"n{i:02d}")) for i in range(NODES))
    monkeypatch.setattr(theorems, "group", lambda *_: everybody)
    assert missed("overhead", 2) == {"groups that a node is in"}


def test_the_band_of_the_busiest_node_is_computed_from_the_ring_and_not_from_our_runs() -> None:
    around = requests_around(3)
    assert around.total() == 54 and around[0] == around[3] == 6 and (around[4], around[5], around[6]) == (3, 2, 1)
    found = drawn(4000)
    expect = expected_of(paper("arb")).of("arb/fig9", "DA, worst node")
    assert expect is not None and expect.published == 24
    assert expect.tolerance == apart(found, 0.99) < 21
    assert 26 < sum(found) / len(found) < 27


def test_a_load_that_is_asked_twice_or_that_few_carry_is_out_of_the_band() -> None:
    twice = [2 * most for most in drawn(200)]
    few = [busiest(Random(seed), nodes=200) for seed in range(20)]
    for values in (twice, few):
        assert sum(abs(most - 24) > 15 for most in values) > 0.8 * len(values)
