"""Partial links, wills, batons and replaced voters among all faults; broken variants, each of which must be caught."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from broken import as_mutant
from broken_voters import (
    AskedIsAnswered,
    PendingIsAGrant,
    WillIsNoPromiseToStop,
    WillNotBoundToItsTerm,
    WillOfAnybody,
)
from msgspec.structs import replace
from storms import SEEDS

from doyen.core.clock import Instant, ms, seconds
from doyen.core.commands import PassOn
from doyen.core.ids import NodeId
from doyen.core.leadership import BatonPassed
from doyen.election.pole.charter import Keeper, Register
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import Charter, HeartbeatAck, Status
from doyen.election.pole.promise import Voter
from doyen.sim.churn import ChurnEvent, RandomChurn
from doyen.sim.runs import run_many
from doyen.sim.scenario import Result, Scenario, read_file, replay_line, simulate
from doyen.sim.scenario.run import configured_faults
from doyen.sim.wills import Wills

STORM: Final = read_file(Path(__file__).parents[2] / "scenarios/charter_storm.toml")
SEEDS_MAX: Final = 200
NEW: Final = {
    "graph",
    "block",
    "will",
    "old-will",
    "voters",
    "baton",
    "crash",
    "disk lost",
    "pause",
    "loss",
    "duplicate",
}
NEVER_HERE: Final = {"failover", "led"}  # Checkers of stated times: they look where nothing is lost or late.


def storm(voters: int, spares: int, disk_ms: int = 30) -> Scenario:
    random = replace(STORM.churn.random, disk_lost_max=(voters - 1) // 2)
    return replace(
        STORM,
        group=replace(STORM.group, nodes=voters + spares),
        node=STORM.node | {"voters": [f"n{index}" for index in range(voters)]},
        churn=replace(STORM.churn, random=random),
        run=replace(STORM.run, disk_delay=ms(disk_ms)),
    )


def aimed(spares: int, *events: dict[str, Any], length_s: int = 36, **rates: float) -> Scenario:
    """Return three voters with these faults alone, one after the other, instead of the storm's by chance."""
    planned = tuple(ChurnEvent(**event) for event in events)
    churn = replace(STORM.churn, events=planned, random=replace(RandomChurn(), **rates))
    plan, loss = storm(3, spares, 5), replace(STORM.network.loss, prob=0.2)
    run = replace(plan.run, length=seconds(length_s), quiet=seconds(8))
    return replace(plan, churn=churn, network=replace(plan.network, loss=loss), run=run)


def every(do: str, every_ms: int, at_ms: int, who: tuple[str, ...], lasting_ms: int) -> dict[str, Any]:
    return {"do": do, "every": ms(every_ms), "at": ms(at_ms), "who": who, "lasting": ms(lasting_ms)}


# One is left behind; then the leader is killed, and its will comes while that one catches up.
LEFT_BEHIND: Final = aimed(
    0, every("partition", 2500, 2000, ("random",), 1250), every("will", 2500, 3200, ("leader",), 800), baton_rate=400.0
)
# The leader and one other are cut off while voters are changed, for longer than a lease, which outlasts a roll call.
CUT_IN_TWO: Final = replace(
    (cut := aimed(2, every("partition", 4000, 2000, ("leader", "random"), 2500), voters_rate=300.0, baton_rate=60.0)),
    node=cut.node | {"pole": cut.node["pole"] | {"lease": "1500ms"}},
)
# What the leader wrote comes late, when the next one has written something else.
LATE: Final = replace(
    aimed(0, every("will", 2500, 2000, ("leader",), 500), baton_rate=900.0),
    network=replace(LEFT_BEHIND.network, reorder_prob=0.3, reorder_by=ms(1500)),
)
# The first leader is cut off when it hands on the first baton ever; the second one, which never saw it, is killed.
FIRST_EVER: Final = aimed(
    0,
    {"do": "partition", "at": ms(2000), "who": ("leader",), "lasting": ms(2500)},
    {"do": "baton", "at": ms(2030), "who": ("leader",)},
    {"do": "crash", "at": ms(6000), "who": ("leader",), "lasting": ms(2000)},
    length_s=16,
)
# A leader is cut off when it alone has its last baton; the next is cut off as soon as it acts; then the first is back.
LEADS_AGAIN: Final = aimed(
    0,
    {"do": "baton", "at": ms(1500), "who": ("leader",)},
    {"do": "partition", "at": ms(2000), "who": ("leader",), "lasting": ms(1500)},
    {"do": "baton", "at": ms(2010), "who": ("leader",)},
    {"do": "partition", "at": ms(2520), "every": ms(5), "until": ms(3400), "who": ("leader",), "lasting": ms(3000)},
    length_s=14,
)

