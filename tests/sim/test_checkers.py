"""The checkers find nothing in the machine as it is, and something in each of its mutants."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from broken import as_mutant
from msgspec.structs import replace
from storms import SEEDS

from doyen.core.clock import Instant, ms, seconds
from doyen.core.host import Port
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import Announcement, AskingEnds, Bye, SilenceIsNoticed, Status, WakeUp
from doyen.sim.churn import ChurnConfig, ChurnEvent, RandomChurn
from doyen.sim.network import Delay, Loss, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.scenario import Scenario, from_line, simulate, to_line
from doyen.sim.scenario.run import configured_faults
from doyen.sim.scenario.schema import Clocks, Group, RunConfig
from doyen.sim.scenario.shrink import shrink
from doyen.sim.topology import TopologyConfig
from doyen.sim.world import Tamper

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
    for seed in range(SEEDS // len(VARIANTS)):
        result = simulate(scenario, seed)
        line = to_line(replace(scenario, run=replace(scenario.run, seed=seed)))
        assert not result.violations, f"doyen sim replay '{line}'"


def test_one_of_two_leaders_may_be_corrected_an_announcement_later() -> None:
    """Decision 5: it is steady within the stated time, and would not be within that of one leader."""
    scenario = VARIANTS["le-m, k leaders"]()
    assert simulate(scenario, 327).violations == []
    assert scenario.settling > EVERYTHING.settling > scenario.settling - ms(600)


def test_a_loss_that_is_told_before_its_election_is_no_term_from_nowhere() -> None:
    """A loss passes the disk that the election still waits for, and is told again after it (decision 1)."""
    assert simulate(VARIANTS["le-m, k leaders"](), 451).violations == []


def test_every_checker_really_looks() -> None:
    looked: Counter[str] = Counter()
    for seed in range(6):
        looked.update(simulate(replace(VARIANTS["le-m"](), clocks=Clocks()), seed).looked)
    assert all(looked.values()) and {"terms", "reigns", "unique", "existed", "inner", "incumbent"} < set(looked), looked


# ── Mutants ─────────────────────────────────────────────────────────────────────────────────────────────────


class AcceptsWorseClaims(Announce):
    __slots__ = ()

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        if isinstance(message, Announcement) and self.status in (Status.WAITING, Status.FOLLOWING) and self.claims:
            held = {node: standing for standing, node in self.claims}
            message = Announcement(message.term, max(message.standing, held.get(sender, self.claims[0][0] + 1)))
        super().on_message(sender, message, now)


class EqualityDoesNotRefresh(Announce):
    """As the chapter prints it."""

    __slots__ = ()

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        known = isinstance(message, Announcement) and sender in self.leaders
        if not known or message.term > self.term_number:
            super().on_message(sender, message, now)


class ForgetsToLiftTheTerm(Announce):
    """A new reign has the term seen last."""

    __slots__ = ()

    def on_timer(self, timer: Any, now: Instant) -> None:
        seen = self.term_number
        if isinstance(timer, WakeUp | AskingEnds) and not self.is_leader and seen:
            self.term_number = seen - 1
        super().on_timer(timer, now)
        if not self.is_leader:
            self.term_number = seen


class NeverRedrawsAfterExpiry(Announce):
    __slots__ = ()

    def on_timer(self, timer: Any, now: Instant) -> None:
        if not isinstance(timer, WakeUp) or timer.wait_no == 1:
            super().on_timer(timer, now)


class TermMayGoBack(Announce):
    __slots__ = ()

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        super().on_message(sender, message, now)
        if sender == self.leader:
            self.term_number = message.term


class DoesNotLiftItsWakeUp(Announce):
    """LE-M: a slow clock usurps."""

    __slots__ = ()

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        worse = isinstance(message, Announcement) and self.claim is not None and message.standing < self.claim[0]
        if not worse or self.is_leader:
            super().on_message(sender, message, now)


def keeps_quiet_about_its_loss(node: SimNode, channel: str, port: Port, machine: Any) -> Any:
    class KeepsQuiet(Announce):
        __slots__ = ()

        def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
            emit = port.emit
            port.emit = lambda fact: None if is_own_loss(fact) else emit(fact)
            super().on_message(sender, message, now)
            port.emit = emit

    def is_own_loss(fact: Any) -> bool:
        return isinstance(fact, LeaderLost) and fact.term.leader == node.name

    return as_mutant(KeepsQuiet)(node, channel, port, machine)


def tells_it_leads_before_it_does(node: SimNode, channel: str, port: Port, machine: Any) -> Any:
    set_timer = port.set_timer

    def tell_and_set(timer: Any, at: Instant) -> None:
        set_timer(timer, at)
        if isinstance(timer, WakeUp):
            port.emit(LeaderElected(Term(machine.term_number + 1, node.name)))

    port.set_timer = tell_and_set
    return machine


def loses_a_leader_it_still_names(node: SimNode, channel: str, port: Port, machine: Any) -> Any:
    class IgnoresByes(Announce):
        __slots__ = ()

        def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
            if isinstance(message, Bye) and sender in self.leaders:
                port.emit(LeaderLost(Term(message.term, sender), "left"))
            else:
                super().on_message(sender, message, now)

    return as_mutant(IgnoresByes)(node, channel, port, machine)


class NeverYields(Announce):
    """A leader that hears a better one goes on."""

    __slots__ = ()

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        if not self.is_leader:
            super().on_message(sender, message, now)


class NeverNoticesSilence(Announce):
    __slots__ = ()

    def on_timer(self, timer: Any, now: Instant) -> None:
        if not isinstance(timer, SilenceIsNoticed):
            super().on_timer(timer, now)


class InventsTerms(Announce):
    __slots__ = ()

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        if isinstance(message, Announcement) and sender not in self.leaders:
            message = Announcement(message.term + 1, message.standing)
        super().on_message(sender, message, now)


MUTANTS: dict[str, tuple[Tamper, str, set[str]]] = {  # The variant it shows in, and the checks that may kill it.
    "accepts worse claims": (as_mutant(AcceptsWorseClaims), "le-s", {"agreement", "steady"}),
    "equality does not refresh": (as_mutant(EqualityDoesNotRefresh), "le-s", {"steady", "agreement"}),
    "forgets to lift the term": (as_mutant(ForgetsToLiftTheTerm), "le-s", {"unique", "existed", "terms"}),
    "never redraws after expiry": (as_mutant(NeverRedrawsAfterExpiry), "le-s", {"agreement"}),
    "its term may go back": (as_mutant(TermMayGoBack), "le-s", {"terms"}),
    "does not lift its wake-up": (as_mutant(DoesNotLiftItsWakeUp), "le-m", {"incumbent"}),
    "keeps quiet about its loss": (keeps_quiet_about_its_loss, "le-s", {"reigns"}),
    "tells it leads before it does": (tells_it_leads_before_it_does, "le-s", {"reigns", "terms"}),
    "loses a leader it still names": (loses_a_leader_it_still_names, "le-s", {"reigns", "inner"}),
    "never yields": (as_mutant(NeverYields), "le-s", {"agreement"}),
    "never notices silence": (as_mutant(NeverNoticesSilence), "le-s", {"agreement"}),
    "invents terms": (as_mutant(InventsTerms), "le-s", {"existed"}),
}


def test_every_mutant_is_killed(tell: Callable[[str], None]) -> None:
    survivors, report = [], []
    for mutant, (tamper, variant, killers) in MUTANTS.items():
        scenario = VARIANTS[variant]()
        for seed in range(SEEDS_MAX):
            violations = simulate(scenario, seed, tamper=tamper).violations
            if violations:
                killed = f"killed by {violations[0].check} after {seed + 1} seeds"
                report.append(f"  {mutant:29} {killed}: {violations[0].text[:90]}")
                assert violations[0].check in killers, report[-1]
                break
        else:
            survivors.append(mutant)
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


def test_a_failing_run_is_made_smaller_and_its_line_fails_alike() -> None:
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


def test_a_machine_that_trips_over_its_own_assertion_is_a_violation() -> None:
    class Trips(Announce):
        __slots__ = ()

        def on_timer(self, timer: Any, now: Instant) -> None:
            raise AssertionError("cannot be")

    violation = simulate(Scenario(), tamper=as_mutant(Trips)).violations[0]
    assert violation.check == "machine" and "cannot be" in violation.text


def test_the_default_election_settings_are_those_of_the_machine() -> None:
    assert Group().machine_config() == AnnounceConfig()
