"""`doyen presets`: timers for kinds of networks, and what they cost in the worst case."""

from statistics import median
from typing import Any, get_args

import click

from doyen.cli.output import json_flag, print_json
from doyen.core.clock import at_most, parse_duration, seconds, to_seconds
from doyen.core.kinds import ALIASES, DELAYS, LOSSES, Network
from doyen.errors import ConfigError
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
@click.option(
    "--takeovers",
    type=click.IntRange(0, 100_000),
    default=0,
    help="Of one election: simulate that many leaders cut off, under the preset's loss and delay.",
)
@click.option(
    "--disk",
    default="0s",
    show_default=True,
    help="How long a record takes to be on the disk, as `doyen doctor --state DIR` measures it.",
)
@json_flag
def command(group_size: int, election: str | None, takeovers: int, disk: str, as_json: bool) -> None:
    write = parse_duration(disk)
    if takeovers and election is None:
        raise ConfigError("--takeovers takes a while: say of which election, e.g. --election gossip")
    kinds = [election] if election else ["le-s", "hybrid", "spanning", "pole", "directory", *further("election")]
    found: list[dict[str, Any]] = []
    for preset in get_args(Network):
        for name in kinds:
            asked = {"group": "g", "election": name, "voters": ("a",), "volatile": True, "shared": "/"}
            asked |= {"preset": preset, "group_size": group_size}
            config = configure({(field,): value for field, value in asked.items()}, environment={})
            kind = config.election_kind()
            assert kind is not None
            worst = config.worst_case(kind, write)
            found.append(
                {
                    "preset": preset,
                    "election": kind.name,
                    "membership": config.membership_name(),
                    "delay_s": to_seconds(DELAYS[config.preset]),
                    "detection_s": to_seconds(worst.detection),
                    "failover_s": to_seconds(worst.failover),
                    "settling_s": to_seconds(worst.settling),
                    "because": worst.because,
                }
            )
            if takeovers:
                found[-1] |= _simulated(preset, group_size, kind.name, takeovers)
    if as_json:
        print_json({"group_size": group_size, "presets": found})
        return
    click.echo(f"{group_size} members, nothing lost, nobody slow: from a leader's silent death, at the worst")
    click.echo(
        f"{'PRESET':8}{'ELECTION':17}{'MEMBERSHIP':12}{'DETECTED':>10}{'NEXT LEADER':>13}{'SETTLED':>9}   BECAUSE"
    )
    for row in found:
        click.echo(
            f"{row['preset']:8}{find_election(row['election']).title:17}{row['membership']:12}"
            f"{at_most(seconds(row['detection_s'])):>10}{at_most(seconds(row['failover_s'])):>13}"
            f"{at_most(seconds(row['settling_s'])):>9}   {row['because']}"
        )
        if takeovers:
            click.echo(
                f"{'':8}{takeovers} simulated, with {row['loss']:.1%} of loss and delays of {row['delay_s']:g} s: "
                f"median {row['takeover_median_s']:.2f} s, longest {row['takeover_longest_s']:.2f} s"
            )


def _simulated(preset: Network, group_size: int, election: str, count: int) -> dict[str, Any]:
    from doyen.testing.takeovers import takeovers  # Few ask for it, and it loads the simulator.

    found = takeovers(preset, group_size, election, count)
    return {"loss": LOSSES[preset], "takeover_median_s": median(found), "takeover_longest_s": max(found)}
