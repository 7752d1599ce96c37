"""One run of a scenario, and what came of it."""

from collections.abc import Callable
from typing import Annotated

from msgspec import Struct

from doyen.core.config import Doc
from doyen.errors import LocalProtocolError
from doyen.sim.checkers import CHECKERS, Checker, Violation
from doyen.sim.churn import Churn
from doyen.sim.network import NetworkConfig
from doyen.sim.scenario.nodes import world_of
from doyen.sim.scenario.schema import Scenario
from doyen.sim.trace import Trace
from doyen.sim.world import Tamper, World

# What the network counts per message, where churn counts the event that caused it under the same name.
EFFECTS = {"cut": "cut off", "clog": "held up"}


class Broken(Struct, frozen=True):
    """A violated invariant."""

    check: str
    at: float
    text: str


class Result(Struct, kw_only=True):
    """One run's figures.  Counts are those after the warm-up; durations are seconds."""

    seed: int
    election: Annotated[str, Doc("Its kind.")]
    agreed: Annotated[
        bool, Doc("Every region names one leader of its own, and it acts; by announce-listen, the best eligible.")
    ]
    leaders: Annotated[list[str], Doc("Whom the agreed regions name, best first.")]
    acting: Annotated[list[str], Doc("Who acts as leader at the end, best first.")]
    converged_at: Annotated[float | None, Doc("Since when nobody who is up has changed its mind; None if not agreed.")]
    leader_changes: Annotated[int, Doc("How often a node began to lead.")]
    led: Annotated[float, Doc("The share of the time that somebody acted.")]
    led_when_due: Annotated[
        float | None,
        Doc(
            "quorum: of the time in which some voter and a majority had heard each other both ways for the stated "
            "bound, the share that somebody acted; None if there was none."
        ),
    ]
    led_beyond: Annotated[float, Doc("quorum: how long somebody acted though no voter had a majority for a lease.")]
    messages: Annotated[int, Doc("A multicast is one.")]
    bytes: int
    hops: int
    hop_bytes: Annotated[int, Doc("Bytes, summed over the links they crossed.")]
    deliveries: int
    events: int
    records: Annotated[int, Doc("Written to disks.")]
    up: Annotated[int, Doc("Nodes up at the end.")]
    faults: Annotated[dict[str, int], Doc("Every configured fault, and every other that was counted.")]
    violations: list[Broken]
    looked: Annotated[dict[str, int], Doc("How often each checker looked.")]
    trace_hash: str

    @property
    def final_leaders(self) -> list[str]:
        """Return the leaders that the regions name if they agree; else the nodes that act as leaders."""
        return self.leaders if self.agreed else self.acting

    @property
    def leader(self) -> str | None:
        return self.leaders[0] if self.leaders else None


def simulate(
    scenario: Scenario,
    seed: int | None = None,
    *,
    trace: Trace | None = None,
    tamper: Tamper | None = None,
    watch: Callable[[World], object] | None = None,
) -> Result:
    """Run a scenario; a violated invariant ends the run and is in the result.

    `tamper` may break its machines; `watch` gets the world before it starts.
    """
    run = _Run(scenario, scenario.run.seed if seed is None else seed, trace, tamper)
    if watch is not None:
        watch(run.world)
    return run.run()