# Voters are replaced, now and then the leader, which is never without a baton to hand on.
NEVER_WITHOUT_A_BATON: Final = replace(
    (busy := aimed(2, length_s=24, voters_rate=60.0, baton_rate=3000.0)), run=replace(busy.run, disk_delay=ms(60))
)


def test_the_file_is_what_is_run() -> None:
    assert storm(5, 2) == STORM


def check(plan: Scenario, results: Iterable[Result]) -> Counter[str]:
    """Check runs one by one, and that no fault and no checker stayed at zero over all of them; return the counts."""
    fired, looked = Counter[str](), Counter[str]()
    for result in results:
        assert not result.violations, replay_line(plan, result.seed)
        assert result.agreed, replay_line(plan, result.seed)
        fired.update(result.faults)
        looked.update(dict.fromkeys(result.looked, 0) | result.looked)
    assert configured_faults(plan) >= NEW
    assert all(fired[fault] for fault in (*configured_faults(plan), "skewed clock", "cut off")), fired
    assert looked and all(looked[name] or name in NEVER_HERE for name in looked), looked
    return fired


@pytest.mark.parametrize(("voters", "spares", "disk_ms"), [(3, 2, 0), (5, 2, 30)])
def test_a_sample_of_seeds_in_which_every_fault_fires(voters: int, spares: int, disk_ms: int) -> None:
    plan = storm(voters, spares, disk_ms)
    fired = check(plan, (simulate(plan, 2_000_000 + seed) for seed in range(10)))
    assert fired["baton"] > 30 and fired["voters"] > 10 and fired["will"] > 5


@pytest.mark.parametrize("seed", [4, 8])
def test_a_leader_that_has_removed_itself_does_not_lead_on_while_batons_come(seed: int) -> None:
    found = simulate(NEVER_WITHOUT_A_BATON, seed)
    assert not found.violations and found.agreed
    assert found.looked["voters"] > 3, "the leader was among those that were replaced"


