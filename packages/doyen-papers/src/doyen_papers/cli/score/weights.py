"""`doyen score weights`."""

from pathlib import Path

import click

from doyen.cli.output import print_json
from doyen.errors import ConfigError
from doyen_papers.score.experts import QUANTIFIERS, Aggregate, Panel, Quantifier, Weights, read_panel, weigh
from doyen_papers.score.files import read_data


@click.command("weights", help="Experts' preference matrices (TOML or JSON) to one weight per attribute, step by step.")
@click.argument("experts", type=click.Path(path_type=Path), metavar="EXPERTS.toml")
@click.option("--aggregate", type=click.Choice(["wa", "owa"]), help="Mean by expert, or mean by place. [wa]")
@click.option("--quantifier", type=click.Choice(list(QUANTIFIERS)), help="owa: whose agreement counts. [most]")
@click.option("--owa-weights", metavar="W,W,…", help="owa: the weights of the places, instead of a quantifier.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    experts: Path, aggregate: Aggregate | None, quantifier: Quantifier | None, owa_weights: str | None, as_json: bool
) -> None:
    panel = read_panel(read_data(experts), str(experts))
    places = _places(owa_weights)
    given = "--quantifier" if quantifier else "--owa-weights" if places else None
    if given and aggregate == "wa":
        raise ConfigError(f"{given} is for --aggregate owa: wa weighs experts, not places")
    if quantifier and places:
        raise ConfigError("--quantifier and --owa-weights are two ways to say the same: choose one")
    chosen: Aggregate = aggregate or ("owa" if given else "wa")
    try:
        result = weigh(panel, aggregate=chosen, quantifier=quantifier or "most", places=places)
    except ConfigError as error:
        raise ConfigError(f"--owa-weights {error.complaint}" if error.field else f"{experts}: {error}") from None
    if as_json:
        print_json(
            {
                "attributes": result.attributes,
                "experts": [expert.name for expert in panel.experts],
                "aggregate": chosen,
                "places": result.places,
                "collective": result.collective,
                "dominance": result.dominance,
                "weights": result.weights,
            }
        )
    else:
        _print(panel, result, chosen)


def _places(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--owa-weights {text!r}: give numbers, e.g. 0.5,0.3,0.2") from None


def _print(panel: Panel, result: Weights, aggregate: Aggregate) -> None:
    ranked = sorted(result.weights, key=lambda name: -result.weights[name])
    click.echo(" · ".join(f"{name} {result.weights[name]:.4f}" for name in ranked))
    how = "by the experts' weights" if aggregate == "wa" else "by place, greatest first"
    click.echo(f"\n1. {len(panel.experts)} experts, {len(result.attributes)} attributes; {aggregate.upper()}, {how}")
    if result.places is None:
        click.echo("   " + ", ".join(f"{expert.name} {expert.weight:g}" for expert in panel.experts))
    else:
        click.echo("   places " + ", ".join(f"{place:.4f}" for place in result.places) + "; who said it does not count")
    width = max(7, *(len(name) for name in result.attributes))
    click.echo("\n2. collective preference of the row over the column")
    click.echo("   " + " " * width + "".join(f" {name:>{width}}" for name in result.attributes))
    for name, row in zip(result.attributes, result.collective, strict=True):
        click.echo(f"   {name:{width}}" + "".join(f" {cell:{width}.4f}" for cell in row))
    click.echo("\n3. dominance (mean of the row off its diagonal), and its share: the weight")
    for name in result.attributes:
        click.echo(f"   {name:{width}} {result.dominance[name]:.6f}  {result.weights[name]:.6f}")
