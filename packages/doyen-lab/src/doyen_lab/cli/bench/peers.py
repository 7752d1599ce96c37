"""`doyen bench peers`: leadership as an application sees it, ours beside other people's, in one run."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from doyen.cli.local import table
from doyen.cli.outputs import plot_flag
from doyen.errors import ConfigError
from doyen.eyes.plot import Plot, shares
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import (
    check_positive,
    check_seconds,
    print_processes,
    report,
    say,
    sizes_of,
)
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.entrants import OURS, PEERS, entrant, missing
from doyen_lab.contest.figures import Fault
from doyen_lab.contest.peers import Absent, Check, Contest, Figures, checks, is_ours, measure, takeovers_of
from doyen_lab.contest.trial import with_groups
from doyen_lab.iproute import check_rights, room_for_neighbours

T = TypeVar("T")
UNITS = {"CPU": " %", "traffic": " B/s"}
TOGETHER_MAX = 32  # Sizes are measured at the same time while their sum is at most this.


@click.command("peers", help="Leaders lost and replaced, and what that costs: doyen beside other systems (root).")
@click.option("--nodes", default="5,16,64", show_default=True, help="How many members; several, by commas.")
@click.option("--peers", default=",".join(PEERS), show_default=True, help="Beside which; by commas.")
@click.option("--ours", "ours_text", default=",".join(OURS), show_default=True, help="Which of ours; by commas.")
@click.option("--kills", type=click.IntRange(0), default=3, show_default=True, help="Leaders killed, at least.")
@click.option("--cuts", type=click.IntRange(0), default=3, show_default=True, help="Leaders cut off, at least.")
@click.option(
    "--more-seconds",
    type=float,
    default=100,
    show_default=True,
    help="Up to thrice as many where that takes no longer.",
)
@click.option("--idle-seconds", type=float, default=60, show_default=True, help="How long to count.")
@click.option("--warm-up", type=float, default=60, show_default=True, help="Seconds before counting.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the instants of faults.")
@plot_flag("how long each system was without a leader that acts, after a kill")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every process and fault.")
def command(
    nodes: str,
    peers: str,
    ours_text: str,
    kills: int,
    cuts: int,
    more_seconds: float,
    idle_seconds: float,
    warm_up: float,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    sizes, named, own = sizes_of(nodes), _some("peers", peers, PEERS), _some("ours", ours_text, OURS)
    check_positive("--idle-seconds", idle_seconds)
    check_seconds("--warm-up", warm_up)
    check_seconds("--more-seconds", more_seconds)
    check_rights()
    absent = [Absent(system=name, nodes=n, why=why) for name in named if (why := missing(name)) for n in sizes]
    here = [name for name in named if not missing(name)]
    results: list[Figures | Absent] = []
    course = partial(
        measure,
        warm_up_s=warm_up,
        idle_s=idle_seconds,
        kills=kills,
        cuts=cuts,
        more_s=more_seconds,
        seed=seed,
        on_step=say,
    )
    for batch in batches(sizes):
        with room_for_neighbours(sum(n * n for n in batch) * (len(own) + len(here))):
            results += run(_measured(batch, [*here, *own], course))
    systems = [entry for entry in results if isinstance(entry, Figures)]
    absent += [entry for entry in results if isinstance(entry, Absent)]
    found = checks(systems)
    missed = [check for check in found if check.holds is False]
    ours_absent = [entry for entry in absent if is_ours(entry.system)]
    result = Contest(systems=systems, absent=absent, checks=found, holds=not missed and not ours_absent)
    if plot is not None:
        plot.write_text(picture(result).svg(), encoding="utf-8")
    report(result, as_json, _print)


def picture(result: Contest) -> Plot:
    """Return how long each system was without a leader that acts, after a kill."""
    found = Plot("leaders killed: until exactly one other acts", "seconds", "share of the kills")
    for figures in result.systems:
        taken = [loss.acts_s for loss in figures.losses if loss.fault == "kill" and loss.acts_s is not None]
        if taken:
            found.steps(f"{figures.system}, {figures.nodes}", shares(taken))
    return found


def _some(flag: str, text: str, known: Sequence[str]) -> list[str]:
    found = [part for part in text.split(",") if part]
    unknown = [name for name in found if name not in known]
    if unknown:
        raise ConfigError(f"--{flag} {unknown[0]} is not known: give some of {','.join(known)}")
    return list(dict.fromkeys(found))


def batches(sizes: Sequence[int]) -> list[list[int]]:
    """Put small sizes together: the slowest peer needs minutes whatever the size."""
    found: list[list[int]] = []
    for size in sorted(sizes):
        if found and sum(found[-1]) + size <= TOGETHER_MAX:
            found[-1].append(size)
        else:
            found.append([size])
    return found


def _measured(
    sizes: Sequence[int], names: Sequence[str], course: Callable[[Sequence[Entrant]], Coroutine[Any, Any, T]]
) -> Coroutine[Any, Any, T]:
    """Measure all these systems at once; peers come first, because some warm up for long."""
    return with_groups(lambda folder: [entrant(name, size, folder) for name in names for size in sizes], course)


# What is shown.


def _print(result: Contest) -> None:
    print_processes([entry for figures in result.systems for entry in figures.processes])
    rows = [["N", "SYSTEM", "SORT", "PROCESSES", "B/S", "CPU %", "RSS MB", "PSS MB", "KILLED S", "CUT OFF S", "JOIN S"]]
    for f in sorted(result.systems, key=lambda f: f.nodes):
        idle = f.idle
        rows.append(
            [
                str(f.nodes),
                f.system,
                f.sort,
                str(len(f.processes)),
                f"{idle.bytes_per_s.mean:,.0f} ± {idle.bytes_per_s.sd or 0:,.0f}",
                f"{idle.cpu_percent.mean:.2f}",
                f"{idle.rss_each.mean / 1e6:.1f}",
                f"{idle.pss_each.mean / 1e6:.1f}",
                _times(f, "kill"),
                _times(f, "cut"),
                _s(f.join_s),
            ]
        )
    table(rows)
    for f in result.systems:
        if f.stopped:
            click.echo(f"{f.system} N={f.nodes}: no further faults: {f.stopped}")
    for a in result.absent:
        click.echo(f"{a.system} N={a.nodes}: not measured: {a.why}")
    rows = [["N", "OURS", "BESIDE", "WHAT", "VALUE", "SPREAD", "AIM", ""]]
    rows += [_check_row(check) for check in sorted(result.checks, key=lambda c: (c.nodes, c.what, c.system))]
    table(rows)


def _check_row(check: Check) -> list[str]:
    ratio = "×" in check.what
    scale, unit = (1e6, " MB") if check.what == "RSS" else (1, " ×" if ratio else UNITS.get(check.what, " s"))
    aim = "–" if check.aim is None else f"{'≥' if ratio else '≤'} {check.aim / scale:.3g}{unit}"
    value = "none" if check.value is None else f"{check.value / scale:.3g}{unit}"
    spread = "" if check.low is None or check.high is None else f"{check.low:.3g}–{check.high:.3g}"
    verdict = {True: "ok", False: "MISS", None: "published"}[check.holds]
    return [str(check.nodes), check.system, check.peer, check.what, value, spread, aim, verdict]


def _times(figures: Figures, fault: Fault) -> str:
    taken = takeovers_of(figures, fault)
    if not taken.seconds:
        return "never" if taken.never else "–"
    known = "" if taken.known_median_s is None else f", all {taken.known_median_s:.2f}"
    never = f", {taken.never} never" if taken.never else ""
    return f"{taken.median_s:.2f} ({min(taken.seconds):.2f}–{max(taken.seconds):.2f}){known}{never}"


def _s(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
