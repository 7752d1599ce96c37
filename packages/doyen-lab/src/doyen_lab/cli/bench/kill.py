"""`doyen bench kill`: how long a real group is without a leader."""

from pathlib import Path

import click

from doyen.cli.output import progress
from doyen.cli.outputs import plot_flag
from doyen.core.clock import format_duration
from doyen.eyes.plot import Plot, shares
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import report
from doyen_lab.contest.kills import LATENESS_MAX, TIMERS, Kill, Takeovers, kill_leaders


@click.command("kill", help="Kill the leader of a real group on loopback, again and again, and time each takeover.")
@click.option("--nodes", type=click.IntRange(2, 64), default=5, show_default=True, help="How many processes.")
@click.option("--kills", type=click.IntRange(1), default=50, show_default=True, help="How many leaders to kill.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the instants of the kills.")
@plot_flag("how long the takeovers took")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every kill.")
def command(nodes: int, kills: int, seed: int, plot: Path | None, as_json: bool) -> None:
    with progress(f"kill N={nodes}", kills) as advance:

        def on_kill(kill: Kill) -> None:
            advance(kill.counted)

        result = run(kill_leaders(nodes=nodes, kills=kills, seed=seed, on_kill=on_kill))
    if plot is not None:
        plot.write_text(picture(result).svg(), encoding="utf-8")
    report(result, as_json, _print)


def picture(result: Takeovers) -> Plot:
    """Return how long the takeovers took, and the bound."""
    taken = [kill.takeover_s for kill in result.each if kill.counted and kill.takeover_s is not None]
    title = f"the leader of {result.nodes} killed, {result.kills} times"
    found = Plot(title, "takeover, in seconds", "share of the kills")
    found.steps("takeovers", shares(taken))
    found.line("the bound", [(result.bound_s, 0.0), (result.bound_s, 1.0)])
    return found


def _print(result: Takeovers) -> None:
    t = TIMERS
    click.echo(
        f"{result.kills} leaders killed · {result.nodes} processes on loopback · "
        f"T_A {format_duration(t.announce_interval)}, T_L {format_duration(t.listen_timeout)}, "
        f"T_S {format_duration(t.suppress_interval)}"
    )
    rows = [
        ("agreed", f"{result.agreed} of {result.kills}", "all survivors held the best of them, unchanged for 2·T_A"),
        ("median", _ms(result.median_s), "from the kill until the last survivor held it"),
        ("worst", _ms(result.worst_s), f"must be below T_L + T_S + 300 ms = {_ms(result.bound_s)}"),
        ("lateness", _ms(result.lateness_worst_s), "the worst of this machine's timers meanwhile (control process)"),
        (
            "repeated",
            str(result.repeated),
            f"kills not counted: timers were later than {format_duration(LATENESS_MAX)}",
        ),
    ]
    for what, value, meaning in rows:
        click.echo(f"  {what:9} {value:10} {meaning}")


def _ms(duration_s: float | None) -> str:
    return "never" if duration_s is None else f"{duration_s * 1e3:.0f} ms"
