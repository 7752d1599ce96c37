"""Writes configuration.md from the fields of a node's configuration, so that it cannot drift.

python docs/reference/configuration.py > docs/reference/configuration.md
"""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from doyen.cli.config import configured, value_of
from doyen.cli.nodeflags import flag_name
from doyen.core.config import Option, choices, is_duration
from doyen.core.kinds import Network
from doyen.node.layers import node_options, variable_name
from doyen.node.registry import tables

INTRO = """\
# Configuration

Every field of a node can be given in four ways.
A flag of `doyen agent` and `doyen run`, a variable in the environment, and a key of a TOML file are shown below.
`--config FILE` or `DOYEN_CONFIG` names the file.
In Python a key is an argument of `doyen.join(…)`, and a table is a mapping.
A preset comes first, then the file, then the environment, then flags or arguments; the later ones win.
This page is made from the fields themselves.

```console
$ doyen config --example | tee node.toml
$ doyen config check node.toml
```

Durations are written `200ms`, `1.5s`, `2min`, `inf`.
A list is written `a,b` in a variable; flags of lists are repeated, but for `--voters a,b`.
Where presets differ, their defaults are shown for groups of 10 members.
"""


def page() -> str:
    known = tables(ours=True)
    configs = {preset: configured(preset) for preset in get_args(Network)}
    own = [option for option in node_options(known) if len(option.path) == 1]
    parts = [INTRO, "\n".join(["## The node", "", *_rows(own, configs)])]
    for name, table in known.items():
        fields = [option for option in node_options(known) if option.path[0] == name and len(option.path) > 1]
        about = "The preset sets what is not given." if fields else "It has no fields."
        parts.append("\n".join([f"## `[{name}]`: {table.about}", "", about, "", *_rows(fields, configs)]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _rows(fields: list[Option], configs: dict[str, Any]) -> Iterator[str]:
    if fields:
        yield "| key | flag, variable | takes | default | meaning |"
        yield "|---|---|---|---|---|"
    for option in fields:
        found = {preset: _text(option, value_of(config, option)) for preset, config in configs.items()}
        alike = len(set(found.values())) == 1
        default = found["lan"] if alike else "<br>".join(f"{preset}: {text}" for preset, text in found.items())
        names = f"`{flag_name(option)}`<br>`{variable_name(option)}`"
        yield f"| `{option.path[-1]}` | {names} | {_takes(option)} | {default} | {option.doc} |"


def _text(option: Option, value: Any) -> str:
    if option.path in (("preset",), ("group",)):  # What the configurations here were given.
        return "`lan`" if option.path == ("preset",) else "**required**"
    if value in ("", []):
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _takes(option: Option) -> str:
    if choices(option.type):
        return ", ".join(f"`{choice}`" for choice in choices(option.type))
    if is_duration(option.type):
        return "duration"
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false", tuple: "list"}
    return plain.get(get_origin(option.type) or option.type, "whole number or `auto`")


if __name__ == "__main__":
    print(page(), end="")
