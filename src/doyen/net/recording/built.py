"""The objects of freshly built machines, and the classes that a snapshot of them may name."""

import sys
from collections import Counter, OrderedDict, deque
from enum import Enum
from functools import cache, partial
from inspect import getattr_static
from random import Random
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, Final

from msgspec import Struct

from doyen.core.host import Port

SANS_IO: Final = ("doyen.core.", "doyen.membership.", "doyen.election.", "doyen.score.")
SCALARS: Final = frozenset({type(None), bool, int, float, str})
MAPPINGS: Final = (dict, OrderedDict, Counter)
_KINDS: Final[tuple[Any, ...]] = (bytes, list, tuple, set, frozenset, deque, *MAPPINGS, Random)
PLAIN: Final[dict[str, Any]] = {kind.__name__: kind for kind in _KINDS}
PLAIN_NAMES: Final[dict[Any, Any]] = {kind: name for name, kind in PLAIN.items()}
UNNUMBERED: Final = (bytes, Enum)
WITHOUT_DATA: Final = (Port, type, FunctionType, MethodType, BuiltinFunctionType, partial, type(cache(int)))


class Built:
    """The objects of freshly built machines, numbered in the order in which a walk meets them."""

    def __init__(self) -> None:
        self.objects: list[Any] = []  # They are held on to, so that none of their addresses is used again.
        self.numbers: dict[int, int] = {}  # By address.
        self._modules: set[str] = set()  # Where the machines' classes are.
        self._others: set[str] = set()  # The packages of somebody else's machines.
        self._at_home: dict[type, bool] = {}
        self._named: dict[type, bool] = {}

    def add(self, machine: Any) -> None:
        """Number the objects of one more machine, which must not have had any input yet."""
        self._modules.add(type(machine).__module__)
        self._others = {name.partition(".")[0] for name in self._modules} - {"doyen"}
        self._at_home.clear()
        self._named.clear()
        todo = [machine]
        while todo:
            found = todo.pop()
            kind = type(found)
            if kind in SCALARS or issubclass(kind, UNNUMBERED) or id(found) in self.numbers:
                continue
            if kind is not tuple and kind is not frozenset:
                self.numbers[id(found)] = len(self.objects)
                self.objects.append(found)
            if not issubclass(kind, WITHOUT_DATA):
                todo.extend(reversed(self._parts(found, kind)))

    def _parts(self, found: Any, kind: type) -> list[Any]:
        if kind in (list, tuple, deque):
            return list(found)
        if kind in MAPPINGS:
            return list(found.values())  # Keys are values that never change.
        if issubclass(kind, Struct):
            return [getattr(found, field) for field in kind.__struct_fields__]
        return list(attributes_of(found).values()) if self.is_at_home(kind) else []

    def is_at_home(self, kind: type) -> bool:
        """Return whether a class is where machines are: in the sans-IO half of doyen, or beside a machine."""
        found = self._at_home.get(kind)
        if found is None:
            found = self._at_home[kind] = self._is_home(kind.__module__)
        return found

    def _is_home(self, module: str) -> bool:
        ours = module.startswith(SANS_IO) or module in self._modules
        return (ours or module.partition(".")[0] in self._others) and module != Port.__module__

    def has_name(self, kind: type) -> bool:
        """Return whether a snapshot may name a class: it is at home, and at the top of its module."""
        found = self._named.get(kind)
        if found is None:
            found = self._named[kind] = self.class_of(name_of(kind)) is kind
        return found

    def class_of(self, name: str) -> Any:
        """Return the class that a snapshot names, or None.  It is loaded already, since the machines are built."""
        module, _, short = name.partition(":")
        found = vars(sys.modules[module]).get(short) if self._is_home(module) and module in sys.modules else None
        return found if isinstance(found, type) and name_of(found) == name else None


def name_of(kind: type) -> str:
    """Return how a file names a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


@cache
def slots_of(kind: Any) -> tuple[str, ...]:
    """Return the names of a class's slots."""
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))


def attributes_of(found: Any) -> dict[str, Any]:
    """Return what an object holds, in the order in which it was set."""
    kind: Any = type(found)
    held = dict(getattr(found, "__dict__", ()))
    for name in slots_of(kind):
        if hasattr(found, name):
            held[name] = getattr(found, name)
    return held


@cache
def settable(kind: Any) -> frozenset[str]:
    """Return the names of the attributes that the code of a class has for its objects, but for methods and the like."""
    return frozenset(name for name in named_by(kind) if not hasattr(getattr_static(kind, name, None), "__get__"))


@cache
def named_by(kind: Any) -> frozenset[str]:
    """Return the names of a class's slots, and all names that its own code uses, those of its attributes among them."""
    methods = [found for base in kind.__mro__ for found in vars(base).values() if isinstance(found, FunctionType)]
    todo, found = [method.__code__ for method in methods], set(slots_of(kind))
    while todo:
        code = todo.pop()
        found.update(code.co_names)
        todo += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return frozenset(found)
