"""`doyen bench engines`: elections that a store decides, beside the store's own recipe."""

import click

from doyen_lab.cli.bench.shared import report
from doyen_lab.contest.engines import KINDS, Contest, contest


@click.command("engines", help="Kill and stop leaders that a real store elected, by doyen and by the store's recipe.")
@click.option("--store", type=click.Choice(KINDS), multiple=True, help="Only this one; may be given several times.")
@click.option("--trials", type=click.IntRange(1, 100), default=3, show_default=True, help="Leaders lost in each way.")
@click.option("--idle", type=click.FloatRange(1, 3600), default=20.0, show_default=True, help="Seconds of counting.")
@click.option("--limit", type=click.FloatRange(1, 600), default=75.0, show_default=True, help="Seconds until given up.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every takeover.")
def command(store: tuple[str, ...], trials: int, idle: float, limit: float, as_json: bool) -> None:
    result = contest(
        store or KINDS,
        trials=trials,
        idle_s=idle,
        limit_s=limit,
        on_step=lambda what: click.echo(f"  measuring {what}", err=True),
    )
    report(result, as_json, _print)


def _print(result: Contest) -> None:
    click.echo("three processes on loopback, one server · times from the loss until the next leader acts, medians")
    click.echo(f"  {'store':11} {'by':15} {'killed':>9} {'stopped':>9} {'requests/s':>11} {'stopped × requests/s':>21}")
    for found in result.figures:
        stopped = _seconds(found.stop_s, result.limit_s)
        product = "–" if found.stop_s is None else f"{found.stop_s * found.requests_per_s:.1f}"
        killed = _seconds(found.kill_s, result.limit_s)
        row = f"{found.store:11} {found.how:15} {killed:>9} {stopped:>9} {found.requests_per_s:>11.2f} {product:>21}"
        click.echo(f"  {row}")
    for lost in result.failed:
        click.echo(f"  {lost.store:11} {lost.how:15} failed: {lost.why}")
    for store, ratio in result.sooner_after_a_kill.items():
        cost = result.cost_of_a_stop[store]
        share = "the recipe asks nothing" if cost is None else f"{cost:.2f} of the recipe's takeover × requests/s"
        click.echo(f"  {store:11} {ratio:.1f} times sooner after a kill (aim: 5) · stopped: {share} (aim: 1)")
    for store, reason in result.skipped.items():
        click.echo(f"  {store:11} skipped: {reason}")


def _seconds(value: float | None, limit_s: float) -> str:
    return f"> {limit_s:.0f} s" if value is None else f"{value:.2f} s"
