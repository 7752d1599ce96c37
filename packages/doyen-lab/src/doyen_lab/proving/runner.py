"""Runs scenarios, and has each judged."""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from doyen.errors import ConfigError, DoyenError
from doyen.membership.ring.kind import TABLE as RING_TABLE
from doyen_lab.proving.combination import Combination, chosen
from doyen_lab.proving.evidence import Host, trouble
from doyen_lab.proving.ground import Ground, NotSettled
from doyen_lab.proving.judge import Expectation, judge
from doyen_lab.proving.postmortem import disagreement, laid_side_by_side
from doyen_lab.proving.scenarios import SCENARIOS, Scenario, from_file
from doyen_lab.proving.witness import WITNESS
from doyen_lab.switch import Switch


class Result(Struct, frozen=True, kw_only=True):
    """The outcome of one scenario with one combination."""

    scenario: str
    election: str
    promise: str  # quorum or weak
    holds: bool
    violations: tuple[str, ...]
    faults: dict[str, int]  # What was done, counted where it happened.
    takeovers_s: tuple[float, ...]  # From each fault to the first act of a successor.
    together_s: float  # Two acting at once, all in all; above 0 only where the promise allows it.
    acts: int
    terms: int
    seconds: float
    checked: dict[str, int]  # What the judge had to look at.
    hosts: list[Host] = []  # Namespaces, the processes in them, and what their interfaces counted.
    lateness_ms: float  # The machine's own timers at the worst, in this run (decision 92).
    seed: int
    postmortem: str = ""  # Where its recordings are laid side by side, if that was asked for,
    postmortem_s: float | None = None  # and for how long two acted at once by them.
    histories: str = ""  # Kept if it does not hold.


async def prove(
    scenario: Scenario,
    combination: Combination,
    *,
    seed: int | None = None,  # None: the file's own, else 1.
    keep: bool = False,
    html: Path | None = None,
    command: Sequence[str] = WITNESS,
) -> Result:
    folder = Path(tempfile.mkdtemp(prefix=f"doyen-lab-{scenario.name}-{combination.name}-"))
    if scenario.preset:
        combination = combination.with_preset(scenario.preset)
    began, failure, seed = time.monotonic(), "", scenario.seed if seed is None else seed
    with Switch(scenario.hosts, edges=scenario.edges, link=scenario.link, seed=seed) as network:
        async with Ground(network, combination, folder, command=command, seed=seed) as ground:
            ground.records = keep or html is not None
            try:
                await scenario.play(ground)
            except (NotSettled, DoyenError, TimeoutError) as error:
                failure = str(error) or type(error).__name__
            ended_at = time.monotonic_ns()
            traffic = network.traffic()
            hosts = ground.hosts()
            counted = {"packets lost": traffic.lost, "packets refused": traffic.refused}
            ground.faults |= {name: count for name, count in counted.items() if count}
    verdict = judge(
        ground.lives,
        ground.truths,
        expectation_in(ground),
        ended_at=ended_at,
        faults=ground.faults,
        wanted=scenario.faults,
        checks=scenario.checks,
    )
    violations = (*((failure,) if failure else ()), *ground.violations, *verdict.violations)
    title = f"{scenario.name}, {combination.name}"
    seen = None if html is None else laid_side_by_side(ground.recordings, html, title)
    if seen is not None:
        violations += disagreement(seen, verdict.together_s, ground.act_every_s + ground.lateness / 1e9)
    violations += () if scenario.fails else tuple(trouble(folder))
    return Result(
        scenario=scenario.name,
        election=combination.name,
        promise=combination.promise.sort,
        holds=not violations,
        violations=violations,
        faults={name: count for name, count in ground.faults.items() if count},
        takeovers_s=tuple(round(takeover, 3) for takeover in ground.takeovers_s),
        together_s=round(verdict.together_s, 3),
        acts=verdict.acts,
        terms=verdict.terms,
        seconds=round(time.monotonic() - began, 1),
        checked=verdict.checked,
        hosts=hosts,
        lateness_ms=round(ground.lateness / 1e6, 1),
        seed=seed,
        postmortem="" if seen is None else str(html),
        postmortem_s=None if seen is None else round(seen.together_s, 3),
        histories=kept(folder, keep or bool(violations)),
    )


def kept(folder: Path, keep: bool) -> str:
    """Return the folder's name if it is to be kept; otherwise remove it, and return an empty string."""
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return str(folder) if keep else ""


def expectation_in(ground: Ground) -> Expectation:
    """Return what is expected; a timed promise counts if the machine kept to its bounds, and nobody was stopped."""
    combination, names = ground.combination, ground.voters
    config = combination.config(names).table(RING_TABLE)
    in_time = ground.lateness < config.arbitration and not ground.faults["paused"]
    return Expectation(
        strong=combination.strong,
        voter_count=len(names),
        lease=combination.lease(names),
        alone=combination.timed and in_time,
        majority_only=combination.timed,  # A ring collapses rather than split.
    )


def pairs(names: Sequence[str], elections: Sequence[str]) -> list[tuple[Scenario, Combination]]:
    """Return what is run, in order: scenarios by their names, or files; a pair that makes no sense is left out."""
    given = chosen(elections)
    found: list[tuple[Scenario, Combination]] = []
    for name in names or SCENARIOS:
        if name in SCENARIOS:
            wanted = [combination for combination in given if combination.like in SCENARIOS[name].combinations]
            found += [(SCENARIOS[name], combination) for combination in wanted]
        elif name.endswith(".toml"):
            found += [from_file(Path(name), combination) for combination in (given if elections else [None])]
        else:
            raise ConfigError(f"there is no scenario {name!r}: see doyen lab list, or give a file, NAME.toml")
    return found


async def prove_all(
    chosen: Sequence[tuple[Scenario, Combination]],
    *,
    seed: int | None,
    keep: bool,
    on_result: Callable[[Result], None],
    html: Path | None = None,
) -> list[Result]:
    results = []
    for scenario, combination in chosen:
        file = html if html is None or html.suffix == ".html" else html / f"{scenario.name}-{combination.name}.html"
        results.append(await prove(scenario, combination, seed=seed, keep=keep, html=file))
        on_result(results[-1])
    return results
