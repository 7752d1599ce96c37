"""Configuration in layers: preset < TOML file < DOYEN_… in the environment < what the caller gives."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_args

from msgspec import Struct
from msgspec.structs import asdict

from doyen.core.clock import FOREVER, parse_duration
from doyen.core.config import Option, is_duration, load, nearest, options, read_value
from doyen.core.kinds import ALIASES, Network, Table
from doyen.errors import ConfigError
from doyen.node.config import ALONE_AFTER, NodeConfig
from doyen.node.registry import ELECTIONS, MEMBERSHIPS, tables

SINGULAR: Final = {"seeds": "seed", "elections": "also_elect", "attributes": "attribute", "measures": "measure"}
UNPREFIXED: Final = "announce"  # Its fields are known by their own names, as they were from the first day.
OTHER_VARIABLES: Final = ("DOYEN_CONFIG", "DOYEN_RUNTIME_DIR", "DOYEN_TERM", "DOYEN_BATON")


def variable_name(option: Option) -> str:
    """Return the variable of an option: `swim.period` → `DOYEN_SWIM_PERIOD`, `announce.ttl` → `DOYEN_TTL`."""
    path = option.path[1:] if option.path[0] == UNPREFIXED and len(option.path) > 1 else option.path
    return "DOYEN_" + SINGULAR.get(option.name, "_".join(path)).upper()


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that nobody reads, each with the one that will have been meant.

    Only those that are close to a known one: others may have a use for DOYEN_…, Kubernetes for one.
    """
    given = [name for name in environment if name.startswith("DOYEN_") and name not in OTHER_VARIABLES]
    known: set[str] = set()
    for ours in (True, False):  # What other packages have installed is searched for only if ours does not explain it.
        if not given:
            return {}
        known = {variable_name(option) for option in node_options(tables(ours=ours))}
        given = [name for name in given if name not in known]
    return {name: near for name in given if (near := nearest(name, known | {*OTHER_VARIABLES}, 0.9))}


def node_options(known: Mapping[str, Table] | None = None) -> list[Option]:
    """Return every leaf of a node's configuration that can be given, tables included."""
    own = [option for option in options(NodeConfig) if option.name != "tables"]
    found = tables() if known is None else known
    below = [
        option
        for table in found.values()
        for option in options(table.config, (table.name,))
        if option.path[1] not in table.hidden
    ]
    return [*own, *below]


def configure(
    given: Mapping[tuple[str, ...], Any],
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    called: Callable[[Option], str] = lambda option: option.name,
) -> NodeConfig:
    """Return the whole configuration: preset, file, environment and what is given, the later ones winning.

    `given` has values by the option's path, durations in nanoseconds; complaints name an option as `called` does.
    """
    environment = os.environ if environment is None else environment
    where = "" if file is None else str(file)
    from_file = {} if file is None else read_toml(file)
    known_tables = _tables_of(given, from_file, environment)
    known = node_options(known_tables)
    tree: dict[str, Any] = {}
    named: dict[tuple[str, ...], str] = {}
    for option in known:
        text = environment.get(variable_name(option))
        if text is not None:
            read = read_value(option.type, text, variable_name(option), text=True)
            _put(tree, option.path, plain(option, read))
            named[option.path] = variable_name(option)
        value = given.get(option.path)
        if value is not None:
            _put(tree, option.path, plain(option, value))
            named[option.path] = called(option)
    merged: dict[str, Any] = {}
    overlay(merged, _preset_of(known_tables, tree, from_file))
    overlay(merged, from_file)
    overlay(merged, tree)
    if file is None:  # Whatever is wrong or missing can only be mended where it was given.
        named = {option.path: called(option) for option in known} | named
    return _load_all(known_tables, merged, where, (), named)


def from_tables(
    said: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    where: str = "",
    path: tuple[str, ...] = (),
    flags: Mapping[tuple[str, ...], str] = MappingProxyType({}),
) -> NodeConfig:
    """Return the configuration that a table gives which holds what a node's own file holds: preset < defaults < table.

    Complaints name `where` and the table at `path`, or the flag of `flags` that the value came from.
    """
    known_tables = _tables_of({}, said, {})
    merged: dict[str, Any] = {}
    overlay(merged, _preset_of(known_tables, said, defaults))
    overlay(merged, defaults)
    overlay(merged, said)
    return _load_all(known_tables, merged, where, path, flags)


