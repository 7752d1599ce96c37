"""The same exploration as `explore`, some ten times as fast: nodes, messages and faults left are numbers.

A state is a row of small numbers.  Whatever can come of a node's turn is looked up by the numbers that it depends on,
so that most transitions are one look-up and one copy.  What was seen is kept as a digest of 12 bytes: two states of ten
million have the same one with a probability of about 10⁻¹⁵.

tests/check compares both explorations: states, transitions and verdicts are equal.
"""

from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

from doyen.check.explore import Found, path_to, play, prelude
from doyen.check.turns import ALL, Left, covers
from doyen.check.world import State, Violation, World
from doyen.core.hashes import blake2b

Row = tuple[int, ...]


class _Numbers:
    """Numbers for values, in the order in which they are met."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._of: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        found = self._of.get(value)
        if found is None:
            found = self._of[value] = len(self.values)
            self.values.append(value)
        return found


class _End(NamedTuple):
    """The result of one node's turn."""

    node: int
    held: int
    sent: tuple[tuple[int, int], ...]  # (place in the row, box)
    left: int
    acted: int  # As a bit.
    led: tuple[int, ...]


# Places in a row; then nodes, held messages, and the boxes of this round and of the next, by receiver and sender.
NOW, FRESH, TURN, TERM, REIGNS, CUT, ACTED, NODES = range(8)


class Quick:
    """One world, with numbers for everything."""

    def __init__(self, world: World) -> None:
        self.world, self.size = world, world.size
        size = self.size
        self._nodes, self._boxes, self._lefts, self._nows = _Numbers(), _Numbers(), _Numbers(), _Numbers()
        self._empty = self._boxes.of(())
        self._held = NODES + size
        self._inbox = self._held + size
        self._outbox = self._inbox + size * size
        self._no_boxes = (self._empty,) * (size * size)
        self._ends: dict[tuple[int, ...], tuple[_End, ...]] = {}
        self._begun: dict[tuple[int, ...], int] = {}
        self._covered: dict[tuple[int, int], bool] = {}

    # From states to rows and back.

    def row(self, state: State) -> Row:
        boxes = [self._boxes.of(numbers) for side in (state.inbox, state.outbox) for box in side for numbers in box]
        return (
            self._nows.of(state.now),
            int(state.fresh),
            state.turn,
            state.term,
            state.reigns,
            state.cut,
            state.acted,
            *map(self._nodes.of, state.nodes),
            *map(self._boxes.of, state.held),
            *boxes,
        )

    def state(self, row: Row) -> State:
        size, boxes = self.size, self._boxes.values
        flat = [boxes[number] for number in row[self._inbox :]]
        rows = [tuple(flat[at : at + size]) for at in range(0, len(flat), size)]
        return State(
            self._nows.values[row[NOW]],
            bool(row[FRESH]),
            row[TURN],
            tuple(self._nodes.values[number] for number in row[NODES : self._held]),
            tuple(rows[:size]),
            tuple(rows[size:]),
            tuple(boxes[number] for number in row[self._held : self._inbox]),
            row[TERM],
            row[REIGNS],
            row[CUT],
            row[ACTED],
        )

    def left(self, left: Left) -> int:
        return self._lefts.of(left)

    def faults_left(self, left: int) -> int:
        return int(self._lefts.values[left][ALL])

    def covers(self, left: int, other: int) -> bool:
        if left == other:
            return True
        found = self._covered.get((left, other))
        if found is None:
            lefts = self._lefts.values
            found = self._covered[left, other] = covers(lefts[left], lefts[other])
        return found

    # Steps.

    def after(self, row: Row, left: int) -> list[tuple[Row, int, Violation | None]]:
        """Return what can happen next, in the order of `World.after`."""
        index = row[TURN]
        if index == self.size:
            return self._quiet(row, left)
        at = self._inbox + index * self.size
        key = (
            index,
            row[NODES + index],
            row[self._held + index],
            *row[at : at + self.size],
            row[NOW],
            row[CUT],
            row[FRESH],
            row[ACTED] >> index & 1,
            left,
        )
        ends = self._ends.get(key)
        if ends is None:
            ends = self._ends[key] = self._explored(row, left)
        found: list[tuple[Row, int, Violation | None]] = []
        others = row[ACTED] & ~(1 << index)
        for end in ends:
            if (end.acted and others) or end.led:
                violation = self._violation(row, index, end)
                if violation is not None:
                    found.append((row, end.left, violation))
                    continue
            after = list(row)
            after[NODES + index] = end.node
            after[self._held + index] = end.held
            after[at : at + self.size] = self._no_boxes[: self.size]
            for place, box in end.sent:
                after[place] = box
            if end.led:
                after[TERM] = max(row[TERM], *end.led)
                after[REIGNS] += len(end.led)
            after[ACTED] |= end.acted << index
            after[TURN] = index + 1
            if index + 1 == self.size:
                outbox = after[self._outbox :]
                if any(box != self._empty for box in outbox):
                    after[self._inbox :] = (*outbox, *self._no_boxes)
                    after[FRESH] = after[TURN] = 0
                    self._begin(after)
            found.append((tuple(after), end.left, None))
        return found

    def _explored(self, row: Row, left: int) -> tuple[_End, ...]:
        """Have the world explore a node's turn."""
        index, state = row[TURN], self.state(row)
        found = []
        for turn, _ in self.world.turn_ends(state, self._lefts.values[left]):
            sent = tuple(
                (self._outbox + receiver * self.size + index, self._boxes.of(numbers))
                for receiver, numbers in enumerate(turn.sent)
                if numbers
            )
            found.append(
                _End(
                    self._nodes.of(turn.node),
                    self._boxes.of(turn.held),
                    sent,
                    self._lefts.of(turn.left),
                    int(turn.acted),
                    turn.led,
                )
            )
        return tuple(found)

    def _violation(self, row: Row, index: int, end: _End) -> Violation | None:
        names = self.world.nodes.names
        return self.world.violation(
            names[index],
            row[TERM],
            end.led,
            [name for bit, name in enumerate(names) if end.acted and bit != index and row[ACTED] >> bit & 1],
        )

    def _begin(self, row: list[int]) -> None:
        """Begin a round: see who acts."""
        key = (row[NOW], *row[NODES : self._held])
        found = self._begun.get(key)
        if found is None:
            nodes = tuple(self._nodes.values[number] for number in key[1:])
            found = self._begun[key] = self.world.acting(nodes, self._nows.values[row[NOW]])
        row[ACTED] = found

    def _quiet(self, row: Row, left: int) -> list[tuple[Row, int, Violation | None]]:
        found = []
        for _, after, left_after, violation in self.world.after(self.state(row), self._lefts.values[left]):
            found.append((self.row(after), self._lefts.of(left_after), violation))
        return found


