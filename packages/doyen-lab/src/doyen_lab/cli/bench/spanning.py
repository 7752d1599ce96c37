"""`doyen bench spanning`: the spanning election among real processes on a mesh."""

import click

from doyen.cli.output import print_json
from doyen_lab.cli.bench import run
from doyen_lab.spanning_mesh import MeshRun, run_mesh
from doyen_papers.papers.madm.chapter import GRAPHS, quality_of


@click.command("spanning", help="Twelve processes on Figure 6.3's graph (c): links and nodes fail and return.  Root.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> None:
    result = run(run_mesh(GRAPHS["6.5"], quality_of("6.5"), parted=("5", "11")))
    if as_json:
        print_json(result)
    else:
        _print(result)


def _print(result: MeshRun) -> None:
    click.echo(f"{len(result.hosts)} processes in namespaces of their own · {len(result.link_packets)} links")
    for step in result.steps:
        led = " · ".join(f"{leader} leads {members}" for members, leader in step.leaders.items())
        click.echo(f"  {step.what:12} {step.took_s:6.2f} s  {led}")
    kinds = ", ".join(f"{kind} {count}" for kind, count in result.messages.items())
    click.echo(f"  {result.total} messages for one election ({kinds}); by the formula {result.expected}")
    for host in result.hosts:
        click.echo(
            f"  {host.name:>3}  pid {host.pid}  {host.namespace} ({host.inode})  "
            f"{host.tx_packets} packets out, {host.rx_packets} in"
        )
