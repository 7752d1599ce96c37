"""`doyen members`: who is here, as a node on this machine believes."""

import sys
from typing import Any

import click

from doyen.cli.local import UNKNOWN, ago, ask_first, reigned, stands, table, which_node
from doyen.cli.output import print_json
from doyen.node.control import find_nodes
from doyen.node.lines import BAD, CARE, GOOD, STATES, paint


@click.command("members", help="Show who is in the group, as a node on this machine sees it.")
@which_node
def command(group: str | None, name: str | None, as_json: bool) -> None:
    _, told = ask_first(find_nodes(group, name), "members", ask_leader=True)
    acts, why = stands(told)
    if as_json:
        print_json(told | ({"acts": False, "waits_for": why} if why else {}))
        return
    members = told["members"]
    suspected = sum(member["state"] == "suspected" for member in members)
    unknown = sum(member["state"] == "unknown" for member in members)
    present = sum(member["state"] in ("alive", "suspected") for member in members) + unknown
    reign = reigned(told.get("leader_since"), told["leader_since_s"])
    leader = f"{told['leader']} has led for {reign} (term {told['term']})"
    tone = GOOD if acts else CARE
    if acts is None:
        leader = f"{told['leader']} has been named leader for {reign} (term {told['term']}); {UNKNOWN}"
    if why:
        leader = f"{told['leader']} is named leader (term {told['term']}), but does not act yet: {why}"
    click.echo(
        f"{told['group']} · {present} member{'s' * (present != 1)}"
        + (paint(f", {suspected} suspected", CARE, sys.stdout) if suspected else "")
        + (paint(f", {unknown} not heard of here", CARE, sys.stdout) if unknown else "")
        + f" · {paint(leader, tone, sys.stdout) if told['leader'] else paint('no leader', BAD, sys.stdout)}"
        + f" · as {told['node']} sees it"
        + ("" if told["sealed"] else paint(" · no key: packets are NOT authenticated", CARE, sys.stdout))
    )
    if told["membership"] == "none":
        click.echo(
            "(no membership: this node hears of the leader alone, and of nobody's state; give --membership swim)",
            err=True,
        )
    rows: list[tuple[str, ...]] = [("NAME", "ADDRESS", "STATE", "SINCE", "SCORE", "HEALTH", "RTT", "VERSION", "")]
    listed = told["membership"] != "none"  # Else nobody keeps since when.
    rows += [_row(member | ({} if listed else {"since_s": None})) for member in members]
    table(rows, tones=[GOOD if member["leads"] else STATES.get(member["state"], "") for member in members])


def _row(member: dict[str, Any]) -> tuple[str, ...]:
    here = member["state"] in ("alive", "suspected")
    return (
        member["name"] + ("★" if member["leads"] else ""),
        member["address"] or "–",
        member["state"],
        ago(member["since_s"]),
        "–" if member["score"] is None else f"{member['score']:g}",
        f"{100 * member['health']:.0f} %" if here else "–",
        "itself" if member["me"] else "–" if member["rtt_s"] is None else f"{1000 * member['rtt_s']:.1f} ms",
        member["software"] or "–",
        _remark(member),
    )


def _remark(member: dict[str, Any]) -> str:
    parts = []
    if member["state"] == "suspected":
        by = ", ".join(member["suspected_by"])
        parts.append((f"by {by}; " if by else "") + f"{ago(member['refute_within_s'])} left to refute")
    if member["state"] == "left":
        parts.append("on its own word")
    if not member["eligible"]:
        parts.append("does not lead")
    parts += [f"{key}={value}" for key, value in member["meta"].items()]
    return " · ".join(parts)
