"""Replaces clocks, locks and chance while a run lasts, wherever they are kept.

Modules are looked through once they are imported, and with them what Python's collector knows: classes, default
arguments, variables of functions, dicts, lists.  What a program reaches, objects too, is looked at when it is given, as
it may be younger, or put away by `gc.freeze()`.  A tuple cannot be changed, nor a variable of a running function.
"""

import copyreg
import datetime
import gc
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from doyen.testing.madeup import doubles, refusal
from doyen.testing.madeup.doubles import LOCK, Lock, standing_in
from doyen.testing.madeup.refusal import is_library

REACHED_MAX: Final = 5_000  # Things that a program reaches.
_FAKES: Final = {id(real): (real, fake) for real, fake in [*refusal.pairs(), *doubles.pairs()]}
_SEEN_THROUGH: Final = (
    MethodType,
    CellType,
    dict,
    list,
    tuple,
    set,
    frozenset,
    staticmethod,
    classmethod,
    property,
    partial,
)
_LASTING: Final = (type, FunctionType, CellType, dict, list, staticmethod, partial)
_DATES: Final = (datetime.datetime, datetime.date)
_OWN: Final = {id(names) for names in (globals(), vars(refusal), vars(doubles))} | {
    id(kept) for kept in [*vars(refusal).values(), *vars(doubles).values()] if isinstance(kept, dict)
}
_OWN_CELLS: Final = {id(cell) for _, fake in _FAKES.values() for cell in getattr(fake, "__closure__", None) or ()}


class Place(NamedTuple):
    """A place in which something real is kept, and what stands for it."""

    holder: Any
    key: Any
    real: Any
    fake: Any

    def holds(self, value: Any) -> bool:
        """Return whether that is what is kept there now."""
        holder, key = self.holder, self.key
        try:
            match holder:
                case type():
                    found = vars(holder)[key]
                    return found is value or (isinstance(found, staticmethod) and found.__func__ is value is self.fake)
                case FunctionType():
                    return (holder.__defaults__ or ())[key] is value
                case dict() | list():
                    return holder[key] is value
                case _:
                    return getattr(holder, key) is value
        except (LookupError, AttributeError, ValueError):  # An empty cell has no value.
            return False

    def put(self, value: Any) -> None:
        holder, key = self.holder, self.key
        match holder:
            case type():  # A function would become a method there.
                setattr(
                    holder,
                    key,
                    staticmethod(value) if value is self.fake and isinstance(value, FunctionType) else value,
                )
            case FunctionType():
                given = holder.__defaults__ or ()
                holder.__defaults__ = (*given[:key], value, *given[key + 1 :])
            case dict() | list():
                holder[key] = value
            case staticmethod():
                holder.__init__(value)  # type: ignore[misc]
            case partial():
                holder.__setstate__((value, holder.args, holder.keywords, vars(holder)))  # type: ignore[attr-defined]
            case CellType():
                holder.cell_contents = value
            case _:
                object.__setattr__(holder, key, value)


def _fake_of(value: Any) -> Any:
    """Return what stands for a thing; None: it may stay.

    It asks for `type`, as `isinstance` asks a lazy object what it stands for.
    """
    found = _FAKES.get(id(value))
    if found is not None and found[0] is value:
        return found[1]
    if type(value) is BuiltinMethodType and value.__name__ in ("now", "utcnow", "today"):
        for real in _DATES:
            if value.__self__ is real:
                return getattr(_FAKES[id(real)][1], value.__name__)
    return None


def _in(holder: Any, items: Iterable[tuple[Any, Any]], *, locks: bool = False) -> Iterator[Place]:
    for key, value in items:
        fake = Lock(value) if locks and type(value) is LOCK else _fake_of(value)
        if fake is not None:
            yield Place(holder, key, value, fake)


