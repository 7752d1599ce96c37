"""`doyen postmortem`: recordings of several nodes as one picture, with a verdict."""

from pathlib import Path

import click

from doyen.cli.output import json_flag, print_json
from doyen.cli.outputs import INCIDENT, OutputFile
from doyen.core.plain import plain
from doyen.errors import ConfigError
from doyen.eyes.lanes import Lanes, Span
from doyen.postmortem.gather import postmortem
from doyen.postmortem.picture import Incident

REIGNS_SHOWN = 20


@click.command("postmortem", help="Lay the recordings FILE… of several nodes on one clock: who acted when, and why.")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=OutputFile(INCIDENT), help="Write one HTML file to look at.")
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
    for line in reigns(incident.lanes):
        click.echo(plain(f"  {line}"))
    for clock in incident.clocks:
        error = "no messages tell" if clock.error_s is None else f"± {clock.error_s * 1e3:.3f} ms"
        click.echo(plain(f"  clock of {clock.node}: {error}; {clock.inputs:,} inputs in {clock.path}"))
    for note in incident.notes:
        click.echo(plain(f"  note: {note}"))


def reigns(lanes: Lanes) -> list[str]:
    """Return who acted when, in few lines: a reign that stalls split is one, and of many the first, longest and last.

    The file has every part.
    """
    found: dict[tuple[str, str], list[Span]] = {}  # By node and term.
    for span in sorted((span for span in lanes.spans if span.kind == "leads"), key=lambda span: span.begin):
        found.setdefault((span.lane, span.label), []).append(span)
    lines = [(parts, _reign(parts, lanes.end)) for parts in found.values()]
    if len(lines) <= REIGNS_SHOWN:
        return [line for _, line in lines]
    length = [sum(_length(part, lanes.end) for part in parts) for parts, _ in lines]
    split = sum(len(parts) for parts, _ in lines)
    into = f", split into {split:,} parts where a process did not run" if split > len(lines) else ""
    return [
        f"{len(lines):,} reigns of {len({lane for lane, _ in found})} nodes{into}: -o FILE has them all",
        f"first    {lines[0][1]}",
        f"longest  {lines[length.index(max(length))][1]}",
        f"last     {lines[-1][1]}",
    ]


def _reign(parts: list[Span], end: float) -> str:
    """Return one reign as a line."""
    first, last = parts[0], parts[-1]
    until = end if last.end is None else last.end
    text = f"{first.begin:10.3f} s to {until:10.3f} s  {first.label}"
    if len(parts) == 1:
        return text
    return f"{text}, in {len(parts):,} parts, {sum(_length(part, end) for part in parts):.3f} s in all"


def _length(span: Span, end: float) -> float:
    return (end if span.end is None else span.end) - span.begin
