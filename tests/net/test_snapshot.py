"""Machines as data: a snapshot of running ones, loaded into freshly built ones, makes them the same in every part."""

from collections import deque
from enum import Enum
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from doyen.core.host import Host, Port, Verbs
from doyen.errors import TransportError
from doyen.net.recording.built import Built, attributes_of, name_of
from doyen.net.recording.format import Entry, encode
from doyen.net.recording.loader import Loader
from doyen.net.recording.snapshot import Snapshot, Unkept
from doyen.node.stack import Site, Stack
from doyen.testing import Cluster

STACKS: list[dict[str, Any]] = [
    *({"election": kind} for kind in ("le-a", "le-s", "le-m", "spanning", "local", "by-key")),
    *({"election": kind, "rank": "score"} for kind in ("base", "optimistic", "preferred", "hybrid")),
    *({"election": "hybrid", "membership": kind} for kind in ("medley", "heartbeat", "ring")),
    *({"election": "pole", "oracle": kind} for kind in ("score", "latency", "rotating")),
    {"election": "hybrid", "elections": ("a=le-s", "b=pole", "c=spanning", "d=local")},
]


class Watched(Stack):
    """A stack that knows what was built."""

    def __init__(self, config: Any, place: Site) -> None:
        self.found: dict[str, Any] = {}  # On the disk, by channel.

        def restored(channel: str, kind: Any) -> Any:
            self.found[channel] = place.restored(channel, kind)
            return self.found[channel]

        super().__init__(config, msgspec.structs.replace(place, restored=restored))
        self.built = Built()
        for machine in self.machines.values():
            self.built.add(machine)


class Frozen(Struct, frozen=True):
    value: int


class Holder:
    """A machine that holds one object which can change, and one which cannot."""

    def __init__(self) -> None:
        self.items, self.frozen = [1], Frozen(1)


class Nowhere:
    """A world without anything."""

    def verbs(self, port: Port) -> Verbs:
        return Verbs(lambda to, message: None, lambda message: None, lambda timer, at: None)

    def persist(self, port: Port, record: Any) -> None: ...
    def observe(self, port: Port, fact: Any, now: int) -> None: ...


def built_again(stack: Watched) -> Watched:
    host = Host(stack.site.node, Nowhere())
    place = msgspec.structs.replace(
        stack.site,
        add=lambda channel, build, **follows: host.add(channel, build, **follows),
        rng=lambda channel: Random(channel),
        restored=lambda channel, kind: stack.found[channel],
        tell=lambda fact, channel: None,
    )
    return Watched(stack.config, place)


def loaded(stack: Watched) -> Watched:
    """Return the same machines, by way of bytes."""
    taken = Snapshot(stack.built)
    for machine in stack.machines.values():
        taken.keep(machine)
    entries = msgspec.msgpack.decode(encode(taken.entries), type=list[Entry])
    fresh = built_again(stack)
    kinds = taken.built_classes()
    loader = Loader(fresh.built, taken.classes, kinds)
    loader.add(entries)
    loader.load()
    return fresh


class Comparison:
    """Compares two graphs of objects: values, types, order, and what is shared with what."""

    def __init__(self) -> None:
        self.pairs: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.todo: list[tuple[Any, Any, str]] = []

    def run(self, one: Any, other: Any, where: str) -> int:
        self.todo.append((one, other, where))
        while self.todo:
            self.compare(*self.todo.pop())
        return len(self.pairs)

    def compare(self, one: Any, other: Any, where: str) -> None:
        assert type(one) is type(other), where
        if isinstance(one, None | bool | int | float | str | bytes | Enum):
            assert one == other or one != one, f"{where}: {one!r} is not {other!r}"
            return
        if id(one) in self.pairs or id(other) in self.back:
            shared = isinstance(one, tuple | frozenset) or (isinstance(one, Struct) and one.__struct_config__.frozen)
            assert shared or (self.pairs.get(id(one)) == id(other) and self.back.get(id(other)) == id(one)), where
            return
        self.pairs[id(one)], self.back[id(other)] = id(other), id(one)
        if isinstance(one, list | tuple | deque):
            assert len(one) == len(other), where
            self.todo += [(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True))]
        elif isinstance(one, set | frozenset):
            assert one == other, where
        elif isinstance(one, dict):
            assert list(one) == list(other), where
            self.todo += [(one[key], other[key], f"{where}[{key!r}]") for key in one]
        elif isinstance(one, Random):
            assert one.getstate() == other.getstate(), where
        elif isinstance(one, Struct):
            self.todo += [(getattr(one, f), getattr(other, f), f"{where}.{f}") for f in one.__struct_fields__]
        elif type(one).__module__.startswith("doyen.") and not isinstance(one, Port | type):
            held, again = attributes_of(one), attributes_of(other)
            assert list(held) == list(again), where
            self.todo += [(held[name], again[name], f"{where}.{name}") for name in held]


@pytest.mark.parametrize("given", STACKS, ids=lambda given: "-".join(map(str, given.values())))
def test_a_snapshot_makes_fresh_machines_the_same_as_running_ones(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doyen.sim.world.Stack", Watched)
    monkeypatch.setattr("doyen.sim.node.SimNode.rng", lambda node, purpose: Random(f"{node.name}{purpose}"))
    cluster = Cluster(4, seed=5, **given)
    compared = 0
    for step in range(24):
        cluster.run_for("0.7s")
        match step:
            case 4 | 12:
                cluster.set_loss(0.3)
            case 6 | 14:
                cluster.crash(cluster.leader() or cluster.up()[-1])
            case 9:
                cluster.set_loss(0)
                cluster.restart(next(name for name in cluster.names if name not in cluster.up()))
            case 16:
                cluster.partition(cluster.up()[:1], rest=True)
            case 20:
                cluster.heal()
        for name in cluster.up():
            stack = cluster.stack(name)
            assert isinstance(stack, Watched)
            again = loaded(stack)
            compared += Comparison().run(stack.machines, again.machines, name)
    assert compared > 1000


def test_what_is_no_data_is_named() -> None:
    class Odd:
        def __init__(self) -> None:
            self.plain, self.odd = 1, None

    for odd, why in (
        (iter(()), "Odd.odd: tuple_iterator is no data"),
        (print, "Odd.odd: builtin_function_or_method is no data"),
        (1 << 70, "too large"),
        (Odd(), "Odd.odd: .*Odd is no data"),  # Its class is not at the top of a module: no reader would find it.
    ):
        machine = Odd()
        built = Built()
        built.add(machine)
        machine.odd = odd  # type: ignore[assignment]
        with pytest.raises(Unkept, match=why):
            Snapshot(built).keep(machine)
    machine.odd = nested = []  # type: ignore[assignment, var-annotated]
    nested.append(nested)
    taken = Snapshot(built)
    taken.keep(machine)  # A cycle of what can change is no problem.
    assert len(taken.entries) == 2


@pytest.mark.parametrize("kind", [list, Frozen])
def test_an_object_that_cannot_change_is_in_no_snapshot(kind: type) -> None:
    built = Built()
    machine = Holder()
    built.add(machine)
    kinds = [type(found) for found in built.objects]
    names = sorted({name_of(known) for known in kinds})
    places = [names.index(name_of(known)) for known in kinds]
    number = kinds.index(kind)
    loader = Loader(built, names, places)
    loader.add([Entry(number, "list" if kind is list else places[number], [7])])
    if kind is list:
        loader.load()
        assert machine.items == [7]
    else:
        with pytest.raises(TransportError, match=f"object {number} is of another type"):
            loader.load()
