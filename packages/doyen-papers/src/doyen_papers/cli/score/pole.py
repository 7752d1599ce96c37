"""`doyen score pole`."""

from pathlib import Path

import click

from doyen.cli.output import print_json
from doyen.core.config import shown
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.errors import ConfigError
from doyen.score.oracles import ORACLES, QUANTUM, quantised
from doyen_papers.score.files import number, read_column, table_of
from doyen_papers.score.oracles import score_all

UNITS = {"request": "requests/s"}
FINDS = ("consensus", "latency", "worst-case", "request")


@click.command("pole", help="Every server's score by an oracle, and who would lead.  [POLE §2]")
@click.option("--rtt", type=click.Path(path_type=Path), required=True, metavar="RTT.csv", help="Round trips in ms.")
@click.option("--rates", type=click.Path(path_type=Path), required=True, metavar="RATES.csv", help="CSV: node,rate.")
@click.option("--oracle", type=click.Choice(FINDS), required=True, help="What counts.")
@click.option("--exclude", metavar="LEADER", help="Scores for when this one has crashed. [nobody]")
@click.option("--reattribute", is_flag=True, help="Its clients go to the servers of its data centre.")
@click.option("--quantum", type=float, default=QUANTUM, show_default=True, help="Scores within it are equal.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    rtt: Path, rates: Path, oracle: str, exclude: str | None, reattribute: bool, quantum: float, as_json: bool
) -> None:
    matrix = read_matrix(rtt)
    told = read_rates(rates, matrix)
    if exclude is not None and exclude not in matrix:
        raise ConfigError(f"--exclude {exclude}: is not in {rtt}: one of {', '.join(matrix)}")
    if reattribute and exclude is None:
        raise ConfigError("--reattribute is for --exclude: name the leader whose clients are meant")
    try:
        found = score_all(
            quantised(ORACLES[oracle], quantum),
            matrix,
            told,
            exclude=None if exclude is None else NodeId(exclude),
            reattribute=reattribute,
        )
    except ConfigError as error:
        raise ConfigError(f"--{error.field} {error.complaint}" if error.field else str(error)) from None
    if as_json:
        print_json({"scores": found.scores, "leader": found.leader})
        return
    unit = UNITS.get(oracle, "ms")
    click.echo(f"{found.leader} leads by {oracle}")
    width = max(len(node) for node in found.scores)
    for node in sorted(found.scores, key=order):
        value = found.scores[node]
        click.echo(f"  {node:{width}}  {'not measured' if value is None else f'{value:.3f} {unit}'}")


def read_matrix(path: Path) -> dict[NodeId, dict[NodeId, float]]:
    """Return the round trips of a square table, `,p1,p2,…`; an empty cell was not measured."""
    rows = table_of(path)
    names = rows[0][1][1:]
    if not names or not all(names) or len(set(names)) != len(names):
        raise ConfigError(f"{path}: line {rows[0][0]}: must name every server once: ,p1,p2,…")
    found: dict[NodeId, dict[NodeId, float]] = {}
    for line, cells in rows[1:]:
        spot, node = f"{path}: line {line}", cells[0]
        if node not in names or NodeId(node) in found:
            raise ConfigError(f"{spot}: {shown(node)} is {'there twice' if node in names else 'not in the header'}")
        if len(cells) != len(names) + 1:
            raise ConfigError(f"{spot}: has {len(cells)} cells, the header has {len(names) + 1}")
        row = {}
        for other, text in zip(names, cells[1:], strict=True):
            if text:
                row[NodeId(other)] = number(text, f"{spot}, column {other}", 0)
        if row.get(NodeId(node), 0.0) != 0.0:
            raise ConfigError(f"{spot}, column {node}: a server's round trip to itself must be 0 or empty")
        found[NodeId(node)] = row
    missing = [name for name in names if NodeId(name) not in found]
    if missing:
        raise ConfigError(f"{path}: has no row for {', '.join(missing)}: the matrix must be square")
    return {NodeId(name): found[NodeId(name)] for name in names}


def read_rates(path: Path, matrix: dict[NodeId, dict[NodeId, float]]) -> dict[NodeId, float]:
    """Return the requests per second of a table `node,rate`, by server."""
    found = {NodeId(node): rate for node, rate in read_column(path, "rate", 0).items()}
    for node in found:
        if node not in matrix:
            raise ConfigError(f"{path}: {shown(node)} is not in the matrix: one of {', '.join(matrix)}")
    return found
