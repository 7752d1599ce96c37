"""`doyen replay`: runs a flight recording again, on the same machines."""

from pathlib import Path

import click

from doyen import __version__
from doyen.cli.output import json_flag, print_json
from doyen.core.plain import plain
from doyen.errors import ConfigError
from doyen.net.recording.limits import bounded
from doyen.net.recording.reader import segments
from doyen.net.recording.replay import Replayed, replay
from doyen.node.rebuilt import Rebuilt
from doyen.node.registry import election_names, membership_names


@click.command("replay", help="Run FILE again, the --record of an agent; whatever differs from it is an error.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_flag
def command(file: Path, as_json: bool) -> None:
    found = segments(file)
    if not found[0].exists():
        raise ConfigError(f"FILE {file} is not there: give the --record of an agent")
    election_names(), membership_names()  # Before the file is read: nothing is searched for because it says so.
    with bounded(sum(segment.stat().st_size for segment in found)):
        results = [replay(segment, Rebuilt) for segment in found]
    if as_json:
        print_json({"segments": results, "inputs": sum(r.inputs for r in results), "same": True})
        return
    inputs, effects = sum(r.inputs for r in results), sum(r.effects for r in results)
    click.echo(
        plain(f"the same: {inputs:,} inputs and {effects:,} effects of {results[-1].node} in {results[-1].group!r}")
    )
    for result in results:
        _show(result)


def _show(result: Replayed) -> None:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(result.kinds.items(), key=lambda item: -item[1]))
    click.echo(plain(f"{result.path} · {result.lasted_s:.1f} s · {kinds}"))
    if result.leaders:
        click.echo(plain(f"  leaders  {' → '.join(result.leaders)}"))
    if result.failure:
        click.echo(plain(f"  stopped  {result.failure}"))
    if result.cut_off_bytes:
        why = "its node was killed while it wrote, or the file was cut short"
        click.echo(
            plain(f"  cut off  after these inputs: {result.cut_off_bytes:,} bytes of half an input follow; {why}")
        )
    if result.doyen != __version__:
        click.echo(plain(f"  recorded by doyen {result.doyen}, run by {__version__}"))
