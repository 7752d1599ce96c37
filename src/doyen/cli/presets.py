"""`doyen presets`: timers for kinds of networks, and what they cost in the worst case."""

from typing import Any, get_args

import click

from doyen.cli.output import print_json
from doyen.core.clock import seconds, to_seconds
from doyen.node.config import ElectionKind, NodeConfig
from doyen.node.presets import Preset, at_most, timers, worst_case


@click.command("presets", help="Worst-case detection and failover of every preset; nothing lost, nobody slow.")
@click.option("--group-size", type=click.IntRange(1, 100_000), default=10, show_default=True, help="Members.")
@click.option(
    "--election",
    type=click.Choice([kind for kind in get_args(ElectionKind) if kind != "none"]),
    default=None,
    help="Of this election only.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(group_size: int, election: str | None, as_json: bool) -> None:
    kinds = [election] if election else ["le-s", "hybrid", "spanning", "pole"]
    found: list[dict[str, Any]] = []
    for preset in get_args(Preset):
        made = timers(preset, group_size)
        for kind in kinds:
            membership = membership_of(kind)
            worst = worst_case(kind, membership, made, group_size)
            found.append(
                {
                    "preset": preset,
                    "election": kind,
                    "membership": membership,
                    "delay_s": to_seconds(made.delay),
                    "detection_s": to_seconds(worst.detection),
                    "failover_s": to_seconds(worst.failover),
                    "because": worst.because,
                }
            )
    if as_json:
        print_json({"group_size": group_size, "presets": found})
        return
    click.echo(f"{group_size} members, nothing lost, nobody slow: from a leader's silent death, at the worst")
    click.echo(f"{'PRESET':8}{'ELECTION':11}{'MEMBERSHIP':12}{'DETECTED':>10}{'NEXT LEADER':>13}   BECAUSE")
    for row in found:
        click.echo(
            f"{row['preset']:8}{row['election']:11}{row['membership']:12}"
            f"{at_most(seconds(row['detection_s'])):>10}{at_most(seconds(row['failover_s'])):>13}   {row['because']}"
        )


def membership_of(kind: str) -> str:
    config = NodeConfig(group="g", election=kind, voters=("a",), volatile=True)  # type: ignore[arg-type]
    return config.membership_kind()
