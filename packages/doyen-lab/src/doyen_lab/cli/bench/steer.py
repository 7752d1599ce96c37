"""`doyen bench steer`: a real etcd over [POLE]'s Deployment 1, before and after `doyen steer etcd`."""

import click

from doyen_lab.cli.bench.shared import report
from doyen_lab.steered import Steered, Waited, measure


@click.command("steer", help="What clients of a real etcd wait before and after `doyen steer etcd`.  Needs root.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=30.0, show_default=True, help="Under each leader.")
@click.option("--rate", type=click.FloatRange(0.1, 200), default=5.0, show_default=True, help="Writes/s of a centre.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(seconds: float, rate: float, as_json: bool) -> None:
    result = measure(load_s=seconds, rate=rate, on_step=lambda what: click.echo(f"  {what}", err=True))
    report(result, as_json, _print)


def _print(result: Steered) -> None:
    click.echo("five etcd servers at the round trips of Deployment 1 · what a client waits for a write, means in ms")
    click.echo(f"  {'':22} {'leader':8} {'D1':>7} {'D2':>7} {'D3':>7} {'all':>7}")
    _print_row("before", result.before)
    _print_row("after doyen steer", result.after)
    for name, waited in (("before", result.before), ("after", result.after)):
        click.echo(f"  {f'model, {name}':22} {waited.leader:8} {'':23} {result.model[waited.leader]:>7.1f}")
    for name, found in result.published.items():
        cells = " ".join(
            f"{found[centre]:>7.1f}" if centre in found else " " * 7 for centre in ("D1", "D2", "D3", "mean")
        )
        click.echo(f"  {f'paper (ZooKeeper), {name}':31} {cells}")
    click.echo(f"  {result.said['why']} · the switch was late by {result.overdue_max_s * 1000:.0f} ms at the worst")


def _print_row(name: str, waited: Waited) -> None:
    centres = " ".join(f"{waited.centres[centre]:>7.1f}" for centre in ("D1", "D2", "D3"))
    failed = f" · {waited.failed} failed" if waited.failed else ""
    click.echo(f"  {name:22} {waited.leader:8} {centres} {waited.mean:>7.1f}  {waited.requests} writes{failed}")