def _load_all(
    known_tables: Mapping[str, Table],
    merged: dict[str, Any],
    where: str,
    path: tuple[str, ...],
    flags: Mapping[tuple[str, ...], str],
) -> NodeConfig:
    made = {
        name: load(table.config, merged.pop(name), where, (*path, name), flags=flags)
        for name, table in known_tables.items()
    }
    known = node_options(known_tables)
    return load(NodeConfig, merged | {"tables": made}, where, path, flags=flags, known=known)


def by_path(given: Mapping[str, Any], also: Iterable[str] = ()) -> dict[tuple[str, ...], Any]:
    """Return fields given by name (tables as mappings, durations as text or seconds) as `configure` wants them.

    `also` has further arguments of the caller, which will have been meant by one that is spelt much alike.
    """
    found_tables = tables(ours=True)
    if not {*given} <= {*NodeConfig.__struct_fields__, *found_tables}:  # Some other package's, or a mistake.
        found_tables = tables()
    known = {option.path: option for option in options(NodeConfig)}
    for table in found_tables.values():
        known |= {option.path: option for option in options(table.config, (table.name,))}
    found: dict[tuple[str, ...], Any] = {}
    for field, value in given.items():
        if field in found_tables and not isinstance(value, Mapping):
            raise ConfigError(f"is a table, not {value!r}: give {{'period': '1s'}} or the like", field=field)
        leaves = value.items() if isinstance(value, Mapping) else [(None, value)]
        for name, leaf in leaves:
            path = (field,) if name is None else (field, name)
            if path not in known or field == "tables":
                within = len(path) > 1 and field in found_tables
                names = [p[1] for p in known if p[0] == field and p[1:]] if within else [*also, *(p[0] for p in known)]
                near = nearest(path[-1 if within else 0], names)
                meant = ".".join((*path[:-1], near or "") if within else (near or "",))
                advice = f"do you mean {meant}?" if near else "see docs/reference/configuration.md"
                raise ConfigError(f"there is no field {'.'.join(path)!r}: {advice}")
            found[path] = parse_duration(leaf) if is_duration(known[path].type) else leaf
    return found


def read_toml(file: Path) -> dict[str, Any]:
    import tomllib  # Most nodes have no file.

    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}: give a file that can be read", field="config") from None


# ── Tables ──────────────────────────────────────────────────────────────────────────────────────────────────


def _tables_of(
    given: Mapping[tuple[str, ...], Any],
    from_file: Mapping[str, Any],
    environment: Mapping[str, str],
) -> dict[str, Table]:
    """Return our tables; those of everything that is installed, where something is asked for that is not ours."""
    chosen: set[str] = set()
    for field in ("election", "membership"):
        said = given.get((field,), environment.get(f"DOYEN_{field.upper()}", from_file.get(field)))
        chosen.add("none" if said is None else str(said))
    further = given.get(("elections",)) or environment.get("DOYEN_ALSO_ELECT") or from_file.get("elections") or ()
    texts = further.split(",") if isinstance(further, str) else map(str, further)
    chosen |= {text.partition("=")[2].strip("[]\"' ") for text in texts}
    unknown = chosen - {*ALIASES, *ELECTIONS, *MEMBERSHIPS, "none", "auto", ""}
    return tables(ours=not unknown)


def _preset_of(known: Mapping[str, Table], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preset that is asked for, as tables; one that makes no sense is left for `load` to complain about."""

    def said(key: str, default: Any) -> Any:
        return next((layer[key] for layer in layers if key in layer), default)

    preset, size = said("preset", "lan"), said("group_size", 10)
    network: Network = preset if preset in get_args(Network) else "lan"
    members = size if isinstance(size, int) and 0 < size <= 100_000 else 10
    filled = {name: as_tree(table.preset(network, members)) for name, table in known.items()}
    return filled | {"alone_after": f"{ALONE_AFTER[network]}ns"}


def as_tree(config: Struct) -> dict[str, Any]:
    """Return a Struct as the TOML table that gives it."""
    values = asdict(config)
    return {option.name: plain(option, values[option.name]) for option in options(type(config))}


def plain(option: Option, value: Any) -> Any:
    """Return a value as TOML writes it."""
    if is_duration(option.type) and isinstance(value, int):
        return "inf" if value >= FOREVER else f"{value}ns"
    return list(value) if isinstance(value, tuple) else value


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def overlay(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Lay the tables of `over` over those of `under`; what `over` says wins."""
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(under.get(key), dict):
            overlay(under[key], value)
        else:
            under[key] = _copied(value)


def _copied(value: Any) -> Any:
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, Mapping) else value
