"""Explores every state of a small world that is within a bound, those with the fewest faults first.

A state is left out where the same one was reached with as many faults left, of each kind: whatever can follow from the
one can follow from the other.  So a counterexample has as few faults as any has, and is short.  What this and the turns
save is decision 114.
"""

from array import array
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from doyen.check.packed import Packed
from doyen.check.turns import ALL, Event, Faults, Left
from doyen.check.world import State, Violation, World


class Found(Struct):
    """The result of an exploration."""

    states: int = 0
    transitions: int = 0
    exhausted: bool = True
    reigns: int = 0  # The most that any run had.
    violations: list[tuple[Violation, list[int]]] = []  # The first, with the choices that lead to it.


def left_of(faults: Faults, in_all: int) -> Left:
    """Return a bound as the faults that are left."""
    each = [getattr(faults, name) for name in faults.__struct_fields__]
    in_all = min(in_all, sum(each))
    return (*each, in_all) if in_all else (0,) * (len(each) + 1)


def explore(world: World, left: Left, states_max: int = 0) -> Found:
    """Explore a world from where it begins; stop at `states_max` states, unless it is 0."""
    packed = Packed(world)
    found = _explored(packed, packed.pack(world.begin), left, states_max)
    found.reigns = packed.reigns
    return found


def _explored(packed: Packed, first: int, left: Left, states_max: int) -> Found:
    found, most = Found(), packed.lefts.of(left)
    parents, choices = array("q", [-1]), array("h", [-1])
    seen: dict[int, int | tuple[int, ...]] = {first: most}
    layers = [_Layer() for _ in range(left[ALL] + 1)]
    layers[0].add(first, most, 0)
    for layer in layers:
        for number, left_here, place in layer.taken():  # In order: a counterexample is as short as any.
            found.states += 1
            if 0 < states_max < found.states:
                found.exhausted = False
                return found
            for choice, (after, left_after, violation) in enumerate(packed.after(number, left_here)):
                found.transitions += 1
                if violation is not None:  # The first has the fewest faults.
                    found.violations.append((violation, [*path_to(parents, choices, place), choice]))
                    found.exhausted = False
                    return found
                others = seen.get(after)
                if others is None:
                    seen[after] = left_after
                elif others == left_after:
                    continue
                elif isinstance(others, int):
                    if packed.covers(others, left_after):
                        continue
                    seen[after] = (others, left_after)
                else:
                    if any(packed.covers(other, left_after) for other in others):
                        continue
                    seen[after] = (*others, left_after)
                layers[packed.spent(left, left_after)].add(after, left_after, len(parents))
                parents.append(place)
                choices.append(choice)
    return found


class _Layer:
    """States that are to be explored, with as many faults each."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._lefts, self._places = array("h"), array("q")

    def add(self, number: int, left: int, place: int) -> None:
        self._numbers.append(number)
        self._lefts.append(left)
        self._places.append(place)

    def taken(self) -> Iterator[tuple[int, int, int]]:
        """Yield them in order, those that are added meanwhile as well, and forget them."""
        at = 0
        while at < len(self._numbers):
            yield self._numbers[at], self._lefts[at], self._places[at]
            at += 1
        self._numbers.clear()


def path_to(parents: "array[int]", choices: "array[int]", number: int) -> list[int]:
    """Return the choices that led to a state."""
    path = []
    while parents[number] >= 0:
        path.append(choices[number])
        number = parents[number]
    return path[::-1]


def play(world: World, choices: list[int], left: Left) -> list[tuple[State, tuple[Event, ...], Violation | None]]:
    """Return the states of one run, each with the events that led to it; choices beyond the last one end it."""
    state = world.begin
    played: list[tuple[State, tuple[Event, ...], Violation | None]] = [(state, (), None)]
    for choice in choices:
        following = next(islice(world.after(state, left), choice, None), None)
        if following is None:
            break
        events, state, left, violation = following
        played.append((state, events, violation))
    return played
