"""Plays a scenario for the playground: choices of the page in, what it shows out.

This runs in the page's worker, on Pyodide.  The simulator is doyen's own, unchanged; so is the scenario file that it
reads, and `doyen sim run` reads the same file into the same run.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from doyen.core.clock import parse_duration
from doyen.errors import ConfigError
from doyen.postmortem.document import data
from doyen.postmortem.simulated import Simulated
from doyen.sim.scenario import Result, Scenario, replay_line, simulate
from doyen.sim.scenario.defaults import completed
from doyen.sim.scenario.run import headline
from doyen.sim.scenario.text import exact_duration, read_file
from doyen.sim.world import World

FILE: Final = "scenario.toml"
TELL_EVERY: Final = 500  # Events between two reports of progress.


def tables_of(choices: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a scenario file; the stack itself says how much quiet time it needs."""
    node = {"election": choices["election"], "preset": choices["preset"]}
    if choices["membership"] != "auto":
        node["membership"] = choices["membership"]
    tables: dict[str, Any] = {
        "group": {"nodes": choices["nodes"]},
        "node": node,
        "network.delay": {"mean": choices["delay"]},
    }
    if choices["loss"]:
        tables["network.loss"] = {"model": "uncorrelated", "prob": choices["loss"] / 100}
    nested = {name: table for name, table in tables.items() if "." not in name}
    nested["network"] = {name.split(".")[1]: table for name, table in tables.items() if "." in name}
    quiet = parse_duration(completed(nested, "")["run"]["quiet"])
    faults = parse_duration(f"{choices['seconds']}s")
    tables["run"] = {
        "seed": choices["seed"],
        "length": exact_duration(faults + quiet),
        "quiet": exact_duration(quiet),
    }
    return tables


def scenario_text(choices: dict[str, Any]) -> str:
    """Return a scenario file that says what was chosen."""
    parts = [
        f"[{name}]\n" + "".join(f"{field} = {json.dumps(value)}\n" for field, value in table.items())
        for name, table in tables_of(choices).items()
    ]
    for event in choices["events"]:
        fields = {name: value for name, value in event.items() if value not in ([], "")}
        parts.append(
            "[[churn.events]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())
        )
    return "\n".join(parts)


class Played:
    """Watches one run, and tells how far it is."""

    def __init__(self, scenario: Scenario, tell: Callable[[float], object]) -> None:
        self._length, self._tell, self._count = scenario.run.length, tell, 0
        self.film: Simulated | None = None

    def watch(self, world: World) -> None:
        self.film = Simulated(world)
        world.sim.checks.append(self._on_event)

    def _on_event(self, now: int) -> None:
        self._count += 1
        if self._count % TELL_EVERY == 0:
            self._tell(now / self._length)


def played(text: str, tell: Callable[[float], object]) -> tuple[Scenario, Result, str]:
    """Run the scenario file of that text; return it, what came of it, and the picture as JSON."""
    Path(FILE).write_text(text, encoding="utf-8")
    scenario = read_file(Path(FILE))
    seen = Played(scenario, tell)
    result = simulate(scenario, watch=seen.watch)
    assert seen.film is not None
    violations = [(found.at, f"{found.check} violated: {found.text}") for found in result.violations]
    marks = [(scenario.run.quiet_at / 1e9, "", "from here on nothing fails any more: all must agree in the end")]
    title = f"seed {result.seed}: {headline(scenario, result)}"
    return scenario, result, data(seen.film.incident(title, violations, marks))


def answer(asked: str, tell: Callable[[float], object]) -> str:
    """Return the JSON that the page shows, or one that says what is wrong with the choices."""
    try:
        text = scenario_text(json.loads(asked))
        scenario, result, picture = played(text, tell)
    except ConfigError as error:
        return json.dumps({"error": str(error)})
    kind = scenario.config().election_kind()
    assert kind is not None
    shown = {
        "scenario": text,
        "replay": replay_line(scenario, result.seed),
        "hash": result.trace_hash,
        "violations": [f"{v.check} violated at {v.at:.3f} s: {v.text}" for v in result.violations],
        "leader_changes": result.leader_changes,
        "led": result.led,
        "messages": result.messages,
        "bytes": result.bytes,
        "events": result.events,
        "faults": result.faults,
        "quiet_at": scenario.run.quiet_at / 1e9,
        "length": scenario.run.length / 1e9,
    }
    return f'{json.dumps(shown)[:-1]}, "incident": {picture}}}'
