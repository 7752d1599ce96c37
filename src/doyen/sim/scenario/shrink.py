"""A failing scenario made smaller: fewer nodes, fewer events, fewer faults, less time, and it still fails alike."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from doyen.core.clock import seconds
from doyen.errors import ConfigError
from doyen.sim.churn import ChurnConfig, RandomChurn
from doyen.sim.network import Loss
from doyen.sim.scenario.schema import Clocks, Scenario

TRIES_MAX: Final = 500

Fails = Callable[[Scenario], str | None]  # The name of the check that fails, or None.


class Shrunk(msgspec.Struct, frozen=True):
    scenario: Scenario
    check: str
    tries: int


def shrink(scenario: Scenario, fails: Fails, *, tries_max: int = TRIES_MAX) -> Shrunk | None:
    """Greedy: the first smaller scenario that violates the same check, until none does; None if it never failed."""
    check = fails(scenario)
    if check is None:
        return None
    tries, smaller = 1, True
    while smaller and tries < tries_max:
        smaller = False
        for candidate in _smaller(scenario):
            if tries >= tries_max:
                break
            tries += 1
            if fails(candidate) == check:
                scenario, smaller = candidate, True
                break
    return Shrunk(scenario, check, tries)


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Big steps first; what cannot be built is left out."""
    for build in _changes(scenario):
        try:
            candidate = build()
        except ConfigError:
            continue
        if candidate != scenario:
            yield candidate


def _changes(scenario: Scenario) -> Iterator[Callable[[], Scenario]]:
    group, run, churn, network = scenario.group, scenario.run, scenario.churn, scenario.network
    for nodes in (group.nodes // 2, group.nodes - 1):
        yield (
            lambda nodes=nodes: replace(  # type: ignore[misc]
                scenario, group=replace(group, nodes=nodes, names=group.names[:nodes])
            )
        )
    events = churn.events
    for kept in (events[: len(events) // 2], events[len(events) // 2 :]):
        yield lambda kept=kept: replace(scenario, churn=replace(churn, events=kept))  # type: ignore[misc]
    for index in range(len(events)):
        rest = events[:index] + events[index + 1 :]
        yield lambda rest=rest: replace(scenario, churn=replace(churn, events=rest))  # type: ignore[misc]
    yield lambda: replace(scenario, churn=ChurnConfig(events=events, random=RandomChurn()))
    for deed in churn.random.rates():
        quiet = replace(churn.random, **{f"{deed}_rate": 0.0})
        yield lambda quiet=quiet: replace(scenario, churn=replace(churn, random=quiet))  # type: ignore[misc]
    yield lambda: replace(scenario, clocks=Clocks())
    yield lambda: replace(scenario, network=network.without_faults())
    yield lambda: replace(scenario, network=replace(network, loss=Loss()))
    for name in ("duplicate_prob", "reorder_prob", "corrupt_prob"):
        yield lambda name=name: replace(scenario, network=replace(network, **{name: 0.0}))  # type: ignore[misc]
    yield lambda: replace(scenario, run=replace(run, warm_up=0))
    active = run.quiet_at - run.warm_up
    for less in (active // 2, active // 10):
        if less >= seconds(0.1):
            yield lambda less=less: replace(scenario, run=replace(run, length=run.length - less))  # type: ignore[misc]
    yield lambda: replace(
        scenario, run=replace(run, length=run.length - run.quiet + scenario.settling, quiet=scenario.settling)
    )
    yield lambda: replace(scenario, run=replace(run, length=run.length - run.quiet, quiet=0))
