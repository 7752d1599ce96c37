"""The checkers find nothing in the machine as it is, and something in each of its mutants."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from doyen.core.clock import Duration, Instant, ms, seconds
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.announce import Announce, AnnounceConfig, Announcement, Status
from doyen.sim.churn import ChurnConfig, ChurnEvent, RandomChurn
from doyen.sim.network import Delay, Loss, NetworkConfig
from doyen.sim.scenario import Scenario, from_line, simulate, to_line
from doyen.sim.scenario.run import configured_faults
from doyen.sim.scenario.schema import Clocks, Group, RunConfig
from doyen.sim.scenario.shrink import shrink
from doyen.sim.topology import TopologyConfig

SEEDS_MAX = 30

CHURN = RandomChurn(
    crash_rate=6,
    leave_rate=2,
    join_rate=2,
    pause_rate=6,
    slow_rate=3,
    partition_rate=3,
    block_rate=5,
    cut_rate=3,
    clog_rate=3,
    clock_rate=3,
    disk_lost_prob=0.3,
)
ROUGH = NetworkConfig(
    delay=Delay(mean=ms(20)),
    loss=Loss(model="uncorrelated", prob=0.1),
    duplicate_prob=0.1,
    reorder_prob=0.1,
    corrupt_prob=0.05,
)
EVERYTHING = Scenario(
    group=Group(nodes=6, durable_terms=True),
    network=ROUGH,
    churn=ChurnConfig(events=(ChurnEvent(do="crash", at=seconds(25), who=("leader",)),), random=CHURN),
    clocks=Clocks(offset_max=seconds(2), drift_max=1e-3),
    run=RunConfig(length=seconds(50), quiet=seconds(20)),
)


def with_group(scenario: Scenario, **changes: Any) -> Scenario:
    return replace(scenario, group=replace(scenario.group, **changes))


def with_election(scenario: Scenario, **changes: Any) -> Scenario:
    return with_group(scenario, election=replace(scenario.group.election, **changes))


VARIANTS: dict[str, Callable[[], Scenario]] = {
    "le-s": lambda: EVERYTHING,
    "le-a": lambda: with_election(EVERYTHING, suppress_interval=0),
    "le-m": lambda: with_group(EVERYTHING, rank="wake-up"),
    "k leaders": lambda: with_election(EVERYTHING, leader_count=3),
    "le-m, k leaders": lambda: with_election(with_group(EVERYTHING, rank="wake-up"), leader_count=2),
    "query": lambda: with_election(EVERYTHING, query_timeout=ms(200)),
    "observers": lambda: with_group(EVERYTHING, observer_count=2),
    "ageing": lambda: with_election(EVERYTHING, ageing_after=seconds(2)),
    "no bye": lambda: with_election(EVERYTHING, bye_target_prob=0.0),
    "load rank, likely map": lambda: with_election(with_group(EVERYTHING, rank="load"), rank_map="likely"),
    "delay rank on a grid": lambda: replace(
        with_group(EVERYTHING, rank="delay"), topology=TopologyConfig(shape="grid")
    ),
    "slow disks that are kept": lambda: replace(
        EVERYTHING,
        churn=replace(EVERYTHING.churn, random=replace(CHURN, disk_lost_prob=0.0)),
        run=replace(EVERYTHING.run, disk_delay=ms(300)),
    ),
    "nothing durable": lambda: with_group(EVERYTHING, durable_terms=False),
    "ring": lambda: replace(EVERYTHING, topology=TopologyConfig(shape="ring")),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_under_all_faults_at_once_nothing_is_violated_and_all_agree_afterwards(variant: str) -> None:
    scenario, fired = VARIANTS[variant](), set()
    for seed in range(6):
        result = simulate(scenario, seed)
        line = to_line(replace(scenario, run=replace(scenario.run, seed=seed)))
        assert not result.violations, f"doyen sim replay '{line}'"
        fired |= {name for name, count in result.faults.items() if count}
    assert configured_faults(scenario) <= fired, "a configured fault never fired"


@pytest.mark.soak
@pytest.mark.parametrize("variant", VARIANTS)
def test_soak_under_all_faults_nothing_is_violated(variant: str) -> None:
    scenario = VARIANTS[variant]()
    for seed in range(300):
        result = simulate(scenario, seed)
        line = to_line(replace(scenario, run=replace(scenario.run, seed=seed)))
        assert not result.violations, f"doyen sim replay '{line}'"


def test_every_checker_really_looks() -> None:
    looked: Counter[str] = Counter()
    for seed in range(6):
        looked.update(simulate(replace(VARIANTS["le-m"](), clocks=Clocks()), seed).looked)
    assert all(looked.values()) and {"terms", "reigns", "unique", "existed", "inner", "incumbent"} < set(looked), looked


# ── Mutants ─────────────────────────────────────────────────────────────────────────────────────────────────


class AcceptsWorseClaims(Announce):
    __slots__ = ()

    def _hear_worse(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        if self.status in (Status.WAITING, Status.FOLLOWING):
            self._admit(sender, message, now)
        else:
            super()._hear_worse(sender, message, now)


class EqualityDoesNotRefresh(Announce):
    """As the chapter prints it."""

    __slots__ = ()

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        if (
            message.__class__ is Announcement
            and sender in self._heard
            and message.term <= self._heard[sender].said.term
        ):
            return
        super().on_message(sender, message, now)


class ForgetsToLiftTheTerm(Announce):
    __slots__ = ()

    def _announce(self, now: Instant) -> None:
        if self._mine is None and self.term_number > 0:
            self.term_number -= 1  # What `super` adds: a new reign under the term seen last.
        super()._announce(now)


class NeverRedrawsAfterExpiry(Announce):
    __slots__ = ()

    def _take_back(self, now: Instant, spread: Duration) -> None:
        pass


class TermMayGoBack(Announce):
    __slots__ = ()

    def _admit(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        super()._admit(sender, message, now)
        self.term_number = message.term


class DoesNotLiftItsWakeUp(Announce):
    """LE-M: a slow clock usurps."""

    __slots__ = ()

    def _become_waiting(self, now: Instant, spread: Duration) -> None:
        self._floor = 2**62
        super()._become_waiting(now, spread)

    def _hear_worse(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        if message.term >= self.term_number:
            self.term_number = message.term
            self._lift = self._mine is not None


class KeepsQuietAboutItsLoss(Announce):
    __slots__ = ()

    def _become_follower(self, reason: str) -> None:
        self._mine = None
        super()._become_follower(reason)


class TellsItLeadsBeforeItDoes(Announce):
    __slots__ = ()

    def _become_waiting(self, now: Instant, spread: Duration) -> None:
        super()._become_waiting(now, spread)
        self._out.emit(LeaderElected(Term(self.term_number + 1, self.me)))


class IgnoresByes(Announce):
    """Loses a leader it still names."""

    __slots__ = ()

    def _drop(self, node: NodeId, reason: str) -> None:
        if reason == "left":
            self._out.emit(LeaderLost(self._heard[node].told, reason))
        else:
            super()._drop(node, reason)


class NeverYields(Announce):
    """A leader that hears a better one goes on."""

    __slots__ = ()

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        if not self.is_leader:
            super().on_message(sender, message, now)


class ForgetsWhenItHeard(Announce):
    """Never notices that a leader fell silent."""

    __slots__ = ()

    def _keep_listening(self) -> None:
        pass


class InventsTerms(Announce):
    __slots__ = ()

    def _admit(self, sender: NodeId, message: Announcement, now: Instant) -> None:
        super()._admit(sender, Announcement(message.term + 1, message.standing), now)


MUTANTS: dict[type[Announce], tuple[str, set[str]]] = {  # The variant it shows in, and the checks that may kill it.
    AcceptsWorseClaims: ("le-s", {"agreement", "steady"}),
    EqualityDoesNotRefresh: ("le-s", {"steady", "agreement"}),
    ForgetsToLiftTheTerm: ("le-s", {"unique", "existed", "terms"}),
    NeverRedrawsAfterExpiry: ("le-s", {"agreement"}),
    TermMayGoBack: ("le-s", {"terms"}),
    DoesNotLiftItsWakeUp: ("le-m", {"incumbent"}),
    KeepsQuietAboutItsLoss: ("le-s", {"reigns"}),
    TellsItLeadsBeforeItDoes: ("le-s", {"reigns", "terms"}),
    IgnoresByes: ("le-s", {"reigns", "inner"}),
    NeverYields: ("le-s", {"agreement"}),
    ForgetsWhenItHeard: ("le-s", {"agreement"}),
    InventsTerms: ("le-s", {"existed"}),
}


def test_every_mutant_is_killed(tell: Callable[[str], None], as_mutant: Any) -> None:
    survivors, report = [], []
    for mutant, (variant, killers) in MUTANTS.items():
        scenario = VARIANTS[variant]()
        for seed in range(SEEDS_MAX):
            violations = simulate(scenario, seed, tamper=as_mutant(mutant)).violations
            if violations:
                killed = f"killed by {violations[0].check} after {seed + 1} seeds"
                report.append(f"  {mutant.__name__:26} {killed}: {violations[0].text[:90]}")
                assert violations[0].check in killers, report[-1]
                break
        else:
            survivors.append(mutant.__name__)
    tell("\n".join([f"mutants: {len(MUTANTS) - len(survivors)} of {len(MUTANTS)} killed", *report]))
    assert not survivors


def test_le_5_7_suppression_by_receipt_elects_several_or_nobody_and_is_caught() -> None:
    base = with_group(
        Scenario(network=NetworkConfig(loss=Loss(model="uncorrelated", prob=0.6))), protocol="sup-al-receipt"
    )
    found = [violation for seed in range(20) for violation in simulate(base, seed).violations]
    assert {violation.check for violation in found} == {"agreement"}
    assert any(violation.text.endswith("nobody acts") for violation in found)
    first_round = replace(base, run=RunConfig(length=seconds(1), quiet=0))
    assert any(len(simulate(first_round, seed).acting) > 1 for seed in range(20))


# ── Shrinking ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failing_run_is_made_smaller_and_its_line_fails_alike(as_mutant: Any) -> None:
    events = tuple(ChurnEvent(do="crash", at=seconds(at), who=("leader",), lasting=seconds(3)) for at in (5, 12, 19))
    scenario = replace(EVERYTHING, churn=ChurnConfig(events=events, random=CHURN))

    def fails(candidate: Scenario) -> str | None:
        violations = simulate(candidate, tamper=as_mutant(NeverRedrawsAfterExpiry)).violations
        return violations[0].check if violations else None

    scenario = next(s for seed in range(20) if fails(s := replace(scenario, run=replace(scenario.run, seed=seed))))
    shrunk = shrink(scenario, fails)
    assert shrunk is not None and shrunk.check == "agreement"
    small = shrunk.scenario
    assert small.group.nodes <= 3 and len(small.churn.events) <= 1 and small.run.length < scenario.run.length
    assert fails(from_line(to_line(small))) == "agreement"


def test_what_does_not_fail_is_not_shrunk() -> None:
    assert shrink(Scenario(), lambda scenario: None) is None


def test_a_machine_that_trips_over_its_own_assertion_is_a_violation(as_mutant: Any) -> None:
    class Trips(Announce):
        __slots__ = ()

        def _wake(self, now: Instant) -> None:
            raise AssertionError("cannot be")

    violation = simulate(Scenario(), tamper=as_mutant(Trips)).violations[0]
    assert violation.check == "machine" and "cannot be" in violation.text


def test_the_default_election_settings_are_those_of_the_machine() -> None:
    assert Group().machine_config() == AnnounceConfig()
