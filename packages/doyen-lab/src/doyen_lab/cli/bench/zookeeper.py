"""`doyen bench zookeeper`: our processes and a real ZooKeeper ensemble on one mesh in one run."""

import sys
import tempfile
from contextlib import AsyncExitStack
from math import isfinite
from pathlib import Path

import click

from doyen.cli.output import print_json
from doyen.errors import ConfigError
from doyen.net.keys import key_text, new_key
from doyen_lab.beside import Beside, Figures, Ours, Process, Theirs, measure
from doyen_lab.cli.bench import run
from doyen_lab.mesh import Mesh
from doyen_lab.ours import MeshGroup, Setting, paper_missing_max
from doyen_lab.peers.process import need_commands
from doyen_lab.peers.zookeeper import PACKAGES, ZooKeeper

EARLY_S = 100.0  # [CTOL §VII-B] Start-up, shown apart.


@click.command(
    "zookeeper", help="Our processes beside a real ZooKeeper ensemble, on one lossy mesh, in one run (root)."
)
@click.option("--minutes", type=float, default=10, show_default=True, help="How long to count, start-up included.")
@click.option("--drop", type=float, default=0.05, show_default=True, help="The chance that one hop loses a packet.")
@click.option("--rows", type=click.IntRange(1, 8), default=4, show_default=True, help="Rows of the mesh.")
@click.option("--columns", type=click.IntRange(1, 8), default=4, show_default=True, help="Columns of the mesh.")
@click.option(
    "--takeovers", type=click.IntRange(0), default=3, show_default=True, help="Kills, and cuts, of each leader."
)
@click.option("--missing-max", type=int, default=None, help="c; by default the paper's for this drop: 2, 3, 5, 7.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every process and sample.")
def command(
    minutes: float, drop: float, rows: int, columns: int, takeovers: int, missing_max: int | None, as_json: bool
) -> None:
    if not (isfinite(minutes) and minutes > 0):
        raise ConfigError(f"--minutes {minutes} is out of range: give a number above 0")
    if not 0 <= drop < 1:
        raise ConfigError(f"--drop {drop} is out of range: give 0 to below 1")
    if rows * columns < 3:
        raise ConfigError(f"--rows {rows} --columns {columns} are too few: give 3 hosts or more")
    need_commands("ZooKeeper", PACKAGES)
    setting = Setting(missing_max=paper_missing_max(drop, rows * columns) if missing_max is None else missing_max)
    with Mesh(rows, columns, tenants=("doyen", "sealed", "zookeeper"), drop=drop) as mesh:
        result = run(_measure(mesh, setting, minutes * 60, takeovers))
    if as_json:
        print_json(result)
    else:
        _print(result, drop, setting)
    if not result.holds:
        sys.exit(1)


async def _measure(mesh: Mesh, setting: Setting, seconds: float, takeovers: int) -> Beside:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="doyen-bench-")))
        keys = folder / "keys"
        keys.touch(mode=0o600)
        keys.write_text(f"primary {key_text(new_key())}\n")
        plain = await stack.enter_async_context(MeshGroup(mesh, "doyen", setting))
        sealed = await stack.enter_async_context(MeshGroup(mesh, "sealed", setting, "--key-file", str(keys)))
        ensemble = await stack.enter_async_context(ZooKeeper(mesh.guests["zookeeper"], folder))
        return await measure(
            mesh,
            [Ours(plain), Ours(sealed)],
            Theirs(mesh, "zookeeper", ensemble),
            seconds=seconds,
            early_s=min(EARLY_S, seconds / 3),
            every_s=5.0 if seconds >= 60 else 1.0,
            takeovers=takeovers,
            on_step=lambda text: click.echo(text, err=True),
        )


def _print(result: Beside, drop: float, setting: Setting) -> None:
    print_processes(result.processes)
    click.echo(f"drop {drop:g} per hop · ours: {setting.membership} + {setting.election}, c = {setting.missing_max}")
    for name, figures in result.systems.items():
        print_figures(name, figures)
    for name, found in result.ratios.items():
        click.echo(
            f"{name} / zookeeper: "
            + " · ".join(f"{key} {r.ratio:.2f} ({r.low:.2f}–{r.high:.2f})" for key, r in found.items())
        )
    click.echo("holds" if result.holds else "DOES NOT HOLD")


def print_processes(processes: list[Process]) -> None:
    rows = [["SYSTEM", "NAME", "PID", "NAMESPACE", "INODE", "INTERFACE", "ADDRESS", "TX BYTES", "TX", "RX BYTES", "RX"]]
    for p in processes:
        count = p.counters
        figures = [str(value) for value in (count.tx_bytes, count.tx_packets, count.rx_bytes, count.rx_packets)]
        rows.append(
            [p.system, p.name, str(p.pid), p.namespace, str(p.namespace_inode), p.interface, p.address, *figures]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


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
