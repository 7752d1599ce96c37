"""`doyen prove`: whether the lease and the guard of a configuration are safe, for all drifts and delays."""

from math import isfinite
from pathlib import Path
from typing import Any

import click

from doyen.check.proof import kept, lost_max, safe
from doyen.cli.nodeflags import NodeCommand, chosen_node
from doyen.cli.output import print_json
from doyen.core.clock import FOREVER, parse_duration
from doyen.core.kinds import DELAYS
from doyen.errors import ConfigError

EXAMPLES = {"doyen prove --group orders --voters a --voters b --voters c --state d --election quorum": "as for agent"}


@click.command(
    "prove",
    cls=NodeCommand,
    examples=EXAMPLES,
    help="Prove that a quorum's lease and guard are safe for all drifts and delays, or show numbers that break them.",
)
@click.option("--drift", type=click.FloatRange(0, 0.5), help="How far clocks really differ; by default pole.drift_max.")
@click.option("--delay", help="The longest one-way delay; by default the preset's.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(drift: float | None, delay: str | None, as_json: bool, config_file: Path | None, **given: Any) -> int:
    config = chosen_node(config_file, given)
    kind = config.election_kind()
    table: Any = None if kind is None else config.table(kind.table)
    if kind is None or kind.lease(table) is None or not hasattr(table, "guard"):
        raise ConfigError("--election must be one with a lease and a guard: give quorum (pole)")
    if drift is not None and not isfinite(drift):
        raise ConfigError("--drift must be a number: give e.g. 0.001")
    try:
        longest = DELAYS[config.preset] if delay is None else parse_duration(delay)
    except ConfigError as error:
        raise ConfigError(f"--delay {error}") from None
    if longest >= FOREVER:
        raise ConfigError("--delay inf keeps no lease: give e.g. 150ms")
    lease, guard, beat = int(table.lease), int(table.guard), int(table.beat_interval)
    rate = table.drift_max if drift is None else drift
    lost = lost_max(lease, beat, longest, rate)
    claims = [safe(lease, guard, rate), kept(lease, beat, longest, max(lost, 0), rate)]
    bound = {"drift": rate, "delay_s": longest / 1e9, "lease_s": lease / 1e9, "guard_s": guard / 1e9}
    if as_json:
        print_json({"claims": claims, "bound": bound | {"heartbeat_s": beat / 1e9}, "lost_max": lost})
    else:
        for claim in claims:
            click.echo(f"{'proved' if claim.holds else 'BROKEN'}  {claim.name}: {claim.text}")
            for name, value in claim.breaks.items():
                click.echo(f"          {name} {value:.9g}")
        click.echo("  ".join(f"{name} {value:g}" for name, value in bound.items()))
    return 0 if all(claim.holds for claim in claims) else 1
