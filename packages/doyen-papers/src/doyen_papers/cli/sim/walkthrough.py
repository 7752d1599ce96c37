"""`doyen sim walkthrough`."""

import click

from doyen.cli.output import print_json
from doyen_papers.studies.walkthrough import EXAMPLES, walk


@click.command("walkthrough", help=f"A paper's worked example, step by step: {', '.join(EXAMPLES)}.")
@click.argument("example")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(example: str, as_json: bool) -> None:
    result = walk(example)
    if as_json:
        print_json({name: getattr(result, name) for name in ("steps", "notified", "unicasts", "multicasts")})
        return
    for step in result.steps:
        excluded = ", ".join(f"{node}: {count}" for node, count in step.excluded.items())
        click.echo(f"response from {step.sender}")
        click.echo(f"  excluded    {{{excluded}}}")
        click.echo(f"  candidates  {step.candidates}")
        click.echo(f"  leaders     {step.leaders}")
    click.echo(f"notified {result.notified}; {result.unicasts} unicasts, {result.multicasts} multicasts")
    click.echo(f"{'all agree on' if result.agreed else 'not all agree on'} node {result.leader}")
