"""Configuration from text: one frozen `Struct` is the schema of a TOML table and of a set of flags alike.

A field's type says how it is read (`Duration` as `200ms`) and which values it may have (`Meta(ge=1)`); the `Doc`
beside it is its help.  Every complaint names the field, and says what to give.

    class PingConfig(Config, frozen=True, kw_only=True):
        period: Annotated[Period, Doc("One probe is sent in each.")] = seconds(1)
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from doyen.core.clock import FOREVER, Duration, format_duration, parse_duration
from doyen.core.rank import FLOAT_MAX
from doyen.errors import ConfigError, without_password

S = TypeVar("S", bound=Struct)

SHOWN_MAX: Final = 60

# ── What a field may say of itself ──────────────────────────────────────────────────────────────────────────


class Doc(Struct, frozen=True):
    """The help text of a field, as `Annotated[int, Doc("…")]` has it.  [PEP 727]"""

    text: str


#                                                                           zero   inf
Period: TypeAlias = Annotated[Duration, Meta(gt=0, lt=FOREVER)]  #           no     no
Pause: TypeAlias = Annotated[Duration, Meta(ge=0, lt=FOREVER)]  #            yes    no
Timeout: TypeAlias = Annotated[Duration, Meta(gt=0)]  #                      no     yes
Wait: TypeAlias = Annotated[Duration, Meta(ge=0)]  #                         yes    yes

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Several: TypeAlias = Annotated[int, Meta(ge=1, le=64)]
Probability: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, lt=1)]
Fraction: TypeAlias = Annotated[float, Meta(gt=0, lt=1)]
Amount: TypeAlias = Annotated[float, Meta(ge=0, le=FLOAT_MAX)]
Scale: TypeAlias = Annotated[float, Meta(gt=0, le=FLOAT_MAX)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class Secret(Struct, frozen=True):
    """The mark of a field that nobody is shown, as `Annotated[str, Secret()]` has it."""


class Discreet(Struct, frozen=True):
    """A Struct that is shown without its secret fields, and without the password of a URL."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        secret = secret_fields(type(self))
        return [
            (name, "…" if value and name in secret else open_value(value))
            for name, value in msgspec.structs.asdict(self).items()
            if value is not msgspec.UNSET
        ]


