"""`doyen postmortem`: recordings of several nodes as one picture, with a verdict."""

from pathlib import Path

import click

from doyen.cli.output import json_flag, print_json
from doyen.core.plain import plain
from doyen.errors import ConfigError
from doyen.net.recording.reader import segments
from doyen.postmortem.gather import postmortem
from doyen.postmortem.picture import Incident

CHANGES_SHOWN = 20


@click.command("postmortem", help="Lay the recordings FILE… of several nodes on one clock: who acted when, and why.")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write one HTML file to look at.")
@click.option("--title", default="", help="A title for it; by default the name of the group.")
@click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Replay with another setting up to the first output that differs, then simulate; may be repeated.",
)
@json_flag
def command(files: tuple[Path, ...], output: Path | None, title: str, what_if: tuple[str, ...], as_json: bool) -> None:
    parts = [part for file in files for part in segments(file) if part.exists()]
    if output is not None and output.exists() and any(map(output.samefile, parts)):
        raise ConfigError(f"--output {output} is one of the recordings: give another name, such as incident.html")
    found = postmortem(files, title, what_if)
    write(found, output, "--output")
    if as_json:
        print_json(found)
    else:
        show(found)
        if output is not None:
            click.echo(f"written to {output}")


def write(incident: Incident, path: Path | None, flag: str) -> None:
    """Write an incident as one HTML file, if somebody wants it."""
    if path is None:
        return
    from doyen.postmortem.document import document

    try:
        path.write_text(document(incident), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{flag} {path}: {error.strerror or error}") from None


def show(incident: Incident) -> None:
    """Print an incident: the verdict, who acted when, and how well the clocks are known."""
    for verdict in incident.verdicts:
        which = f"{verdict.election}: " if verdict.election else ""
        click.echo(plain(f"{which}{verdict.sentence}"))
    acted = [span for span in incident.lanes.spans if span.kind == "leads"]
    for span in sorted(acted, key=lambda span: span.begin)[:CHANGES_SHOWN]:
        click.echo(plain(f"  {span.begin:10.3f} s to {span.end or incident.lanes.end:10.3f} s  {span.label}"))
    if len(acted) > CHANGES_SHOWN:
        click.echo(f"  and {len(acted) - CHANGES_SHOWN} more")
    for clock in incident.clocks:
        error = "no messages tell" if clock.error_s is None else f"± {clock.error_s * 1e3:.3f} ms"
        click.echo(plain(f"  clock of {clock.node}: {error}; {clock.inputs:,} inputs in {clock.path}"))
    for note in incident.notes:
        click.echo(plain(f"  note: {note}"))
