"""`doyen sim ctolerant`."""

from pathlib import Path
from typing import Any

import click

from doyen.cli.options import chosen, flags, named_by_flag
from doyen.cli.output import print_json, progress, show
from doyen.cli.outputs import MEMBERSHIPS, OutputFile
from doyen.errors import ConfigError
from doyen.sim.runs import run_seed
from doyen_papers.cli.sim.frame import answer, run_flags
from doyen_papers.studies.ctolerant import ChurnSetting, Summary, record, study

UNITS = {"completion": " s", "completion_final": " s"}
MEANINGS = {
    "completion": "until the last node holds the eventual leader",
    "completion_final": "until it holds it finally",
    "unicasts": "QUERY, RESPONSE and NOTIFYLEADER",
    "multicasts": "LEADERs",
    "bytes": "summed over hops",
    "bytes_end_to_end": "each packet once",
    "leader_changes": "different leaders told, the first counts",
    "hash_rank": "0: the lowest hash leads",
    "unhealthy_rank": "0: the most unhealthy leads",
    "preference": "share of leaders outside the most unhealthy",
    "p": "share of the most unhealthy that a RESPONSE does not list",
    "attempts": "rounds of queries",
}


@click.command("ctolerant", help="Churn-tolerant elections over weak views, simulated.  [CTOL]")
@flags(ChurnSetting)
@run_flags(runs=100)
@click.option(
    "--record", "record_path", type=OutputFile(MEMBERSHIPS), help="Write a membership trace instead of electing."
)
@click.option("--seconds", "duration", type=float, help="Length of that trace. [300]")
def command(
    runs: int, seed: int, jobs: int, record_path: Path | None, duration: float | None, as_json: bool, **given: Any
) -> None:
    setting = chosen(ChurnSetting, given)
    if duration is not None and record_path is None:
        raise ConfigError("--seconds is for --record: an election takes as long as it takes")
    with named_by_flag(ChurnSetting):
        if record_path is not None:
            trace = record(setting, run_seed(seed, 0), duration_s=300.0 if duration is None else duration)
            trace.write(str(record_path))
            print_json({"trace": str(record_path), "changes": len(trace.changes)})
            return
        with progress(f"{setting.variant} N={setting.nodes}", runs) as advance:
            summary = study(setting, runs=runs, seed=seed, jobs=jobs, progress=advance)
    answer(summary, as_json, _print)


def _print(summary: Summary) -> None:
    setting = summary.setting
    views = f"trace {setting.trace}" if setting.trace else setting.membership if setting.drop else "complete views"
    click.echo(
        f"{setting.variant} · {setting.topology} N={setting.nodes} · drop {setting.drop:g} · {views} · "
        f"c = {show(summary.missing_max)}"
    )
    for name, value in summary.figures.items():
        if value is not None:
            click.echo(f"  {name:17} {show(value, UNITS.get(name, '')):22} {MEANINGS[name]}")
    click.echo(f"  agreement {summary.agreement:g} of {summary.runs} runs · seed {summary.seed} · {summary.trace_hash}")
