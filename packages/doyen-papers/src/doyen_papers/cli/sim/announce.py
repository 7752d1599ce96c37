"""`doyen sim announce`."""

from pathlib import Path
from typing import Any

import click
import msgspec

from doyen.cli.options import OutputFile, chosen, flags, named_by_flag
from doyen.cli.output import print_json, progress, show
from doyen.sim.runs import run_seed
from doyen.sim.trace import Trace
from doyen_papers.analysis.setting import Setting
from doyen_papers.studies.announce import Engine, Extensions, Summary, simulate, study


@click.command("announce", help="Announce-listen elections, simulated.  Durations as 200ms, 1s, inf.")
@flags(Setting)
@flags(Extensions)
@click.option("--runs", type=int, default=100, show_default=True, help="How many runs.")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same figures.")
@click.option("--jobs", type=int, default=0, help="Processes; 0: one per core.  Changes nothing but the time.")
@click.option(
    "--engine",
    type=click.Choice(["machine", "kernel"]),
    default="machine",
    show_default=True,
    help="The protocol's own machines, or Monte-Carlo kernels that are held equal to them.",
)
@click.option("--trace", "trace_path", type=OutputFile(), help="Write the first run, a line an event.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    runs: int, seed: int, jobs: int, engine: Engine, trace_path: Path | None, as_json: bool, **given: Any
) -> None:
    setting, extensions = chosen(Setting, given), chosen(Extensions, given)
    with named_by_flag(Setting, Extensions), progress(f"{setting.variant} N={setting.nodes}", runs) as advance:
        summary = study(
            setting, runs=runs, seed=seed, jobs=jobs, engine=engine, extensions=extensions, progress=advance
        )
    if trace_path is not None:
        with open(trace_path, "w", encoding="utf-8") as lines:
            simulate(setting, run_seed(seed, 0), extensions=extensions, trace=Trace(lines))
    if as_json:
        print_json(_as_json(summary))
    else:
        _print(summary)


def _as_json(summary: Summary) -> dict[str, Any]:
    """The setting's own fields are in it too, in seconds."""
    result = {name: getattr(summary, name) for name in summary.__struct_fields__ if name != "setting"}
    if summary.trace_hash is None:
        del result["trace_hash"]
    return msgspec.structs.asdict(summary.setting) | result


def _print(summary: Summary) -> None:
    setting = summary.setting
    name = f"{setting.variant} · N={setting.nodes} · loss {setting.loss_prob:g} {setting.loss_model} · {setting.event}"
    if summary.converged == 0:
        click.echo(f"{name}: never agreed in {summary.runs} runs")
    elif setting.event == "start":
        click.echo(f"{name}: all agree after {show(summary.tmax)} s (+ {setting.delay_s:g} s on its way)")
    else:
        click.echo(f"{name}: all agree again after {show(summary.reestablishment)} s")
    rows = [
        ("messages", show(summary.messages), "sent until then"),
        ("rounds", show(summary.rounds), "announcements of the winner until all heard it"),
        ("avg rounds", show(summary.avg_rounds), "until one process heard it"),
        ("first round", show(summary.first_round.messages), "messages"),
        ("", show(summary.first_round.tmax, " s"), "until its last message"),
        ("notice", show(summary.notice, " s"), "until a survivor gives the departed leader up"),
        ("inconsistent", show(summary.inconsistent), "share of the time"),
        ("leaders", show(summary.leaders), "announcers per announce interval"),
    ]
    for what, value, meaning in rows:
        if value not in ("never", "never s"):
            click.echo(f"  {what:13} {value:22} {meaning}")
    traced = f" · trace {summary.trace_hash}" if summary.trace_hash else ""
    click.echo(
        f"  {summary.converged} of {summary.runs} runs agreed · {summary.engine} engine · seed {summary.seed}{traced}"
    )
