"""`doyen sim arbitration`."""

from typing import Any

import click

from doyen.cli.options import chosen, flags, named_by_flag
from doyen.cli.output import print_json, progress
from doyen.core.clock import format_duration
from doyen.errors import ConfigError
from doyen.sim.runs import run_seed
from doyen_papers.cli.sim.frame import run_flags
from doyen_papers.studies.arbitration import ArbitrationSetting, Spread, Summary, study
from doyen_papers.studies.arbitration_scenarios import SCENARIOS, play


@click.command("arbitration", help="A ring whose members watch and arbitrate each other.  Times in T_l.  [ARB]")
@flags(ArbitrationSetting)
@run_flags(runs=10)
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), help="One of the scenarios that must pass, instead.")
def command(runs: int, seed: int, jobs: int, scenario: str | None, as_json: bool, **given: Any) -> int:
    if runs < 1:
        raise ConfigError(f"--runs {runs} is too few: give at least 1")
    if scenario is not None:
        if any(value is not None for value in given.values()):
            raise ConfigError("--scenario brings its own setting: give only --runs, --seed and --json besides")
        return _play(scenario, runs, seed, as_json)
    setting = chosen(ArbitrationSetting, given)
    with named_by_flag(ArbitrationSetting), progress("arbitration", runs) as advance:
        summary = study(setting, runs, seed, jobs=jobs, progress=advance)
    if as_json:
        print_json(summary)
    else:
        _print(summary)
    return 0


def _play(scenario: str, runs: int, seed: int, as_json: bool) -> int:
    """Exit code 1 if it did not pass."""
    failed = {number: wrong for number in range(runs) if (wrong := play(scenario, run_seed(seed, number))) is not None}
    if as_json:
        print_json({"scenario": scenario, "runs": runs, "seed": seed, "passed": not failed, "failed": failed})
    else:
        click.echo(f"{scenario}: {runs - len(failed)} of {runs} runs passed")
        for number, wrong in failed.items():
            click.echo(f"  run {number}: {wrong}")
    return 1 if failed else 0


def _print(summary: Summary) -> None:
    setting, found, requests = summary.setting, summary.detection, summary.requests
    click.echo(
        f"{setting.mode} · {setting.arbiters} · N={setting.nodes} · k={setting.neighbours} · "
        f"T_l={format_duration(setting.lease)} · T_a={format_duration(setting.arbitration)} · {summary.runs} runs"
    )
    click.echo(f"  survivors          {_spread(summary.survivors)}")
    click.echo(f"  forced departures  {_spread(summary.forced_departures)}")
    if len(summary.survivors_by_event) > 1:
        click.echo(f"  after each event   {', '.join(f'{count:g}' for count in summary.survivors_by_event)}")
    if found.per_monitor.mean is not None:
        click.echo(f"  detection          {_spread(found.per_monitor)} T_l per monitor")
        click.echo(f"                     {_spread(found.all_monitors)} T_l until the last of them")
    if requests.total:
        click.echo(
            f"  requests           {requests.total:g} per run · {requests.per_node_mean:.3g} per arbitrator · "
            f"{requests.per_node_max:g} for the worst · {requests.share_below_10:.0%} below 10"
        )
    if summary.recovery_start.mean is not None:
        click.echo(
            f"  recovery starts    {summary.recovery_start.mean:.4g} T_l, at most {summary.recovery_start.max:.4g}"
        )
    if summary.join_latency.mean is not None:
        click.echo(f"  joining took       {summary.join_latency.mean:.4g} T_l, at most {summary.join_latency.max:.4g}")
    click.echo(f"  messages           {summary.messages_per_node_second:.4g} per node and second")
    broken = ", ".join(f"{name} {count}" for name, count in summary.violations.items() if count) or "none"
    click.echo(f"  mutual deaths      {summary.mutual_deaths} · bounds violated: {broken}")
    for line in summary.violation_lines:
        click.echo(f"    {line}")


def _spread(spread: Spread) -> str:
    return "–" if spread.mean is None else f"{spread.mean:.4g} ({spread.min:.4g} to {spread.max:.4g})"
