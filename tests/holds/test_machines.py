"""Machines keep their effects byte for byte: same inputs, same sends, timers, facts and records in the same order.

`machines.json` has one line for each run of `runs.py`: how often each fault was injected and did harm, and for each
node and channel a digest of all inputs and effects, the counts of inputs (start, message, timer, fact, command,
durable) and those of effects (send, multicast, set_timer, emit, persist).

    pytest tests/holds/test_machines.py                               compare with what is kept
    HOLDS_REWRITE=1 pytest tests/holds/test_machines.py               write it anew
    HOLDS_TAPES=DIR pytest tests/holds/test_machines.py -k 'pole'     also write whole tapes, one file per run:
                                                                      do it before and after a change, and use diff
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import golden
import pytest
import reach
from msgspec import Struct
from msgspec.structs import replace
from runs import ANNOUNCING, CHURN_TOLERANT, LISTS, ORACLES, SCRIPTS, Run, all_runs, record
from tape import EFFECTS, INPUTS, Tape

FILE: Final = "machines.json"
RUNS: Final = {run.name: run for run in all_runs()}
ONE: Final = RUNS["pole+none/crash-lost"]


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    if golden.REWRITE:
        golden.write(FILE, {name: record(run).summary() for name, run in RUNS.items()})
    return golden.read(FILE)


@pytest.mark.parametrize("name", RUNS)
def test_machines_do_what_they_did(name: str, kept: dict[str, Any]) -> None:
    folder = os.environ.get("HOLDS_TAPES")
    found = record(RUNS[name], verbose=folder is not None)
    if folder is not None:
        texts = [f"== {key}\n" + "\n".join(tape.lines or ()) for key, tape in sorted(found.tapes.items())]
        (Path(folder) / f"{name.replace('/', ':')}.txt").write_text("\n".join(texts) + "\n")
    assert found.summary() == kept[name]


def test_nothing_is_kept_of_runs_that_are_gone(kept: dict[str, Any]) -> None:
    assert sorted(kept) == sorted(RUNS)
    assert len(RUNS) >= 200


# Do the runs cover everything?


def counts(kept: dict[str, Any], channel: str, chosen: Callable[[Run], bool]) -> Counter[str]:
    """Return the counts of inputs and effects on a channel, over all nodes of the chosen runs."""
    found: Counter[str] = Counter()
    for name, run in RUNS.items():
        for key, summary in kept[name].items() if chosen(run) else ():
            if key != "faults" and key.partition("/")[2] == channel:
                _, inputs, effects = summary.split()
                found.update(dict(zip(INPUTS, map(int, inputs.split(".")), strict=True)))
                found.update(dict(zip(EFFECTS, map(int, effects.split(".")), strict=True)))
    return found


def of(field: str, value: Any) -> Callable[[Run], bool]:
    return lambda run: run.fields.get(field) == value


@pytest.mark.parametrize(
    ("election", "seen"),
    [
        *((kind, "start message timer command multicast set_timer emit persist durable") for kind in ANNOUNCING),
        *((kind, "start message timer fact command send set_timer emit persist durable") for kind in CHURN_TOLERANT),
        ("local", "start fact emit"),
        ("spanning", "start message timer fact command send set_timer emit persist durable"),
        ("pole", "start message timer fact command send set_timer emit persist durable"),
        ("by-key", "start message timer fact send set_timer emit"),
    ],
)
def test_every_election_is_seen_to_take_in_and_give_out_all_that_it_can(
    kept: dict[str, Any], election: str, seen: str
) -> None:
    found = counts(kept, "election", of("election", election))
    assert [kind for kind in seen.split() if not found[kind]] == []
    assert {run.script for run in RUNS.values() if run.fields["election"] == election} >= set(SCRIPTS)


@pytest.mark.parametrize("membership", LISTS)
def test_every_membership_is_seen_under_every_election_and_fault(kept: dict[str, Any], membership: str) -> None:
    found = counts(kept, "membership", of("membership", membership))
    seen = "start message timer command send set_timer emit"
    assert [kind for kind in seen.split() if not found[kind]] == []
    runs = [run for run in RUNS.values() if run.fields.get("membership") == membership]
    assert {run.script for run in runs} >= set(SCRIPTS)
    elections = {
        *ANNOUNCING,
        *CHURN_TOLERANT,
        "local",
        "spanning",
        "pole",
        *(["by-key"] if membership == "ring" else []),
    }
    assert {run.fields["election"] for run in runs} == elections


@pytest.mark.parametrize(
    ("channel", "seen"),
    [
        ("notes", "start message timer fact command send set_timer"),
        ("missing", "start message timer fact send set_timer emit"),
        ("links", "start fact emit"),
        ("oracle", "start message timer send set_timer emit"),
        ("election/a", "start message timer multicast set_timer emit"),
        ("election/b", "start message timer send set_timer emit persist"),
        ("election/c", "start message timer fact send set_timer emit"),
        ("election/d", "start fact emit"),
    ],
)
def test_every_other_channel_is_seen(kept: dict[str, Any], channel: str, seen: str) -> None:
    found = counts(kept, channel, lambda run: True)
    assert [kind for kind in seen.split() if not found[kind]] == []


def test_ranks_and_oracles_are_all_there() -> None:
    for kind in CHURN_TOLERANT:
        ranks = {run.fields.get("rank", "hash") for run in RUNS.values() if run.fields["election"] == kind}
        assert ranks == {"hash", "score"}
    assert {run.fields.get("oracle", "score") for run in RUNS.values()} == set(ORACLES)


def test_every_fault_was_injected_and_did_harm(kept: dict[str, Any]) -> None:
    total: Counter[str] = Counter()
    for line in kept.values():
        total.update(line["faults"])
    injected = (
        "crash restart partition cut heal pause resume slow resign leave stand",
        ("step clock", "set score", "loss changed", "slow disk", "break link"),
    )
    harm = ("loss", "duplicate", "cut", "cut in flight", "receiver down", "late by pause", "slow step")
    wanted = [*injected[0].split(), *injected[1], *(f"did {kind}" for kind in harm)]
    assert [fault for fault in wanted if not total[fault]] == []


# Can the digests fail?


def digests(run: Run) -> dict[str, str]:
    return {key: str(tape) for key, tape in record(run).tapes.items()}


def test_the_same_run_has_the_same_digests() -> None:
    assert digests(ONE) == digests(ONE)


def spoil(monkeypatch: pytest.MonkeyPatch, verb: str, change: Callable[..., list[tuple[Any, ...]]]) -> None:
    """At the fifth call of a verb, do what `change` returns instead."""
    plain = getattr(reach.Tap, verb)
    calls = 0

    def spoilt(tap: Any, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        for instead in change(*arguments) if calls == 5 else [arguments]:
            plain(tap, *instead)

    monkeypatch.setattr(reach.Tap, verb, spoilt)


def later_field(message: Struct) -> Struct:
    """Return the message with its first number one greater."""
    name = next(name for name in message.__struct_fields__ if type(getattr(message, name)) is int)
    return replace(message, **{name: getattr(message, name) + 1})


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        ("set_timer", lambda timer, at: [(timer, at + 1)]),
        ("set_timer", lambda timer, at: []),
        ("set_timer", lambda timer, at: [(timer, at), (timer, at)]),
        ("send", lambda to, message: [(to, later_field(message))]),
        ("send", lambda to, message: []),
        ("send", lambda to, message: [(to, message), (to, message)]),
        ("persist", lambda record: []),
        ("emit", lambda fact: [(fact,), (fact,)]),
    ],
    ids=["later by 1 ns", "no timer", "two timers", "a field", "no message", "twice", "no record", "told twice"],
)
def test_one_changed_effect_changes_a_digest(
    monkeypatch: pytest.MonkeyPatch, verb: str, change: Callable[..., list[tuple[Any, ...]]]
) -> None:
    before = digests(ONE)
    spoil(monkeypatch, verb, change)
    assert digests(ONE) != before


def test_two_effects_in_the_other_order_change_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests(ONE)
    plain = reach.Tap.send
    held: list[tuple[Any, ...]] = []
    swapped = 0

    def out_of_order(tap: Any, to: Any, message: Any) -> None:
        nonlocal swapped
        if not swapped and not held:
            held.append((tap, to, message))
            return
        plain(tap, to, message)
        if held and held[0][0] is tap:
            swapped += 1
            plain(*held.pop())

    monkeypatch.setattr(reach.Tap, "send", out_of_order)
    assert digests(ONE) != before
    assert swapped == 1


# What do tapes care for?


class First(Struct):
    number: int


class Second(Struct):
    number: int


class Another(Struct):
    digit: int


def tape_of(*timers: Any) -> str:
    tape = Tape()
    for at, timer in enumerate(timers):
        tape.note("set_timer", at, timer)
    return str(tape)


def test_a_tape_cares_for_values_order_and_which_types_differ_but_not_for_names() -> None:
    assert tape_of(First(1), Second(2), First(3)) == tape_of(Another(1), First(2), Another(3))
    assert tape_of(First(1), Second(2)) != tape_of(First(1), First(2))
    assert tape_of(First(1), First(2)) != tape_of(First(2), First(1))
    assert tape_of(First(1)) != tape_of(First(2))
    assert tape_of(First(1)) != tape_of(First(1.0))  # type: ignore[arg-type]
    assert tape_of(First(1)) != tape_of(First(1), First(1))
    assert tape_of(frozenset("abcdef")) == tape_of(set("fedcba"))
    assert tape_of({"a": 1, "b": 2}) != tape_of({"b": 2, "a": 1})
    with pytest.raises(TypeError, match="a tape cannot write"):
        tape_of(object())
