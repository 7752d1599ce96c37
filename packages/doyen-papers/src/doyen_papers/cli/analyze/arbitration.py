"""`doyen analyze arbitration`."""

from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import replace

from doyen.cli.options import DurationText, named_by_flag
from doyen.cli.output import print_json
from doyen.cli.outputs import plot_flag
from doyen.errors import ConfigError
from doyen.eyes.plot import Plot
from doyen_papers.analysis.arbitration import (
    QUANTITIES,
    Range,
    RingSetting,
    arbitrator_sets,
    evaluate,
    requests_per_failure,
)

_SECONDS = DurationText(as_seconds=True)
LEASES: Final = 60  # Points of a picture.


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
@plot_flag("the quantity over the lease; with --quantity")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(quantity: str | None, plot: Path | None, as_json: bool, **setting: Any) -> None:
    if plot is not None and quantity is None:
        raise ConfigError("--plot draws one quantity: give --quantity")
    with named_by_flag():
        known = RingSetting(**setting)
        values = {name: evaluate(name, known) for name in ([quantity] if quantity else QUANTITIES)}
    if plot is not None and quantity is not None:
        _draw(known, quantity, plot)
    if as_json:
        shown = {name: _as_json(name, value, setting) for name, value in values.items()}
        print_json(setting | {"quantity": quantity} | (shown[quantity] if quantity else {"values": shown}))
        return
    for name, value in values.items():
        text = f"[{value.low:g}, {value.high:g})" if isinstance(value, Range) and name != "group-size" else (
            f"{value.low:g} to {value.high:g}" if isinstance(value, Range) else f"{value:.10g}"
        )  # fmt: skip
        click.echo(f"{name:16} {text:16} {QUANTITIES[name]}")


def _draw(setting: RingSetting, quantity: str, path: Path) -> None:
    """Draw a quantity over the lease, up to four times the one that was given, with the point that was asked for."""
    picture = Plot(f"arbitrated membership: {quantity}", "lease, in seconds", QUANTITIES[quantity])
    found: dict[str, list[tuple[float, float]]] = {}
    for step in range(1, LEASES + 1):
        lease = setting.lease * 4 * step / LEASES
        value = evaluate(quantity, replace(setting, lease=lease))
        ends = {"from": value.low, "to": value.high} if isinstance(value, Range) else {quantity: value}
        for name, number in ends.items():
            found.setdefault(name, []).append((lease, number))
    for name, points in found.items():
        picture.line(name, points)
    own = evaluate(quantity, setting)
    picture.point("yours", setting.lease, own.high if isinstance(own, Range) else own)
    path.write_text(picture.svg(), encoding="utf-8")


def _as_json(name: str, value: float | Range, setting: dict[str, Any]) -> dict[str, float]:
    if isinstance(value, Range):
        return {"low": value.low, "high": value.high}
    if name == "arbitrator-sets":
        return {"value": value, "exact": arbitrator_sets(setting["neighbours"])}
    if name == "central-load":
        return {"value": value, "pairwise_in_all": requests_per_failure(setting["neighbours"]) * setting["failures"]}
    return {"value": value}
