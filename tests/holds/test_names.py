"""Public names stay, with the parameters of what can be called; new ones may come, none may go.

`names.json` has one line for each public name of `doyen`, `doyen.sync` and `doyen.testing`, and one for each field that
`doyen.join` and the choices (`doyen.Hybrid(missing_max=3)`) take, with a value that it takes.

    pytest tests/holds/test_names.py                       compare with what is kept
    HOLDS_REWRITE=1 pytest tests/holds/test_names.py       write it anew, additions included
"""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, Final

import golden
import pytest
import reach
from msgspec import Struct

import doyen
import doyen.sync
import doyen.testing

FILE: Final = "names.json"
MODULES: Final = ("doyen", "doyen.sync", "doyen.testing")
#: Classes that a user meets but never makes: how they are made is not kept.
NEVER_MADE: Final = ("Node", "Campaign", "Term")
#: For other parts of doyen, and documented nowhere.
INSIDE: Final = {
    *(f"doyen.Node.{name}" for name in ("agent", "check_loop", "check_running", "clock")),
    *(f"doyen.Campaign.{name}" for name in ("asked", "awaits", "bodies_ended", "changed", "close", "ended", "holds")),
    *(f"doyen.Campaign.{name}" for name in ("lease_until", "stir", "stop_acting", "wake", "won")),
    *("doyen.Term.end", "doyen.Term.release"),
    *(f"doyen.testing.Cluster.{name}" for name in ("config", "sim", "stack")),
    *(f"doyen.{choice}.{name}" for choice in reach.choices() for name in ("kind", "table")),
}
SPECIAL: Final = ("__aenter__", "__aexit__", "__enter__", "__exit__")

BASE: Final[dict[str, Any]] = {"group": "g", "volatile": True, "voters": ["a"]}


def called(value: Any) -> dict[str, Any]:
    """Return the parameters that a call may name, and those that it must give."""
    parameters = [
        parameter
        for parameter in inspect.signature(value).parameters.values()
        if parameter.name != "self" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    return {"takes": [parameter.name for parameter in parameters], "needs": ",".join(needed)}


def class_of(path: str, kind: type) -> Iterator[tuple[str, Any]]:
    """Yield a class and its public attributes."""
    made = not path.endswith(NEVER_MADE) and "__init__" in vars(kind)
    bases = [base.__name__ for base in kind.__mro__[1:] if issubclass(base, Exception)]
    yield path, {"is": "class"} | (called(kind) if made else {}) | ({"derives from": bases} if bases else {})
    fields = set(kind.__struct_fields__) if issubclass(kind, Struct) else set()
    inherited = {*dir(Exception), *dir(Struct)}
    for name in sorted({*dir(kind), *fields} - inherited):
        if name in SPECIAL:
            yield f"{path}.{name}", {"is": "method"}
        elif not name.startswith("_") and f"{path}.{name}" not in INSIDE:
            method = inspect.isroutine(inspect.getattr_static(kind, name))
            yield f"{path}.{name}", {"is": "method"} | called(getattr(kind, name)) if method else {"is": "attribute"}


def public() -> dict[str, Any]:
    """Return all public names."""
    found: dict[str, Any] = {}
    for module in MODULES:
        there = importlib.import_module(module)
        for name in sorted({*there.__all__}):
            value, path = getattr(there, name), f"{module}.{name}"
            if inspect.isclass(value):
                found |= dict(class_of(path, value))
            elif inspect.isroutine(value):
                found[path] = {"is": "function"} | called(value)
            else:
                found[path] = {"is": type(value).__name__}
    cluster = doyen.testing.Cluster(1)  # Its attributes are made with it.
    for name in vars(cluster):
        path = f"doyen.testing.Cluster.{name}"
        if not name.startswith("_") and path not in INSIDE:
            found[path] = {"is": "attribute"}
    return found


def fields() -> dict[str, Any]:
    """Return the fields that `join` and the choices take, each with a value that it takes."""
    fields = reach.node_fields()
    found = {f"join {name}": value for name, value in fields.items()} | {"join meta": {"zone": "eu"}}
    for choice, table in reach.choices().items():
        own = {name.partition(".")[2]: value for name, value in fields.items() if name.startswith(f"{table}.")}
        found |= {f"{choice} {name}": value for name, value in own.items()}
    return found


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    if golden.REWRITE:
        golden.write(FILE, public() | fields())
    return golden.read(FILE)


def test_no_public_name_is_lost(kept: dict[str, Any]) -> None:
    names = {name: value for name, value in kept.items() if name.startswith("doyen")}
    assert golden.lost(names, public()) == []
    assert len(names) >= 150


def test_dir_of_doyen_is_its_names() -> None:
    assert sorted(dir(doyen)) == sorted(doyen.__all__)


def test_join_takes_every_field(kept: dict[str, Any]) -> None:
    taken = 0
    for name, value in kept.items():
        kind, _, field = name.partition(" ")
        if kind == "join":
            table, _, inner = field.partition(".")
            given = BASE | {table: {inner: value} if inner else value}
            doyen.join(**given)
            taken += 1
    assert taken >= 120


def test_choices_take_every_field(kept: dict[str, Any]) -> None:
    taken = 0
    for name, value in kept.items():
        kind, _, field = name.partition(" ")
        if kind in reach.choices():
            role = "membership" if kind in ("Swim", "Medley", "Heartbeat", "Ring") else "election"
            given = BASE | {role: getattr(doyen, kind)(**{field: value})}
            doyen.join(**given)
            taken += 1
    assert taken >= 120


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(doyen.ConfigError):
        doyen.join("g", swim={"nothing": 1})
    with pytest.raises(doyen.ConfigError):
        doyen.join("g", nothing=1)
