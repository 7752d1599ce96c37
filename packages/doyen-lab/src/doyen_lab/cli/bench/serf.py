"""`doyen bench serf`: our processes and real serf agents on one mesh in one run."""

from functools import partial

import click

from doyen.core.clock import ms
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import (
    check_mesh,
    check_positive,
    check_seconds,
    mesh_flags,
    print_processes,
    report,
    say,
    with_groups,
)
from doyen_lab.contest.asking import need_commands
from doyen_lab.contest.beside_serf import BesideSerf, measure
from doyen_lab.contest.lowest import PACKAGES, Serf
from doyen_lab.contest.ours import MeshTimers, on_mesh
from doyen_lab.mesh import Guests, Mesh

TIMERS = MeshTimers(
    membership="swim",
    period=ms(700),
    ack_timeout=ms(250),
    suspicion_timeout=ms(1500),
    flags=("--swim-suspicion-max-mult", "2", "--swim-tell-death-count", "3"),
)


@click.command("serf", help="Our processes beside real serf agents: how soon a death is known, at what traffic (root).")
@click.option("--minutes", type=float, default=2, show_default=True, help="How long to count traffic.")
@mesh_flags(drop=0.0)
@click.option("--warm-up", type=float, default=60, show_default=True, help="Seconds before counting.")
@click.option("--faults", type=click.IntRange(0), default=3, show_default=True, help="Kills, and cuts, of members.")
@click.option("--seed", type=int, default=1, show_default=True, help="Chooses the victims.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every process and sample.")
def command(
    minutes: float, drop: float, rows: int, columns: int, warm_up: float, faults: int, seed: int, as_json: bool
) -> None:
    check_positive("--minutes", minutes)
    check_seconds("--warm-up", warm_up)
    check_mesh(drop, rows, columns, hosts_min=4)
    need_commands("serf", PACKAGES)
    with Mesh(rows, columns, tenants=("doyen", "serf"), drop=drop) as mesh:
        course = partial(measure, mesh, warm_up_s=warm_up, seconds=minutes * 60, faults=faults, seed=seed, on_step=say)
        result = run(
            with_groups(
                lambda folder: [on_mesh(mesh, "doyen", TIMERS, folder), Serf("serf", Guests(mesh, "serf"), folder)],
                lambda groups: course(*groups),
            )
        )
    report(result, as_json, _print)


def _print(result: BesideSerf) -> None:
    print_processes(result.processes)
    for name, found in (("doyen", result.doyen), ("serf", result.serf)):
        part = found.steady
        click.echo(
            f"{name}: {part.bytes_per_s.mean:,.0f} B/s (sd {part.bytes_per_s.sd or 0:,.0f}), on the links "
            f"{part.hop_bytes_per_s:,.0f} B/s, CPU {part.cpu_percent.mean:.2f} %, RSS {part.rss_each.mean / 1e6:.1f} MB"
        )
        for fault in ("kill", "cut"):
            each = [f"{d.first_s:.2f}–{d.last_s:.2f}" for d in found.each if d.fault == fault]
            click.echo(f"  {fault}: known to the first and to the last after {', '.join(each)} s")
        if found.never:
            click.echo(f"  {found.never} never known")
    click.echo("doyen / serf: " + " · ".join(f"{name} {value:.2f}" for name, value in result.ratios.items()))
