"""`doyen lab`: real processes under faults, judged by what their election promises; and a museum in made-up time."""

import sys
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from doyen.cli.output import print_json
from doyen.cli.outputs import INCIDENT, OutputFile, Sort, check_kept
from doyen.errors import ConfigError
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import check_positive, report, say
from doyen_lab.museum.exhibits import EXHIBITS
from doyen_lab.museum.page import HEAD, ours, page, wrong
from doyen_lab.museum.show import show
from doyen_lab.proving.combination import COMBINATIONS, chosen
from doyen_lab.proving.runner import Result, pairs, prove_all
from doyen_lab.proving.scenarios import SCENARIOS
from doyen_lab.proving.singleton import FAULTS, SINGLETON, prove_singleton
from doyen_lab.proving.soak import Soak, soak
from doyen_lab.proving.will import FAULTS as WILL_FAULTS
from doyen_lab.proving.will import WILL, prove_will

_WIDTHS = (16, 9, 8, 7, 16, 12, 8, 0)
_HEAD = ("SCENARIO", "ELECTION", "PROMISE", "VERDICT", "TAKEOVER S", "TWO AT ONCE", "LATENESS", "FAULTS")


TABLE: Final = Sort("the page of the museum", lambda head: head.startswith(HEAD.encode()[:40]))
_COMMANDS: Final[dict[str, tuple[str, tuple[str, ...], Any]]] = {  # Scenarios of `doyen run`.
    SINGLETON: (
        "doyen run, whose runners, guards and commands are killed, stopped, paused and cut off",
        FAULTS,
        prove_singleton,
    ),
    WILL: (
        "doyen run, every part of which is killed in every order: the will of a killed runner",
        WILL_FAULTS,
        prove_will,
    ),
}


@click.group("lab", help="Real processes in namespaces under faults, judged by what their election promises.")
def command() -> None:
    pass


@command.command("list", help="The scenarios, by name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_scenarios(as_json: bool) -> None:
    shown: list[dict[str, Any]] = [
        {"name": s.name, "text": s.text, "faults": s.faults, "elections": s.combinations} for s in SCENARIOS.values()
    ]
    shown += [
        {"name": name, "text": text, "faults": faults, "elections": ("pole",)}
        for name, (text, faults, _) in _COMMANDS.items()
    ]
    if as_json:
        print_json({"scenarios": shown})
        return
    for scenario in shown:
        click.echo(f"{scenario['name']:16} {scenario['text']} ({', '.join(scenario['elections'])})")


@command.command(
    "run", help="Run scenarios, by name or as files, all unless some are given; exit 1 if a promise is broken (root)."
)
@click.argument("names", metavar="[NAME|FILE.toml]…", nargs=-1)
@click.option(
    "--election",
    "elections",
    multiple=True,
    help=f"Only with this: {', '.join(COMBINATIONS)}, or any that is installed; may be repeated.",
)
@click.option(
    "--kills",
    type=click.IntRange(1),
    default=12,
    show_default=True,
    help="singleton: so many, and as many other faults; will: so many.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the network's losses, and of chance here.")
@click.option("--keep", is_flag=True, help="Keep the histories, also where the promise holds, and recordings.")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    help="Record all nodes, and write each run as a file to look at: a folder, or FILE.html for one run.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def run_scenarios(
    names: tuple[str, ...],
    elections: tuple[str, ...],
    kills: int,
    seed: int,
    keep: bool,
    html: Path | None,
    as_json: bool,
) -> None:
    named = tuple(name for name in names if name not in _COMMANDS)
    kinds = [combination.name for combination in chosen(elections)]
    wanted = pairs(named, elections) if named or not names else []
    of_commands = [name for name in _COMMANDS if (name in names or not names) and "pole" in kinds]
    if not wanted and not of_commands:
        raise ConfigError(f"--election {', '.join(elections)} is not run with {', '.join(names)}: see doyen lab list")
    if html is not None and html.suffix == ".html" and len(wanted) + len(of_commands) > 1:
        raise ConfigError(
            f"--html {html} is one file, and {len(wanted) + len(of_commands)} runs are wanted: give a folder"
        )
    if html is not None:
        runs = [(scenario.name, combination.name) for scenario, combination in wanted]
        runs += [(name, "pole") for name in of_commands]
        files = [html] if html.suffix == ".html" else [html / f"{name}-{kind}.html" for name, kind in runs]
        check_kept(files, INCIDENT, "--html")
    if not as_json:
        _row(_HEAD)
    on_result = _ignore if as_json else print_result
    given = click.get_current_context().get_parameter_source("seed") is not ParameterSource.DEFAULT
    results = run(prove_all(wanted, seed=seed if given else None, keep=keep, on_result=on_result, html=html))
    for name in of_commands:
        file = html if html is None or html.suffix == ".html" else html / f"{name}-pole.html"
        results.append(run(_COMMANDS[name][2](kills, seed=seed, keep=keep, html=file)))
        on_result(results[-1])
    broken = sum(not result.holds for result in results)
    if as_json:
        print_json({"results": results, "holds": not broken})
    else:
        hosts = [host for result in results for host in result.hosts]
        pids, packets = sum(len(host.pids) for host in hosts), sum(host.tx_packets for host in hosts)
        click.echo(f"{pids} processes in {len(hosts)} namespaces sent {packets} packets, by the kernel's counters")
        click.echo(f"{len(results) - broken} of {len(results)} hold")
    if broken:
        sys.exit(1)


