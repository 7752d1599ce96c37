"""The tables of a scenario file.  Every field is also a flag of `doyen sim run`, made from these Structs."""

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta
from msgspec.structs import asdict, replace

from doyen.core.clock import FOREVER, Duration, format_duration, seconds
from doyen.core.codec import DATAGRAM_MAX
from doyen.core.config import Config, Count, Doc, Pause, Period, Scale, need
from doyen.core.ids import node_id
from doyen.election.announce.config import AnnounceConfig
from doyen.errors import ConfigError
from doyen.node.config import NodeConfig
from doyen.node.layers import from_tables
from doyen.sim.checkers import CHECKERS
from doyen.sim.churn import KEYWORDS, ChurnConfig, ChurnEvent, Target
from doyen.sim.network import NetworkConfig
from doyen.sim.topology import TopologyConfig
from doyen.sim.world import DISK, GROUP, ring_of, world_fields

Protocol = Literal["announce", "sup-al-receipt"]
Rank = Literal["address", "load", "neighbours", "delay", "loss", "wake-up"]
NODES_MAX: Final = 100_000
Nodes: TypeAlias = Annotated[int, Meta(ge=1, le=NODES_MAX)]
Drift: TypeAlias = Annotated[float, Meta(ge=0, le=0.5)]
Offset: TypeAlias = Annotated[Duration, Meta(ge=0, lt=FOREVER // 4)]
Datagram: TypeAlias = Annotated[int, Meta(ge=64, le=65_507)]


class Group(Config, frozen=True, kw_only=True):
    """The nodes that take part, and how they elect."""

    nodes: Annotated[Nodes, Doc("How many there are at the start.")] = 5
    names: Annotated[tuple[str, ...], Doc("What they are called; none: n0, n1, …, with zeros so that they sort.")] = ()
    protocol: Annotated[Protocol, Doc("`sup-al-receipt` is broken by design, a warning. [LE §5.7]")] = "announce"
    rank: Annotated[Rank, Doc("What makes a node the better leader; of equals, the greater name is.")] = "address"
    load_max: Annotated[Scale, Doc("rank load: each node's load is drawn from [0, load_max).")] = 1.0
    observer_count: Annotated[Count, Doc("How many nodes, the last ones, may not lead: they only follow.")] = 0
    seed_count: Annotated[
        Count, Doc("How many nodes, the first ones, are the seeds of all; 0: every node is a seed of every other.")
    ] = 0
    start_spread: Annotated[Pause, Doc("Nodes start at random within this time; 0: all together.")] = 0
    durable_terms: Annotated[
        bool, Doc("Each node keeps the number of its last reign on its disk, and starts above it again.")
    ] = False
    election: AnnounceConfig = AnnounceConfig()

    def check(self) -> None:
        if self.names and len(self.names) != self.nodes:
            raise ConfigError(f"are {len(self.names)} for {self.nodes} nodes: give one each, or none", field="names")
        if len(set(self.names)) < len(self.names):
            raise ConfigError("must differ", field="names")
        for name in self.names:
            node_id(name)
            if name in KEYWORDS:
                raise ConfigError(f"must not contain {name!r}: churn gives it another meaning", field="names")
        if self.observer_count >= self.nodes:
            raise ConfigError(
                f"{self.observer_count} leaves nobody to lead: give less than nodes ({self.nodes})",
                field="observer_count",
            )
        if self.election.leader_count > self.nodes - self.observer_count:
            raise ConfigError(
                f"{self.election.leader_count} is more than the {self.nodes - self.observer_count} that may lead",
                field="election.leader_count",
            )
        if self.election.leader_is == "earliest" and self.rank not in ("address", "wake-up"):
            raise ConfigError(
                f'{self.rank} decides nothing where election.leader_is = "earliest": give wake-up', field="rank"
            )
        if self.rank == "wake-up" and self.election.rank_map != "none":
            raise ConfigError('must be "none" where rank = "wake-up"', field="election.rank_map")

    def name_of(self, index: int) -> str:
        return self.names[index] if self.names else f"n{index:0{len(str(self.nodes - 1))}d}"

    def machine_config(self) -> AnnounceConfig:
        """Return the table of the machine.  [LE §5.4.3] Ranking by wake-up is LE-M."""
        return replace(self.election, leader_is="earliest") if self.rank == "wake-up" else self.election


class Clocks(Config, frozen=True, kw_only=True):
    """The errors of the nodes' own clocks."""

    offset_max: Annotated[Offset, Doc("Each is off by an amount drawn from ± this.")] = 0
    drift_max: Annotated[Drift, Doc("Each is too fast or slow by a share drawn from ± this; 1e-4: 8.6 s a day.")] = 0.0


class RunConfig(Config, frozen=True, kw_only=True):
    """The length of the run, its seed, and what is watched."""

    length: Annotated[Period, Doc("Of the whole run, warm-up and quiet time included.")] = seconds(60)
    warm_up: Annotated[Pause, Doc("Until then no fault fires, and nothing is counted.")] = 0
    quiet: Annotated[Pause, Doc("The end, without faults: every region must agree by then.")] = seconds(10)
    seed: Annotated[Count, Doc("Same seed, same run.")] = 1
    checks: Annotated[tuple[str, ...], Doc("What is watched; a violation stops the run.")] = tuple(CHECKERS)
    disk_delay: Annotated[Pause, Doc("How long a record takes to become durable.")] = 0
    datagram_max: Annotated[Datagram, Doc("Bytes; a larger message is a bug, and stops the run.")] = DATAGRAM_MAX
    wire: Annotated[bool, Doc("Messages go through the codec and back, as on a network: slower, else the same.")] = (
        False
    )

    def check(self) -> None:
        if self.warm_up + self.quiet > self.length:
            raise ConfigError(
                f"{format_duration(self.length)} is shorter than warm_up and quiet together "
                f"({format_duration(self.warm_up)} + {format_duration(self.quiet)})",
                field="length",
            )
        for name in self.checks:
            need(name in CHECKERS, "checks", f"{name!r} is no check: one of {', '.join(CHECKERS)}")
        need(len(set(self.checks)) == len(self.checks), "checks", "names one twice")

    @property
    def quiet_at(self) -> Duration:
        return self.length - self.quiet


class Scenario(Config, frozen=True, kw_only=True):
    """A whole run, but for the machine's code."""

    group: Group = Group()
    node: Annotated[
        dict[str, Any], Doc("What every node's own file holds: election, membership, timers; none: [group.election].")
    ] = {}
    topology: TopologyConfig = TopologyConfig()
    network: NetworkConfig = NetworkConfig()
    churn: ChurnConfig = ChurnConfig()
    clocks: Clocks = Clocks()
    run: RunConfig = RunConfig()

    def config(self) -> NodeConfig:
        """Return every node's configuration, but for what differs from node to node."""
        group = self.group
        if self.node:
            names = [group.name_of(index) for index in range(group.nodes)]
            return from_tables(self.node, defaults=world_fields(names), path=("node",))
        return NodeConfig(
            group=GROUP,
            group_size=group.nodes,
            election="announce",
            membership="none",
            tables={"announce": group.machine_config()},
            state=DISK if group.durable_terms else "",
        )

    def check(self) -> None:
        if self.node:
            self._check_node()
        for a, b in self.topology.edges:
            if a == b or not (0 <= a < self.group.nodes and 0 <= b < self.group.nodes):
                last = self.group.nodes - 1
                raise ConfigError(
                    f"has {a}-{b}: give pairs of different nodes from 0 to {last}", field="topology.edges"
                )
        if self.network.loss.model == "load" and self.network.delay.mean == 0:
            raise ConfigError(
                '0 is too short for loss.model = "load": messages sent together must still be on their way',
                field="network.delay.mean",
            )
        self._check_churn()
        if self.run.quiet and "agreement" in self.run.checks and self.run.quiet < self.settling:
            raise ConfigError(
                f"{format_duration(self.run.quiet)} is too short to agree in: give at least "
                f"{format_duration(self.settling)} (delays, the stack's own timers, disk, clock steps), or 0 for none",
                field="run.quiet",
            )

    @property
    def settling(self) -> Duration:
        """Return how long a group without faults may take to agree on its leader, whatever it believed before."""
        delay = self.network.delay
        hops = 1 if self.topology.shape == "complete" else self.group.nodes
        travel = hops * (
            delay.mean + delay.link_spread + (0 if delay.model == "constant" else 4 * max(delay.spread, delay.mean))
        )
        config = self.config()
        kind = config.election_kind()
        own = 0 if kind is None else config.worst_case(kind).settling
        if ring_of(config) is not None:  # The ring, too, must come to rest, even if the election does not wait for it.
            own = max(own, config.detection().duration + config.detection().merging)
        own += 2 * self.run.disk_delay if config.state else 0
        back = sum(event.by for event in self.churn.events if event.do == "clock-back")
        return int((2 * travel + own) * (1.0 + 2.0 * self.clocks.drift_max)) + back

    def _check_node(self) -> None:
        usual, said = asdict(Group()), asdict(self.group)
        for name in ("protocol", "durable_terms", "election"):
            if said[name] != usual[name]:
                raise ConfigError("is announce-listen's, and [node] says how to elect: give one", field=f"group.{name}")
        self.config()

    def _check_churn(self) -> None:
        run, count = self.run, self.group.nodes
        known: set[Target] = {self.group.name_of(i) for i in range(count)} | set(range(count)) | set(KEYWORDS)
        for event in sorted(self.churn.events, key=lambda event: event.at):
            field = f"churn.events[{self.churn.events.index(event)}]"
            if not run.warm_up <= event.at <= run.quiet_at:
                raise ConfigError(
                    f"{format_duration(event.at)} is not between warm_up ({format_duration(run.warm_up)}) and the "
                    f"quiet time ({format_duration(run.quiet_at)})",
                    field=f"{field}.at",
                )
            self._check_targets(event, field, known)
            if event.do == "join":
                new = event.who or (count,)
                for name in new:
                    if name in known:
                        raise ConfigError(f"{name!r} is there already: give a new name", field=f"{field}.who")
                    if isinstance(name, str):
                        try:
                            node_id(name)
                        except ConfigError as error:
                            raise ConfigError(str(error), field=f"{field}.who") from None
                known |= set(new) | {count + i for i in range(len(new))}
                count += len(new)
        if self.churn.random.up_min > self.group.nodes:
            raise ConfigError(
                f"{self.churn.random.up_min} is more than the {self.group.nodes} nodes", field="churn.random.up_min"
            )

    def _check_targets(self, event: ChurnEvent, field: str, known: set[Target]) -> None:
        targets = [("who", target) for target in event.who if event.do != "join"]
        for side, target in (*targets, *(("to", target) for target in event.to)):
            if target not in known:
                raise ConfigError(
                    f"{target!r} is no node (by then): give a name, an index from 0, {', '.join(KEYWORDS[:-1])} or "
                    f"{KEYWORDS[-1]}",
                    field=f"{field}.{side}",
                )
