"""`doyen sim replay`."""

from pathlib import Path

import click

from doyen.cli.outputs import TRACE, OutputFile
from doyen.cli.sim.run import failed, report, trace_to
from doyen.errors import ConfigError
from doyen.sim.scenario import Scenario, from_line, replay_line, simulate
from doyen.sim.scenario.shrink import shrink


@click.command("replay", help="Run one seed again: LINE is what a failure printed, in quotes.")
@click.argument("line")
@click.option("--shrink", "smaller", is_flag=True, help="Make it smaller as long as it fails alike; print its line.")
@click.option("--trace", "trace_path", type=OutputFile(TRACE), help="Write a line an event.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(line: str, smaller: bool, trace_path: Path | None, as_json: bool) -> int:
    scenario = from_line(line)
    if smaller:
        shrunk = shrink(scenario, _broken)
        if shrunk is None:
            raise ConfigError("--shrink needs a run that fails, and this one does not")
        scenario = shrunk.scenario
        click.echo(f"{shrunk.check} still violated after {shrunk.tries} tries, by:", err=True)
        click.echo(replay_line(scenario, scenario.run.seed), err=True)
    with trace_to(trace_path) as trace:
        result = simulate(scenario, trace=trace)
    report(scenario, result, as_json)
    return failed(scenario, [result])


def _broken(scenario: Scenario) -> str | None:
    violations = simulate(scenario).violations
    return violations[0].check if violations else None
