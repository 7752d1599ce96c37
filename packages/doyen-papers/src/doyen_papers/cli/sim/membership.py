"""`doyen sim membership`."""

from pathlib import Path
from typing import Any

import click

from doyen.cli.options import chosen, flags, named_by_flag
from doyen_papers.cli.sim.frame import answer, run_flags, tracing
from doyen_papers.studies.membership import MembershipSetting, Summary, simulate


@click.command("membership", help="Weak membership, simulated: SWIM, Medley, gossiped heartbeats.")
@flags(MembershipSetting)
@run_flags(trace=True)
def command(seed: int, trace_path: Path | None, as_json: bool, **given: Any) -> None:
    setting = chosen(MembershipSetting, given)
    with named_by_flag(MembershipSetting), tracing(trace_path) as trace:
        summary = simulate(setting, seed, trace=trace)
    answer(summary, as_json, _print)


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
