"""`doyen score topsis`."""

from pathlib import Path

import click

from doyen.cli.output import print_json
from doyen.core.order import order
from doyen.score.topsis import weights_complaint
from doyen_papers.score.files import read_data, read_text
from doyen_papers.score.table import rate, read_attributes, read_table


@click.command("topsis", help="A table of nodes (CSV: node,<attribute>,…) to a quality factor each, and the leader.")
@click.argument("table", type=click.Path(path_type=Path), metavar="TABLE.csv")
@click.option(
    "--attributes",
    type=click.Path(path_type=Path),
    required=True,
    metavar="ATTRS.toml",
    help='[[attribute]] with name, min, max, weight, kind = "benefit" or "cost".',
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(table: Path, attributes: Path, as_json: bool) -> None:
    wanted = read_attributes(read_data(attributes), str(attributes))
    odd = weights_complaint(wanted)
    if odd:
        click.echo(f"doyen: {attributes}: {odd}", err=True)
    rated = rate(read_table(read_text(table).splitlines(), wanted, str(table)), wanted)
    clamped = {node: found.clamped for node, found in rated.quality.items() if found.clamped}
    for node, names in clamped.items():
        click.echo(f"doyen: {table}: node {node}: {', '.join(names)} outside min and max, clamped", err=True)
    if as_json:
        quality = {node: found.value for node, found in rated.quality.items()}
        print_json({"quality": quality, "leader": rated.leader, "clamped": clamped})
        return
    best = rated.quality[rated.leader].value
    click.echo(f"{rated.leader} leads: quality {best:.6f}, the best of {len(rated.quality)}")
    width = max(len(node) for node in rated.quality)
    for node in sorted(rated.quality, key=lambda node: (-rated.quality[node].value, order(node))):
        click.echo(f"  {node:{width}}  {rated.quality[node].value:.6f}")
