"""The same world, explored without reductions: one event at a time, of any node, in every order; nothing is memoised
but the steps of machines, and a state counts as seen only with the very same faults left."""

from array import array
from collections import deque
from typing import Any, NamedTuple

from doyen.check.explore import Found, path_to
from doyen.check.turns import ALL, Left, Turn, covers
from doyen.check.world import State, World


class Midway(NamedTuple):
    """A state in the middle of a round: every node somewhere in its turn."""

    state: State
    turns: tuple[Turn, ...]


Quiet = tuple[Any, ...]


def quiet_of(state: State) -> Quiet:
    """Return what is compared: all of a state in which nothing is on its way, but who acted on the way to it."""
    return state.now, state.nodes, state.held, state.cut, state.term, state.reigns, state.passed


def unreduced(world: World, left: Left, *, states_max: int = 10**6) -> tuple[set[Quiet], set[str], int]:
    """Return the quiet states, the rules that are broken, and how many states there are."""
    first = world.begin
    quiet, broken = set(), set()
    todo: list[tuple[State | Midway, Left]] = [(first, left)]
    seen: set[Any] = set(todo)
    while todo:
        at, left_here = todo.pop()
        assert len(seen) <= states_max
        if isinstance(at, State) and at.turn == world.size:
            quiet.add(quiet_of(at))
            found = []
            for _, after, left_after, violation in world.after(at, left_here):
                if violation is not None:
                    broken.add(violation.rule)
                else:
                    found.append((_begun(world, after, left_after), left_after))
        elif isinstance(at, State):
            found = [(_begun(world, at, left_here), left_here)]
        else:
            found = _moves(world, at, left_here, broken)
        for pair in found:
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    return quiet, broken, len(seen)


def _begun(world: World, state: State, left: Left) -> Midway:
    nothing = ((),) * world.size
    turns = tuple(
        Turn(node, state.inbox[index], state.held[index], (), nothing, False, ())
        for index, node in enumerate(state.nodes)
    )
    return Midway(state._replace(acted=0), turns)


def _moves(world: World, at: Midway, left: Left, broken: set[str]) -> list[tuple[State | Midway, Left]]:
    state, found = at.state, []
    everybody = frozenset(range(world.size))
    busy = False
    for index, turn in enumerate(at.turns):
        now = world.clocks[index].at(state.now)
        cut = everybody - {index, state.cut} if index != state.cut else frozenset()
        busy |= world.turns.is_busy(turn, now)
        for _, after in world.turns.moves(index, turn._replace(left=left), now, cut, state.fresh):
            term, reigns = state.term, state.reigns
            for number, baton in after.led:
                if baton < state.passed:
                    broken.add("baton")
                if number <= term:
                    broken.add("shared")
                term, reigns = max(term, number), reigns + 1
            passed = max(state.passed, after.passed)
            ended = after._replace(left=(), acted=False, led=(), passed=0)
            turns = (*at.turns[:index], ended, *at.turns[index + 1 :])
            then = Midway(state._replace(term=term, reigns=reigns, passed=passed), turns)
            nodes = tuple(one.node for one in turns)
            if world.acting(nodes, state.now).bit_count() > 1:
                broken.add("alone")
                continue
            found.append((then, after.left))
    if not busy:
        found.append((_ended(world, at), left))
    return found


def _ended(world: World, at: Midway) -> State:
    """End the round: what was sent in it is on its way."""
    size = world.size
    sent = tuple(tuple(at.turns[sender].sent[receiver] for sender in range(size)) for receiver in range(size))
    state = at.state._replace(
        nodes=tuple(turn.node for turn in at.turns),
        held=tuple(turn.held for turn in at.turns),
        inbox=((),) * size if not any(map(any, sent)) else sent,
    )
    if not any(map(any, sent)):
        nothing = (((),) * size,) * size
        return state._replace(turn=size, inbox=nothing, outbox=nothing)
    return state._replace(turn=0, fresh=False)


def reduced(world: World, left: Left) -> tuple[set[Quiet], set[str], int]:
    """Return the same of the exploration that `doyen check` makes; what breaks a rule is not followed."""
    first = world.begin
    quiet, broken = set(), set()
    seen: dict[State, list[Left]] = {first: [left]}
    todo = [(first, left)]
    count = 0
    while todo:
        at, left_here = todo.pop()
        count += 1
        if at.turn == world.size:
            quiet.add(quiet_of(at))
        for _, after, left_after, violation in world.after(at, left_here):
            if violation is not None:
                broken.add(violation.rule)
                continue
            others = seen.setdefault(after, [])
            if not any(covers(other, left_after) for other in others):
                others.append(left_after)
                todo.append((after, left_after))
    return quiet, broken, count


def plain(world: World, left: Left) -> Found:
    """Explore a world as `doyen check` does, but by its own steps, without numbers for states."""
    first = world.begin
    found = Found()
    parents, choices = array("q", [-1]), array("q", [-1])
    seen: dict[State, list[Left]] = {first: [left]}
    layers: list[deque[tuple[int, State, Left]]] = [deque() for _ in range(left[ALL] + 1)]
    layers[0].append((0, first, left))
    for layer in layers:
        while layer:
            number, state, left_here = layer.popleft()
            found.states += 1
            found.reigns = max(found.reigns, state.reigns)
            for choice, (_, after, left_after, violation) in enumerate(world.after(state, left_here)):
                found.transitions += 1
                if violation is not None:  # The first has the fewest faults.
                    found.violations.append((violation, [*path_to(parents, choices, number), choice]))
                    found.exhausted = False
                    return found
                others = seen.get(after)
                if others is None:
                    seen[after] = [left_after]
                elif any(covers(other, left_after) for other in others):
                    continue
                else:
                    others.append(left_after)
                layers[left[ALL] - left_after[ALL]].append((len(parents), after, left_after))
                parents.append(number)
                choices.append(choice)
    return found
