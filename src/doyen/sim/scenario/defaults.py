"""Fills in what a scenario leaves open: its preset's delay, a quiet time long enough, the usual faults."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from doyen.core.clock import Duration, format_duration, seconds
from doyen.core.config import load
from doyen.core.kinds import DELAYS
from doyen.errors import ConfigError
from doyen.node.config import DEFAULT_ELECTION
from doyen.node.layers import from_tables, overlay
from doyen.sim.scenario.schema import Group, RunConfig, Scenario
from doyen.sim.world import ring_of, world_fields

LOSS: Final = 0.05
LOSS_OF_RINGS: Final = 0.002  # Three lost messages in a row cost a ring a member, and those left may be too few.
LONG: Final = "1000000s"
LEGACY: Final = ("election", "protocol", "durable_terms")  # Of [group]: announce-listen's.

Tables = dict[str, Any]
Flags = Mapping[tuple[str, ...], str]
NO_FLAGS: Final[Flags] = MappingProxyType({})


def with_node(tables: Mapping[str, Any], node: Mapping[str, Any]) -> Tables:
    """Return a scenario's tables with another stack; announce-listen's own fields of `[group]` go with the old one."""
    group, before = tables.get("group", {}), tables.get("node", {})
    if not isinstance(group, Mapping) or not isinstance(before, Mapping):
        return dict(tables)  # Refused soon.
    made: Tables = {}
    overlay(made, {"announce": group["election"]} if isinstance(group.get("election"), Mapping) else {})
    overlay(made, before)
    overlay(made, node)
    rest = {name: value for name, value in group.items() if name not in LEGACY}
    return {**tables, "group": rest, "node": made}


def completed(
    tables: Mapping[str, Any],
    where: str,
    flags: Flags = NO_FLAGS,
    *,
    usual_faults: bool = False,
    patient: bool = False,
) -> Tables:
    """Return the tables of a scenario with what its `[node]` says about the rest.

    Without a `[node]` the nodes elect as they do by default, or by announce-listen if a field of `[group]` says so.

    Complaints name `where`, or the flag that gave a value.  `usual_faults`: unless said otherwise, messages are lost,
    the leader crashes and comes back, and a minority is cut off for a while.  `patient`: a quiet time that is too short
    for this stack is made longer, and the run with it.
    """
    made: Tables = {key: dict(value) if isinstance(value, Mapping) else value for key, value in tables.items()}
    if made.setdefault("node", {}) == {} and not _announces(made.get("group", {})):
        made["node"], patient = {"election": DEFAULT_ELECTION}, True
    if not isinstance(made["node"], dict) or not made["node"]:
        return made
    group = load(Group, made.get("group", {}), where, ("group",), flags=flags)
    names = [group.name_of(index) for index in range(group.nodes)]
    config = from_tables(made["node"], defaults=world_fields(names), where=where, path=("node",), flags=flags)
    kind = config.election_kind()
    if kind is None:
        raise ConfigError("[node] election none leaves nothing to look at: give one that elects")
    network, ring = made.setdefault("network", {}), ring_of(config)
    if isinstance(network, dict):
        network.setdefault("delay", {"mean": f"{DELAYS[config.preset]}ns"})
        if usual_faults and not (kind.needs.shared and config.membership_kind() is None):  # Else nobody sends much.
            prob = LOSS if ring is None else LOSS_OF_RINGS
            network.setdefault("loss", {"model": "uncorrelated", "prob": prob})
    settling = _settling(made, where, flags)
    run = made.setdefault("run", {})
    if usual_faults:
        settling = pause = max(settling, RunConfig().quiet)
        joining, cut_off = _rounded(config.detection().joining), max(1, (group.nodes - 1) // 2)
        if ring is not None:
            # A group of neighbours cannot spare more members than that; and fewer of them come back sooner.
            cut_off = min(cut_off, ring.neighbours)
            pause, joining = max(_rounded(settling * (cut_off + 1) // group.nodes), RunConfig().quiet), 0
        begin = settling + joining + seconds(1)
        usual = _usual(group.nodes, cut_off, begin, pause)
        if kind.needs.shared:
            usual.append({"do": "hang", "at": f"{begin + 2 * pause}ns", "who": ["leader"], "lasting": f"{pause}ns"})
        made.setdefault("churn", {"events": usual})
        run.setdefault("length", f"{begin + 3 * pause + settling}ns")
    _leave_time(run, settling, where, flags, patient)
    return made


def _announces(group: Any) -> bool:
    """Return whether a `[group]` has a field that only announce-listen has."""
    return isinstance(group, Mapping) and (not group.keys().isdisjoint(LEGACY) or group.get("rank") == "wake-up")


def _leave_time(run: Tables, settling: Duration, where: str, flags: Flags, patient: bool) -> None:
    usual = RunConfig()
    quiet = max(settling, usual.quiet)
    if "quiet" not in run:
        said = load(RunConfig, {**run, "quiet": 0}, where, ("run",), flags=flags)
        if "length" in run and said.length < said.warm_up + quiet:
            what = flags.get(("run", "length")) or (f"{where}: [run] length" if where else "[run] length")
            raise ConfigError(
                f"{what} {format_duration(said.length)} leaves no quiet time: this stack needs "
                f"{format_duration(quiet)} to agree; give more, or quiet = 0 (--run-quiet 0): then whether "
                "all agree is not judged"
            )
        run["quiet"] = f"{quiet}ns"
        run.setdefault("length", f"{quiet + usual.length - usual.quiet}ns")
    elif patient:
        said = load(RunConfig, run, where, ("run",), flags=flags)
        if 0 < said.quiet < settling:
            run |= {"quiet": f"{settling}ns", "length": f"{said.length + settling - said.quiet}ns"}


def _usual(nodes: int, cut_off: int, begin: Duration, pause: Duration) -> list[Tables]:
    """Return a crash of the leader and, one pause after its return, a partition; each lasts for a pause."""
    crash = {"do": "crash", "at": f"{begin}ns", "who": ["leader"], "lasting": f"{pause}ns"}
    who = ["random"] * cut_off
    cut = {"do": "partition", "at": f"{begin + 2 * pause}ns", "who": who, "lasting": f"{pause}ns"}
    return [crash, cut] if nodes > 1 else [crash]


def _settling(tables: Tables, where: str, flags: Flags) -> Duration:
    """Return what the whole scenario needs, in whole seconds."""
    run = tables.get("run", {})
    if not isinstance(run, Mapping):
        raise ConfigError(f"{where}: [run] must be a table" if where else "[run] must be a table")
    patient = {**run, "quiet": 0, "length": LONG}
    return _rounded(load(Scenario, {**tables, "run": patient}, where, flags=flags).settling)


def _rounded(duration: Duration) -> Duration:
    return -(-duration // seconds(1)) * seconds(1)