@pytest.mark.soak
@pytest.mark.parametrize(("voters", "spares"), [(3, 2), (5, 2), (7, 1)])
def test_ten_thousand_seeds(voters: int, spares: int) -> None:
    """`DOYEN_SEEDS` sets how many there are."""
    for disk_ms in (0, 2, 30, 150):
        plan = storm(voters, spares, disk_ms)
        check(plan, run_many(partial(simulate, plan), max(10, SEEDS // 12), voters + disk_ms))


# Broken variants.


class OldVotersForgottenDuringAChange(Register):
    """Joint majority forgotten: goes from the old voters to the new ones in one step."""

    def next(self, newest: Charter, *, bound: Collection[NodeId]) -> Charter | None:
        charter = super().next(newest, bound=bound)
        if charter is not None and charter.electorate.earlier:
            electorate = Electorate(charter.number, charter.electorate.voters)
            self.written = charter = Charter.of(charter.epoch, charter.serial, charter.baton, electorate)
        return charter


class ActsBeforeItHasCommittedAgain(Register):
    """The newest charter is used as it was found."""

    def may_act(self, newest: Charter) -> bool:
        return True


class WritesBeforeTheLastIsCommitted(Register):
    """A change begins, and goes on, before the step before it is committed."""

    def next(self, newest: Charter, *, bound: Collection[NodeId]) -> Charter | None:
        if self.written is not None:
            self.committed = True
        return super().next(newest, bound=newest.electorate.names)


class NothingCommittedBeforeTheFirstBaton(Register):
    def next(self, newest: Charter, *, bound: Collection[NodeId]) -> Charter | None:
        charter = super().next(newest, bound=bound)
        if charter is not None and charter.serial == 0 and newest.stamp == (0, 0):
            self.committed = True
            return super().next(charter, bound=bound)
        return charter


class CommittedByOne(Register):
    def stored(self, voter: NodeId, stamp: tuple[int, int]) -> tuple[int, ...] | None:
        if self.written is not None:
            for name in self.written.electorate.names:
                passed = super().stored(name, stamp)
                if passed is not None:
                    return passed
        return None


class OverlooksANewerCharter(Keeper):
    """A claimant counts a grant although the voter that gave it has a newer charter."""

    def counts(self, sender: NodeId, ack: HeartbeatAck) -> bool:
        return True


class CharterNotDurable(Voter):
    def store(self, charter: Charter) -> bool:
        if charter.stamp <= self.stamp:
            return False
        self.promise = replace(self.promise, charter=charter)
        return True


class BatonFromADeposedLeader(Voter):
    """A later write of an earlier leader wins, as charters are ordered by serial first."""

    def store(self, charter: Charter) -> bool:
        if charter.stamp < self.stamp and charter.serial > self.stamp[1]:
            self.promise = replace(self.promise, charter=None)
        return super().store(charter)


class VotersAsConfigured(Pole):
    """The configured voters win over the durable ones."""

    def use_electorate(self) -> None:
        pass


class RemovedVoterStillCounted(Register):
    """A leader's lease depends on the voters that there were when it began, whoever was removed since."""

    def stored(self, voter: NodeId, stamp: tuple[int, int]) -> tuple[int, ...] | None:
        before = self.leased_by
        passed = super().stored(voter, stamp)
        self.leased_by = before or self.leased_by
        return passed

    def next(self, newest: Charter, *, bound: Collection[NodeId]) -> Charter | None:
        before = self.leased_by
        charter = super().next(newest, bound=bound)
        self.leased_by = before or self.leased_by
        return charter


class WillSentWhileTheCommandLives(Pole):
    """It is the keeper that is broken."""


class PassedOnBeforeItIsWritten(Pole):
    """`pass_on` returns at once."""

    def write_baton(self, command: PassOn, now: Instant) -> None:
        super().write_baton(command, now)
        self.out.emit(BatonPassed((command.number,)))


class StaysAfterRemovingItself(Pole):
    """A leader that is no voter any longer leads on, by the others' answers."""

    @property
    def voting(self) -> bool:
        return self.status is Status.LEADING or super().voting


def broken(part: type[Any]) -> type[Pole]:
    """Return a machine that has this part in place of the sound one."""
    if issubclass(part, Pole):
        return part

    class Broken(Pole):
        def start(self, now: Instant) -> None:
            for sound in (self.keeper.register, self.keeper, self.voter, self.reign):
                if issubclass(part, type(sound)):
                    sound.__class__ = part
            super().start(now)

    return Broken


STORMS: Final = (storm(3, 2), storm(5, 2))
QUICK: dict[type[Any], tuple[Scenario, ...]] = {
    CommittedByOne: STORMS,
    CharterNotDurable: STORMS,
    VotersAsConfigured: STORMS,
    OverlooksANewerCharter: (LEFT_BEHIND,),
    PassedOnBeforeItIsWritten: STORMS,
    WillNotBoundToItsTerm: STORMS,
    WillIsNoPromiseToStop: STORMS,
    WillSentWhileTheCommandLives: STORMS,
    AskedIsAnswered: STORMS,
    StaysAfterRemovingItself: (CUT_IN_TWO,),
    NothingCommittedBeforeTheFirstBaton: (FIRST_EVER,),
    ActsBeforeItHasCommittedAgain: (LEADS_AGAIN,),
}
SLOW: dict[type[Any], tuple[Scenario, ...]] = {  # Five to fifteen seeds each; the last two tens.
    RemovedVoterStillCounted: (CUT_IN_TWO,),
    WritesBeforeTheLastIsCommitted: (CUT_IN_TWO,),
    OldVotersForgottenDuringAChange: (CUT_IN_TWO,),
    BatonFromADeposedLeader: (LATE,),
    WillOfAnybody: STORMS,
    PendingIsAGrant: STORMS,
}


# Each is caught from seed 0 on as well, after 49, 22 and 12 seeds.
FIRST_SEED = {OverlooksANewerCharter: 46, StaysAfterRemovingItself: 20, VotersAsConfigured: 10}


@pytest.mark.parametrize(
    "part", [*QUICK, *(pytest.param(part, marks=pytest.mark.soak) for part in SLOW)], ids=lambda part: part.__name__
)
def test_a_broken_variant_is_caught(
    part: type[Any], monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]
) -> None:
    """Sound voters survive the very same run."""
    monkeypatch.setattr(Wills, "early", part is WillSentWhileTheCommandLives)
    plans = (QUICK | SLOW)[part]
    for seed in range(first := FIRST_SEED.get(part, 0), first + SEEDS_MAX):
        plan = plans[seed % len(plans)]
        violations = simulate(plan, seed, tamper=as_mutant(broken(part))).violations
        if violations:
            monkeypatch.undo()
            assert not simulate(plan, seed).violations
            tell(f"mutant {part.__name__}: caught by {violations[0].check} with seed {seed}")
            return
    pytest.fail(f"{part.__name__} survived {SEEDS_MAX} seeds")
