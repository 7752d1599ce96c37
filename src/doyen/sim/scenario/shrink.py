"""A failing scenario made smaller: fewer nodes, fewer events, fewer faults, less time, and it still fails alike."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from doyen.core.clock import ms
from doyen.errors import ConfigError
from doyen.sim.churn import RandomChurn
from doyen.sim.network import Loss
from doyen.sim.scenario.schema import Clocks, Scenario

TRIES_MAX: Final = 500
OTHER_SEEDS: Final = 5
LEAST: Final = ms(100)  # Time that is worth cutting off.

Fails = Callable[[Scenario], str | None]  # The name of the check that fails, or None.


class Shrunk(msgspec.Struct, frozen=True):
    scenario: Scenario
    check: str
    tries: int


def shrink(scenario: Scenario, fails: Fails, *, tries_max: int = TRIES_MAX) -> Shrunk | None:
    """Take the first smaller scenario that violates the same check, until none does; None if it never failed."""
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
    """Yield smaller scenarios, big steps first; what cannot be built is left out."""
    for build in _changes(scenario):
        try:
            candidate = build()
        except ConfigError:
            continue
        if candidate != scenario:
            yield candidate


def _with(scenario: Scenario, table: str, seed: int | None = None, **changes: Any) -> Scenario:
    """Return the scenario with fields of one table changed, and perhaps another seed."""
    run = scenario.run if seed is None else replace(scenario.run, seed=seed)
    return replace(scenario, **{"run": run, table: replace(getattr(scenario, table), **changes)})


def _changes(scenario: Scenario) -> Iterator[Callable[[], Scenario]]:
    group, run, churn, network = scenario.group, scenario.run, scenario.churn, scenario.network
    # Another size is another run anyway, so other seeds are as good.
    for nodes, seed in product((group.nodes // 2, group.nodes - 1), (run.seed, *range(OTHER_SEEDS))):
        yield partial(_with, scenario, "group", seed, nodes=nodes, names=group.names[:nodes])
    events = churn.events
    for kept in (events[: len(events) // 2], events[len(events) // 2 :]):
        yield partial(_with, scenario, "churn", events=kept)
    for index in range(len(events)):
        yield partial(_with, scenario, "churn", events=events[:index] + events[index + 1 :])
    yield partial(_with, scenario, "churn", random=RandomChurn())
    for deed in churn.random.rates():
        yield partial(_with, scenario, "churn", random=replace(churn.random, **{f"{deed}_rate": 0.0}))
    yield partial(replace, scenario, clocks=Clocks())
    yield partial(replace, scenario, network=network.without_faults())
    yield partial(_with, scenario, "network", loss=Loss())
    for name in ("duplicate_prob", "reorder_prob", "corrupt_prob"):
        yield partial(replace, scenario, network=replace(network, **{name: 0.0}))
    yield partial(_with, scenario, "run", warm_up=0)
    active = run.quiet_at - run.warm_up
    for less in (active // 2, active // 10):
        if less >= LEAST:
            yield partial(_with, scenario, "run", length=run.length - less)
    if run.quiet > scenario.settling:
        yield partial(_with, scenario, "run", length=run.quiet_at + scenario.settling, quiet=scenario.settling)
    yield partial(_with, scenario, "run", length=run.quiet_at, quiet=0)
