"""A case to check: an election, a small group and a bound; and a counterexample of it, as a file that plays again."""

import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from doyen.check.explore import Found, explore, left_of, play
from doyen.check.nodes import Nodes, Tamper
from doyen.check.turns import ALL, Event, Faults
from doyen.check.world import NOBODY, SEEN_AFTER, Clock, Violation, World
from doyen.core.clock import Duration, ms
from doyen.core.config import Config
from doyen.core.ids import NodeId
from doyen.core.kinds import Around, Detection
from doyen.errors import ConfigError
from doyen.node.config import NodeConfig
from doyen.node.layers import from_tables
from doyen.node.registry import find_election, further
from doyen.sim.lanes import Picture

# Timers of the same proportions as a node's, as few of them as there can be: in pole lease = 3 beats, T = 1 beat.
SMALL: Mapping[str, Any] = {
    "pole": {
        "pole": {
            "election_timeout": "100ms",
            "retry_max": "100ms",
            "score_timeout": "100ms",
            "lease": "300ms",
            "heartbeat_interval": "100ms",
            "drift_max": 0.0,
            "resign_interval": "inf",
        }
    },
    "hybrid": {
        "rank": "hash",
        "ctolerant": {
            "missing_max": 1,
            "response_timeout": "100ms",
            "resend_interval": "100ms",
            "final_timeout": "300ms",
            "begin_spread": "100ms",
            "bootstrap_after": "100ms",
            "ask_interval": "1s",
            "notify_retry_max": 1,
            "better_for": "inf",
        },
    },
    "by-key": {
        "ring": {"lease": "200ms", "arbitration": "100ms", "resends": 0, "random_phases": False, "neighbours": 1}
    },
}


class Case(Config, frozen=True, kw_only=True):
    """A case to explore: a group that has just got its first leader, and the faults that may happen from then on."""

    election: str
    voters: int = 3
    spares: int = 0  # Nodes that are no voters, and may be made some.
    horizon: Duration = ms(100)  # After that no time passes.
    elections: int = 2  # After the first leader's.
    cold: bool = False  # From the start of all nodes, in every order, instead of from the first leader on.
    faults: Faults = Faults()
    in_all: int = 99  # How many faults a run has at most, of any kinds.
    rates: tuple[int, ...] = ()  # Of the nodes' clocks, in thousandths; none: all alike.
    draw: float = 0.5  # What every random draw gives.
    told: bool = False  # The world tells who is here, wrongly where a fault says so, and no membership runs.
    settling: Duration = 0  # How long after the last fault all must follow one leader; 0: that is not looked at.
    node: dict[str, Any] = {}  # The tables of the nodes' configuration.

    def names(self) -> tuple[NodeId, ...]:
        return tuple(NodeId(f"n{index}") for index in range(self.voters + self.spares))

    @property
    def kind(self) -> str:
        """Return the election's own name, also where an alias of it was given."""
        return self.election if self.election == "none" else find_election(self.election).name

    def config(self) -> NodeConfig:
        """Return every node's configuration."""
        names = [str(name) for name in self.names()[: self.voters]]
        usual = {
            "group": "checked",
            "group_size": len(self.names()),
            "voters": names,
            "state": "disk",
            "shared": "disk",
        }
        tables = SMALL.get("hybrid" if self.kind in CHURN else self.kind, {})
        return from_tables({"election": self.election, **tables, **self.node}, defaults=usual, path=("node",))

    def world(self, tamper: Tamper | None = None) -> World:
        size = len(self.names())
        rates = self.rates or (1000,) * size
        if len(rates) != size:
            raise ConfigError(f"are {len(rates)} for {size} nodes: give one each", field="rates")
        clocks = tuple(Clock(index * ms(10_000), rate) for index, rate in enumerate(rates))  # Offsets mean nothing.
        nodes = Nodes(self.config(), self.names(), draw=self.draw, tamper=tamper, told=self.told)
        return World(
            nodes,
            clocks,
            horizon=self.horizon,
            reigns_max=1 + self.elections,
            cold=self.cold,
            settling=self.settling,
        )

    def run(self, *, tamper: Tamper | None = None, states_max: int = 0) -> tuple[World, Found]:
        """Explore; return the world too, which knows what numbers stand for."""
        world = self.world(tamper)
        return world, explore(world, left_of(self.faults, self.in_all), states_max)

    def bound(self) -> dict[str, Any]:
        """Return within what the exploration is exhaustive, as data."""
        return {
            **msgspec.structs.asdict(self.faults),
            "faults": left_of(self.faults, self.in_all)[ALL],
            "voters": self.voters,
            "spares": self.spares,
            "elections": self.elections,
            "horizon_s": self.horizon / 1e9,
            "begins": "when all nodes start" if self.cold else "with the first leader",
            "clock_rates": list(self.rates) or "alike",
            "random_draws": f"each is {self.draw:g}",
            "messages": "in rounds: those of one sender in order, of several in any; alike ones of one round once",
            "late_timers": "those that would do something when due; they fire when time has moved on",
            "members": "as the world tells them" if self.told else "as their own protocol finds them, if any",
            "settling_s": self.settling / 1e9,
        }