class Config(Discreet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all configuration: when one is made, each field is checked against the limits in its type."""

    def __post_init__(self) -> None:
        for field in _limited(type(self)):
            field.check(getattr(self, field.name))
        self.check()

    def check(self) -> None:
        """Raise `ConfigError` where fields contradict each other; each by itself is within its limits."""


def need(holds: bool, field: str, complaint: str) -> None:
    """Raise `ConfigError` about that field, unless `holds`."""
    if not holds:
        raise ConfigError(complaint, field=field)


_TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "min_length": lambda value, least: len(value.strip()) >= least,  # Blanks are no text.
}


class _Limited(Struct, frozen=True):
    """A field with limits."""

    name: str
    limits: dict[str, Any]  # By the name that `Meta` has for them.
    is_duration: bool
    is_union: bool  # A text or None, which the field also allows, has no limits.

    def check(self, value: Any) -> None:
        if self.is_union and not isinstance(value, int | float):
            return
        try:
            for name, limit in self.limits.items():
                if not _TESTS[name](value, limit):  # Each is false for nan.
                    break
            else:
                return
        except TypeError:
            raise ConfigError(f"must not be {shown(value)}: give {self._wanted()}", field=self.name) from None
        if "min_length" in self.limits:
            raise ConfigError("must not be empty", field=self.name)
        raise ConfigError(f"{self._shown(value)} is out of range: give {self._wanted()}", field=self.name)

    def _wanted(self) -> str:
        """`1 to 64`, `more than 0s, and finite`."""
        said = {"gt": "more than {}", "ge": "{} or more", "le": "at most {}", "lt": "less than {}"}
        words = [
            text.format(self._shown(limit))
            for name, text in said.items()
            if (limit := self.limits.get(name)) is not None and abs(limit) not in (FLOAT_MAX, FOREVER)
        ]
        if len(words) < len(self.limits):
            return ", and ".join([*words, "finite"]) if words else "a finite number"
        if self.limits.keys() == {"ge", "le"}:
            return f"{self._shown(self.limits['ge'])} to {self._shown(self.limits['le'])}"
        return ", and ".join(words)

    def _shown(self, value: Any) -> str:
        if self.is_duration and isinstance(value, int):
            return format_duration(value) if value else "0s"
        return f"{value:g}" if isinstance(value, float) else shown(value)


@cache
def _limited(kind: type[Struct]) -> tuple[_Limited, ...]:
    found = []
    for name, hint in _hints(kind).items():
        limits = {
            limit: getattr(meta, limit) for meta in _metas(hint) for limit in _TESTS if getattr(meta, limit) is not None
        }
        if limits:
            found.append(_Limited(name, limits, is_duration(hint), _is_union(get_args(hint)[0]) or _is_union(hint)))
    return tuple(found)


def _metas(hint: Any) -> Iterator[Meta]:
    if get_origin(hint) is Annotated or _is_union(hint):
        for part in get_args(hint):
            if isinstance(part, Meta):
                yield part
            else:
                yield from _metas(part)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


# ── From text ───────────────────────────────────────────────────────────────────────────────────────────────


class Option(Struct, frozen=True):
    """One leaf of a configuration: `network.loss.prob`."""

    path: tuple[str, ...]
    type: Any
    default: Any
    doc: str

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def choices(self) -> tuple[str, ...]:
        return choices(self.type)


def options(kind: type[Struct], prefix: tuple[str, ...] = ()) -> tuple[Option, ...]:
    """Every leaf, in order; tables within tables are walked, free ones left out."""
    return _options(kind, prefix)


@cache
def _options(kind: type[Struct], prefix: tuple[str, ...]) -> tuple[Option, ...]:
    found: list[Option] = []
    hints, docs = field_types(kind), field_docs(kind)
    for field in msgspec.structs.fields(kind):
        path, hint = (*prefix, field.name), hints[field.name]
        if is_table(hint):
            found += options(hint, path)
        elif not is_free_table(hint):
            default = field.default if field.default is not msgspec.NODEFAULT else None
            found.append(Option(path, hint, default, docs.get(field.name, "")))
    return tuple(found)


def load(
    kind: type[S],
    data: Any,
    where: str,
    path: tuple[str, ...] = (),
    *,
    flags: Mapping[tuple[str, ...], str] = MappingProxyType({}),
    known: Sequence[Option] = (),
) -> S:
    """A Struct from plain values, e.g. a parsed TOML file; `where` is how errors call it.

    `flags` names the flag that a value came from, by its path: complaints about that value name the flag instead.
    `known` has every option that there is, where that is more than the Struct's own.
    """
    spot = _spot(where, path)
    if not isinstance(data, Mapping):
        raise ConfigError(f"{spot} must be a table, not {shown(data)}")
    hints = field_types(kind)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in hints:
            raise ConfigError(
                f"{_before(spot)}has no field {key!r}: {_instead_of(str(key), hints, known or options(kind))}"
            )
        here, hint, item = (*path, key), hints[key], table_item(hints[key])
        if is_table(hint):
            values[key] = load(hint, value, where, here, flags=flags)
        elif is_free_table(hint):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{_spot(where, here)} must be a table, not {shown(value)}")
            values[key] = dict(value)
        elif item is not None and isinstance(value, list | tuple):
            values[key] = tuple(
                entry
                if isinstance(entry, item)
                else load(item, entry, flags.get(here, where), (*path, f"{key}[{i}]") if here not in flags else ())
                for i, entry in enumerate(value)
            )
        else:
            values[key] = read_value(hint, value, flags.get(here) or f"{_before(spot)}{key} = {shown(value)}")
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(_complaint(error, where, path, flags)) from None
    except TypeError:  # A field without a default is missing.
        missing = next(f.name for f in msgspec.structs.fields(kind) if f.required and f.name not in values)
        raise ConfigError(f"{_before(spot)}{missing} is missing: {field_docs(kind).get(missing, 'give one')}") from None


def _instead_of(key: str, own: Iterable[str], known: Sequence[Option]) -> str:
    """Guess what `key` was meant to be: a field of a table below, one that is spelt much alike, or any."""
    name = key.replace("-", "_")
    below = [
        option.path for option in known if len(option.path) > 1 and name in (option.path[-1], "_".join(option.path))
    ]
    if below:
        return "it is " + " or ".join(f"{path[-1]} of [{'.'.join(path[:-1])}]" for path in below)
    fields = list(dict.fromkeys([*(option.path[0] for option in known), *own]))
    near = nearest(name, fields)
    return f"do you mean {near}?" if near else f"one of {', '.join(fields)}"


def nearest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    from difflib import get_close_matches  # Only for mistakes.

    return next(iter(get_close_matches(word, list(known), 1, cutoff)), None)


def _complaint(error: ConfigError, where: str, path: tuple[str, ...], flags: Mapping[tuple[str, ...], str]) -> str:
    """Names the flag that gave the value, or the file and the table; a field may be of a table further down."""
    parts = (*path, *(error.field or "").split(".")) if error.field else path
    bare = tuple(part.partition("[")[0] for part in parts)
    for given, flag in flags.items():
        if error.field and bare[: len(given)] == given:
            below = ".".join(parts[len(given) - 1 :]).removeprefix(given[-1])
            return f"{flag}{below and f' {below}:'} {error.complaint}"
    table, name = (parts[:-1], f"{parts[-1]} ") if error.field else (parts, "")
    return f"{_before(_spot(where, table))}{name}{error.complaint}"


def _spot(where: str, path: tuple[str, ...]) -> str:
    return " ".join(filter(None, (f"{where}:" if where and path else where, f"[{'.'.join(path)}]" if path else "")))


def read_value(hint: Any, value: Any, what: str, *, text: bool = False) -> Any:
    """One leaf, from TOML, or (`text`) from a flag: there, what is not a plain value is written as in TOML."""
    if is_duration(hint):
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ConfigError(f"{what}: give a duration, e.g. '200ms'")
        try:
            return parse_duration(value)
        except ConfigError as error:
            raise ConfigError(f"{what}: {error}") from None
    named = choices(hint)
    if named and value not in named:
        near = nearest(str(value), named, 0.6)
        raise ConfigError(f"{what}: {f'do you mean {near}? ' if near else ''}one of {', '.join(named)}")
    if text and get_origin(hint) is tuple:
        value = _list_from_text(value, what)
        item = table_item(hint)
        if item is not None:
            return tuple(load(item, entry, f"{what}[{i}]") for i, entry in enumerate(value))
    try:
        return msgspec.convert(value, hint, strict=not text)
    except (msgspec.ValidationError, OverflowError) as error:
        raise ConfigError(f"{what}: {_wanted(hint) or str(error)[0].lower() + str(error)[1:]}") from None


def _wanted(hint: Any) -> str | None:
    """Say what to give for a leaf of that type, in a reader's words."""
    plain = {bool: "true or false", int: "a whole number", float: "a number", str: 'a text, e.g. "abc"'}
    listed = {tuple[str, ...]: 'a list of texts, e.g. ["abc", "def"]'}
    wanted = plain.get(hint) or listed.get(hint)
    return wanted and f"give {wanted}"


def _list_from_text(text: str, what: str) -> list[Any]:
    """`[[0, 1], [1, 2]]` as in TOML; `a,b` for names."""
    if not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    import tomllib  # Few flags are lists.

    try:
        found: list[Any] = tomllib.loads(f"x = {text}")["x"]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{what}: not a list as in TOML ({error})") from None
    return found


def _before(spot: str) -> str:
    return "" if not spot else f"{spot} " if spot.endswith("]") else f"{spot}: "


def shown(value: Any) -> str:
    """Return a value as complaints have it: as TOML writes it, without passwords, and never longer than a line."""
    plain = isinstance(value, str) and value.isprintable()
    text = f'"{value}"' if plain else str(value).lower() if isinstance(value, bool) else repr(value)
    text = without_password(text)  # Before it is cut: the end of a password would not be known without its @.
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"


def is_table(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


def is_free_table(hint: Any) -> bool:
    """Return whether the hint is of a table whose fields somebody else knows."""
    return get_origin(hint) is dict


def is_duration(hint: Any) -> bool:
    return any((getattr(extra, "extra", None) or {}).get("unit") == "duration" for extra in get_args(hint)[1:])


def choices(hint: Any) -> tuple[str, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def table_item(hint: Any) -> Any:
    """X of `tuple[X, ...]` where X is a table."""
    arguments = get_args(hint)
    return arguments[0] if len(arguments) == 2 and arguments[1] is Ellipsis and is_table(arguments[0]) else None


def _hints(kind: type[Struct]) -> dict[str, Any]:
    """Return a Struct's types as they are written, with what `Annotated` says of them."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.__struct_fields__}


@cache
def field_types(kind: type[Struct]) -> dict[str, Any]:
    """Return a Struct's types without help and limits; a duration stays one."""
    bare = get_type_hints(kind)
    return {name: Duration if is_duration(hint) else bare[name] for name, hint in _hints(kind).items()}


@cache
def secret_fields(kind: type[Struct]) -> frozenset[str]:
    """Return the names of the fields that nobody is shown."""
    return frozenset(
        name for name, hint in _hints(kind).items() for extra in get_args(hint) if isinstance(extra, Secret)
    )


def open_value(value: Any) -> Any:
    """Return a value as anybody may see it: without the password of a URL."""
    return without_password(value) if isinstance(value, str) else value


@cache
def field_docs(kind: type[Struct]) -> dict[str, str]:
    """Return the help of each field that has some."""
    return {
        name: extra.text for name, hint in _hints(kind).items() for extra in get_args(hint) if isinstance(extra, Doc)
    }
