"""`doyen analyze arbitration`."""

from typing import Any

import click

from doyen.cli.options import DurationText, named_by_flag
from doyen.cli.output import print_json
from doyen_papers.analysis.arbitration import (
    QUANTITIES,
    Range,
    RingSetting,
    arbitrator_sets,
    evaluate,
    requests_per_failure,
)

_SECONDS = DurationText(as_seconds=True)


@click.command(
    "arbitration", help="Bounds and costs of arbitrated membership; times in seconds.  Without --quantity: all."
)
@click.option("--quantity", type=click.Choice(list(QUANTITIES)), help="What to evaluate.")
@click.option("--lease", type=_SECONDS, default="1s", show_default=True, help="T_l.")
@click.option("--arbitration", type=_SECONDS, default="500ms", show_default=True, help="T_a.")
@click.option("--neighbours", type=int, default=3, show_default=True, help="k, on each side.")
@click.option("--drift", type=float, default=0.0, show_default=True, help="r: clocks run at 1 ± r.")
@click.option("--nodes", type=int, default=0, help="N; 0: a large ring.")
@click.option("--failures", type=int, default=1, show_default=True, help="For central-load.")
@click.option("--delay", type=_SECONDS, default="0s", show_default=True, help="One way, for detection.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(quantity: str | None, as_json: bool, **setting: Any) -> None:
    with named_by_flag():
        known = RingSetting(**setting)
        values = {name: evaluate(name, known) for name in ([quantity] if quantity else QUANTITIES)}
    if as_json:
        shown = {name: _as_json(name, value, setting) for name, value in values.items()}
        print_json(setting | {"quantity": quantity} | (shown[quantity] if quantity else {"values": shown}))
        return
    for name, value in values.items():
        text = f"[{value.low:g}, {value.high:g})" if isinstance(value, Range) and name != "group-size" else (
            f"{value.low:g} to {value.high:g}" if isinstance(value, Range) else f"{value:.10g}"
        )  # fmt: skip
        click.echo(f"{name:16} {text:16} {QUANTITIES[name]}")


def _as_json(name: str, value: float | Range, setting: dict[str, Any]) -> dict[str, float]:
    if isinstance(value, Range):
        return {"low": value.low, "high": value.high}
    if name == "arbitrator-sets":
        return {"value": value, "exact": arbitrator_sets(setting["neighbours"])}
    if name == "central-load":
        return {"value": value, "pairwise_in_all": requests_per_failure(setting["neighbours"]) * setting["failures"]}
    return {"value": value}