def _of(holder: Any, *, locks: bool = False) -> Iterator[Place]:
    """Yield the places of one holder, whatever it is."""
    match holder:
        case type():
            yield from _in(holder, [*vars(holder).items()], locks=locks)
        case FunctionType():
            yield from _in(holder, enumerate(holder.__defaults__ or ()), locks=locks)
            yield from _in(holder.__kwdefaults__, [*(holder.__kwdefaults__ or {}).items()], locks=locks)
        case dict():
            yield from _in(holder, [*dict.items(holder)], locks=locks)
        case list():
            yield from _in(holder, enumerate([*list.__iter__(holder)]), locks=locks)
        case staticmethod():
            yield from _in(holder, [("__func__", holder.__func__)])
        case partial():
            yield from _in(holder, [("func", holder.func)])
        case CellType():
            if id(holder) not in _OWN_CELLS:
                yield from _in(holder, [("cell_contents", value) for value in _contents(holder)], locks=locks)
        case ModuleType():
            return
        case _ if type(holder).__module__ != "builtins":
            yield from _in(holder, _attributes(holder), locks=locks)


def _contents(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _attributes(holder: Any) -> list[tuple[str, Any]]:
    """Return what an object keeps, without running any code of its own."""
    found: list[tuple[str, Any]] = []
    with suppress(AttributeError):
        found += object.__getattribute__(holder, "__dict__").items()
    for kind in type(holder).__mro__:
        for name, member in vars(kind).items():
            if isinstance(member, MemberDescriptorType):
                with suppress(AttributeError):
                    found.append((name, member.__get__(holder)))
    return found


# Finding.


_bound: list[Place] = []  # In modules.
_kept: list[Place] = []  # Elsewhere.
_scanned: set[str] = set()
_count = 0  # Of the modules, when they were looked through.


def _scan() -> None:
    """Find where the real things are kept, if a module has been imported since."""
    global _count
    if len(sys.modules) == _count:
        return
    _count = len(sys.modules)
    for name, module in list(sys.modules.items()):
        known = name in _scanned
        _scanned.add(name)
        if not known and isinstance(module, ModuleType) and id(vars(module)) not in _OWN and name != "_datetime":
            locks = not is_library(vars(module).get("__file__") or "<")
            _bound.extend(_in(vars(module), [*vars(module).items()], locks=locks))
    _kept[:] = _collected()


def _collected() -> list[Place]:
    """Return the places that Python's collector knows, but for the names of modules and what objects keep."""
    reals = [real for real, _ in _FAKES.values()]
    holders = gc.get_referrers(*reals)
    bound = [held for held in holders if type(held) is BuiltinMethodType and _fake_of(held) is not None]
    if bound:
        holders += gc.get_referrers(*bound)
    containers = [held for held in holders if type(held) in (dict, tuple)]
    owners = [owner for owner in gc.get_referrers(*containers) if issubclass(type(owner), type | FunctionType)]
    spaces = {id(space) for owner in owners if isinstance(owner, type) for space in gc.get_referents(vars(owner))}
    modules = {id(vars(module)) for module in sys.modules.values() if isinstance(module, ModuleType)}
    skipped = spaces | modules | _OWN | {id(reals)}
    found: list[Place] = []
    seen: set[int] = set()
    for holder in [*holders, *owners]:
        if id(holder) in skipped or id(holder) in seen or not issubclass(type(holder), _LASTING):
            continue
        seen.add(id(holder))
        places = [*_of(holder)]
        if type(holder) in (dict, list):  # Tables of types are left alone.
            places = [place for place in places if place.real not in _DATES]
        found += places
    return found


def reached(program: Any) -> list[Place]:
    """Return the places that a program reaches: by its variables, default arguments, classes and objects."""
    todo: deque[Any] = deque([program])
    seen: dict[int, Any] = {}
    found: list[Place] = []
    while todo and len(seen) < REACHED_MAX:
        holder = todo.popleft()
        with suppress(Exception):  # What does not let itself be looked into.
            if id(holder) not in seen and _is_users(holder):
                seen[id(holder)] = holder
                found += _of(holder, locks=True)
                todo += _behind(holder)
    return found


def _behind(holder: Any) -> Iterable[Any]:
    """Return what is reached from a thing."""
    match holder:
        case FunctionType():
            names, defaults = holder.__globals__, (holder.__kwdefaults__ or {}).values()
            used = [names[name] for name in _names(holder.__code__) if name in names]
            return [*used, *(holder.__closure__ or ()), *(holder.__defaults__ or ()), *defaults]
        case MethodType():
            return holder.__func__, holder.__self__
        case type():
            return [*vars(holder).values(), *holder.__mro__[1:]]
        case dict():
            return [*dict.values(holder)]
        case list() | tuple() | set() | frozenset():
            return gc.get_referents(holder)  # A class of its own may do what it likes when it is iterated.
        case staticmethod() | classmethod():
            return [holder.__func__]
        case property():
            return holder.fget, holder.fset
        case partial():
            return [holder.func, *holder.args, *holder.keywords.values()]
        case CellType():
            return _contents(holder)
    return [type(holder), *(value for _, value in _attributes(holder))]


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that code uses, and the code of functions in it."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


def _is_users(thing: Any) -> bool:
    """Return whether to look into a thing: not into those of the standard library, or of doyen."""
    if isinstance(thing, ModuleType):
        return False
    if isinstance(thing, _SEEN_THROUGH):
        return True
    kind = thing if isinstance(thing, type | FunctionType) else type(thing)
    return not is_library(getattr(sys.modules.get(kind.__module__), "__file__", None) or "<")


# Swapping.


_depth = 0
_hooked = False


def _swapped(places: Iterable[Place]) -> Iterator[Place]:
    """Put what stands for the real things in their places, and yield these."""
    for place in places:
        if place.holds(place.real):
            with suppress(TypeError, AttributeError):  # Some classes cannot be changed.
                place.put(place.fake)
                yield place


@contextmanager
def _pickled() -> Iterator[None]:
    """Have dates name the class that stands for theirs: a pickle finds no other by that name meanwhile."""
    table: Any = copyreg.dispatch_table
    before = {kind: table[kind] for kind in _DATES if kind in table}
    table.update(dict.fromkeys(_DATES, _reduced))
    try:
        yield
    finally:
        for kind in _DATES:
            table.pop(kind, None)
        table.update(before)


def _reduced(date: Any) -> Any:
    kind, *rest = date.__reduce_ex__(4)
    return (_FAKES[id(kind)][1], *rest)


@contextmanager
def _imported(swapped: list[Place]) -> Iterator[None]:
    """Show the real classes of `datetime` to modules that are imported meanwhile, and then what stands for them.

    Such a module may derive a class from one of them, with a metaclass of its own, or be in C.
    """

    fresh: list[dict[str, Any]] = []

    def executing(real: Any) -> Any:
        def execute(loader: Any, module: Any) -> Any:
            shown = [kind for kind in _DATES if vars(datetime)[kind.__name__] is not kind]
            if isinstance(module, ModuleType):
                fresh.append(vars(module))
            for kind in shown:
                setattr(datetime, kind.__name__, kind)
            try:
                return real(loader, module)
            finally:
                for kind in shown:
                    setattr(datetime, kind.__name__, _FAKES[id(kind)][1])
                if shown and fresh:  # The outermost import.
                    found = [place for names in fresh for place in _in(names, [*names.items()])]
                    fresh.clear()
                    swapped.extend(_swapped([*found, *_collected()]))

        return execute

    in_c = ExtensionFileLoader
    steps = [(SourceFileLoader, "exec_module"), (in_c, "create_module"), (in_c, "exec_module")]
    before = [(owner, name, name in vars(owner), getattr(owner, name)) for owner, name in steps]
    for owner, name, _, real in before:
        setattr(owner, name, executing(real))
    try:
        yield
    finally:
        for owner, name, own, real in before:
            setattr(owner, name, real) if own else delattr(owner, name)


@contextmanager
def made_up(chance: random.Random, places: Iterable[Place] = ()) -> Iterator[None]:
    """Replace the clocks while a run lasts; `chance` stands for the global random stream meanwhile.

    `places` are those that programs reach.
    """
    global _hooked, _depth
    if not _hooked:
        sys.addaudithook(refusal.audit)
        _hooked = True
    if _depth:
        yield
        return
    _scan()
    outer = random.getstate()
    random.setstate(chance.getstate())
    _depth += 1
    swapped: list[Place] = []
    try:
        swapped += _swapped((*_bound, *_kept, *places))
        with standing_in(), _pickled(), _imported(swapped):
            yield
    finally:
        _depth -= 1
        for place in swapped:
            if place.holds(place.fake):
                place.put(place.real)
        chance.setstate(random.getstate())
        random.setstate(outer)
