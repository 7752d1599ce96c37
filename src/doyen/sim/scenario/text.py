"""Scenarios as text: a TOML file for people, and one line for a shell, with what is not as usual."""

import json
import shlex
import tomllib
from collections.abc import Mapping
from math import isinf
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import FOREVER, Duration, format_duration, parse_duration
from doyen.core.config import field_types, is_duration, is_table, load, table_item
from doyen.errors import ConfigError
from doyen.sim.scenario.defaults import completed, with_node
from doyen.sim.scenario.schema import Scenario

LINE_MAX = 1 << 20
FILE_MAX = 1 << 24  # Bytes: a graph of all links is long.


def read_tables(path: Path) -> dict[str, Any]:
    """Return a file's tables, not yet checked."""
    where = _where(path)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_MAX + 1)
        if len(data) > FILE_MAX:
            raise ConfigError(f"{where}: more than {FILE_MAX >> 20} MiB: this is no scenario")
        tables = tomllib.loads(data.decode())
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: not text in UTF-8 (byte {error.start})") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{where}: not TOML: {error}") from None
    if not tables:
        raise ConfigError(f"{where}: it is empty: give at least [group] nodes = 5, or leave the file out")
    return tables


def _where(path: Path) -> str:
    return f"scenario {path}" if str(path).isprintable() else f"scenario {str(path)!r}"


def read_file(path: Path, node: Mapping[str, Any] | None = None) -> Scenario:
    """Return the scenario of a file; `node` says how its nodes elect where the file does not."""
    where, tables = _where(path), read_tables(path)
    if node is not None:
        if tables.get("node"):
            raise ConfigError(f"{where}: its [node] says how to elect, so --election cannot: leave one out")
        tables = with_node(tables, node)
    return load(Scenario, completed(tables, where), where)


def from_line(line: str) -> Scenario:
    """Return the scenario that `to_line` wrote: one inline table, as in TOML."""
    if len(line) > LINE_MAX or "\n" in line.strip():
        raise ConfigError("a replay line is one line: give what was printed, in quotes")
    try:
        tables = tomllib.loads(f"x = {line.strip()}")["x"]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"a replay line is one table as in TOML, e.g. '{{run = {{seed = 7}}}}': {error}") from None
    return load(Scenario, tables, "replay line")


def to_line(scenario: Scenario) -> str:
    """Write everything that differs from the defaults, exactly: the same line, the same run."""
    return _table(scenario)


def replay_line(scenario: Scenario, seed: int) -> str:
    """Return the command that runs that seed of a scenario again."""
    return "doyen sim replay " + shlex.quote(to_line(replace(scenario, run=replace(scenario.run, seed=seed))))


def _table(value: Struct) -> str:
    parts = []
    hints = field_types(type(value))
    for field in msgspec.structs.fields(value):
        held = getattr(value, field.name)
        usual = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if field.required or held != usual:
            parts.append(f"{field.name} = {_value(hints[field.name], held)}")
    return f"{{{', '.join(parts)}}}"


def _value(hint: Any, value: Any) -> str:
    if is_table(hint):
        return _table(value)
    if table_item(hint) is not None:
        return f"[{', '.join(_table(entry) for entry in value)}]"
    if is_duration(hint):
        return json.dumps(exact_duration(value))
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "inf" if isinf(value) else repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {_plain(held)}' for key, held in value.items())}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_plain(entry) for entry in value)}]"
    return repr(value)


def exact_duration(duration: Duration) -> str:
    """Write a duration as a person would if that is exact, else in nanoseconds."""
    if duration >= FOREVER:
        return "inf"
    short = format_duration(duration)
    readable = "e" not in short and parse_duration(short) == duration  # Long ones are shown as 1e+06s.
    return short if readable else f"{duration}ns"
