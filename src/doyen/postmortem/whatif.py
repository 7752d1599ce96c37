"""Shows what would have happened with another setting: a replay up to the first output that differs, then a simulation.

Up to that instant everything is as recorded, since all that the nodes said was the same.  From there on the machines,
as they are at that instant, go on in the simulator: messages take as long as they took in the recordings at the median,
and none is lost; processes are stopped, killed and given commands as recorded.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgspec.structs import replace

from doyen.core.clock import Duration, Instant, ms
from doyen.core.commands import Resign
from doyen.core.config import nearest, read_value
from doyen.core.host import Host, Port
from doyen.core.ids import Address, NodeId
from doyen.core.leadership import HandOverDue
from doyen.core.outside import Request
from doyen.core.rank import ScoreGiven, ScoreWanted
from doyen.errors import ConfigError, TransportError
from doyen.eyes.lanes import Mark, Window
from doyen.net.recording.built import Built
from doyen.net.recording.declared import fact_of
from doyen.net.recording.format import Commanded, Header, Heard, Input, identifier
from doyen.net.recording.loader import Loader
from doyen.net.recording.reader import Reader
from doyen.net.recording.snapshot import Snapshot
from doyen.node.config import NodeConfig
from doyen.node.layers import node_options
from doyen.node.rebuilt import config_from
from doyen.node.reign import Reign
from doyen.node.stack import Stack
from doyen.postmortem.incident import Table
from doyen.postmortem.other import Difference, Other
from doyen.postmortem.picture import Incident
from doyen.postmortem.recorded import Flight, Watched
from doyen.postmortem.simulated import Simulated
from doyen.sim.channel import Channel
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import Clock, SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology

ENDED: Final[Duration] = ms(1000)  # A recording that ends earlier than the last one by this much: its node was killed.
ALIKE: Final = ("rank",)  # Settings outside of the tables that all members share, and that only change who is chosen.

Change = Callable[[NodeConfig], NodeConfig]


def change_of(settings: Sequence[str]) -> Change:
    """Return what changes a configuration as FIELD=VALUE says; a table's field may stand without its table."""
    every = node_options()
    options = [option for option in every if len(option.path) > 1 or option.name in ALIKE]
    given: list[tuple[str, str, list[Any]]] = []
    for text in settings:
        name, equals, value = text.partition("=")
        found = [option for option in options if name in (option.name, option.path[-1])]
        if not (equals and name):
            raise ConfigError(f"--what-if {text}: give FIELD=VALUE, such as listen_timeout=5s")
        if not found:
            near = nearest(name, [option.name for option in options] + [option.path[-1] for option in options])
            # Who a node is, and which machines it has, is what its recording is about.
            stays = any(option.name == name for option in every)
            advice = f"do you mean {near}?" if near and not stays else "give lease=2s, listen_timeout=5s, …"
            why = "stays as recorded" if stays else "is no setting of an election or a membership"
            raise ConfigError(f"--what-if {text}: {name} {why}: {advice}")
        given.append((text, value, found))

    def change(config: NodeConfig) -> NodeConfig:
        kinds = [kind for kind in (config.membership_kind(), *config.election_kinds().values()) if kind is not None]
        used = {kind.table.name: kind.table for kind in kinds}
        changed: dict[str, dict[str, Any]] = {}  # By table; "" is the node itself.
        for text, value, options in given:
            fits = [option for option in options if len(option.path) == 1 or option.path[0] in used]
            if len(fits) != 1:
                which = [option.name for option in fits] or [
                    f"{name}.{field}" for name, table in used.items() for field in table.config.__struct_fields__
                ]
                why = "give its table" if fits else "these nodes do not use it"
                raise ConfigError(f"--what-if {text}: {why}: one of {', '.join(which) or 'none'}")
            *above, field = fits[0].path
            read = read_value(fits[0].type, value, f"--what-if {text}", text=True)
            changed.setdefault(above[0] if above else "", {})[field] = read
        config = replace(config, **changed.pop("", {}))
        made = {name: replace(config.table(used[name]), **fields) for name, fields in changed.items()}
        return replace(config, tables={**config.tables, **made})

    return change


