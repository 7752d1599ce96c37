"""`doyen sim announce`."""

from pathlib import Path
from typing import Any

import click

from doyen.cli.options import chosen, flags, named_by_flag
from doyen.cli.output import progress, show
from doyen.sim.runs import run_seed
from doyen_papers.analysis.setting import Setting
from doyen_papers.cli.sim.frame import answer, run_flags, tracing
from doyen_papers.studies.announce import Engine, Extensions, Summary, simulate, study


@click.command("announce", help="Announce-listen elections, simulated.  Durations as 200ms, 1s, inf.")
@flags(Setting)
@flags(Extensions)
@run_flags(runs=100, trace=True)
@click.option(
    "--engine",
    type=click.Choice(["machine", "kernel"]),
    default="machine",
    show_default=True,
    help="The protocol's own machines, or Monte-Carlo kernels that are held equal to them.",
)
def command(
    runs: int, seed: int, jobs: int, engine: Engine, trace_path: Path | None, as_json: bool, **given: Any
) -> None:
    setting, extensions = chosen(Setting, given), chosen(Extensions, given)
    with named_by_flag(Setting, Extensions), progress(f"{setting.variant} N={setting.nodes}", runs) as advance:
        summary = study(
            setting, runs=runs, seed=seed, jobs=jobs, engine=engine, extensions=extensions, progress=advance
        )
    if trace_path is not None:
        with tracing(trace_path) as trace:
            simulate(setting, run_seed(seed, 0), extensions=extensions, trace=trace)
    answer(summary, as_json, _print)


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
