"""`doyen bench mesh`: the four churn-tolerant elections as real processes on one mesh."""

import sys

import click
from msgspec.structs import replace

from doyen.cli.output import print_json
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import check_mesh, mesh_flags, missing_max_flag, say
from doyen_lab.contest.elections import Completion, elections
from doyen_lab.contest.ours import MeshTimers, on_mesh, paper_missing_max
from doyen_lab.contest.trial import with_groups
from doyen_lab.mesh import Mesh

PROTOCOLS = ("base", "optimistic", "preferred", "hybrid")


@click.command("mesh", help="The four churn-tolerant elections on one lossy mesh: completion, leader changes (root).")
@mesh_flags(drop=0.05)
@click.option(
    "--kills", type=click.IntRange(1), default=10, show_default=True, help="Leaders killed, of each protocol."
)
@missing_max_flag
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every election.")
def command(drop: float, kills: int, rows: int, columns: int, missing_max: int | None, as_json: bool) -> None:
    check_mesh(drop, rows, columns, hosts_min=4)
    timers = MeshTimers(missing_max=paper_missing_max(drop, rows * columns) if missing_max is None else missing_max)
    with Mesh(rows, columns, tenants=PROTOCOLS, drop=drop) as mesh:
        result = run(
            with_groups(
                lambda folder: [on_mesh(mesh, name, replace(timers, election=name), folder) for name in PROTOCOLS],
                lambda groups: elections(groups, kills, on_step=say),
            )
        )
    if as_json:
        print_json(result)
    else:
        _print(result)
    if any(found.never for found in result.values()):
        sys.exit(1)


def _print(result: dict[str, Completion]) -> None:
    for name, found in result.items():
        if found.median_s is None or found.mean_s is None:
            click.echo(f"{name:11} never agreed")
            continue
        spread = "" if found.sd_s is None else f", sd {found.sd_s * 1e3:.0f}"
        never = f", {found.never} never" if found.never else ""
        click.echo(
            f"{name:11} {found.median_s * 1e3:6.0f} ms (median; mean {found.mean_s * 1e3:.0f}{spread}) · "
            f"{found.leader_changes:.2f} leaders per election{never}"
        )
