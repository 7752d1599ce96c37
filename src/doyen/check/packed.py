"""A world whose states are whole numbers: what can come of a turn is looked up, and added.

    number = round | node and box of n0 | node and box of n1 | …        each a number in a table, of 24 bits

A box is what arrives at a node before its turn, and what it sends after it.  A turn depends on the round, on the node
and its box, and on the faults left; what it changes is one difference between two numbers.

tests/check compares these worlds with `World`: states, transitions and verdicts are equal.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from doyen.check.turns import ALL, CUTS, Finals, Left, Node, Numbers, covers, less
from doyen.check.world import NOBODY, State, Violation, World
from doyen.core.clock import Instant
from doyen.errors import LocalProtocolError

BITS: Final = 24
MASK: Final = (1 << BITS) - 1
PAIR: Final = (1 << 2 * BITS) - 1

After: TypeAlias = tuple[int, int, Violation | None]  # The state, or what to add to one; the faults left; what breaks.


class _Table:
    """Numbers for values, in the order in which they are met."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._of: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        found = self._of.get(value)
        if found is None:
            found = self._of[value] = len(self.values)
            self.values.append(value)
            if found > MASK:
                raise LocalProtocolError("there are more than 16 million states of single nodes: take a smaller bound")
        return found


class _Round(NamedTuple):
    """The part of a state that is neither a node's nor on its way; `State` says what each field means."""

    now: Instant
    fresh: bool
    turn: int
    term: int
    reigns: int
    passed: int
    cut: int
    acted: int
    finals: Finals
    up: Numbers


