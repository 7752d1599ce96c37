"""Writes scenarios.md from the Structs, so that it cannot drift.

python docs/reference/scenarios.py > docs/reference/scenarios.md
"""

import inspect
from collections.abc import Iterator
from pathlib import Path

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from doyen.cli.options import flag_of
from doyen.core.clock import format_duration
from doyen.core.config import Option, choices, field_docs, field_types, is_duration, is_table, table_item
from doyen.sim import checkers
from doyen.sim.scenario import Scenario
from doyen.sim.scenario.run import Result

INTRO = """\
# Scenario files

A scenario describes a simulated run: a group on a network, the faults, and what must hold.
`doyen sim run FILE` runs it.
Every field is also a flag (`--network-loss-prob 0.1`), and flags win over the file.
Examples are in `scenarios/`.

Durations are written `200ms`, `1.5s`, `2min`, `inf`; a bare number means seconds.
Lists on the command line are written as in TOML (`--topology-edges '[[0, 1], [1, 2]]'`), lists of names also as `a,b`.
A field that does not exist, a wrong type or a relation that cannot be ends with exit code 2, before anything is written.
One line names the file, the table and the field, or the flag.

```toml
"""

PHASES = """\
```

A run has three parts.
In the warm-up no fault fires, and nothing is counted.
Then comes the time with faults.
In the quiet time faults are off: what was cut, clogged, paused or slow ends, and nodes that were due to return do so.
Nodes that left or crashed for good stay away.
By the end of the quiet time every connected region must have one leader, within the time that the stack states.

## `[node]`

What every node's own file holds ([every field](configuration.md)): `election`, `membership`, `rank`, `preset`, and the tables of the protocols, as `[node.swim]`.
The same code reads it, builds the same machines from it, and refuses the same combinations.

```toml
[node]
election = "hybrid"
membership = "medley"
preset = "wan"

[node.medley]
period = "3s"
```

On the command line `--election KIND` and `--membership KIND` say the same, and `--node FIELD=VALUE` gives any other field (`--node medley.period=3s`).
Without `[node]` nodes elect as they do by default (`gossip`, hybrid).
A file whose `[group]` has `protocol`, `[group.election]`, `durable_terms` or `rank = "wake-up"` is about announce-listen.
Its group announces and listens by `[group.election]`, and it has no `[node]`.

The world gives what a real node gets from where it runs: its name, its address and its seeds.
All nodes are voters, unless `voters` names them; they have a disk, unless `state = ""`; `group_size` is the number of nodes.
Fields about sockets, keys, HTTP and recordings have no effect.
What a file leaves open follows from the stack: `network.delay.mean` is the preset's, and `run.quiet` is as long as the stack may need.

`doyen sim run --election KIND` without a file adds the usual faults: messages are lost, the leader crashes and comes back, and a minority is cut off for a while.
"""

DEEDS = """
`who` and `to` are names, indices from 0, or `leader` (the best that acts as one), `others` (all that do not), `random` (one to which the deed can happen), `all`.
`to` left out means everybody else.

- `join`: a new node; where nodes are linked, to those in `to`, or to one at random (and to all within reach)
- `leave`: says goodbye, and ends; `crash`: ends at once, mid-sentence; `restart`: crashes, and starts
- `pause`, `resume`: the process is stopped, its inputs pile up, it wakes up believing; `slow`: each input takes `by`
- `partition`: the two sides do not reach each other; `block`: `who` does not reach `to`, one way
- `star`: everybody and the hub (`who`) hear each other, and no other two do; `chain`: each hears its neighbours in a line with the hub in the middle
- `one-way-star`: a star in which of two that are not the hub the earlier hears the later, and not the reverse
- `graph`: each pair draws whether it is linked, linked one way, or cut
- each of these four takes the place of the one before it
- `cut`: links between the two sides carry nothing, what is on them included; routes avoid them; `heal` ends these
- `clog`: what the two sides send each other is held until `release`
- `clock-forward`, `clock-back`: the node's own clock is stepped by `by`; `wall-clock`: the one that people read is, by up to 5 s
- `resign`: the node hands over, to one of `to` if given, and stands again after `lasting`
- `score`: its application finds it worth something else, from 0 to 19
- `corrupt`: its election remembers what never was; only spanning elections are to bear that

What is done to links with a name is also counted under its name.
"""