_NONE = Faults(crashes=0, losses=0, timers=0, resignations=0)
ONE_OF_EACH = msgspec.structs.replace(_NONE, crashes=1, losses=1, holds=1, breaks=1)
CHURN = ("base", "optimistic", "preferred")  # They are one machine with hybrid.
USUAL: Mapping[str, Case] = {
    "pole": Case(election="pole"),
    # A late timer breaks what its promise takes for granted: round trips below ring.arbitration, and no stops.
    "by-key": Case(
        election="by-key",
        horizon=ms(1200),
        faults=msgspec.structs.replace(_NONE, crashes=1, losses=1, cuts=1),
        in_all=1,
    ),
    "hybrid": Case(
        election="hybrid",
        voters=4,
        horizon=ms(300),
        faults=msgspec.structs.replace(_NONE, crashes=1, losses=1, resignations=1, holds=1, breaks=1),
        in_all=1,
        told=True,
        settling=ms(5000),
    ),
}


def usual_of(election: str) -> Case:
    """Return the bound of an election where none is given; an alias counts as its name.

    An election of another package gets one by its own worst case: time for one takeover, and as long for agreement as
    it says itself.
    """
    kind = Case(election=election).kind
    usual = USUAL.get("hybrid" if kind in CHURN else kind)
    if usual is not None:
        return msgspec.structs.replace(usual, election=election)
    if kind == "none":
        raise ConfigError("ELECTION none elects nobody: give pole, or another election")
    found = find_election(kind)
    if kind not in further("election") or found.other_half is not None or found.needs.only:
        raise ConfigError(f"ELECTION {kind} has no bound here that is known to end: give {', '.join(USUAL)}")
    case = Case(election=election, told=found.needs.members, faults=ONE_OF_EACH, in_all=1)
    around = Around(delay=0, group_size=case.voters, detection=Detection(SEEN_AFTER, "it is told", SEEN_AFTER))
    worst = found.worst_case(case.config().table(found.table), around)
    weak = case.config().promise(found).sort == "weak"
    return msgspec.structs.replace(case, horizon=worst.failover, settling=worst.settling if weak else 0)


