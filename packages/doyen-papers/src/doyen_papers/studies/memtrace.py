"""Membership traces: what every view said, and when; recorded once, told to many elections.  [CTOL §VI]

A trace is a text file, one JSON value per line (`docs/reference/ctolerant.md` has an example):

    header   {"format": "doyen-memtrace", "version": 1, "membership": "medley", "drop": 0.05, "seed": 7,
              "nodes": ["n00", …], "places": [[x, y], …], "duration_ms": 60000}
             places in metres, radios reach 4 m; none: everybody is beside everybody
    changes  [t_ms, node, member, status, suspicions]      in order of time
             node and member are indices into `nodes`; status is "a" alive, "s" suspected, "f" failed, "l" left,
             or "-" for a member that was forgotten; suspicions is the count that the node's view shows

The changes at t = 0 are the views after warm-up.  A node's entry about itself is left out.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant, ms
from doyen.core.ids import NodeId
from doyen.core.view import Member, Status, ViewChanged
from doyen.errors import ConfigError
from doyen.sim.engine import Simulation
from doyen.sim.node import SimNode
from doyen.sim.topology import Topology
from doyen_papers.studies.ground import from_places
from doyen_papers.studies.underlay import Protocol
from doyen_papers.studies.views import ToldViews

FORMAT: Final = "doyen-memtrace"
VERSION: Final = 1
REREAD: Final[Duration] = ms(200)  # Between two looks of the elections at the trace.

_MS: Final = ms(1)
_LETTER: Final = {Status.ALIVE: "a", Status.SUSPECTED: "s", Status.FAILED: "f", Status.LEFT: "l"}
_STATUS: Final = {letter: status for status, letter in _LETTER.items()}
_LETTERS: Final = frozenset((*_STATUS, "-"))

Change = tuple[int, int, int, str, int]  # t_ms, node, member, status, suspicions


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: str = FORMAT
    version: int = VERSION
    membership: Protocol
    drop: float
    seed: int
    nodes: list[str]
    places: list[tuple[float, float]] = []
    duration_ms: int


class MemTrace(Struct, frozen=True):
    header: Header
    changes: list[Change]

    def write(self, path: str | Path) -> None:
        with open(path, "wb") as file:
            for value in (self.header, *self.changes):
                file.write(msgspec.json.encode(value) + b"\n")


@lru_cache(maxsize=4)
def read(path: str) -> MemTrace:
    """Read a trace from a file; a complaint names the line."""
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", field="trace") from None
    if not lines:
        raise ConfigError(f"{path} is empty", field="trace")
    header: Header = _decode(lines[0], Header, path, 1)
    if header.format != FORMAT or header.version != VERSION:
        raise ConfigError(f"{path}: is {header.format} {header.version}, not {FORMAT} {VERSION}", field="trace")
    if header.places and len(header.places) != len(header.nodes):
        raise ConfigError(f"{path}: has {len(header.nodes)} nodes and {len(header.places)} places", field="trace")
    size, before, changes = len(header.nodes), 0, _decode_all(lines[1:], path)
    for number, (t, node, member, status, count) in enumerate(changes, start=2):
        if t < before or count < 0 or not (0 <= node < size and 0 <= member < size) or status not in _LETTERS:
            line = lines[number - 1].decode()
            raise ConfigError(f"{path}, line {number}: {line} is out of order or out of range", field="trace")
        before = t
    return MemTrace(header, changes)


def _decode_all(lines: list[bytes], path: str) -> list[Change]:
    """Decode all lines at once; where that fails, one by one, to name the line."""
    try:
        changes: list[Change] = msgspec.json.decode(b"[" + b",".join(lines) + b"]", type=list[Change])
    except msgspec.DecodeError:
        changes = []
    if len(changes) != len(lines):
        changes = [_decode(line, Change, path, number) for number, line in enumerate(lines, start=2)]
    return changes


def _decode(line: bytes, kind: Any, path: str, number: int) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}, line {number}: {error}", field="trace") from None


class Recorder:
    """Watches a simulation's views from now on."""

    def __init__(self, sim: Simulation, membership: Protocol, drop: float, seed: int) -> None:
        self.sim, self.began = sim, sim.now
        self.membership, self.drop, self.seed = membership, drop, seed
        self.changes: list[Change] = []
        self._index = {node.name: node.index for node in sim.nodes}
        sim.watchers.append(self._on_fact)

    def snapshot(self, views: dict[int, Any]) -> None:
        """Note the views as they are, by node: they are the changes at t = 0."""
        for node, view in views.items():
            for member in view.members:
                self._note(node, view, member)

    def trace(self) -> MemTrace:
        names = [node.name for node in self.sim.nodes]
        return MemTrace(
            Header(
                membership=self.membership,
                drop=self.drop,
                seed=self.seed,
                nodes=list(names),
                places=list(self.sim.network.topology.places),
                duration_ms=(self.sim.now - self.began) // ms(1),
            ),
            self.changes,
        )

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, ViewChanged):
            for member in fact.changed:
                self._note(node.index, fact.view, member)

    def _note(self, node: int, view: Any, member: NodeId) -> None:
        index = self._index[member]
        if index != node:
            held = view.members.get(member)
            letter, count = ("-", 0) if held is None else (_LETTER[held.status], held.suspicion_count)
            self.changes.append(((self.sim.now - self.began) // _MS, node, index, letter, count))


#: One step of a node's view: who is new or other than before, their names in order, and who is forgotten.
Telling = tuple[int, dict[NodeId, Member], tuple[NodeId, ...], tuple[NodeId, ...]]


class Script:
    """The views of a trace from some instant of it on, every 200 ms; at its end it goes on from its start.

    It is worked out step by step, once for all elections that are held over the trace from that instant.
    """

    def __init__(self, trace: MemTrace, offset: Duration) -> None:
        self.trace, self.offset = trace, offset
        self._names = [NodeId(name) for name in trace.header.nodes]
        self._lasts = max(trace.header.duration_ms, 1)
        self._time = offset // ms(1) % self._lasts
        self._next = self._lap = 0  # Where in the changes, and when the present lap began.
        self._members: dict[tuple[int, str, int], Member] = {}  # One object for all views that say the same.
        self._views: list[dict[NodeId, Member]] = [{} for _ in self._names]
        self._steps: list[list[Telling]] = []

    def step(self, number: int) -> list[Telling]:
        """Return the changes of all views that many steps after the beginning."""
        while len(self._steps) <= number:
            self._steps.append(self._tell())
            self._time += REREAD // ms(1)
        return self._steps[number]

    def _tell(self) -> list[Telling]:
        """Return the changes up to now; what is alike at the trace's end and its start is not said twice."""
        told = []
        for index, news in self._news().items():
            view = self._views[index]
            members = {name: said for name, said in news.items() if said is not None and view.get(name) != said}
            gone = tuple(name for name, said in news.items() if said is None and name in view)
            view.update(members)
            for name in gone:
                del view[name]
            if members or gone:
                told.append((index, members, tuple(members), gone))
        return told

    def _news(self) -> dict[int, dict[NodeId, Member | None]]:
        news: dict[int, dict[NodeId, Member | None]] = {}
        changes, names, known = self.trace.changes, self._names, self._members
        while changes:
            if self._next == len(changes):
                self._next, self._lap = 0, self._lap + self._lasts
            t, node, member, letter, count = changes[self._next]
            if t + self._lap > self._time:
                break
            self._next += 1
            said = known.get((member, letter, count))
            if said is None and letter != "-":
                said = Member(node=names[member], status=_STATUS[letter], suspicion_count=count)
                known[member, letter, count] = said
            news.setdefault(node, {})[names[member]] = said
        return news


class Player:
    """Tells the nodes of a simulation what a script says."""

    def __init__(self, script: Script, sim: Simulation, views: ToldViews) -> None:
        self.script, self.sim, self.views = script, sim, views
        self._step = 0

    def start(self) -> None:
        """Tell the first step now, and one more every 200 ms."""
        for index, members, changed, gone in self.script.step(self._step):
            self.views.replay(self.sim.nodes[index], members, changed, gone)
        self._step += 1
        self.sim.at(self.sim.now + REREAD, self.start, "trace")


class Stage:
    """A trace, and what all elections over it share: places, routes, and what is told from which instant on."""

    def __init__(self, trace: MemTrace) -> None:
        self.trace, header = trace, trace.header
        self.ground = from_places(header.places) if header.places else Topology(len(header.nodes), None)
        self._script: Script | None = None  # The last one: all variants of a run begin at the same instant.

    def script(self, offset: Duration) -> Script:
        if self._script is None or self._script.offset != offset:
            self._script = Script(self.trace, offset)
        return self._script
