"""`doyen advise`: timers for a group and its network."""

from pathlib import Path
from typing import Any, Final

import click

from doyen.cli.options import DurationText
from doyen.cli.output import print_json
from doyen.cli.outputs import OutputFile, plot_flag
from doyen.errors import ConfigError
from doyen.eyes.plot import Plot
from doyen_papers.analysis.announce_timers import TimerAdvice, advise_timers

WISHES: Final = [10.0**power for power in range(3, -13, -1)]  # False departures an hour.


@click.command(
    "advise",
    help="Timers for an announce-listen election: T_A, T_L and T_S, and what to expect of them.  With --measure: "
    "timers for the group that runs here (gossip, fast or quorum), from what its own traffic shows of the network.",
)
@click.option("--nodes", type=int, default=None, help="How many processes; needed without --measure.")
@click.option("--loss", type=float, default=0.01, show_default=True, help="Share of messages lost.")
@click.option(
    "--delay", "delay_s", type=DurationText(as_seconds=True), default="1ms", show_default=True, help="One way."
)
@click.option(
    "--false-departures",
    "false_departures_per_hour",
    type=float,
    default=0.01,
    show_default=True,
    help="How many an hour are acceptable, in the group.",
)
@click.option(
    "--announce", "announce_s", type=DurationText(as_seconds=True), default="1s", show_default=True, help="T_A."
)
@click.option("--suppress", "suppress_s", type=DurationText(as_seconds=True), help="T_S, if it is given.")
@click.option(
    "--measure",
    type=DurationText(as_seconds=False),
    default=None,
    help="Measure the running group for this long, e.g. 60s; the flags above do not count then.",
)
@click.option("--group", default=None, envvar="DOYEN_GROUP", help="--measure: the group, if several run here.")
@click.option("--name", default=None, help="--measure: the node to ask, where several of the group run here.")
@click.option(
    "--per-year",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="--measure: how many false departures a year are acceptable, in the group.",
)
@click.option(
    "--detection",
    type=DurationText(as_seconds=False),
    default=None,
    help="--measure: how soon a lost leader shall be given up; by default intervals stay as they are.",
)
@click.option(
    "--simulate",
    type=click.IntRange(10, 10_000),
    default=50,
    show_default=True,
    help="--measure: takeovers to simulate for each promise.",
)
@click.option(
    "--apply", type=OutputFile(), default=None, help="--measure: write the timers into this TOML file of a node."
)
@plot_flag("false departures over how long a detection takes, with your point")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(plot: Path | None, as_json: bool, **given: Any) -> None:
    nodes = given.pop("nodes")
    live = {
        flag: given.pop(flag) for flag in ("measure", "group", "name", "per_year", "detection", "simulate", "apply")
    }
    window = live.pop("measure")
    if window is not None:
        from doyen_papers.cli.measure import advise_measured  # It loads the simulator.

        advise_measured(window, plot=plot, as_json=as_json, **live)
        return
    if live["apply"] is not None:
        raise ConfigError("--apply writes what was measured: give --measure 60s, too")
    if nodes is None:
        raise ConfigError("advise needs --nodes N, or --measure 60s where a node of the group runs")
    try:
        advice = advise_timers(nodes, **given)
    except ConfigError as error:
        if error.field is None:
            raise
        flag = error.field.removesuffix("_s").removesuffix("_per_hour").replace("_", "-")
        raise ConfigError(f"--{flag} {error.complaint}") from None
    if plot is not None:
        _draw(nodes, given, advice, plot)
    if as_json:
        print_json(advice)
        return
    click.echo(
        f"--announce-interval {advice.announce_s:g}s --listen-timeout {advice.listen_s:g}s "
        f"--suppress-interval {advice.suppress_s:g}s"
    )
    click.echo(f"  a leader is given up after {advice.k} announcements missed in a row")
    click.echo(f"  detection at most {advice.detection_max_s:g} s, takeover at most {advice.takeover_max_s:g} s")
    click.echo(f"  false departures {advice.false_departures_per_hour:.2g} an hour in the whole group")
    for warning in advice.warnings:
        click.echo(f"  note: {warning}")


def _draw(nodes: int, given: dict[str, Any], advice: TimerAdvice, path: Path) -> None:
    """Draw the trade-off: what each further announcement that is waited for costs and brings."""
    points = {(advice.detection_max_s, advice.false_departures_per_hour)}
    for wish in WISHES:
        try:
            found = advise_timers(nodes, **given | {"false_departures_per_hour": wish})
        except ConfigError:
            continue
        points.add((found.detection_max_s, found.false_departures_per_hour))
    picture = Plot(
        f"{nodes} nodes, loss {given['loss']:g}: false departures against detection",
        "detection at most, in seconds",
        "false departures an hour, in the whole group",
        y_powers=True,
    )
    picture.line("the best that timers can do", sorted(points))
    picture.point("yours", advice.detection_max_s, advice.false_departures_per_hour)
    path.write_text(picture.svg(), encoding="utf-8")
