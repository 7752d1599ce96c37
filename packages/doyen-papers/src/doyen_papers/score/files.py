"""Reading what `doyen score` is given: TOML or JSON by the file's name, or CSV."""

import csv
import tomllib
from collections.abc import Iterable
from math import inf, isfinite
from pathlib import Path
from typing import Any

import msgspec

from doyen.core.config import shown
from doyen.errors import ConfigError


def read_text(path: Path) -> str:
    """Return the text of a file; raise `ConfigError` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not text in UTF-8 (byte {error.start})") from None


def read_data(path: Path) -> Any:
    """Return what a TOML or JSON file holds."""
    text = read_text(path)
    try:
        return msgspec.json.decode(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None


def rows_of(lines: Iterable[str], where: str) -> list[tuple[int, list[str]]]:
    """Return the rows of a CSV file that are not empty, each with the number of its line."""
    reader = csv.reader(lines)
    rows = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise ConfigError(f"{where}: line {reader.line_num}: {error}") from None
    return rows


def number(text: str, spot: str, least: float = -inf) -> float:
    """Return the finite number in a cell; raise `ConfigError` where there is none, or one that is too small."""
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f"{spot}: {shown(text)} is not a number") from None
    if not isfinite(value) or value < least:
        what = "is not a finite number" if least == -inf else f"must be {least:g} or more, and finite"
        raise ConfigError(f"{spot}: {shown(text)} {what}")
    return value


def table_of(path: Path) -> list[tuple[int, list[str]]]:
    """Return the rows of a CSV file, of which there must be one at least."""
    rows = rows_of(read_text(path).splitlines(), str(path))
    if not rows:
        raise ConfigError(f"{path}: is empty")
    return rows


def read_column(path: Path, what: str, least: float = -inf) -> dict[str, float]:
    """Return the numbers of a CSV file `node,<what>`, by node; its header may be left out."""
    found: dict[str, float] = {}
    for i, (line, cells) in enumerate(table_of(path)):
        if i == 0 and [cell.lower() for cell in cells] == ["node", what]:
            continue
        spot = f"{path}: line {line}"
        if len(cells) != 2 or not cells[0]:
            raise ConfigError(f"{spot}: {shown(','.join(cells))}: must be node,{what}")
        if cells[0] in found:
            raise ConfigError(f"{spot}: node {cells[0]} is there twice")
        found[cells[0]] = number(cells[1], f"{spot}: node {cells[0]}", least)
    return found