RESULT = """\
## The result

With `--json`, one object.
`election`, `nodes`, `seed` and `runs` say what ran; `agreement` is the share of runs that end with one leader per connected region, and `final_leaders` names them.
Besides:

"""

RUNS = """\
`faults` has every configured fault, also at zero, then whatever else was counted.
`never_fired` lists configured faults that took effect in none of the runs, `never_looked` checks that apply and had nothing to look at.
With `--runs R`, `agreed` counts runs, numbers are `{"mean": …, "stderr": …}`, and `faults` and `looked` are sums.
`final_leaders` has one list for each run, `violations` have `seed` and `replay`, and `trace_hash` is of the runs' hashes in run order.

A violated invariant ends its run, exits with 1, and prints a line that replays it: `doyen sim replay '{…}'`, one inline TOML table with everything that differs from the defaults.
`--shrink` looks for a smaller scenario that fails alike.

## Checks

A check is chosen by what the election promises (`doyen explain` says it): weak, timed or quorum.
Those of one protocol apply to its stacks only.
Where clocks, delays or memory break what a promise rests on, its checks are left out.

"""


def page() -> str:
    tables = list(_tables(Scenario, ()))
    example = (Path(__file__).resolve().parents[2] / "scenarios/partition.toml").read_text()
    parts = [INTRO + example + PHASES, *(_table(path, kind) for path, kind in tables), RESULT]
    parts.append("\n".join(_result_lines()) + "\n\n" + RUNS + _checks() + "\n")
    return "\n".join(parts)


def _tables(kind: type[Struct], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], type[Struct]]]:
    if path:
        yield path, kind
    for name, hint in field_types(kind).items():
        if is_table(hint):
            yield from _tables(hint, (*path, name))
        elif table_item(hint) is not None:
            yield (*path, f"{name}[]"), table_item(hint)


def _table(path: tuple[str, ...], kind: type[Struct]) -> str:
    repeated = path[-1].endswith("[]")
    name = ".".join(path).replace("[]", "")
    head = f"## `[[{name}]]`" if repeated else f"## `[{name}]`"
    lines = [head, "", f"{inspect.getdoc(kind)}", "", "| field | type | default | meaning |", "|---|---|---|---|"]
    hints, docs = field_types(kind), field_docs(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if is_table(hint):
            continue
        shown = "**required**" if field.default is NODEFAULT else f"`{_value(hint, field.default)}`"
        flag = "" if repeated else f" · `{flag_of(Option((*path, field.name), hint, None, ''))}`"
        lines.append(f"| `{field.name}`{flag} | {_type(hint)} | {shown} | {docs[field.name]} |")
    return "\n".join(lines) + "\n" + (DEEDS if repeated else "")


def _type(hint: object) -> str:
    if choices(hint):
        return ", ".join(f"`{choice}`" for choice in choices(hint))
    if is_duration(hint):
        return "duration"
    if table_item(hint) is not None:
        return "list of tables"
    names = {
        "tuple[str, ...]": "list of names",
        "tuple[tuple[int, int], ...]": "list of pairs",
        "tuple[int | str, ...]": "list",
    }
    text = (
        getattr(hint, "__name__", str(hint)) if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    )
    return names.get(text, "list" if text.startswith("tuple") else text)


def _value(hint: object, value: object) -> str:
    if is_duration(hint):
        return format_duration(value) if value else "0s"  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


def _result_lines() -> Iterator[str]:
    for name, text in field_docs(Result).items():
        yield f"- `{name}`: {text}"


def _checks() -> str:
    """Return the name of every check and the rule that it watches."""
    rows = [f"| `{name}` | {kind.rule} |" for name, kind in checkers.CHECKERS.items()]
    return "\n".join(["| check | what must hold |", "|---|---|", *rows])


if __name__ == "__main__":
    print(page(), end="")
