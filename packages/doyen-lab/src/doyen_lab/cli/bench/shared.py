"""The flags, checks and tables that several benches share."""

import sys
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import click

from doyen.cli.local import table
from doyen.cli.output import print_json
from doyen.errors import ConfigError
from doyen_lab.contest.figures import MeasuredProcess

NODES_MAX = 64


def mesh_flags(drop: float) -> Callable[[Any], Any]:
    """Return the decorator that adds the flags of a bench on a mesh; `drop` is the default of its flag."""
    flags = (
        click.option(
            "--drop", type=float, default=drop, show_default=True, help="The chance that one hop loses a packet."
        ),
        click.option("--rows", type=click.IntRange(1, 8), default=4, show_default=True, help="Rows of the mesh."),
        click.option("--columns", type=click.IntRange(1, 8), default=4, show_default=True, help="Columns of the mesh."),
    )

    def add(command: Any) -> Any:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return add


missing_max_flag = click.option(
    "--missing-max", type=int, default=None, help="c; by default the paper's for this drop: 2, 3, 5, 7."
)


def check_mesh(drop: float, rows: int, columns: int, hosts_min: int) -> None:
    if not 0 <= drop < 1:
        raise ConfigError(f"--drop {drop} is out of range: give 0 to below 1")
    if rows * columns < hosts_min:
        raise ConfigError(f"--rows {rows} --columns {columns} are too few: give {hosts_min} hosts or more")


def check_positive(flag: str, value: float) -> None:
    if not (isfinite(value) and value > 0):
        raise ConfigError(f"{flag} {value} is out of range: give a number above 0")


def check_seconds(flag: str, value: float) -> None:
    if not 0 <= value < 1e6:
        raise ConfigError(f"{flag} {value} is out of range: give seconds from 0 on")


def sizes_of(text: str) -> list[int]:
    """Return the sizes that `--nodes` names."""
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or not all(3 <= n <= NODES_MAX for n in found):
        raise ConfigError(f"--nodes {text}: give numbers from 3 to {NODES_MAX}, by commas")
    return found


def say(text: str) -> None:
    """Show a step on standard error."""
    click.echo(text, err=True)


def print_processes(processes: Sequence[MeasuredProcess]) -> None:
    rows = [["SYSTEM", "NAME", "PID", "NAMESPACE", "INODE", "INTERFACE", "ADDRESS", "TX BYTES", "TX", "RX BYTES", "RX"]]
    for p in processes:
        count = p.counters
        figures = [str(value) for value in (count.tx_bytes, count.tx_packets, count.rx_bytes, count.rx_packets)]
        rows.append(
            [p.system, p.name, str(p.pid), p.namespace, str(p.namespace_inode), p.interface, p.address, *figures]
        )
    table(rows)


def report(result: Any, as_json: bool, show: Callable[[Any], None]) -> None:
    """Print the result, as one JSON object or by `show`; end with exit code 1 if it does not hold."""
    if as_json:
        print_json(result)
    else:
        show(result)
        click.echo("holds" if result.holds else "DOES NOT HOLD")
    if not result.holds:
        sys.exit(1)
