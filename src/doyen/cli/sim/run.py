"""`doyen sim run`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from doyen.cli.options import flags, laid_over
from doyen.cli.output import print_json, progress, show
from doyen.cli.outputs import INCIDENT, REPLAYS, TRACE, OutputFile, plot_flag
from doyen.core.config import load, nearest, read_value, shown
from doyen.errors import ConfigError
from doyen.node.layers import node_options, plain
from doyen.sim.runs import RUNS_MAX, Spread, figure, run_many, run_seed
from doyen.sim.scenario import Result, Scenario, replay_line, simulate
from doyen.sim.scenario.defaults import completed, with_node
from doyen.sim.scenario.run import configured_faults, headline
from doyen.sim.scenario.text import read_tables
from doyen.sim.streams import Streams
from doyen.sim.topology import build
from doyen.sim.trace import Trace, combined_hash

FIGURES = (
    "converged_at",
    "leader_changes",
    "led",
    "led_when_due",
    "led_beyond",
    "messages",
    "bytes",
    "hops",
    "hop_bytes",
    "deliveries",
    "events",
    "records",
)
SHOWN_FAILURES = 5


@click.command("run", help="Run a scenario: a TOML file, the same given by flags, or both; flags win.")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--election", metavar="KIND", help="Who leads?  Without FILE: with the usual faults.  Of [node].")
@click.option("--membership", metavar="KIND", help="Who is here?  By default what the election needs.  Of [node].")
@click.option("--nodes", type=int, help="Short for --group-nodes.")
@click.option("--node", "node_fields", multiple=True, metavar="FIELD=VALUE", help="Of [node], e.g. swim.period=500ms.")
@flags(Scenario)
@click.option("--seed", type=int, help="Short for --run-seed.")
@click.option("--runs", type=int, default=1, show_default=True, help="How many runs; each has a seed of its own.")
@click.option("--jobs", type=int, default=0, help="Processes; 0: one per core.  Changes nothing but the time.")
@click.option("--on", metavar="ENGINE", help="Run on Dask's workers: dask (of this machine), or dask://HOST:PORT.")
@click.option("--keep", type=OutputFile(REPLAYS), help="Add a line that replays each failed run to this file.")
@click.option("--trace", "trace_path", type=OutputFile(TRACE), help="Write the first run, a line an event.")
@click.option("--html", type=OutputFile(INCIDENT), help="Write a run as a file to look at.")
@plot_flag("how soon the runs agreed for good; with --runs")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    file: Path | None,
    election: str | None,
    membership: str | None,
    nodes: int | None,
    node_fields: Sequence[str],
    seed: int | None,
    runs: int,
    jobs: int,
    on: str | None,
    keep: Path | None,
    trace_path: Path | None,
    html: Path | None,
    plot: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    if file is not None and "check" in (tables := read_tables(file)):
        return _checked(file, tables["check"], as_json)
    said = node_tables(election, membership, node_fields)
    for (table, field), value in {("run", "seed"): seed, ("group", "nodes"): nodes}.items():
        if value is not None:
            given[f"{table}__{field}"], said.flags[table, field] = value, f"--{field}"
    scenario = _chosen(file, said, given)
    if runs < 1:
        raise ConfigError(f"--runs {runs} is too few: give at least 1")
    if runs > RUNS_MAX:
        raise ConfigError(f"--runs {runs} is too many: at most {RUNS_MAX:,}; give another --seed for more")
    if plot is not None and runs == 1:
        raise ConfigError("--plot draws many runs: give --runs 2 or more, or --html FILE for one")
    if jobs < 0:
        raise ConfigError(f"--jobs {jobs} is not a number of processes: give 0 (one per core) or more")
    _draw_topology(scenario, scenario.run.seed if runs == 1 else run_seed(scenario.run.seed, 0), file)
    if runs == 1:
        with trace_to(trace_path) as trace:
            result = simulate(scenario, trace=trace)
        _film(scenario, result, html)
        with _kept(keep, scenario) as see:
            see([result])
        report(scenario, result, as_json)
        return failed(scenario, [result])
    if trace_path is not None:
        with trace_to(trace_path) as trace:
            simulate(scenario, run_seed(scenario.run.seed, 0), trace=trace)
    with (
        _kept(keep, scenario) as see,
        _spread(on, jobs) as spread,
        progress(f"{scenario.group.nodes} nodes", runs) as advance,
    ):
        results = run_many(
            partial(simulate, scenario),
            runs,
            scenario.run.seed,
            jobs=jobs,
            spread=spread,
            progress=advance,
            see=see,
        )
    summary = summarise(scenario, results)
    _draw(scenario, results, plot)
    _film(scenario, next((result for result in results if result.violations), results[0]), html)
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary)
    return failed(scenario, results)


def _draw(scenario: Scenario, results: list[Result], path: Path | None) -> None:
    """Draw how soon the runs agreed for good, if somebody wants it."""
    if path is None:
        return
    from doyen.eyes.plot import Plot, shares

    agreed = [result.converged_at for result in results if result.converged_at is not None]
    title = f"{results[0].election}: {len(results)} runs of {scenario.group.nodes} nodes, {len(agreed)} agreed"
    picture = Plot(title, "agreed for good at, in seconds", "share of the runs that agreed")
    picture.steps(results[0].election, shares(agreed))
    path.write_text(picture.svg(), encoding="utf-8")


def _film(scenario: Scenario, result: Result, path: Path | None) -> None:
    """Run that seed again, and write it as a file to look at, if somebody wants one."""
    if path is None:
        return
    from doyen.cli.postmortem import write
    from doyen.postmortem.simulated import Simulated

    made: list[Simulated] = []
    simulate(scenario, result.seed, watch=lambda world: made.append(Simulated(world)))
    violations = [(found.at, f"{found.check} violated: {found.text}") for found in result.violations]
    write(made[0].incident(f"seed {result.seed}: {headline(scenario, result)}", violations), path, "--html")


@contextmanager
def _spread(on: str | None, jobs: int) -> Iterator[Spread | None]:
    """Return the workers elsewhere, if there are to be any."""
    if on is None:
        yield None
        return
    from doyen.cli.sim.on_dask import dask  # Few have it.

    with dask(on, jobs) as spread:
        yield spread


@contextmanager
def _kept(path: Path | None, scenario: Scenario) -> Iterator[Callable[[list[Result]], None]]:
    """Return what writes a line for each run that failed, at once: a sweep that is stopped keeps what it found."""
    with ExitStack() as stack:
        try:
            lines = None if path is None else stack.enter_context(path.open("a", encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"--keep {path}: {error.strerror or error}") from None

        def see(results: list[Result]) -> None:
            for result in results if lines is not None else ():
                if result.violations:
                    print(replay_line(scenario, result.seed), file=lines, flush=True)

        yield see


def _checked(file: Path, table: Any, as_json: bool) -> int:
    """Play a counterexample of `doyen check` again."""
    from doyen.check.case import from_text, played, transcript

    case, choices = from_text(table, f"scenario {file}")
    rows, violation = played(case, choices)
    lines = transcript(case.names(), rows)
    if as_json:
        print_json({"election": case.election, "transcript": lines, "violation": violation})
    else:
        verdict = "nothing is violated any more" if violation is None else f"{violation.rule}: {violation.text}"
        click.echo("\n".join([*lines, verdict]))
    return 1 if violation else 0


class Said(NamedTuple):
    """Return what flags say about every node: its tables, and the flag that each value came from."""

    tables: dict[str, Any]
    flags: dict[tuple[str, ...], str]


def node_tables(election: str | None, membership: str | None, fields: Sequence[str]) -> Said:
    tables: dict[str, Any] = {}
    by_flag: dict[tuple[str, ...], str] = {}
    known = {option.name: option for option in node_options()}
    for text in fields:
        name, equals, value = text.partition("=")
        option = known.get(name)
        if not equals or option is None:
            near = nearest(name, known) if equals else None
            advice = f"do you mean {near}?" if near else "give FIELD=VALUE, e.g. swim.period=500ms"
            raise ConfigError(f"--node {shown(text)}: {advice}")
        read = plain(option, read_value(option.type, value, f"--node {name}", text=True))
        *above, last = option.path
        table = tables
        for part in above:
            table = table.setdefault(part, {})
        table[last] = read
        by_flag["node", *option.path] = f"--node {name}"
    for field, chosen in (("election", election), ("membership", membership)):
        if chosen is not None:
            tables[field] = chosen
            by_flag["node", field] = f"--{field}"
    return Said(tables, by_flag)


def _chosen(file: Path | None, said: Said, given: dict[str, Any]) -> Scenario:
    where = f"scenario {file}" if file else ""
    tables = read_tables(file) if file else {}
    if said.tables:
        tables = with_node(tables, said.tables)
    tree, by_flag = laid_over(Scenario, given, tables, where)
    by_flag |= said.flags
    patient = bool(said.tables) and given.get("run__quiet") is None
    usual_faults = file is None and "election" in said.tables
    tree = completed(tree, where, by_flag, usual_faults=usual_faults, patient=patient)
    return load(Scenario, tree, where, flags=by_flag)


def _draw_topology(scenario: Scenario, seed: int, file: Path | None) -> None:
    """Draw the graph before anything is written: only then it shows whether there is one."""
    try:
        build(scenario.topology, scenario.group.nodes, Streams(seed).of("topology"))
    except ConfigError as error:
        where = f"scenario {file}: [topology] " if file else "[topology] "
        raise ConfigError(f"{where}{error}") from None


def failed(scenario: Scenario, results: list[Result]) -> int:
    """Print for each violation a line that says it and one that replays it; return the exit code, 1 if there is any."""
    broken = [(result, violation) for result in results for violation in result.violations]
    for result, violation in broken[:SHOWN_FAILURES]:
        click.echo(f"doyen: {violation.check} violated at {violation.at:.9f} s: {violation.text}", err=True)
        click.echo(replay_line(scenario, result.seed), err=True)
    if len(broken) > SHOWN_FAILURES:
        click.echo(f"doyen: and {len(broken) - SHOWN_FAILURES} more runs violated an invariant", err=True)
    return 1 if broken else 0


@contextmanager
def trace_to(path: Path | None) -> Iterator[Trace | None]:
    with ExitStack() as stack:
        try:
            lines = None if path is None else stack.enter_context(Path(path).open("w", encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"--trace {path}: {error.strerror or error}") from None
        yield None if lines is None else Trace(lines)


# One run.


def report(scenario: Scenario, result: Result, as_json: bool) -> None:
    if as_json:
        print_json(as_object(scenario, result))
    else:
        _print(scenario, result)


def as_object(scenario: Scenario, result: Result) -> dict[str, Any]:
    return {
        "election": result.election,
        "nodes": scenario.group.nodes,
        "runs": 1,
        "leader": result.leader,
        **msgspec.structs.asdict(result),
        "final_leaders": result.final_leaders,
        "agreement": float(result.agreed),
        "never_fired": never_fired(scenario, [result]),
        "never_looked": never_looked([result]),
        "replay": replay_line(scenario, result.seed),
    }


def never_looked(results: list[Result]) -> list[str]:
    """Return the checkers that apply, and had nothing to look at in any of the runs."""
    names = dict.fromkeys(name for result in results for name in result.looked)
    return [name for name in names if not any(result.looked.get(name) for result in results)]


def never_fired(scenario: Scenario, results: list[Result]) -> list[str]:
    """Return the configured faults that took effect in none of the runs."""
    return sorted(name for name in configured_faults(scenario) if not any(r.faults.get(name) for r in results))


def _print(scenario: Scenario, result: Result) -> None:
    click.echo(f"{headline(scenario, result)}{_setting(scenario)}")
    rows = [
        ("leaders", f"{result.leader_changes:,}", "times a node began to lead"),
        ("led", f"{result.led:.2%}", _due(result)),
        (
            "messages",
            f"{result.messages:,}",
            f"{result.bytes:,} B sent, {result.hop_bytes:,} B over {result.hops:,} hops",
        ),
        ("deliveries", f"{result.deliveries:,}", f"in {result.events:,} events"),
        ("nodes", f"{result.up:,}", "up at the end"),
    ]
    _print_rows(rows)
    _print_faults(result.faults, never_fired(scenario, [result]))
    _print_looked(result.looked)
    click.echo(f"  seed {result.seed} · trace {result.trace_hash}")


def _due(result: Result) -> str:
    due = result.led_when_due
    return "of the time" + ("" if due is None else f"; {due:.2%} while a voter had had a majority for the stated bound")


def _setting(scenario: Scenario) -> str:
    loss = scenario.network.loss
    lossy = f" · loss {loss.prob:g} {loss.model}" if loss.model != "none" else ""
    kind = scenario.config().election_kind() if scenario.node else None
    elects = "" if kind is None else f" · {kind.title}"
    return f"{elects} · {scenario.group.nodes} nodes · {scenario.topology.shape}{lossy}"


def _print_rows(rows: list[tuple[str, str, str]]) -> None:
    for what, value, meaning in rows:
        click.echo(f"  {what:13} {value:14} {meaning}")


def _print_faults(faults: dict[str, int], never: list[str]) -> None:
    for name, count in faults.items():
        click.echo(f"  {name:13} {'never fired' if name in never else f'{count:,}'}")


def _print_looked(looked: dict[str, int]) -> None:
    texts = [f"{name} {f'{count:,}' if count else 'never looked'}" for name, count in looked.items()]
    click.echo(f"  checked       {' · '.join(texts) or 'nothing'}")


# Many runs.


def summarise(scenario: Scenario, results: list[Result]) -> dict[str, Any]:
    names = dict.fromkeys(name for result in results for name in result.faults)
    checks = dict.fromkeys(name for result in results for name in result.looked)
    return {
        "election": results[0].election,
        "nodes": scenario.group.nodes,
        "runs": len(results),
        "seed": scenario.run.seed,
        "agreed": sum(result.agreed for result in results),
        "agreement": sum(result.agreed for result in results) / len(results),
        "final_leaders": [result.final_leaders for result in results],
        **{name: figure(getattr(result, name) for result in results) for name in FIGURES},
        "faults": {name: sum(result.faults.get(name, 0) for result in results) for name in names},
        "never_fired": never_fired(scenario, results),
        "never_looked": never_looked(results),
        "violations": [
            {**msgspec.structs.asdict(violation), "seed": r.seed, "replay": replay_line(scenario, r.seed)}
            for r in results
            for violation in r.violations
        ],
        "looked": {name: sum(result.looked.get(name, 0) for result in results) for name in checks},
        "trace_hash": combined_hash([result.trace_hash for result in results]),
    }


def _print_summary(summary: dict[str, Any]) -> None:
    runs, broken = summary["runs"], len(summary["violations"])
    verdict = (
        f"{broken} of {runs} runs violated an invariant" if broken else f"{summary['agreed']} of {runs} runs agreed"
    )
    click.echo(f"{verdict}, unchanged since {show(summary['converged_at'], ' s')}")
    units = {"bytes": " B", "hop_bytes": " B", "converged_at": " s"}
    _print_rows([(name.replace("_", " "), show(summary[name], units.get(name, "")), "") for name in FIGURES[1:]])
    _print_faults(summary["faults"], summary["never_fired"])
    _print_looked(summary["looked"])
    click.echo(f"  seed {summary['seed']} · trace {summary['trace_hash']}")
