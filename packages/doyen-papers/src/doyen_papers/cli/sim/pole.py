"""`doyen sim pole`."""

import re
from math import isfinite
from pathlib import Path
from typing import Any, Final

import click

from doyen.cli.options import named_by_flag
from doyen.cli.output import print_json, progress
from doyen.errors import ConfigError
from doyen_papers.cli.sim.frame import run_flags, tracing
from doyen_papers.studies import pole_chaos
from doyen_papers.studies.pole import CHOICES, SNAPSHOT_MAX, Latency, Run, ServiceSetting, simulate
from doyen_papers.studies.pole_places import NAMES

UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@click.command("pole", help="Elections by application score: a service that loses its leader, or chaos.  [POLE]")
@click.option("--deployment", metavar="NAME|FILE", help=f"Where the servers are: {', '.join(NAMES)}, or a TOML file.")
@click.option(
    "--oracle", metavar="NAME", help=f"What makes a good leader: {', '.join(CHOICES)}, preference:p3,p4. [latency]"
)
@click.option("--share", type=float, help="Part of all requests from D3 (1, 2, recovery) or D2 (3, two-dc). [even]")
@click.option("--outdated", metavar="p1,…", help="Servers that lack the history when the leader crashes.")
@click.option("--snapshot", metavar="SIZE", help="What those must be sent, e.g. 100MB. [0]")
@click.option("--jitter", metavar="PERCENT", help="Standard deviation of delays, e.g. 2%. [0]")
@click.option("--rtt", type=float, help="Between all data centres, in ms, instead of the deployment's.")
@click.option("--chaos", is_flag=True, help="Everything that can go wrong, with checkers.")
@click.option("--nodes", type=int, help="chaos: voters. [5]")
@click.option("--runs", type=int, help="chaos: how many. [100]")
@click.option("--jobs", type=int, help="chaos: processes; 0: one per core. [0]")
@run_flags(trace=True)
def command(
    chaos: bool,
    nodes: int | None,
    runs: int | None,
    seed: int,
    jobs: int | None,
    trace_path: Path | None,
    as_json: bool,
    **service: Any,
) -> None:
    of_chaos = {"nodes": nodes, "runs": runs, "jobs": jobs}
    for name, value in (service | {"trace": trace_path} if chaos else of_chaos).items():
        if value is not None:
            raise ConfigError(f"--{name} is {'not ' if chaos else ''}for --chaos")
    if not chaos and service["deployment"] is None:
        raise ConfigError(f"--deployment is missing: one of {', '.join(NAMES)}, or a file; or say --chaos")
    with named_by_flag():
        if chaos:
            _chaos(5 if nodes is None else nodes, 100 if runs is None else runs, seed, jobs or 0, as_json)
            return
        setting = _setting(**service)
    with tracing(trace_path) as trace:
        run = simulate(setting, seed, trace=trace)
    if as_json:
        print_json(as_object(run))
    else:
        _print(run, setting)


def _setting(
    *, outdated: str | None, snapshot: str | None, jitter: str | None, rtt: float | None, **plain: Any
) -> ServiceSetting:
    return ServiceSetting(
        outdated=None if outdated is None else tuple(name.strip() for name in outdated.split(",") if name.strip()),
        snapshot_bytes=_size(snapshot),
        jitter=_percent(jitter),
        rtt_ms=rtt,
        **{name: value for name, value in plain.items() if value is not None},
    )


def as_object(run: Run) -> dict[str, Any]:
    return {
        "leader_before": run.leader_before,
        "leader_after": run.leader_after,
        "latency": {"before": run.before, "after": run.after},
        "recovery_time": run.recovery_time,
        "election_time": run.election_time,
        "messages": run.messages,
        "trace_hash": run.trace_hash,
    }


def _chaos(nodes: int, runs: int, seed: int, jobs: int, as_json: bool) -> None:
    with progress(f"chaos N={nodes}", runs) as advance:
        found = pole_chaos.study(nodes, runs=runs, seed=seed, jobs=jobs, progress=advance)
    if as_json:
        print_json(found)
        return
    holds = not found.complaints
    click.echo(f"{found.runs} runs of {found.nodes} voters, {found.reigns} reigns: {'holds' if holds else 'BROKEN'}")
    click.echo(f"  leaders per epoch   at most {found.leaders_per_epoch_max}")
    click.echo(f"  overlap             {found.overlap:g} s of two leaders acting at once")
    click.echo(f"  epochs back         {found.epochs_back}")
    click.echo(f"  unfinished          {found.unfinished}")
    click.echo(
        f"  one leader          {found.settled_max:g} s after the faults at worst (bound {found.settle_bound:g} s)"
    )
    click.echo("  faults              " + " · ".join(f"{name} {count}" for name, count in found.faults.items()))
    for complaint in found.complaints:
        click.echo(complaint)


def _print(run: Run, setting: ServiceSetting) -> None:
    before, after = run.leader_before or "nobody", run.leader_after or "nobody"
    click.echo(f"{before} led, {after} leads after its crash, by {setting.oracle}")
    times = [("elected after", run.election_time, "s"), ("serving after", run.recovery_time, "s more")]
    click.echo("  " + " · ".join(f"{what} {_shown(value)} {unit}" for what, value, unit in times))
    click.echo(f"  {'':9}{'before':>18}{'after':>18}")
    for name in run.after:
        click.echo(f"  {name:9}{_both(run.before[name]):>18}{_both(run.after[name]):>18}")
    click.echo(f"  mean, worst in ms · {run.messages['total']} messages · trace {run.trace_hash}")


def _both(latency: Latency) -> str:
    return f"{_shown(latency.mean)}, {_shown(latency.worst)}"


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _size(text: str | None) -> int:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?B)?\s*", text or "0", re.IGNORECASE | re.ASCII)
    if found is None:
        raise ConfigError(f"{text!r} is not a size: give e.g. 100MB", field="snapshot")
    size = float(found[1]) * UNITS[(found[2] or "").upper()]
    return round(size) if isfinite(size) else SNAPSHOT_MAX + 1


def _percent(text: str | None) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(%)?\s*", text or "0", re.ASCII)
    if found is None:
        raise ConfigError(f"{text!r} is not a part: give e.g. 2%", field="jitter")
    return float(found[1]) / (100 if found[2] else 1)
