"""`doyen bench pole`: a real group that elects by score loses its leaders."""

import sys

import click

from doyen.cli.options import DurationText
from doyen.cli.output import print_json, progress
from doyen.errors import ConfigError
from doyen.score.oracles import ORACLES
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import print_verdict
from doyen_lab.contest.pole import Layout, Succession, Takeover, Takeovers, kill_leaders, succeed
from doyen_papers.studies.pole_places import deployment as deployment_of


@click.command("pole", help="Kill leaders of a real POLE group; a witness process sees every act with its epoch.")
@click.option("--nodes", type=int, default=5, show_default=True, help="How many processes on loopback.")
@click.option("--kills", type=int, default=50, show_default=True, help="How many leaders to kill.")
@click.option("--lease", type=DurationText(as_seconds=False), default="500ms", show_default=True, help="Of a leader.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the instants of the kills.")
@click.option("--deployment", metavar="NAME|FILE", help="Instead: one kill, over its round trips.  Needs root.")
@click.option(
    "--oracle", type=click.Choice(list(ORACLES)), default="latency", show_default=True, help="There: by what."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every kill.")
def command(nodes: int, kills: int, lease: int, seed: int, deployment: str | None, oracle: str, as_json: bool) -> None:
    try:
        if deployment is not None:
            found = run(succeed(layout(deployment), oracle))
            if as_json:
                print_json(found)
            else:
                _print_succession(found)
            sys.exit(0 if found.holds else 1)
        with progress(f"kill N={nodes}", kills) as advance:

            def on_kill(takeover: Takeover) -> None:
                advance(1)

            result = run(kill_leaders(nodes=nodes, kills=kills, lease=lease, seed=seed, on_kill=on_kill))
    except ConfigError as error:
        raise ConfigError(f"--{error.field} {error.complaint}" if error.field else str(error)) from None
    if as_json:
        print_json(result)
    else:
        _print(result)
    if not result.holds:
        sys.exit(1)


def layout(name: str) -> Layout:
    place = deployment_of(name)
    return Layout(
        name=name,
        servers=place.servers,
        rtt_ms=place.matrix(),
        rates=place.rates(),
        centres={server: place.centre_of(server) for server in place.servers},
        leader=place.leader,
    )


def _print(result: Takeovers) -> None:
    click.echo(f"{result.kills} leaders killed · {result.nodes} processes on loopback · lease {result.lease_s:g} s")
    rows = [
        ("median", f"{result.median_s * 1e3:.0f} ms", "from the kill until the next leader acts; must be below 1 s"),
        ("worst", f"{result.worst_s * 1e3:.0f} ms", ""),
        ("overlap", f"{result.overlap_s:g} s", f"of two leaders, in {result.acts} acts of {result.reigns} reigns"),
        ("per epoch", str(result.leaders_per_epoch_max), "leaders at most"),
        ("back", str(result.epochs_back), "acts in an epoch that was over"),
        ("lateness", f"{result.lateness_worst_s * 1e3:.0f} ms", "the worst of this machine's timers (control process)"),
    ]
    for what, value, meaning in rows:
        click.echo(f"  {what:9} {value:10} {meaning}".rstrip())
    print_verdict(result.holds)


def _print_succession(found: Succession) -> None:
    click.echo(
        f"{found.leader_before} killed · {found.leader_after} leads after {found.takeover_s * 1e3:.0f} ms, "
        f"by {found.oracle}; right: {', '.join(found.right)}"
    )
    click.echo("  round trips it measured: " + ", ".join(f"{n} {v:.1f} ms" for n, v in sorted(found.rtt_ms.items())))
    click.echo(f"  overlap {found.overlap_s:g} s · the switch was late by {found.switch_late_s * 1e3:.1f} ms at worst")
    print_verdict(found.holds)
