"""`doyen check`: explores every order of events in a small group."""

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import click
from msgspec.structs import replace

from doyen.check.case import Case, picture, played, to_text, transcript, usual_of
from doyen.check.turns import Faults
from doyen.cli.output import json_flag, print_json
from doyen.cli.outputs import COUNTEREXAMPLE, PICTURE, check_kept
from doyen.cli.sim.run import node_tables
from doyen.core.clock import FOREVER, Duration, parse_duration
from doyen.errors import ConfigError

FAULTS = {
    "crashes": "Nodes that crash, with their disks or without, and start again.",
    "losses": "Messages that are lost.",
    "timers": "Timers that are late, by any time.",
    "resignations": "Leaders that get the command to resign.",
    "holds": "Messages that any others overtake, and slow disks.",
    "duplicates": "Messages that come twice, at any time.",
    "cuts": "Nodes that are cut off from all others for a while.",
    "breaks": "Nodes that are told, wrongly or not, that the leader is gone.",
    "wills": "Leaders that crash, and whose wills are sent.",
    "batons": "Batons that a leader passes on.",
    "changes": "Changes of voters: one comes, one goes, or one is replaced.",
}


HOLDS = {
    "quorum": "never two leaders at once, no term led in twice, no baton lost",
    "timed": "never two leaders at once",
    "weak": "no node went back to an earlier leader, no decision has two, and all follow one in the end",
}


def _faults(command: Any) -> Any:
    for name, about in reversed(FAULTS.items()):
        pole = getattr(Faults(), name)
        help_text = f"{about}  [pole: {pole}]" if pole else about
        command = click.option(f"--{name}", type=click.IntRange(0, 9), default=None, help=help_text)(command)
    return command


@click.command("check", help="Explore every order of events in a small group that elects by ELECTION, within a bound.")
@click.argument("election")
@click.option("--voters", type=click.IntRange(1, 9), default=None, help="How many nodes.  [default: 3; hybrid: 4]")
@click.option("--spares", type=click.IntRange(0, 6), default=0, help="Nodes beside the voters, which may become some.")
@_faults
@click.option(
    "--faults",
    "in_all",
    type=click.IntRange(0, 99),
    default=None,
    help="Of any kinds, in one run; by default all of them for pole, and one for the others.",
)
@click.option(
    "--elections", type=click.IntRange(0, 9), default=2, show_default=True, help="After that of the first leader."
)
@click.option(
    "--horizon", default=None, help="How much time passes in one run.  [pole: 100ms; by-key: 1200ms; hybrid: 300ms]"
)
@click.option("--cold", is_flag=True, help="From the start of all nodes, not from the first leader on.")
@click.option("--rates", default="", metavar="N,N,…", help="Of the nodes' clocks, in thousandths; else all alike.")
@click.option(
    "--node", "fields", multiple=True, metavar="FIELD=VALUE", help="Of a node's configuration: pole.lease=2s."
)
@click.option("--states", "states_max", type=click.IntRange(0), default=0, help="Give up after so many; 0: never.")
@click.option("--to", type=click.Path(file_okay=False, path_type=Path), help="A folder for counterexamples.")
@json_flag
def command(
    election: str,
    voters: int | None,
    spares: int,
    in_all: int | None,
    elections: int,
    horizon: str | None,
    cold: bool,
    rates: str,
    fields: Sequence[str],
    states_max: int,
    to: Path | None,
    as_json: bool,
    **faults: int | None,
) -> int:
    try:
        clock_rates = tuple(int(rate) for rate in rates.split(",")) if rates else ()
    except ValueError:
        raise ConfigError(f"--rates {rates!r}: give whole numbers with commas between, e.g. 999,1001,1000") from None
    if any(not 500 <= rate <= 2000 for rate in clock_rates):
        raise ConfigError(f"--rates {rates}: give numbers from 500 to 2000; 1000 is true time")
    usual = usual_of(election)
    case = replace(
        usual,
        voters=usual.voters if voters is None else voters,
        spares=spares,
        horizon=usual.horizon if horizon is None else _horizon(horizon),
        elections=elections,
        cold=cold,
        faults=replace(usual.faults, **{name: count for name, count in faults.items() if count is not None}),
        in_all=usual.in_all if in_all is None else in_all,
        rates=clock_rates,
        node=node_tables(None, None, fields).tables,
    )
    config = case.config()
    kind = config.election_kind()
    assert kind is not None
    promise = config.promise(kind)
    began = monotonic()
    _, found = case.run(states_max=states_max)
    took = monotonic() - began
    shown = [_counterexample(case, rule.rule, choices, to) for rule, choices in found.violations]
    if as_json:
        print_json(
            {
                "election": config.election,
                "states": found.states,
                "transitions": found.transitions,
                "exhausted": found.exhausted,
                "violations": shown,
                "bound": case.bound() | {"reigns": found.reigns},
                "promise": promise.sort,
                "seconds": round(took, 3),
            }
        )
        return 1 if shown else 0
    verdict = f"{len(shown)} rules broken" if shown else HOLDS[promise.sort]
    whole = "all" if found.exhausted else "not all: --states ended it"
    click.echo(f"{verdict}: {found.states:,} states, {found.transitions:,} transitions in {took:.1f} s ({whole})")
    for name, value in case.bound().items():
        click.echo(f"  {name:14} {value}")
    for violation in shown:
        click.echo(f"\n{violation['rule']}: {violation['text']}")
        click.echo("\n".join(f"  {line}" for line in violation["transcript"]))
        if to is not None:
            click.echo(f"  again: doyen sim run {violation['scenario']}; picture: {violation['picture']}")
    return 1 if shown else 0


def _horizon(text: str) -> Duration:
    try:
        found = parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"--horizon {error}") from None
    if found >= FOREVER:
        raise ConfigError("--horizon inf would never end: give e.g. 600ms")
    return found


def _counterexample(case: Case, rule: str, choices: list[int], to: Path | None) -> dict[str, Any]:
    rows, violation = played(case, choices)
    assert violation is not None
    lines = transcript(case.names(), rows)
    found: dict[str, Any] = {"rule": rule, "text": violation.text, "transcript": lines}
    if to is not None:
        scenario, drawn = to / f"{rule}.toml", to / f"{rule}.svg"
        check_kept([scenario], COUNTEREXAMPLE, "--to")
        check_kept([drawn], PICTURE, "--to")
        to.mkdir(parents=True, exist_ok=True)
        scenario.write_text(to_text(case, choices, lines), encoding="utf-8")
        drawn.write_text(picture(case.names(), rows), encoding="utf-8")
        found |= {"scenario": str(scenario), "picture": str(drawn)}
    return found
