"""`doyen sim ctolerant`."""

from pathlib import Path
from typing import Any

import click
import msgspec

from doyen.cli.options import OutputFile, chosen, flags, named_by_flag
from doyen.cli.output import print_json, progress, show
from doyen.errors import ConfigError
from doyen.sim.runs import run_seed
from doyen_papers.studies.ctolerant import Setting, Summary, record, study

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
@flags(Setting)
@click.option("--runs", type=int, default=100, show_default=True, help="How many runs, each with its own initiator.")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same figures.")
@click.option("--jobs", type=int, default=0, help="Processes; 0: one per core.  Changes nothing but the time.")
@click.option("--record", "record_path", type=OutputFile(), help="Write a membership trace instead of electing.")
@click.option("--seconds", "duration", type=float, help="Length of that trace. [300]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    runs: int, seed: int, jobs: int, record_path: Path | None, duration: float | None, as_json: bool, **given: Any
) -> None:
    setting = chosen(Setting, given)
    if duration is not None and record_path is None:
        raise ConfigError("--seconds is for --record: an election takes as long as it takes")
    with named_by_flag(Setting):
        if record_path is not None:
            trace = record(setting, run_seed(seed, 0), duration_s=300.0 if duration is None else duration)
            trace.write(str(record_path))
            print_json({"trace": str(record_path), "changes": len(trace.changes)})
            return
        with progress(f"{setting.variant} N={setting.nodes}", runs) as advance:
            summary = study(setting, runs=runs, seed=seed, jobs=jobs, progress=advance)
    if as_json:
        print_json(_as_json(summary))
    else:
        _print(summary)


def _as_json(summary: Summary) -> dict[str, Any]:
    """The setting's own fields are in it too; `missing_max` as it was used."""
    rest = {name: getattr(summary, name) for name in ("runs", "seed", "missing_max", "agreement", "trace_hash")}
    return msgspec.structs.asdict(summary.setting) | summary.figures | rest


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
