"""Configuration in layers: preset < TOML file < DOYEN_… in the environment < flags."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_args

from doyen.core.clock import parse_duration
from doyen.core.config import Option, is_duration, load, nearest, options, read_value
from doyen.errors import ConfigError
from doyen.node.config import NodeConfig
from doyen.node.presets import Preset, Timers, WorstCase, timers, worst_case
from doyen.node.trees import as_tree, overlay, plain, put

SINGULAR: Final = {"seeds": "seed", "elections": "also-elect", "attributes": "attribute", "measures": "measure"}
UNPREFIXED: Final = "announce"  # Its fields are flags by their own names, as they were from the first day.
OTHER_VARIABLES: Final = ("DOYEN_CONFIG", "DOYEN_RUNTIME_DIR", "DOYEN_TERM")


def flag_name(option: Option) -> str:
    """`swim.period` → `--swim-period`; `announce.listen_timeout` → `--listen-timeout`."""
    path = option.path[1:] if option.path[0] == UNPREFIXED and len(option.path) > 1 else option.path
    return "--" + SINGULAR.get(option.name, "-".join(path)).replace("_", "-")


def variable_name(option: Option) -> str:
    """`--swim-period` → `DOYEN_SWIM_PERIOD`."""
    return "DOYEN_" + flag_name(option)[2:].replace("-", "_").upper()


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that nobody reads, each with the one that will have been meant.

    Only where there is such a one: others may have a use for DOYEN_…, Kubernetes for one.
    """
    known = {*(variable_name(option) for option in node_options()), *OTHER_VARIABLES}
    unread = [name for name in environment if name.startswith("DOYEN_") and name not in known]
    return {name: near for name in unread if (near := nearest(name, known, 0.9))}


def node_options() -> list[Option]:
    """Every leaf that has a flag; `announce.group_size` follows `group_size`."""
    return [option for option in options(NodeConfig) if option.name != "announce.group_size"]


def configure(
    given: Mapping[tuple[str, ...], Any],
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    called: Callable[[Option], str] = flag_name,
    defaults: Mapping[tuple[str, ...], Any] = MappingProxyType({}),
) -> NodeConfig:
    """The whole configuration: preset, file, environment and flags, the later ones winning.

    `given` is what flags said, by the option's path, durations in nanoseconds; complaints name an option as `called`.
    """
    environment = os.environ if environment is None else environment
    where = "" if file is None else str(file)
    from_file = {} if file is None else read_toml(file)
    tree: dict[str, Any] = {}
    named: dict[tuple[str, ...], str] = {}
    known = node_options()
    for option in known:
        text = environment.get(variable_name(option))
        if text is not None:
            read = read_value(option.type, text, variable_name(option), text=True)
            put(tree, option.path, plain(option, read))
            named[option.path] = variable_name(option)
        value = given.get(option.path)
        if value is not None:
            put(tree, option.path, plain(option, value))
            named[option.path] = called(option)
    merged: dict[str, Any] = {}
    overlay(merged, _preset_of(tree, from_file))
    for path, value in defaults.items():
        put(merged, path, value)
    overlay(merged, from_file)
    overlay(merged, tree)
    if file is None:  # Whatever is wrong or missing can only be mended there.
        named = {option.path: called(option) for option in known} | named
    return load(NodeConfig, merged, where, flags=named)


def from_tables(
    tables: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    where: str = "",
    path: tuple[str, ...] = (),
    flags: Mapping[tuple[str, ...], str] = MappingProxyType({}),
) -> NodeConfig:
    """Return the configuration that a table gives which holds what a node's own file holds: preset < defaults < table.

    Complaints name `where` and the table at `path`, or the flag of `flags` that the value came from.
    """
    merged: dict[str, Any] = {}
    overlay(merged, _preset_of(tables, defaults))
    overlay(merged, defaults)
    overlay(merged, tables)
    return load(NodeConfig, merged, where, path, flags=flags)


def by_path(given: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Fields by name, tables as mappings, durations as text or seconds: as `configure` wants it."""
    known = {option.path: option for option in options(NodeConfig)}
    tables = {path[0] for path in known if len(path) > 1}
    found: dict[tuple[str, ...], Any] = {}
    for field, value in given.items():
        if field in tables and not isinstance(value, Mapping):
            raise ConfigError(f"is a table, not {value!r}: give {{'period': '1s'}} or the like", field=field)
        leaves = value.items() if isinstance(value, Mapping) else [(None, value)]
        for name, leaf in leaves:
            path = (field,) if name is None else (field, name)
            if path not in known:
                raise ConfigError(f"there is no field {'.'.join(path)!r}: see docs/reference/python.md")
            found[path] = parse_duration(leaf) if is_duration(known[path].type) else leaf
    return found


def read_toml(file: Path) -> dict[str, Any]:
    import tomllib  # Most nodes have no file.

    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"--config {file}: {error.strerror}: give a file that can be read") from None


def worst_case_of(config: NodeConfig) -> WorstCase:
    """Of this very configuration, by its own timers and its preset's delay."""
    preset = timers(config.preset, config.group_size)
    tables = {name: getattr(config, name) for name in Timers.__struct_fields__ if name != "delay"}
    made = Timers(delay=preset.delay, **tables)
    return worst_case(config.election, config.membership_kind(), made, config.group_size)


def _preset_of(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """The preset that is asked for, as tables; one that makes no sense is left for `load` to complain about."""

    def said(key: str, default: Any) -> Any:
        return next((layer[key] for layer in layers if key in layer), default)

    preset, size = said("preset", "lan"), said("group_size", 10)
    known: Preset = preset if preset in get_args(Preset) else "lan"
    made = timers(known, size if isinstance(size, int) and 0 < size <= 100_000 else 10)
    return {name: as_tree(getattr(made, name)) for name in Timers.__struct_fields__ if name != "delay"}