@command.command(
    "soak", help="A large group for long, with random faults of all sorts; nothing may grow or fail (root)."
)
@click.option("--agents", type=click.IntRange(3, 200), default=64, show_default=True, help="How many processes.")
@click.option("--minutes", type=float, default=10.0, show_default=True, help="How long, once all have joined.")
@click.option("--loss", type=float, default=0.05, show_default=True, help="The chance that a packet is lost.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of losses, and of who is killed when.")
@click.option("--keep", is_flag=True, help="Keep histories and logs.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def run_soak(agents: int, minutes: float, loss: float, seed: int, keep: bool, as_json: bool) -> None:
    check_positive("--minutes", minutes)
    if not 0 < loss < 1:
        raise ConfigError(f"--loss {loss} is out of range: give a number above 0 and below 1")
    found = run(soak(agents, minutes, loss=loss, seed=seed, keep=keep, on_step=say))
    report(found, as_json, print_soak)


@command.command("museum", help="Published failures of other rules, and doyen on the same scenario, in made-up time.")
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option("--seed", type=int, default=1, show_default=True, help="Of delays, and of chance in the rules.")
@click.option("--page", "file", type=OutputFile(TABLE), help="Write the table to this file, as Markdown.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def museum(names: tuple[str, ...], seed: int, file: Path | None, as_json: bool) -> None:
    unknown = [name for name in names if name not in EXHIBITS]
    if unknown:
        raise ConfigError(f"{unknown[0]} is not in the museum: one of {', '.join(EXHIBITS)}")
    results = []
    for exhibit in (EXHIBITS[name] for name in names or EXHIBITS):
        results.append(result := show(exhibit, seed))
        if not as_json:
            rule = wrong(result) if result.fails else f"SHOWS NOTHING: {wrong(result)}"
            held = ours(result.doyen) if result.holds else f"FAILS: {ours(result.doyen)}"
            click.echo(f"{result.name:26} {rule:26} {held}")
            click.echo(f"    {result.happened} ({', '.join(result.where)})")
    if file is not None:
        file.write_text(page(results), encoding="utf-8")
    if as_json:
        print_json({"results": results})
    if not all(result.fails and result.holds for result in results):
        sys.exit(1)


def print_soak(found: Soak) -> None:
    faults = ", ".join(f"{name} {count}" for name, count in found.faults.items())
    click.echo(f"{found.agents} agents, {found.minutes:g} min, {found.loss:.0%} loss: {faults}")
    takeovers = sorted(found.takeovers_s)
    middle = f"median {takeovers[len(takeovers) // 2]:.2f} s, worst {takeovers[-1]:.2f} s" if takeovers else "none"
    click.echo(f"leaders     {found.leaders} reigns, {found.leader_kills} leaders killed; takeovers: {middle}")
    click.echo(f"two at once {found.together_s:.2f} s")
    click.echo(f"memory      {found.rss_mb} MB; grew by {found.rss_growth_max:.1%} at the worst, of {found.rss_lives}")
    for what in ("descriptors", "tasks"):
        click.echo(f"{what:<11} {getattr(found, what)}; {getattr(found, what + '_growth'):+} at the worst")
    click.echo(f"decisions   {found.decisions}, {found.unexplained} without a reason")
    for violation in found.violations:
        click.echo(f"  {violation}")
    if found.histories:
        click.echo(f"  histories: {found.histories}")


def print_result(result: Result) -> None:
    faults = ", ".join(f"{name} {count}" for name, count in result.faults.items()) or "–"
    takeovers = ", ".join(f"{takeover:.2f}" for takeover in result.takeovers_s[:3]) or "–"
    verdict = "holds" if result.holds else "FAILS"
    together = f"{result.together_s:.2f} s"
    late = f"{result.lateness_ms:.0f} ms" if result.lateness_ms else "–"
    _row((result.scenario, result.election, result.promise, verdict, takeovers, together, late, faults))
    for violation in result.violations:
        click.echo(f"  {violation}")
    if result.postmortem:
        click.echo(f"  postmortem: two acted at once for {result.postmortem_s:.2f} s, {result.postmortem}")
    if result.histories:
        click.echo(f"  histories: {result.histories}")
    sys.stdout.flush()


def _row(cells: tuple[str, ...]) -> None:
    click.echo("  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip())


def _ignore(_: Any) -> None:
    pass
