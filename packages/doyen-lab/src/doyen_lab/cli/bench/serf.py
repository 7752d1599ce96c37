"""`doyen bench serf`: our processes and real serf agents on one mesh in one run."""

import sys
import tempfile
from contextlib import AsyncExitStack
from math import isfinite
from pathlib import Path

import click

from doyen.cli.output import print_json
from doyen.core.clock import ms
from doyen.errors import ConfigError
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.zookeeper import print_processes
from doyen_lab.detection import BesideSerf, Watch, measure
from doyen_lab.mesh import Mesh
from doyen_lab.ours import MeshGroup, Setting
from doyen_lab.peers.process import need_commands
from doyen_lab.peers.serf import PACKAGES, Serf

SETTING = Setting(
    membership="swim",
    period=ms(700),
    ack_timeout=ms(250),
    suspicion_timeout=ms(1500),
    flags=("--swim-suspicion-max-mult", "2", "--swim-tell-death-count", "3"),
)


@click.command("serf", help="Our processes beside real serf agents: how soon a death is known, at what traffic (root).")
@click.option("--minutes", type=float, default=2, show_default=True, help="How long to count traffic.")
@click.option("--drop", type=float, default=0.0, show_default=True, help="The chance that one hop loses a packet.")
@click.option("--rows", type=click.IntRange(1, 8), default=4, show_default=True, help="Rows of the mesh.")
@click.option("--columns", type=click.IntRange(1, 8), default=4, show_default=True, help="Columns of the mesh.")
@click.option("--warm-up", type=float, default=60, show_default=True, help="Seconds before counting.")
@click.option("--faults", type=click.IntRange(0), default=3, show_default=True, help="Kills, and cuts, of members.")
@click.option("--seed", type=int, default=1, show_default=True, help="Chooses the victims.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every process and sample.")
def command(
    minutes: float, drop: float, rows: int, columns: int, warm_up: float, faults: int, seed: int, as_json: bool
) -> None:
    if not (isfinite(minutes) and minutes > 0):
        raise ConfigError(f"--minutes {minutes} is out of range: give a number above 0")
    if not 0 <= drop < 1:
        raise ConfigError(f"--drop {drop} is out of range: give 0 to below 1")
    if not 0 <= warm_up < 1e6:
        raise ConfigError(f"--warm-up {warm_up} is out of range: give seconds from 0 on")
    if rows * columns < 4:
        raise ConfigError(f"--rows {rows} --columns {columns} are too few: give 4 hosts or more")
    need_commands("serf", PACKAGES)
    with Mesh(rows, columns, tenants=("doyen", "serf"), drop=drop) as mesh:
        result = run(_measure(mesh, minutes * 60, warm_up, faults, seed))
    if as_json:
        print_json(result)
    else:
        _print(result)
    if not result.holds:
        sys.exit(1)


async def _measure(mesh: Mesh, seconds: float, warm_up_s: float, faults: int, seed: int) -> BesideSerf:
    watch = Watch()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="doyen-bench-")))
        ours = await stack.enter_async_context(MeshGroup(mesh, "doyen", SETTING, on_told=watch))
        theirs = await stack.enter_async_context(Serf(mesh.guests["serf"], folder))
        return await measure(
            mesh,
            ours,
            watch,
            theirs,
            warm_up_s=warm_up_s,
            seconds=seconds,
            faults=faults,
            seed=seed,
            on_step=lambda text: click.echo(text, err=True),
        )


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
    click.echo("holds" if result.holds else "DOES NOT HOLD")
