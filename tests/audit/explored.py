"""The specification as Python has it, explored to the same bounds as TLC explores it."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from tlc import Bound

from doyen.audit.spec import NOTHING, Beat, Refused, Safety

NAMES = "abcde"


def states(bound: Bound) -> int:
    """Return how many states there are; `Refused` is never raised for an invariant."""
    first = Safety(NAMES[: bound.nodes], bound.lease, bound.guard)
    known = {_key(first, 0)}
    todo = [(first, 0)]
    while todo:
        state, restarts = todo.pop()
        for action, *given in _moves(state, bound, restarts):
            after = _copy(state)
            try:
                getattr(after, action)(*given) if action != "tick" else _tick(after)
            except Refused as error:
                if error.rule == "shared":
                    raise
                continue
            acting = [name for name in after.clock if after.acts(name)]
            assert len(acting) <= 1
            count = restarts + (action == "restart")
            key = _key(after, count)
            if key not in known:
                known.add(key)
                todo.append((after, count))
    return len(known)


def _tick(state: Safety) -> None:
    for name in state.clock:
        state.pass_time(name, state.clock[name] + 1)


def _moves(state: Safety, bound: Bound, restarts: int) -> Iterator[tuple[Any, ...]]:
    names, epochs = list(state.clock), range(1, bound.epochs + 1)
    if state.clock[names[0]] < bound.time:
        yield ("tick",)
    for name in names:
        yield "write", name
        yield "stop", name
        for epoch in epochs:
            if len(state.beats) < bound.beats:
                yield "claim", Beat(name, epoch, state.clock[name])
            yield "begin", name, epoch
            if len(state.ends) < bound.resignations and (name, epoch) in state.claimed:
                yield "resign", name, epoch
            for other in names:
                yield "grant", name, other, epoch
        for beat in state.beats:
            yield "ack", name, beat
        for node, epoch in state.ends:
            yield "release", name, node, epoch
        if restarts < bound.restarts:
            for record in {state.disk[name], *state.writing[name]}:
                yield "restart", name, record
    for voter, beat in state.acks:
        yield "hear", voter, beat


def _copy(state: Safety) -> Safety:
    after = Safety.__new__(Safety)
    after.__dict__.update(
        {name: value.copy() if hasattr(value, "copy") else value for name, value in vars(state).items()}
    )
    after.answer = deepcopy(state.answer)
    return after


def _key(state: Safety, restarts: int) -> Any:
    names = list(state.clock)
    return (
        restarts,
        *(
            (
                state.clock[name],
                state.mem[name],
                state.writing[name],
                state.disk[name],
                state.bound[name],
                state.lead[name],
                tuple(state.answer[name].get(voter, NOTHING) for voter in names),
            )
            for name in names
        ),
        frozenset(state.beats.items()),
        frozenset(state.acks),
        frozenset(state.ends),
        frozenset(state.led.items()),
    )