class Packed:
    """One world, with numbers for everything."""

    def __init__(self, world: World) -> None:
        self.world, self.size = world, world.size
        self._rounds, self._nodes, self._boxes, self.lefts = _Table(), _Table(), _Table(), _Table()
        self._places = [BITS + 2 * BITS * index for index in range(self.size)]  # Where a node and its box begin.
        self._nothing = self._boxes.of(((),) * self.size)
        self._no_boxes = (self._nothing,) * self.size
        self._turns: dict[tuple[int, int, int], tuple[After, ...]] = {}
        self._boxed: dict[tuple[int, ...], int] = {}
        self._begins: dict[tuple[int | None, ...], int] = {}
        self._quiets: dict[int, int] = {}
        self._covered: dict[tuple[int, int], bool] = {}
        self._due: dict[tuple[int, int], Instant] = {}

    # From states to numbers and back.

    def pack(self, state: State) -> int:
        one = _Round(
            now=state.now,
            fresh=state.fresh,
            turn=state.turn,
            term=state.term,
            reigns=state.reigns,
            passed=state.passed,
            cut=state.cut,
            acted=state.acted,
            finals=state.finals,
            up=state.up,
        )
        number = self._rounds.of(one)
        for index, place in enumerate(self._places):
            box = state.inbox[index] if index >= state.turn else tuple(box[index] for box in state.outbox)
            node = self._nodes.of((state.nodes[index], state.held[index]))
            number |= (node | self._boxes.of(box) << BITS) << place
        return number

    def unpack(self, number: int) -> State:
        one: _Round = self._rounds.values[number & MASK]
        nodes: list[tuple[Node, Numbers]] = [self._nodes.values[number >> place & MASK] for place in self._places]
        boxes = [self._boxes.values[number >> place + BITS & MASK] for place in self._places]
        nothing = self._boxes.values[self._nothing]
        sent = [box if index < one.turn else nothing for index, box in enumerate(boxes)]
        return State(
            now=one.now,
            fresh=one.fresh,
            turn=one.turn,
            nodes=tuple(node for node, _ in nodes),
            inbox=tuple(nothing if index < one.turn else box for index, box in enumerate(boxes)),
            outbox=tuple(zip(*sent, strict=True)),
            held=tuple(held for _, held in nodes),
            term=one.term,
            reigns=one.reigns,
            passed=one.passed,
            cut=one.cut,
            acted=one.acted,
            finals=one.finals,
            up=one.up,
        )

    @property
    def reigns(self) -> int:
        """Return how often nodes began to lead, in the run in which they did most often."""
        rounds: list[_Round] = self._rounds.values
        return max(one.reigns for one in rounds)

    def spent(self, most: Left, left: int) -> int:
        """Return how many faults were spent."""
        found: int = most[ALL] - self.lefts.values[left][ALL]
        return found

    def covers(self, left: int, other: int) -> bool:
        found = self._covered.get((left, other))
        if found is None:
            lefts = self.lefts.values
            found = self._covered[left, other] = covers(lefts[left], lefts[other])
        return found

    # Steps.

    def after(self, number: int, left: int) -> list[After]:
        """Return what can happen next, in the order of `World.after`."""
        turn = self._rounds.values[number & MASK].turn
        if turn == self.size:
            return list(self._quiet(number, left))
        place = self._places[turn]
        key = (number & MASK, number >> place & PAIR, left)
        found = self._turns.get(key)
        if found is None:
            found = self._turns[key] = tuple(self._turn(number, left))
        if turn + 1 < self.size:
            return [(number + change, left_after, violation) for change, left_after, violation in found]
        return [
            (number if violation else self._onward(number + change), left_after, violation)
            for change, left_after, violation in found
        ]

    def _turn(self, number: int, left: int) -> Iterator[After]:
        """Have the world explore a node's turn; yield what each end of it adds."""
        state = self.unpack(number)
        index, place = state.turn, self._places[state.turn]
        for end, violation in self.world.judged(state, self.lefts.values[left]):
            node = self._nodes.of((end.node, end.held)) | self._boxes.of(end.sent) << BITS
            one = _Round(
                state.now,
                state.fresh,
                index + 1,
                max((state.term, *[number for number, _ in end.led])),
                state.reigns + len(end.led),
                max(state.passed, end.passed),
                state.cut,
                state.acted | end.acted << index,
                self.world.finals(state.finals, end.finals),
                state.up,
            )
            change = (node - (number >> place & PAIR) << place) + self._rounds.of(one) - (number & MASK)
            yield change, self.lefts.of(end.left), violation

    def _onward(self, number: int) -> int:
        """Begin the next round after the last turn; without any message left, all is quiet."""
        boxes = tuple([number >> place + BITS & MASK for place in self._places])
        change = self._boxed.get(boxes)
        if change is None:
            sent = [self._boxes.values[box] for box in boxes]
            came = [self._boxes.of(tuple(box)) for box in zip(*sent, strict=True)]
            change = sum(new - old << place + BITS for new, old, place in zip(came, boxes, self._places, strict=True))
            self._boxed[boxes] = change
        number += change
        return (
            self._quieted(number)
            if boxes == self._no_boxes
            else self._begun(number, self._rounds.values[number & MASK].now)
        )

    def _quieted(self, number: int) -> int:
        found = self._quiets.get(number & MASK)
        if found is None:
            one = self._rounds.values[number & MASK]
            found = self._quiets[number & MASK] = self._rounds.of(one._replace(fresh=False, acted=0, up=()))
        return number - (number & MASK) + found

    def _begun(self, number: int, now: Instant, fresh: bool = False, cut: int | None = None) -> int:
        """Begin a round: see who acts."""
        nodes = [number >> place & MASK for place in self._places]
        key = (number & MASK, now, fresh, cut, *nodes)
        found = self._begins.get(key)
        if found is None:
            one = self._rounds.values[number & MASK]
            found_nodes = tuple(self._nodes.values[node][0] for node in nodes)
            acted, up = self.world.acting(found_nodes, now), self.world.up(found_nodes) if fresh else ()
            cut = one.cut if cut is None else cut
            found = self._rounds.of(one._replace(now=now, fresh=fresh, turn=0, cut=cut, acted=acted, up=up))
            self._begins[key] = found
        return number - (number & MASK) + found

    def _quiet(self, number: int, left: int) -> Iterator[After]:
        world, one = self.world, self._rounds.values[number & MASK]
        dues = [self._due_at(index, number >> place & MASK) for index, place in enumerate(self._places)]
        now = max(min(dues), one.now)
        if world.nodes.told:
            now = world.next_at(one.now, self.unpack(number).nodes, dues)
        if now > world.horizon or one.reigns > world.reigns_max:
            if world.settling and (violation := world.unsettled(self.unpack(number))):
                yield number, left, violation
            return
        moved = self._begun(number, now, True)
        violation = world.together(self._rounds.values[moved & MASK].acted)
        yield moved, left, violation
        if one.cut != NOBODY:
            yield self._begun(number, now, True, NOBODY), left, violation
        elif self.lefts.values[left][CUTS]:
            less_left = self.lefts.of(less(self.lefts.values[left], CUTS))
            for index in range(self.size):
                yield self._begun(number, now, True, index), less_left, violation

    def _due_at(self, index: int, node: int) -> Instant:
        found = self._due.get((index, node))
        if found is None:
            found = self._due[index, node] = self.world.due_at(index, self._nodes.values[node][0])
        return found
