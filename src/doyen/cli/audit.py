"""`doyen audit`: holds recordings of a quorum's nodes against the specification of its safety."""

from pathlib import Path
from typing import Final

import click

from doyen.audit.audit import Audit, audit
from doyen.audit.spec import RULES
from doyen.cli.output import json_flag, print_json
from doyen.core.plain import plain
from doyen.errors import ConfigError
from doyen.net.recording.limits import bounded
from doyen.net.recording.reader import segments
from doyen.net.recording.recorder import older
from doyen.node.registry import election_names, membership_names

CUT_OFF: Final = 3  # Every step that is there is allowed, but a recording ends before its node did.


@click.command("audit", help="Hold FILEs, the --record of a quorum's agents, against the specification of its safety.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(dir_okay=False, path_type=Path))
@json_flag
def command(files: tuple[Path, ...], as_json: bool) -> int:
    newer = {older(file) for file in files}
    chosen = [file for file in dict.fromkeys(files) if file not in newer]  # FILE.1 is a part of FILE.
    for file in chosen:
        if not segments(file)[0].exists():
            raise ConfigError(f"FILE {file} is not there: give the --record of an agent")
    election_names(), membership_names()  # Before a file is read: nothing is searched for because it says so.
    with bounded(sum(segment.stat().st_size for file in chosen for segment in segments(file))):
        found = audit(chosen)
    steps = sum(found.steps.values())
    if as_json:
        print_json(
            {
                "allowed": found.refused is None,
                "complete": found.complete,
                "steps": steps,
                "kinds": found.steps,
                "nodes": found.nodes,
                "missing": found.missing,
                "trusted": found.trusted,
                "unseen": found.unseen,
                "terms": [{"term": number, "leader": leader} for number, leader in found.terms],
                "refused": found.refused,
            }
        )
    else:
        _show(found, steps)
    if found.refused is not None:
        return 1
    return CUT_OFF if any(unseen.why in ("after", "disk") for unseen in found.unseen) else 0


def _show(found: Audit, steps: int) -> None:
    of = f"{steps:,} steps of {', '.join(found.nodes)}"
    if found.refused is None:
        verdict = "every step is allowed" if found.complete else "every recorded step is allowed, not all are recorded"
        click.echo(plain(f"{verdict}: {of}"))
    else:
        fault = found.refused
        click.echo(plain(f"{fault.path}, input {fault.line}: {fault.text}"))
        click.echo(plain(f"  not allowed ({fault.rule}): {RULES[fault.rule]}"))
        click.echo(plain(f"  before it   {of} were allowed"))
    if found.terms:
        click.echo(plain(f"  led         {', '.join(f'{leader} in term {number}' for number, leader in found.terms)}"))
    if found.missing:
        click.echo(
            plain(f"  missing     the recordings of {', '.join(found.missing)}: what they sent is taken on trust")
        )
    for unseen in found.unseen:
        click.echo(plain(f"  not checked {unseen}"))
    if found.trusted:
        click.echo(plain(f"  on trust    {found.trusted:,} messages, leaders and promises that no recording shows"))
