"""Elections by score among enemies, summed up: `scenarios/pole_storm.toml` with any number of voters.  [POLE]

The run, its faults and what must hold are the simulator's; here is only what `doyen sim pole --chaos` says of them.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.errors import ConfigError
from doyen.sim.runs import run_many
from doyen.sim.scenario import Result, Scenario, from_line, replay_line, simulate

#: What `scenarios/pole_storm.toml` says, as `doyen sim replay` takes it; a test holds them equal.
STORM: Final = from_line(
    '{node = {election = "pole", pole = {election_timeout = "100ms", retry_max = "1s", score_timeout = "500ms", '
    'lease = "500ms", heartbeat_interval = "100ms", drift_max = 0.01, resign_interval = "400ms", resign_rounds = 2, '
    'cool_down = "2s"}}, network = {delay = {model = "uniform", mean = "10ms", spread = "9ms"}, loss = {model = '
    '"uncorrelated", prob = 0.1}, duplicate_prob = 0.05, reorder_prob = 0.1, reorder_by = "800ms"}, churn = {events = '
    '[{do = "partition", at = "7s", every = "9s", who = ["leader"], lasting = "1s", name = "blackout"}, {do = '
    '"restart", at = "7s", every = "9s", who = ["others"]}, {do = "star", at = "3s", every = "9s", who = ["others"], '
    'lasting = "2s"}, {do = "chain", at = "11s", who = ["others"], lasting = "2s"}, {do = "one-way-star", at = "15s", '
    'who = ["others"], lasting = "2s"}], random = {crash_rate = 12.0, pause_rate = 10.0, partition_rate = 6.0, '
    'block_rate = 6.0, graph_rate = 6.0, wall_rate = 6.0, resign_rate = 6.0, score_rate = 60.0, mean_lasting = "1s", '
    'disk_lost_prob = 0.3, disk_lost_max = 2}}, clocks = {offset_max = "1000s", drift_max = 0.01}, run = {length '
    '= "28s", quiet = "8s", disk_delay = "30ms"}}'
)
#: Every fault that a run may have, and what the simulator calls it; one that never fired shows as 0.
FAULTS: Final = {
    "loss": "loss",
    "duplicate": "duplicate",
    "reorder": "reorder",
    "partition": "partition",
    "one-way cut": "block",
    "star": "star",
    "chain": "chain",
    "one-way star": "one-way-star",
    "random links": "graph",
    "pause": "pause",
    "crash": "crash",
    "file lost": "disk lost",
    "restart": "restart",
    "drift": "skewed clock",
    "wall clock step": "wall",
    "resign": "resign",
    "blackout": "blackout",
}
OVERLAPS: Final = ("alone", "told")  # Checks that two acting at once violate,
BACK: Final = ("terms", "promises")  # and an epoch that goes back.


class Summary(Struct, frozen=True, kw_only=True):
    nodes: int
    runs: int
    seed: int
    leaders_per_epoch_max: int
    overlap: float  # Seconds of two leaders acting at once; a run ends where it begins, so more than 0 is 1e-9 a run.
    epochs_back: int
    unfinished: int
    settled_max: float
    settle_bound: float
    reigns: int
    complaints: list[str]
    faults: dict[str, int]


def scenario(nodes: int) -> Scenario:
    if not 1 <= nodes <= 15:
        raise ConfigError(f"{nodes} is out of range: give 1 to 15", field="nodes")
    churn = replace(STORM.churn, random=replace(STORM.churn.random, disk_lost_max=(nodes - 1) // 2))
    return replace(STORM, group=replace(STORM.group, nodes=nodes), churn=churn)


def study(nodes: int, *, runs: int, seed: int, jobs: int = 0, progress: Callable[[int], None] | None = None) -> Summary:
    plan = scenario(nodes)
    results = run_many(partial(simulate, plan), runs, seed, jobs=jobs, progress=progress)
    fired: Counter[str] = Counter()
    for result in results:
        fired.update(result.faults)
    broken = Counter(violation.check for result in results for violation in result.violations)
    quiet_at = plan.run.quiet_at / 1e9
    return Summary(
        nodes=nodes,
        runs=runs,
        seed=seed,
        leaders_per_epoch_max=max((min(result.leader_changes, 1) for result in results), default=0)
        + bool(broken["shared"]),
        overlap=1e-9 * sum(broken[check] for check in OVERLAPS),
        epochs_back=sum(broken[check] for check in BACK),
        unfinished=sum(not result.agreed for result in results),
        settled_max=max(
            (max(result.converged_at - quiet_at, 0.0) for result in results if result.converged_at), default=0.0
        ),
        settle_bound=plan.config().tables["pole"].settle_max / 1e9,
        reigns=sum(result.leader_changes for result in results),
        complaints=[describe(plan, result) for result in results if result.violations][:10],
        faults={name: fired[called] for name, called in FAULTS.items()} | {"slow disk": runs},
    )


def describe(plan: Scenario, result: Result) -> str:
    """One line that says what went wrong, and one that replays it."""
    said = "; ".join(f"{violation.at:.3f} s: {violation.check}: {violation.text}" for violation in result.violations)
    return f"{said}\n{replay_line(plan, result.seed)}"
