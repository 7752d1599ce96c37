"""`doyen sim membership`."""

from pathlib import Path
from typing import Any

import click
import msgspec

from doyen.cli.options import OutputFile, chosen, flags, named_by_flag
from doyen.cli.output import print_json
from doyen.sim.trace import Trace
from doyen_papers.studies.membership import MembershipSetting, Summary, simulate


@click.command("membership", help="Weak membership, simulated: SWIM, Medley, gossiped heartbeats.")
@flags(MembershipSetting)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same figures.")
@click.option("--trace", "trace_path", type=OutputFile(), help="Write the run, a line an event.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(seed: int, trace_path: Path | None, as_json: bool, **given: Any) -> None:
    setting = chosen(MembershipSetting, given)
    with named_by_flag(MembershipSetting):
        if trace_path is None:
            summary = simulate(setting, seed)
        else:
            with open(trace_path, "w", encoding="utf-8") as lines:
                summary = simulate(setting, seed, trace=Trace(lines))
    if as_json:
        print_json(_as_json(summary))
    else:
        _print(summary)


def _as_json(summary: Summary) -> dict[str, Any]:
    """The setting's own fields are in it too."""
    result = {name: getattr(summary, name) for name in summary.__struct_fields__ if name != "setting"}
    return msgspec.structs.asdict(summary.setting) | result


def _print(summary: Summary) -> None:
    setting, found, missing = summary.setting, summary.detection, summary.missing
    click.echo(
        f"{setting.protocol} · {setting.topology} · N={setting.nodes} · drop {setting.drop:g} · {setting.seconds:g} s"
    )
    if found is not None and found.first is not None:
        click.echo(
            f"  detection        {found.first:.3g} s first · {found.median:.3g} s median · {found.last:.3g} s last"
        )
    elif found is not None:
        click.echo(f"  detection        nobody noticed: watch for longer than {setting.seconds:g} s")
    if summary.undetected and found is not None and found.first is not None:
        click.echo(f"                   {summary.undetected} never noticed")
    click.echo(f"  false positives  {summary.false_positives_per_node_hour:.3g} per node and hour")
    click.echo(
        f"  traffic          {summary.messages_per_node_second:.3g} messages, "
        f"{summary.bytes_per_node_second:.4g} bytes per node and second"
    )
    click.echo(
        f"  missing views    {missing.mean:.3g} mean · {missing.p99:g} at 99 % · {missing.max:g} at most  (c of [CTOL])"
    )
    click.echo(f"  seed {summary.seed} · trace {summary.trace_hash}")
