"""`doyen analyze announce`."""

from math import inf, isfinite
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec.structs import replace

from doyen.cli.options import DurationText, chosen, flags, named_by_flag
from doyen.cli.output import print_json
from doyen.cli.outputs import plot_flag
from doyen.errors import ConfigError
from doyen.eyes.plot import Plot
from doyen_papers.analysis.announce import QUANTITIES, inconsistent_in_all, value
from doyen_papers.analysis.setting import Setting

LOSSES: Final = 50  # Points of a picture, from 0 to 98 %.


@click.command("announce", help="Closed forms for announce-listen elections.  Without --quantity: all that are known.")
@flags(Setting)
@click.option("--quantity", type=click.Choice(list(QUANTITIES)), help="What to evaluate.")
@click.option(
    "--departure-every",
    type=DurationText(as_seconds=True),
    default=None,
    help="A leader leaves so often: for inconsistent.",
)
@click.option(
    "--join-every", type=DurationText(as_seconds=True), default=None, help="A process joins so often: likewise."
)
@click.option("--as-printed", is_flag=True, help="By the chapter's own formula, where that is wrong.")
@plot_flag("the quantity over the share of messages lost; with --quantity")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    quantity: str | None,
    departure_every: float | None,
    join_every: float | None,
    as_printed: bool,
    plot: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    setting = chosen(Setting, given)
    given_rate = (
        "--departure-every" if departure_every is not None else "--join-every" if join_every is not None else ""
    )
    if given_rate and (quantity != "inconsistent" or as_printed):
        raise ConfigError(f"{given_rate} is for --quantity inconsistent, and not for --as-printed: leave one out")
    if plot is not None and (quantity is None or given_rate):
        raise ConfigError("--plot draws one quantity: give --quantity, and no rates")
    with named_by_flag(Setting):
        if given_rate and quantity is not None:
            rates = {"departure_every_s": departure_every, "join_every_s": join_every}
            known = {name: inf if every is None else every for name, every in rates.items()}
            values = {quantity: inconsistent_in_all(setting, **known)}
        elif quantity is not None:
            values = {quantity: value(setting, quantity, as_printed=as_printed)}
        else:
            values = _all_known(setting, as_printed)
    if plot is not None and quantity is not None:
        _draw(setting, quantity, as_printed, plot)
    if as_json:
        shown: dict[str, Any] = {"value": values[quantity]} if quantity is not None else {"values": values}
        print_json(msgspec.structs.asdict(setting) | {"quantity": quantity, "as_printed": as_printed} | shown)
        return
    for name, number in values.items():
        click.echo(f"{name:22} {number:<14.8g} {QUANTITIES[name]}")


def _draw(setting: Setting, quantity: str, as_printed: bool, path: Path) -> None:
    """Draw a quantity over the loss, with the point that was asked for."""
    points = []
    for step in range(LOSSES):
        loss = step / LOSSES
        try:
            points.append((loss, value(replace(setting, loss=loss), quantity, as_printed=as_printed)))
        except ConfigError:
            continue
    picture = Plot(
        f"{setting.variant}, {setting.nodes} nodes: {quantity}", "share of messages lost", QUANTITIES[quantity]
    )
    picture.line(quantity, points)
    picture.point("yours", setting.loss_prob, value(setting, quantity, as_printed=as_printed))
    path.write_text(picture.svg(), encoding="utf-8")


def _all_known(setting: Setting, as_printed: bool) -> dict[str, float]:
    found = {}
    for name in QUANTITIES:
        try:
            number = value(setting, name, as_printed=as_printed)
        except ConfigError:  # No form is known, or it makes no sense for this event.
            continue
        if isfinite(number):
            found[name] = number
    return found
