"""`doyen bench partial`: who leads where links are cut one by one, ours beside real etcd and ZooKeeper servers."""

from typing import TypeVar

import click

from doyen.cli.local import table
from doyen.errors import ConfigError, TransportError
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import check_positive, print_processes, report, say
from doyen_lab.contest.asking import need_commands
from doyen_lab.contest.partial import CASES, ENTRANTS, NEED, OURS, Case, Figures, Led, Partial, entrant, keeps, measure
from doyen_lab.contest.trial import with_groups
from doyen_lab.iproute import check_rights

T = TypeVar("T", bound=str)


@click.command("partial", help="Links cut one by one: who leads, how soon, for what share of the time (root).")
@click.option("--nodes", type=click.IntRange(3, 15), default=5, show_default=True, help="How many that elect.")
@click.option("--entrants", default=",".join(ENTRANTS), show_default=True, help="Which systems; by commas.")
@click.option("--shapes", default=",".join(CASES), show_default=True, help="Which shapes of links; by commas.")
@click.option("--watch-seconds", type=float, default=30, show_default=True, help="How long each shape is watched.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every process and every leader.")
def command(nodes: int, entrants: str, shapes: str, watch_seconds: float, as_json: bool) -> None:
    systems, cases = _some("entrants", entrants, ENTRANTS), _some("shapes", shapes, CASES)
    check_positive("--watch-seconds", watch_seconds)
    check_rights()
    absent: dict[str, str] = {}
    found: list[Figures] = []
    for system in systems:
        try:
            need_commands(system, NEED.get(system, {}))
            found.append(_measured(system, nodes, cases, watch_seconds))
        except TransportError as error:
            absent[system] = str(error)
            say(f"{system}: not measured: {error}")
    quorum = [figures for figures in found if figures.system == "doyen quorum"]
    holds = all(map(keeps, quorum)) and not set(OURS) & set(absent)
    report(Partial(watched_s=watch_seconds, systems=found, absent=absent, holds=holds), as_json, _print)


def _measured(system: str, nodes: int, cases: list[Case], watched_s: float) -> Figures:
    return run(
        with_groups(
            lambda folder: [entrant(system, nodes, folder)], lambda groups: measure(groups[0], cases, watched_s, say)
        )
    )


def _some(flag: str, text: str, known: tuple[T, ...]) -> list[T]:
    found = [name for name in known if name in text.split(",")]
    wrong = [name for name in text.split(",") if name not in known]
    if wrong or not found:
        raise ConfigError(f"--{flag} {text}: give some of {', '.join(known)}, by commas")
    return found


def _print(result: Partial) -> None:
    print_processes([process for figures in result.systems for process in figures.processes])
    cases = [led.case for led in result.systems[0].cases] if result.systems else []
    table([["SYSTEM", *cases], *([f.system, *map(_cell, f.cases)] for f in result.systems)])
    click.echo(f"who led in the end, how long after the change, and the share of {result.watched_s:g} s that was led")
    for system, why in result.absent.items():
        click.echo(f"{system}: not measured: {why}")


def _cell(led: Led) -> str:
    if led.why:
        return "not measured"
    if led.after_s is None:
        return f"nobody, {led.share:.0%}"
    whose = "hub" if led.leader == led.hub else "as before" if led.leader == led.before else "another"
    return f"{whose} {led.after_s:.1f} s, {led.share:.0%}"