def explore(world: World, left: Left, *, warm: bool = True, states_max: int = 0) -> Found:
    """Explore a world, as `explore.explore` does."""
    begin = prelude(world) if warm else []
    quick = Quick(world)
    first, most = quick.row(play(world, begin, left)[-1][0]), quick.left(left)
    found = Found()
    parents, choices = array("q", [-1]), array("h", [-1])
    seen: dict[bytes, int | tuple[int, ...]] = {_digest(first): most}
    layers: list[list[tuple[int, bytes, int]]] = [[] for _ in range(left[ALL] + 1)]
    layers[0].append((0, array("i", first).tobytes(), most))
    after: Callable[[Row, int], list[tuple[Row, int, Violation | None]]] = quick.after
    for layer in layers:
        done = 0
        while done < len(layer):  # In order: a counterexample is as short as any with so few faults.
            number, data, left_here = layer[done]
            layer[done] = (0, b"", 0)
            done += 1
            row = tuple(array("i", data))
            found.states += 1
            if 0 < states_max < found.states:
                found.exhausted = False
                return found
            found.reigns = max(found.reigns, row[REIGNS])
            for choice, (then, left_after, violation) in enumerate(after(row, left_here)):
                found.transitions += 1
                if violation is not None:
                    found.violations.append((violation, [*begin, *path_to(parents, choices, number), choice]))
                    found.exhausted = False
                    return found
                packed = array("i", then).tobytes()
                key = blake2b(packed, digest_size=12).digest()
                others = seen.get(key)
                if others is None:
                    seen[key] = left_after
                elif isinstance(others, int):
                    if quick.covers(others, left_after):
                        continue
                    seen[key] = (others, left_after)
                else:
                    if any(quick.covers(other, left_after) for other in others):
                        continue
                    seen[key] = (*others, left_after)
                layers[left[ALL] - quick.faults_left(left_after)].append((len(parents), packed, left_after))
                parents.append(number)
                choices.append(choice)
        layer.clear()
    return found


def _digest(row: Row) -> bytes:
    return blake2b(array("i", row).tobytes(), digest_size=12).digest()