# Counterexamples.


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happens: at a node, or from one node to another."""

    at_s: float
    node: int
    text: str
    sender: int | None = None  # Who sent the message.
    lost: bool = False
    acting: tuple[int, ...] = ()  # Who acts as the leader then.
    bad: bool = False


def played(case: Case, choices: list[int], tamper: Tamper | None = None) -> tuple[list[Row], Violation | None]:
    """Play a counterexample again; return what happens in it, and what it violates."""
    world = case.world(tamper)
    rows: list[Row] = []
    states = play(world, choices, left_of(case.faults, case.in_all))
    for state, events, _ in states:
        acts = world.acting(state.nodes, state.now) | state.acted
        acting = tuple(index for index in range(world.size) if acts >> index & 1)
        rows += [_row(world, event, state.now / 1e9, acting) for event in events if event[1] != NOBODY]
    state, _, violation = states[-1]
    if violation is not None and violation.rule == "agreed":
        for after, events in world.calmed(state):
            rows += [_row(world, event, after.now / 1e9, ()) for event in events]
    if violation is not None and rows:
        rows.append(msgspec.structs.replace(rows[-1], text=violation.text, sender=None, bad=True))
    return rows, violation


def _row(world: World, event: Event, at_s: float, acting: tuple[int, ...]) -> Row:
    what, index = event[0], event[1]
    if what in ("deliver", "lose", "hold", "copy", "deliver held"):
        sender, _, came = world.turns.messages[event[2]]
        text = _shown(came.message)
        said = text if what == "deliver" else f"{what}: {text}"
        return Row(at_s=at_s, node=index, text=said, sender=sender, lost=what in ("lose", "hold"), acting=acting)
    if what in ("fire", "late", "fire late"):
        timer = _shown(world.turns.timers[event[2]].timer)
        return Row(at_s=at_s, node=index, text=timer if what == "fire" else f"{what}: {timer}", acting=acting)
    if what == "see":
        return Row(at_s=at_s, node=index, text=f"is told the truth of {world.nodes.names[event[2]]}", acting=acting)
    return Row(at_s=at_s, node=index, text=" ".join(map(str, (what, *event[2:]))), acting=acting)


def _shown(found: Any) -> str:
    """Return a message or a timer in a few words."""
    fields = [f"{getattr(found, name)}" for name in getattr(found, "__struct_fields__", ())[:3]]
    return f"{type(found).__name__}({', '.join(fields)})"


def transcript(names: tuple[NodeId, ...], rows: list[Row]) -> list[str]:
    """Return what happens, a line each."""
    return [
        f"{row.at_s * 1e3:>8.6g} ms  {names[row.node]}  "
        + (f"from {names[row.sender]}: " if row.sender is not None else "")
        + row.text
        + (f"   [{', '.join(names[index] for index in row.acting)} acts]" if row.acting else "")
        for row in rows
    ]


def picture(names: tuple[NodeId, ...], rows: list[Row]) -> str:
    """Return a picture with a lane for each node; events of one instant stand a millisecond apart, in their order."""
    drawn = Picture(rows[-1].text, [str(name) for name in names])
    at_s, last = 0.0, -1.0
    for row in rows:
        at_s = row.at_s if row.at_s > last and row.at_s > at_s else at_s + 1e-3
        last = row.at_s
        for index in row.acting:
            drawn.span(names[index], at_s, at_s + 1e-3, "leads", f"{names[index]} acts")
        if row.sender is None:
            drawn.mark(names[row.node], at_s, row.text, bad=row.bad)
        else:
            heard_s = None if row.lost else at_s
            drawn.arrow(names[row.sender], names[row.node], at_s - 1e-3, heard_s, row.text)
    return drawn.svg()


def to_text(case: Case, choices: list[int], lines: list[str]) -> str:
    """Return a counterexample as a scenario file."""
    told = "\n".join(f"# {line}" for line in lines)
    data = msgspec.json.encode(case).decode()
    return (
        "# A counterexample of `doyen check`; play it again with `doyen sim run` and this file.\n"
        f"{told}\n\n[check]\ncase = '''{data}'''\nchoices = {choices}\n"
    )


def from_text(tables: Mapping[str, Any], where: str) -> tuple[Case, list[int]]:
    """Return the counterexample of a scenario file's [check]; raise `ConfigError` where it is none."""
    try:
        found = msgspec.convert(tables, _File)
        return msgspec.json.decode(found.case, type=Case), found.choices
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ConfigError(f"{where}: [check] is not as `doyen check` writes it: {error}") from None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    case: str
    choices: list[int]


def read(text: str) -> tuple[Case, list[int]]:
    """Return the counterexample of a whole file."""
    return from_text(tomllib.loads(text)["check"], "scenario")
