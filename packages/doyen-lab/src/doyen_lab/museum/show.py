"""A rule and doyen on the same scenario in made-up time, and how long two of them led, or nobody did."""

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from doyen.core.clock import Instant, to_seconds
from doyen.sim.node import SimNode
from doyen.testing.cluster import Cluster
from doyen_lab.museum.rules import STORE, Rule, Store

NAMES = ("n0", "n1", "n2")
Harm = Literal["two at once", "nobody", "changes"]


class Stage(Protocol):
    """The faults and questions of a scenario, the same for the processes of a rule and for doyen."""

    def lead(self, within: str = "60s") -> str: ...
    def run_for(self, duration: str | float) -> None: ...
    def cut_off(self, *names: str) -> None: ...
    def cut_between(self, one: str, other: str) -> None: ...
    def heal(self) -> None: ...
    def pause(self, name: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def crash(self, name: str) -> None: ...
    def restart(self, name: str) -> None: ...
    def step_clock(self, name: str, by: str | float) -> None: ...


class Exhibit(Struct, frozen=True, kw_only=True):
    """One published failure."""

    name: str
    rule: type[Rule]
    harm: Harm
    at_least: float  # Seconds, or changes of leader: how much the model must show; stated before it is run.
    happened: str
    where: tuple[str, ...]
    simpler: str  # Where the model simplifies.
    scenario: Callable[[Stage], None]


class Seen(Struct, frozen=True, kw_only=True):
    """The result of a run."""

    two_at_once_s: float
    nobody_s: float  # The longest time, once somebody had led.
    changes: int  # How often another began to lead than the one before.

    def of(self, harm: Harm) -> float:
        return {"two at once": self.two_at_once_s, "nobody": self.nobody_s, "changes": self.changes}[harm]


class Result(Struct, frozen=True, kw_only=True):
    """Both runs of an exhibit."""

    name: str
    harm: Harm
    happened: str
    where: tuple[str, ...]
    simpler: str
    rule: Seen
    doyen: Seen
    bound_s: float  # Doyen's own stated bound on a time without a leader.
    fails: bool  # The rule did what was published.
    holds: bool  # Doyen did not.


class _Watch:
    """Follows who leads, from event to event."""

    def __init__(self, cluster: Cluster, acting: Callable[[], set[str]]) -> None:
        self._cluster, self._acting = cluster, acting
        self._at: Instant = 0
        self._before: set[str] = set()
        self._last = ""
        self._nobody_since: Instant | None = None
        self._two = self._nobody_max = self.changes = 0
        cluster.sim.checks.append(self._look)

    def _look(self, now: Instant) -> None:
        acting = self._acting()
        if len(self._before) > 1:
            self._two += now - self._at
        if not acting and self._before:
            self._nobody_since = now
        elif acting and self._nobody_since is not None:
            self._nobody_max = max(self._nobody_max, now - self._nobody_since)
            self._nobody_since = None
        for name in sorted(acting - self._before):
            self.changes += self._last not in ("", name)
            self._last = name
        self._at, self._before = now, acting

    def seen(self) -> Seen:
        now = self._cluster.sim.now
        self._look(now)
        nobody = max(self._nobody_max, 0 if self._nobody_since is None else now - self._nobody_since)
        return Seen(two_at_once_s=to_seconds(self._two), nobody_s=to_seconds(nobody), changes=self.changes)


class _Stage:
    """A cluster as a scenario sees it; `acting` says who leads."""

    def __init__(self, cluster: Cluster, acting: Callable[[], set[str]]) -> None:
        self._cluster, self._acting = cluster, acting
        self.run_for, self.heal, self.step_clock = cluster.run_for, cluster.heal, cluster.step_clock
        self.pause, self.resume = cluster.pause, cluster.resume
        self.crash, self.restart = cluster.crash, cluster.restart

    def lead(self, within: str = "60s") -> str:
        """Run until somebody leads; return who."""
        self._cluster.run_until(self._acting, within)
        return min(self._acting())

    def cut_off(self, *names: str) -> None:
        self._cluster.partition(names, rest=True)

    def cut_between(self, one: str, other: str) -> None:
        self._cluster.cut(one, other)
        self._cluster.cut(other, one)


def of_rule(exhibit: Exhibit, seed: int) -> Seen:
    """Run the processes of a rule, and their store, through the scenario."""
    running: dict[str, Rule] = {}
    store = Store(exhibit.rule.session_s)

    async def main(name: str) -> None:
        if name == STORE:
            await store.serve()
        else:
            running[name] = rule = exhibit.rule(name, [*NAMES])
            await rule.run()

    with Cluster([*NAMES, STORE], seed=seed, main=main, jitter="1ms") as cluster:

        def acting() -> set[str]:
            """Return who leads and runs: one that is stopped does nothing, until it wakes up."""
            up = {str(node.name) for node in cluster.sim.up() if node.state != "paused"}
            return {name for name, rule in running.items() if rule.leads and name in up}

        def ended(deed: str, node: SimNode) -> None:
            if deed == "crash":
                running.pop(node.name, None)

        cluster.sim.deed_watchers.append(ended)
        watch = _Watch(cluster, acting)
        exhibit.scenario(_Stage(cluster, acting))
        return watch.seen()


def of_doyen(exhibit: Exhibit, seed: int) -> tuple[Seen, float]:
    """Run doyen's quorum through the same scenario; return also its bound on a time without a leader."""
    with Cluster(NAMES, seed=seed, jitter="1ms", preset="lan") as cluster:
        watch = _Watch(cluster, cluster.acting)
        exhibit.scenario(_Stage(cluster, cluster.acting))
        config = cluster.config(NAMES[0])
        kind = config.election_kind()
        assert kind is not None
        return watch.seen(), to_seconds(config.worst_case(kind).settling)


def show(exhibit: Exhibit, seed: int = 1) -> Result:
    """Run both, and judge them."""
    rule = of_rule(exhibit, seed)
    ours, bound_s = of_doyen(exhibit, seed)
    calm = ours.changes < exhibit.at_least if exhibit.harm == "changes" else True
    return Result(
        name=exhibit.name,
        harm=exhibit.harm,
        happened=exhibit.happened,
        where=exhibit.where,
        simpler=exhibit.simpler,
        rule=rule,
        doyen=ours,
        bound_s=bound_s,
        fails=rule.of(exhibit.harm) >= exhibit.at_least,
        holds=ours.two_at_once_s == 0 and ours.nobody_s <= bound_s and calm,
    )
