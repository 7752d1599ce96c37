"""Limits, defaults and the wire's shapes are what they were: whoever changes one means to.

`limits.json` has one line for each module of the protocols: its constants, the defaults of its functions, and the
fields of its messages, facts and configurations, with their defaults and their places on the wire.  It shows that
nothing was changed by accident, not that a value is right; sizes of buffers and waits of retries have no other test.

    pytest tests/holds/test_limits.py                       compare with what is kept
    HOLDS_REWRITE=1 pytest tests/holds/test_limits.py       write it anew, additions included
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any, Final

import golden
import pytest
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

FILE: Final = "limits.json"
PARTS: Final = ("core", "election", "membership", "net", "score")
PLAIN: Final = (bool, int, float, str, bytes, type(None))


def modules() -> Iterator[ModuleType]:
    for part in PARTS:
        package = importlib.import_module(f"doyen.{part}")
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            yield importlib.import_module(found.name)


def shown(value: Any) -> str | None:
    """Return a value as it is kept; None for what is no plain value, as a function or a machine."""
    match value:
        case Enum():
            return str(value)
        case bool() | int() | float() | str() | bytes() | None:
            return repr(value)
        case tuple() | list() if all(shown(item) is not None for item in value):
            return repr(value)
        case set() | frozenset() if all(shown(item) is not None for item in value):
            return repr(sorted(map(repr, value)))
        case dict() if all(shown(item) is not None for pair in value.items() for item in pair):
            return repr(value)
        case Struct() if all(shown(getattr(value, name)) is not None for name in value.__struct_fields__):
            return repr(value)
    return None


def held(module: ModuleType) -> dict[str, Any]:
    """Return what is held of one module."""
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        kept = shown(value)
        if name.isupper() and kept is not None:
            found[name] = kept
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, FunctionType):
            found |= defaults(name, value)
        elif inspect.isclass(value):
            if issubclass(value, Struct):
                found[name] = [struct_field(field) for field in fields(value)]
                found[f"{name} on the wire"] = repr((value.__struct_config__.tag, value.__struct_config__.array_like))
            elif issubclass(value, Enum):
                found[name] = [f"{item.name} = {item.value!r}" for item in value]
            for key, item in vars(value).items():
                if isinstance(item, FunctionType):
                    found |= defaults(f"{name}.{key}", item)
                elif not key.startswith("_") and not issubclass(value, Enum) and shown(item) is not None:
                    found[f"{name}.{key}"] = shown(item)
    return found


def struct_field(field: Any) -> str:
    return field.name if field.default is NODEFAULT else f"{field.name} = {shown(field.default)}"


def defaults(name: str, function: FunctionType) -> dict[str, str]:
    """Return the defaults of a function's parameters, but for those that are None."""
    taken = inspect.signature(function).parameters.values()
    kept = {p.name: shown(p.default) for p in taken if p.default not in (p.empty, None)}
    return {f"{name}({key})": value for key, value in kept.items() if value is not None}


def test_limits_and_defaults_are_what_they_were() -> None:
    found = {module.__name__: kept for module in modules() if (kept := held(module))}
    if golden.REWRITE:
        golden.write(FILE, found)
        pytest.skip("written anew")
    assert len(found) > 100
    assert golden.changed(golden.read(FILE), found) == []
