"""`doyen bench zookeeper`: our processes and a real ZooKeeper ensemble on one mesh in one run."""

from functools import partial

import click

from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import (
    check_mesh,
    check_positive,
    mesh_flags,
    missing_max_flag,
    print_processes,
    report,
    say,
)
from doyen_lab.contest.asking import need_commands
from doyen_lab.contest.beside_zookeeper import Beside, Figures, measure
from doyen_lab.contest.ours import MeshTimers, new_key_file, on_mesh, paper_missing_max
from doyen_lab.contest.trial import with_groups
from doyen_lab.contest.zookeeper import PACKAGES, Ensemble
from doyen_lab.mesh import Guests, Mesh

EARLY_S = 100.0  # [CTOL §VII-B] Start-up, shown apart.


@click.command(
    "zookeeper", help="Our processes beside a real ZooKeeper ensemble, on one lossy mesh, in one run (root)."
)
@click.option("--minutes", type=float, default=10, show_default=True, help="How long to count, start-up included.")
@mesh_flags(drop=0.05)
@click.option(
    "--takeovers", type=click.IntRange(0), default=3, show_default=True, help="Kills, and cuts, of each leader."
)
@missing_max_flag
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every process and sample.")
def command(
    minutes: float, drop: float, rows: int, columns: int, takeovers: int, missing_max: int | None, as_json: bool
) -> None:
    check_positive("--minutes", minutes)
    check_mesh(drop, rows, columns, hosts_min=3)
    need_commands("ZooKeeper", PACKAGES)
    timers = MeshTimers(missing_max=paper_missing_max(drop, rows * columns) if missing_max is None else missing_max)
    with Mesh(rows, columns, tenants=("doyen", "sealed", "zookeeper"), drop=drop) as mesh:
        seconds = minutes * 60
        course = partial(
            measure,
            mesh,
            seconds=seconds,
            early_s=min(EARLY_S, seconds / 3),
            every_s=5.0 if seconds >= 60 else 1.0,
            takeovers=takeovers,
            on_step=say,
        )
        result = run(
            with_groups(
                lambda folder: [
                    on_mesh(mesh, "doyen", timers, folder),
                    on_mesh(mesh, "sealed", timers, folder, "--key-file", str(new_key_file(folder))),
                    Ensemble("zookeeper", Guests(mesh, "zookeeper"), folder),
                ],
                lambda groups: course(groups[:-1], groups[-1]),
            )
        )
    report(result, as_json, lambda found: _print(found, drop, timers))


def _print(result: Beside, drop: float, timers: MeshTimers) -> None:
    print_processes(result.processes)
    click.echo(f"drop {drop:g} per hop · ours: {timers.membership} + {timers.election}, c = {timers.missing_max}")
    for name, figures in result.systems.items():
        print_figures(name, figures)
    for why in result.unsettled.values():
        click.echo(f"not compared: {why}")
    for name, found in result.ratios.items():
        click.echo(
            f"{name} / zookeeper: "
            + " · ".join(f"{key} {r.ratio:.2f} ({r.low:.2f}–{r.high:.2f})" for key, r in found.items())
        )


def print_figures(name: str, figures: Figures) -> None:
    click.echo(f"{name}: {figures.nodes} processes")
    for label, part in (("start-up", figures.early), ("steady", figures.steady)):
        if part is None:
            continue
        shown = [
            f"{part.bytes_per_s.mean:,.0f} B/s (sd {part.bytes_per_s.sd or 0:,.0f})",
            f"on the links {part.hop_bytes_per_s:,.0f} B/s",
            f"CPU {part.cpu_percent.mean:.2f} % (sd {part.cpu_percent.sd or 0:.2f})",
            f"RSS {part.rss_each.mean / 1e6:.1f} MB, PSS {part.pss_each.mean / 1e6:.1f} MB each",
        ]
        click.echo(f"  {label:9} {part.seconds:.0f} s: " + " · ".join(shown))
    for fault, taken in (("killed", figures.kill), ("cut off", figures.cut)):
        if taken.seconds or taken.never:
            each = ", ".join(f"{value:.2f}" for value in taken.seconds)
            never = f", {taken.never} never" if taken.never else ""
            click.echo(f"  leader {fault}: all have the next after {each} s{never}")
