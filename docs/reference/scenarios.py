"""Writes scenarios.md from the Structs, so that it cannot drift.

python docs/reference/scenarios.py > docs/reference/scenarios.md
"""

import inspect
import re
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

A scenario describes a simulated run: a group on a network, what befalls it, and what must hold. `doyen sim run FILE`
runs it; every field is also a flag (`--network-loss-prob 0.1`), and flags win over the file. Examples: `scenarios/`.

Durations are written `200ms`, `1.5s`, `2min`, `inf`; a bare number means seconds. Lists on the command line are
written as in TOML (`--topology-edges '[[0, 1], [1, 2]]'`), lists of names also as `a,b`. A field that does not exist,
a wrong type or a relation that cannot be ends with exit code 2 and one line that names file, table and field (or
flag), before anything is written.

```toml
"""

PHASES = """\
```

A run has three parts: the warm-up (no faults, nothing counted), the time with faults, and the quiet time (faults off;
what was cut, clogged, paused or slow ends, nodes that were due to return do so; who left or crashed for good stays
away). By the end of the quiet time every connected region must agree on its best eligible members.
"""

DEEDS = """
`who` and `to` are names, indices from 0, or `leader` (the best that acts as one), `random` (one that the deed can
befall), `all`; `to` left out means everybody else.

- `join`: a new node; where nodes are linked, to those in `to`, or to one at random (and to all within reach)
- `leave`: says Bye if it leads, and ends; `crash`: ends at once, mid-sentence; `restart`: crashes, and starts
- `pause`, `resume`: the process is stopped, its inputs pile up, it wakes up believing; `slow`: each input takes `by`
- `partition`: the two sides do not reach each other; `block`: `who` does not reach `to`, one way
- `cut`: links between the two sides carry nothing, what is on them included; routes avoid them; `heal` ends these
- `clog`: what the two sides send each other is held until `release`
- `clock-forward`, `clock-back`: the node's own clock is stepped by `by`
"""

RESULT = """\
## The result

With `--json`, one object. `agreed`, `leader`, `leaders` (best first), and:

"""

RUNS = """\
`faults` has every configured fault, also at zero, then whatever else was counted; `never_fired` lists configured
faults that took effect in none of the runs. With `--runs R`, `agreed` counts runs, numbers are `{"mean": …, "stderr":
…}`, `faults` and `looked` are sums, `violations` have `seed` and `replay`, and `trace_hash` is of the runs' hashes in
run order.

A violated invariant ends its run, exits with 1, and prints a line that replays it: `doyen sim replay '{…}'`, one
inline TOML table with everything that differs from the defaults. `--shrink` looks for a smaller scenario that fails
alike.

## Checks

"""


def page() -> str:
    tables = list(_tables(Scenario, ()))
    example = (Path(__file__).resolve().parents[2] / "scenarios/partition.toml").read_text()
    parts = [INTRO + example + PHASES, *(_table(path, kind) for path, kind in tables), RESULT]
    parts.append("\n".join(_result_lines()) + "\n\n" + RUNS + "```\n" + _checks() + "\n```\n")
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
    for found in re.finditer(r"^    (\w+): (.+?)  # (.+)$", inspect.getsource(Result), re.MULTILINE):
        yield f"- `{found[1]}`: {found[3]}"


def _checks() -> str:
    """Return the name of every check and the rule that it watches."""
    width = max(map(len, checkers.CHECKERS)) + 2
    return "\n".join(f"    {name:{width}}{kind.rule}" for name, kind in checkers.CHECKERS.items())


if __name__ == "__main__":
    print(page(), end="")