def what_if(flights: Sequence[Flight], settings: Sequence[str], title: str = "") -> Incident:
    """Return what would have happened; raises `ConfigError` for a setting that these nodes do not have."""
    change, said = change_of(settings), ", ".join(settings)
    table = Table(flights)
    found: list[tuple[float, int, Difference]] = []
    for number, flight in enumerate(table.flights):
        try:
            difference = Other(flight, change).run()
        except TransportError as error:
            cause = error.__cause__ if isinstance(error.__cause__, ConfigError) else error
            ours = str(cause).startswith("--what-if ")
            raise ConfigError(str(cause) if ours else f"--what-if {said}: {cause}") from None
        if difference is not None:
            found.append((table.at(number, difference.at), number, difference))
    title = title or table.flights[0].group
    if not found:
        same = table.incident(f"{title}, what if {said}")
        return replace(same, notes=(f"with {said} nothing that was said would have differed", *same.notes))
    at, number, difference = min(found, key=lambda one: one[0])
    return _Continued(table, change, at, number, difference.at).incident(f"{title}, what if {said}", said, difference)


class _Simulation(Simulation):
    """A simulation in which addresses of real networks reach their nodes."""

    def __init__(self, addresses: dict[str, NodeId], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._addresses = addresses

    def send(self, node: SimNode, channel: Channel, to: NodeId | Address, message: Any) -> None:
        super().send(node, channel, self._addresses.get(str(to), to), message)


class _Seat:
    """The place on a simulated node where the machines of a recorded one are built."""

    def __init__(self, sim: Simulation, node: SimNode, host: Host) -> None:
        self._sim, self._node, self._host = sim, node, host
        self.built = Built()

    def add(self, channel: str, build: Callable[[Port], Any], **follows: Any) -> Any:
        port = self._host.add(channel, build, **follows)
        self.built.add(port.machine)
        return port.machine

    def restored(self, channel: str, kind: Any) -> Any:
        return self._node.restored(channel, kind)

    def tell(self, fact: Any, *, channel: str | None = None) -> None:
        self._sim.tell(self._node, fact, channel=channel)


class _Continued:
    """The nodes of recordings, from an instant on in the simulator.  Its time is that of the common clock."""

    def __init__(self, table: Table, change: Change, at: float, number: int, own: Instant) -> None:
        """Go on at that second, which is the instant `own` of the recording whose output differs."""
        self.table, self._change, self._at = table, change, at
        self._own = [own if n == number else table.own(n, at) for n in range(len(table.flights))]
        self.start: Instant = round(at * 1e9)
        names = list(dict.fromkeys(flight.node for flight in table.flights))
        addresses = {flight.address: NodeId(flight.node) for flight in table.flights if flight.address}
        self.delay = self._median_delay()
        network = NetworkConfig(delay=Delay(model="constant", mean=self.delay))
        streams = Streams(0)
        self.sim = _Simulation(
            addresses, Network(network, Topology(len(names), None), streams), streams, wire=True, datagram_max=65_507
        )
        self.sim.now = self.start
        self._seated: dict[int, Watched] = {}  # By node: its machines.
        self._lives: dict[str, tuple[Flight, Other | None]] = {}  # By node: whose machines are built next.
        for name in names:
            self.sim.add(NodeId(name), self._setup, clock=Clock())
        config = change(config_from(_header_of(table.flights[0]).origin.config))
        kind = config.election_kind()
        if kind is None:
            raise ConfigError("--what-if needs an election: these nodes have none")
        self.kind, self.sort = kind, config.promise(kind).sort
        self.end: Instant = round(max(table.at(n, flight.end) for n, flight in enumerate(table.flights)) * 1e9)
        self.sim.watchers.append(self._on_fact)
        self.film = Simulated(self)
        for n, flight in enumerate(table.flights):
            self._plan(n, flight)
        self.sim.run(until=max(self.end, self.start))

    # As `Simulated` asks a world.

    def stack(self, node: SimNode) -> Stack:
        return self._seated[node.index].stack

    def regions(self) -> list[list[SimNode]]:
        return [list(self.sim.up())]

    # Nodes.

    def _plan(self, number: int, flight: Flight) -> None:
        """Let one recorded process go on, or start, and end, as it was recorded to."""
        node, table = self.sim.by_name[NodeId(flight.node)], self.table
        begin, end = (round(table.at(number, at) * 1e9) for at in (flight.begin, flight.end))
        if begin < self.start < end:
            other = Other(flight, self._change)
            ahead = self._own[number]
            other.run(ahead)
            self._lives[flight.node] = flight, other
            node.clock = Clock(ahead - self.start)
            node.disk.update(other.disk)
            self.sim.start(node, ran=True)
            self._set_timers(node)
            self.film.look(node)
        elif begin >= self.start:
            clock = Clock(flight.begin - begin)
            self.sim.at(begin, partial(self._begin, node, flight, clock), f"{flight.node} starts")
        if end < self.start:
            return
        if end < self.end - ENDED:
            self.sim.at(end, partial(self.sim.crash, node), f"{flight.node} ends")
        for began, resumed in flight.pauses:
            first, last = (round(table.at(number, at) * 1e9) for at in (began, resumed))
            if last > self.start:
                self.sim.at(max(first, self.start), partial(self.sim.pause, node), f"{flight.node} stops")
                self.sim.at(last, partial(self.sim.resume, node), f"{flight.node} goes on")
        self._plan_inputs(number, flight, node)

    def _begin(self, node: SimNode, flight: Flight, clock: Clock) -> None:
        if node.host is None:
            self._lives[flight.node] = flight, None
            node.clock = clock
            self.sim.start(node)

    def _plan_inputs(self, number: int, flight: Flight, node: SimNode) -> None:
        """Plan the commands that were given later, and the messages that were on their way."""
        for path in map(Path, flight.segments):
            with Reader(path) as reader:
                for _ in reader.state():
                    pass
                for item in reader.inputs():
                    if item.now >= self._own[number]:
                        self._plan_input(number, node, item)

    def _plan_input(self, number: int, node: SimNode, item: Input) -> None:
        when = round(self.table.at(number, item.now) * 1e9)
        match item.given:
            case Commanded(channel) as command:
                fact = fact_of(command)
                self.sim.at(when, partial(self._tell, node, fact, channel), f"{node.name} is told {command.name}")
            case Heard(data) if when < self.start + 10 * self.delay + ms(1000):
                sender, sent = self.table.sender_of(identifier(data))
                if sender is not None and sent < self._own[sender]:
                    self.sim.at(max(when, self.start), partial(self._hear, node, data), f"to {node.name}, on its way")

    def _tell(self, node: SimNode, fact: Any, channel: str) -> None:
        if node.host is not None and channel in node.ports:
            self.sim.tell(node, fact, channel=channel)

    def _hear(self, node: SimNode, data: bytes) -> None:
        _, other = self._lives.get(node.name, (None, None))
        if node.host is None or other is None:
            return
        envelope = other.replaying.codec.decode(data)
        port = node.ports.get(envelope.channel)
        if port is not None:
            port.hear(envelope.sender, envelope.message, node.now())

    def _setup(self, node: SimNode, host: Host) -> None:
        flight, other = self._lives[node.name]
        header = other.header if other is not None else _header_of(flight)
        seat = _Seat(self.sim, node, host)
        built = Watched(header.origin, seat, replace(header, reigns={}), change=self._change)
        self._seated[node.index] = built
        if other is None:
            return
        for what in other.additions:
            built.add(what)
        taken = Snapshot(other.replaying.built)
        for port in other.replaying.host.ports.values():
            taken.keep(port.machine)
        view = taken.keep(other.watched.view)
        timers = other.replaying.world.timers.values()
        self._timers = [(at, channel, taken.keep(timer)) for at, channel, timer in timers]
        classes_of_built = taken.built_classes()  # Before the classes are asked for: it names more of them.
        loader = Loader(seat.built, taken.classes, classes_of_built)
        loader.add(taken.entries)
        loader.load()
        self._loader = loader
        built.view = loader.value(view)
        for name, reign in built.stack.reigns.items():
            before = other.watched.stack.reigns[name]
            reign.go_on(before)
            reign.gate = before.gate

    def _set_timers(self, node: SimNode) -> None:
        for at, channel, timer in self._timers:
            node.set_skewed_timer(node.ports[channel], self._loader.value(timer), at)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        seated, stack = self._seated[node.index], self.stack(node)
        seated.now = node.now()
        for reign in stack.reigns.values():
            self._open(node, reign)
        stack.observe(channel, fact, node.now())
        match fact:
            case ScoreWanted(number):
                self.sim.tell(node, ScoreGiven(number, stack.config.standing), channel=channel)
            case HandOverDue(to, because):
                self.sim.tell(node, Resign(to, 0, because), channel=channel)
            case Request():
                raise ConfigError("--what-if cannot simulate an election that asks a store or a directory")
        for reign in stack.reigns.values():
            if reign.gate is not None and not reign.gate.open and reign.mine is not None:
                when = self.sim.now + stack.config.settle(reign.kind)
                self.sim.at(when, partial(self._open, node, reign), f"{node.name} may act")

    def _open(self, node: SimNode, reign: Reign) -> None:
        """Let a node act that has known a leader for as long as an election takes to settle."""
        settled = node.now() - reign.since >= self.stack(node).config.settle(reign.kind)
        if reign.gate is not None and reign.leader is not None and settled:
            reign.gate.open = True

    def _median_delay(self) -> Duration:
        delays = sorted(self.table.delays())
        return max(1, round(median(delays) * 1e9)) if delays else ms(1)

    def _resumed(self, mark: Mark) -> bool:
        """Return whether a mark only says that the machines of a recording go on in the simulator."""
        return mark.kind == "started" and mark.at <= self._at

    # What comes of it.

    def incident(self, title: str, said: str, difference: Difference) -> Incident:
        before = self.table.incident(title)
        after = self.film.incident(title)
        at, end = self._at, max(self.sim.now / 1e9, self._at)
        kept, new = before.lanes, after.lanes
        mark = Mark(
            lane="",
            at=at,
            kind="bad",
            label=f"the first output that differs with {said}",
            why=f"recorded: {difference.recorded} · with {said}: {difference.other}",
        )
        lanes = replace(
            kept,
            end=end,
            spans=(
                *(replace(s, end=min(s.end if s.end is not None else at, at)) for s in kept.spans if s.begin < at),
                *(s for s in new.spans if (s.end if s.end is not None else end) > at),
            ),
            marks=(
                *(m for m in kept.marks if m.at < at),
                mark,
                *(m for m in new.marks if m.at >= at and not self._resumed(m)),
            ),
            arrows=(*(a for a in kept.arrows if a.sent < at), *new.arrows),
            windows=(
                *(replace(w, end=min(w.end or at, at)) for w in kept.windows if w.begin < at),
                *new.windows,
                Window(begin=at, end=end, kind="simulated", label=f"simulated, with {said}"),
            ),
        )
        recorded = next((election for election in self.table.elections if not election.name), None)
        verdict = after.verdicts[0] if recorded is None else self.table.verdict(recorded, at).and_(after.verdicts[0])
        return replace(
            before,
            lanes=lanes,
            verdicts=(replace(verdict, sentence=f"with {said}, simulated from {at:.3f} s on: {verdict.sentence}"),),
            said=(*(s for s in before.said if s.at < at), *(s for s in after.said if s.at >= at)),
            notes=(
                f"up to {at:.3f} s with {said} everything that was said is as recorded; there the first output differs",
                f"recorded: {difference.recorded}",
                f"with {said}: {difference.other}",
                f"from {at:.3f} s on simulated: messages take {self.delay / 1e6:.3f} ms, none is lost, nobody is cut "
                "off; processes end, stop and are told things as recorded",
                *before.notes,
            ),
        )


def _header_of(flight: Flight) -> Header:
    with Reader(Path(flight.segments[0])) as reader:
        return reader.header