class _Run:
    def __init__(self, scenario: Scenario, seed: int, trace: Trace | None, tamper: Tamper | None) -> None:
        self.scenario, self.seed = scenario, seed
        self.world = world_of(scenario, seed, trace=trace, tamper=tamper)
        self.sim, self.network = self.world.sim, self.world.network
        applicable = [CHECKERS[name] for name in scenario.run.checks if CHECKERS[name].applies(self.world)]
        self.checkers: list[Checker] = [checker(self.world) for checker in applicable]
        self.before: dict[str, int] = {}

    def run(self) -> Result:
        run, violations = self.scenario.run, []
        churn = Churn(self.scenario.churn, self.world, begin=run.warm_up, end=run.quiet_at)
        try:
            if run.warm_up:
                self._use(self.scenario.network.without_faults())
                self.world.start(self.scenario.group.start_spread)
                self.sim.run(until=run.warm_up - 1)
                self._begin_counting()
                self._use(self.scenario.network)
            else:
                self.world.start(self.scenario.group.start_spread)
            self.sim.run(until=run.quiet_at)
            if run.quiet:
                churn.stop()
                self._use(self.scenario.network.without_faults())
                self.sim.run(until=run.length)
                settled_at = run.quiet_at + self.scenario.settling + max(churn.set_back.values(), default=0)
                for checker in self.checkers:
                    checker.at_end(self.sim.now, settled_at)
        except Violation as violation:
            violations.append(Broken(violation.check, violation.at / 1e9, violation.text))
        except (AssertionError, LocalProtocolError) as error:  # A machine's own word that it is broken.
            violations.append(Broken("machine", self.sim.now / 1e9, f"{type(error).__name__}: {error}"))
        return self._result(churn, violations)

    def _use(self, config: NetworkConfig) -> None:
        if self.network.config != config:
            self.network.config = config
            self.sim.network_changed()

    def _begin_counting(self) -> None:
        self.before = self._counts()
        self.world.led.forget()
        self.network.faults.clear()

    def _counts(self) -> dict[str, int]:
        traffic = self.sim.traffic.values()
        return {
            "leader_changes": self.world.began_to_lead,
            "messages": sum(t.messages for t in traffic),
            "bytes": sum(t.bytes for t in traffic),
            "hops": sum(t.hops for t in traffic),
            "hop_bytes": sum(t.hop_bytes for t in traffic),
            "deliveries": self.sim.delivery_count,
            "events": self.sim.event_count,
        }

    def _result(self, churn: Churn, violations: list[Broken]) -> Result:
        before = self.before or dict.fromkeys(self._counts(), 0)
        counts = {name: count - before[name] for name, count in self._counts().items()}
        regions = self.world.regions()
        agreed = bool(regions) and all(self.world.disagreement(region) is None for region in regions)
        up = list(self.sim.up())
        since = max((self.world.named_at[node.index] for node in up), default=0)
        return Result(
            seed=self.seed,
            election=self.world.config.election,
            agreed=agreed,
            leaders=[name for region in regions for name in self.world.named_by(region[0])] if agreed else [],
            acting=[node.name for node in self.world.acting()],
            converged_at=since / 1e9 if agreed else None,
            led=self.world.led.share,
            led_when_due=self.world.led.share_when_due,
            led_beyond=self.world.led.beyond / 1e9,
            records=self.sim.record_count,
            up=len(up),
            faults=self._faults(churn),
            violations=violations,
            looked={checker.name: checker.count() for checker in self.checkers},
            trace_hash=self.sim.trace.digest(),
            **counts,
        )

    def _faults(self, churn: Churn) -> dict[str, int]:
        """Return the count of each fault; what is configured comes first, also if it never fired."""
        table = {name: churn.counts[name] for name in sorted(configured_faults(self.scenario))}
        if self.world.has_own_clocks:
            table["skewed clock"] = sum(
                node.clock is not None and (node.clock.offset != 0 or node.clock.rate != 1.0) for node in self.sim.nodes
            )
        for name, count in sorted(self.network.faults.items()):
            if count:
                name = EFFECTS.get(name, name)
                table[name] = table.get(name, 0) + count
        return table


def configured_faults(scenario: Scenario) -> set[str]:
    """Return the names in a result's fault table that must not stay at zero over a set of runs."""
    network = scenario.network
    probs = {"duplicate": network.duplicate_prob, "reorder": network.reorder_prob, "corrupt": network.corrupt_prob}
    names = {name for name, prob in probs.items() if prob > 0}
    if network.loss.model != "none" and network.loss.prob > 0:
        names.add("loss")
    return names | scenario.churn.deeds()


def headline(scenario: Scenario, result: Result) -> str:
    """Return what came of a run, in one line."""
    length = scenario.run.length / 1e9
    if result.violations:
        first = result.violations[0]
        return f"{first.check} violated after {first.at:.3f} s"
    if result.agreed:
        leaders = " and ".join(result.leaders)
        return f"all {result.up} name {leaders}, unchanged since {result.converged_at:.3f} s of {length:g} s"
    return f"no agreement after {length:g} s"
