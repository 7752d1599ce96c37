"""`doyen bench mesh`: the four churn-tolerant elections as real processes on one mesh."""

import sys
from contextlib import AsyncExitStack

import click
from msgspec.structs import replace

from doyen.cli.output import print_json
from doyen.errors import ConfigError
from doyen_lab.cli.bench import run
from doyen_lab.completion import Completion, Scribe, elections
from doyen_lab.mesh import Mesh
from doyen_lab.ours import MeshGroup, Setting, paper_missing_max

PROTOCOLS = ("base", "optimistic", "preferred", "hybrid")


@click.command("mesh", help="The four churn-tolerant elections on one lossy mesh: completion, leader changes (root).")
@click.option("--drop", type=float, default=0.05, show_default=True, help="The chance that one hop loses a packet.")
@click.option(
    "--kills", type=click.IntRange(1), default=10, show_default=True, help="Leaders killed, of each protocol."
)
@click.option("--rows", type=click.IntRange(1, 8), default=4, show_default=True, help="Rows of the mesh.")
@click.option("--columns", type=click.IntRange(1, 8), default=4, show_default=True, help="Columns of the mesh.")
@click.option("--missing-max", type=int, default=None, help="c; by default the paper's for this drop: 2, 3, 5, 7.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every election.")
def command(drop: float, kills: int, rows: int, columns: int, missing_max: int | None, as_json: bool) -> None:
    if not 0 <= drop < 1:
        raise ConfigError(f"--drop {drop} is out of range: give 0 to below 1")
    if rows * columns < 4:
        raise ConfigError(f"--rows {rows} --columns {columns} are too few: give 4 hosts or more")
    setting = Setting(missing_max=paper_missing_max(drop, rows * columns) if missing_max is None else missing_max)
    with Mesh(rows, columns, tenants=PROTOCOLS, drop=drop) as mesh:
        result = run(_measure(mesh, setting, kills))
    if as_json:
        print_json(result)
    else:
        _print(result)
    if any(found.never for found in result.values()):
        sys.exit(1)


async def _measure(mesh: Mesh, setting: Setting, kills: int) -> dict[str, Completion]:
    async with AsyncExitStack() as stack:
        groups = {}
        for name in PROTOCOLS:
            scribe = Scribe()
            group = MeshGroup(mesh, name, replace(setting, election=name), on_told=scribe)
            groups[name] = (await stack.enter_async_context(group), scribe)
        return await elections(groups, kills, on_step=lambda text: click.echo(text, err=True))


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
