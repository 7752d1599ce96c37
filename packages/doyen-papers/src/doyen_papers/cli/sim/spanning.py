"""`doyen sim spanning`."""

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, get_args

import click

from doyen.cli.options import named_by_flag
from doyen.cli.output import print_json
from doyen.core.config import shown
from doyen.core.ids import NodeId
from doyen.errors import ConfigError
from doyen_papers.cli.sim.frame import run_flags, tracing
from doyen_papers.score.files import read_column, read_text
from doyen_papers.studies.spanning import Edge, Failure, Graph, Run, SpanningSetting, What, graph, simulate

FAILURES: Final[tuple[What, ...]] = get_args(What)
_INLINE: Final = re.compile(r"[^\s,-]+-[^\s,-]+(\s*,\s*[^\s,-]+-[^\s,-]+)*")


@click.command("spanning", help="The best node of any graph, elected over a spanning tree.  Time in hops.  [MADM §6.2]")
@click.option("--graph", "edges", required=True, metavar="EDGES", help="A file, `a b` per line; or 0-2,1-2.")
@click.option("--quality", required=True, type=click.Path(path_type=Path), metavar="FILE", help="CSV: node,quality.")
@click.option("--initiators", required=True, metavar="A[,B…]", help="Who learns at 0 that the leader is lost.")
@click.option("--delay", type=click.Choice(["unit", "random"]), default="unit", show_default=True, help="Of each hop.")
@click.option("--fail-link", multiple=True, metavar="A-B@T", help="A link fails; what is on it is lost.")
@click.option("--heal-link", multiple=True, metavar="A-B@T", help="It carries again.")
@click.option("--fail-node", multiple=True, metavar="N@T", help="A node fails, and its links with it.")
@click.option("--recover", multiple=True, metavar="N@T", help="It returns, with nothing in its memory.")
@click.option("--durable", is_flag=True, help="The highest sequence that a node has seen survives its failure.")
@click.option("--silent", is_flag=True, help="Neighbours are not notified of failures: they find out by waiting.")
@click.option("--co-parent-hops", type=int, default=3, show_default=True, help="Patience for co-parents, in hops.")
@click.option("--pulse", type=float, default=0.0, metavar="HOPS", help="Neighbours compare so often. [never]")
@run_flags(trace=True)
def command(
    edges: str,
    quality: Path,
    initiators: str,
    pulse: float,
    seed: int,
    trace_path: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    rated = read_column(quality, "quality")
    found = graph(_edges(edges, alone=len(rated) == 1), rated)
    failures = [_failure(what, text, found) for what in FAILURES for text in given.pop(what.replace("-", "_"))]
    for back in failures:
        _check_failed_before(back, failures)
    names = tuple(dict.fromkeys(NodeId(name.strip()) for name in initiators.split(",") if name.strip()))
    with named_by_flag():
        setting = SpanningSetting(graph=found, initiators=names, failures=tuple(failures), pulse_units=pulse, **given)
        setting.config()
    with tracing(trace_path) as trace:
        run = simulate(setting, seed, trace=trace)
    if as_json:
        print_json(_as_json(run))
    else:
        _print(run, found)


def _as_json(run: Run) -> dict[str, Any]:
    return {
        "regions": [{"members": region.members, "leader": region.leader} for region in run.regions],
        "messages": run.messages,
        "kinds": run.kinds,
        "bits_max": run.bits,
        "declared_at": run.declared_at,
        "settled_at": run.settled_at,
        "terminated": run.terminated,
        "elections": len({declaration.election for declaration in run.declarations}),
        "trace_hash": run.trace_hash,
    }


def _print(run: Run, found: Graph) -> None:
    if not run.regions:
        click.echo("nobody is left to lead: every node has failed")
    for region in run.regions:
        who = f"{len(region.members)} nodes" if len(region.members) > 8 else ", ".join(region.members)
        if region.leader is None:
            click.echo(f"nobody leads {who}: they do not agree")
        else:
            click.echo(f"{region.leader} leads {who} · quality {found.quality[region.leader]:g}")
    if run.declared_at is not None:
        click.echo(f"  declared after {run.declared_at:g} hops")
    counts = " · ".join(f"{kind} {count}" for kind, count in run.messages.items() if count and kind != "total")
    click.echo(f"  {run.messages['total']} messages: {counts}")
    if run.bits:
        click.echo(f"  at most {max(run.bits.values())} bits a message, envelope not counted")
    click.echo(f"  {'terminated' if run.terminated else 'NOT terminated'} · trace {run.trace_hash}")


def _edges(text: str, *, alone: bool) -> list[Edge]:
    """Read the edges of a file or of a list; with `alone` there is one node, so there need be none."""
    path = Path(text)
    if not _is_file(path):
        if _INLINE.fullmatch(text.strip()):
            pairs = (part.strip().split("-") for part in text.split(","))
            return [(a, b) for a, b in pairs]
        raise ConfigError(f"--graph {shown(text)}: is no file, and no list of edges like 0-2,1-2")
    found = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.partition("#")[0].split()
        if len(words) not in (0, 2):
            raise ConfigError(f"{path}: line {number}: {line.strip()!r} is not an edge: give two names, a b")
        if words:
            found.append((words[0], words[1]))
    if not found and not alone:
        raise ConfigError(f"{path}: has no edges: give two names per line, a b")
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() or path.is_fifo()
    except (OSError, ValueError):  # Longer than any file's name.
        return False


def _failure(what: What, text: str, found: Graph) -> Failure:
    who, at, when = text.rpartition("@")
    of_link = what.endswith("link")
    like = "2-3@1.5" if of_link else "3@1.5"
    names = _ends(who, found) if of_link else (NodeId(who),)
    try:
        moment = float(Fraction(when))
    except (ValueError, ZeroDivisionError, OverflowError):
        moment = -1.0
    if not at or moment < 0 or len(names) != 1 + of_link or not all(names):
        raise ConfigError(f"--{what} {shown(text)}: give who and when, e.g. {like}")
    return Failure(what, names, moment)


def _ends(text: str, found: Graph) -> tuple[NodeId, ...]:
    """Split `a-b`; where names have dashes of their own, into the two that are an edge."""
    parts, edges = text.split("-"), {frozenset(edge) for edge in found.edges}
    pairs = [(NodeId("-".join(parts[:i])), NodeId("-".join(parts[i:]))) for i in range(1, len(parts))]
    return next((pair for pair in pairs if frozenset(pair) in edges), tuple(NodeId(part) for part in parts))


def _check_failed_before(back: Failure, failures: Sequence[Failure]) -> None:
    """Refuse a return of something that has not failed."""
    broke: What | None = {"heal-link": "fail-link", "recover": "fail-node"}.get(back.what)  # type: ignore[assignment]
    if broke and not any(f.what == broke and set(f.who) == set(back.who) and f.at <= back.at for f in failures):
        raise ConfigError(f"--{back.what} {'-'.join(back.who)}@{back.at:g}: it has not failed by then: see --{broke}")
