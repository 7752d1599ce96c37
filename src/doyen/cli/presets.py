"""`doyen presets`: timers for kinds of networks, and what they cost in the worst case."""

from typing import Any, get_args

import click

from doyen.cli.output import json_flag, print_json
from doyen.core.clock import at_most, seconds, to_seconds
from doyen.core.kinds import ALIASES, DELAYS, Network
from doyen.node.layers import configure
from doyen.node.registry import election_names, find_election, further


@click.command(
    "presets", help="Show how long detection and takeover take at the worst, if no packet is lost and nobody is slow."
)
@click.option(
    "--group-size",
    type=click.IntRange(1, 100_000),
    default=10,
    show_default=True,
    help="How many members the group has.",
)
@click.option(
    "--election",
    type=click.Choice([*ALIASES, *election_names()]),
    default=None,
    metavar="NAME",
    help=f"Of this election only: one of {', '.join((*ALIASES, *election_names()))}.",
)
@json_flag
def command(group_size: int, election: str | None, as_json: bool) -> None:
    kinds = [election] if election else ["le-s", "hybrid", "spanning", "pole", *further("election")]
    found: list[dict[str, Any]] = []
    for preset in get_args(Network):
        for name in kinds:
            asked = {"group": "g", "election": name, "voters": ("a",), "volatile": True}
            asked |= {"preset": preset, "group_size": group_size}
            config = configure({(field,): value for field, value in asked.items()}, environment={})
            kind = config.election_kind()
            assert kind is not None
            worst = config.worst_case(kind)
            found.append(
                {
                    "preset": preset,
                    "election": kind.name,
                    "membership": config.membership_name(),
                    "delay_s": to_seconds(DELAYS[config.preset]),
                    "detection_s": to_seconds(worst.detection),
                    "failover_s": to_seconds(worst.failover),
                    "because": worst.because,
                }
            )
    if as_json:
        print_json({"group_size": group_size, "presets": found})
        return
    click.echo(f"{group_size} members, nothing lost, nobody slow: from a leader's silent death, at the worst")
    click.echo(f"{'PRESET':8}{'ELECTION':17}{'MEMBERSHIP':12}{'DETECTED':>10}{'NEXT LEADER':>13}   BECAUSE")
    for row in found:
        click.echo(
            f"{row['preset']:8}{find_election(row['election']).title:17}{row['membership']:12}"
            f"{at_most(seconds(row['detection_s'])):>10}{at_most(seconds(row['failover_s'])):>13}   {row['because']}"
        )
