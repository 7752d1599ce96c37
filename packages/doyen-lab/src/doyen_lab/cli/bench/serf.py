"""`doyen bench serf`: our processes and real serf agents in one run, on one mesh or on bridges."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from doyen.cli.local import table
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
    sizes_of,
)
from doyen_lab.contest.asking import need_commands
from doyen_lab.contest.beside_serf import BesideSerf, measure
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.entrants import entrant
from doyen_lab.contest.gossip_on_bridge import OnBridge
from doyen_lab.contest.gossip_on_bridge import measure as measure_on_bridge
from doyen_lab.contest.lowest import PACKAGES, Serf
from doyen_lab.contest.ours import MeshTimers, on_mesh
from doyen_lab.contest.trial import with_groups
from doyen_lab.iproute import check_rights, room_for_neighbours
from doyen_lab.mesh import Guests, Mesh

T = TypeVar("T")
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
@click.option(
    "--nodes", default="", metavar="16,64", help="On bridges: ours at its defaults with a key; leaders are lost, too."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every process and sample.")
def command(
    minutes: float,
    drop: float,
    rows: int,
    columns: int,
    warm_up: float,
    faults: int,
    seed: int,
    nodes: str,
    as_json: bool,
) -> None:
    check_positive("--minutes", minutes)
    check_seconds("--warm-up", warm_up)
    check_mesh(drop, rows, columns, hosts_min=4)
    need_commands("serf", PACKAGES)
    if nodes:
        sizes = sizes_of(nodes)
        check_rights()
        found = []
        for size in sizes:
            here = partial(
                measure_on_bridge, warm_up_s=warm_up, seconds=minutes * 60, faults=faults, seed=seed, on_step=say
            )
            with room_for_neighbours(2 * size * size):
                found.append(run(with_groups(partial(_on_bridges, size), partial(_both, here))))
        holds = all(aim.holds for at in found for aim in at.aims)
        report(OnBridge(sizes=found, holds=holds), as_json, _print_bridges)
        return
    with Mesh(rows, columns, tenants=("doyen", "serf"), drop=drop) as mesh:
        course = partial(measure, mesh, warm_up_s=warm_up, seconds=minutes * 60, faults=faults, seed=seed, on_step=say)
        result = run(
            with_groups(
                lambda folder: [on_mesh(mesh, "doyen", TIMERS, folder), Serf("serf", Guests(mesh, "serf"), folder)],
                lambda groups: course(*groups),
            )
        )
    report(result, as_json, _print)


def _on_bridges(size: int, folder: Path) -> list[Entrant]:
    return [entrant(system, size, folder) for system in ("gossip+key", "serf")]


async def _both(course: Callable[[Entrant, Entrant], Awaitable[T]], groups: Sequence[Entrant]) -> T:
    return await course(groups[0], groups[1])


def _print_bridges(result: OnBridge) -> None:
    print_processes([process for at in result.sizes for process in at.processes])
    columns = ("MEMBER KILLED S", "MEMBER CUT OFF S", "LEADER KILLED S", "LEADER CUT OFF S")
    rows = [["N", "SYSTEM", "B/S", "CPU %", "PSS MB", *columns, "NEVER"]]
    for at in result.sizes:
        for name, group in (("doyen gossip, key", at.doyen), ("serf", at.serf)):
            times = (group.member_kill_s, group.member_cut_s, group.leader_kill_s, group.leader_cut_s)
            idle = group.idle
            figures = [
                f"{idle.bytes_per_s.mean:,.0f}",
                f"{idle.cpu_percent.mean:.2f}",
                f"{idle.pss_each.mean / 1e6:.1f}",
            ]
            shown = ["–" if value is None else f"{value:.2f}" for value in times]
            rows.append([str(at.nodes), name, *figures, *shown, str(group.never)])
    table(rows)
    rows = [["N", "WHAT", "VALUE", "AT MOST", ""]]
    for at in result.sizes:
        for aim in at.aims:
            value, most = ("none" if number is None else f"{number:.2f}" for number in (aim.value, aim.most))
            rows.append([str(at.nodes), aim.what, value, most, "ok" if aim.holds else "MISS"])
    table(rows)


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
