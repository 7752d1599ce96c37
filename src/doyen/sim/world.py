"""The one world: nodes built from the agent's own stack, in made-up time, and who leads as seen from outside.

Every node is what `doyen agent` would make of the same configuration: `Stack` adds its machines to a host of the
simulator instead of a driver.  So an election, a membership and a rank that a node can have, a run can have; scenario
files, `doyen.testing.Cluster`, churn and checkers all stand on this world and ask it the same questions:

    named_by     whom a node names
    acts         whether a node may act as the leader at this instant, by its own clock and lease
    links        who hears whom, as things are now
    regions      who hangs together by two-way links
    disagreement why a region does not have the leader that it ought to have

This is the only module of `doyen.sim` that knows how a stack is built (decision 100).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

from msgspec.msgpack import decode
from msgspec.structs import replace

from doyen.core.clock import FOREVER, Duration, Instant, ms, to_seconds
from doyen.core.commands import ChangeNote, ChangeVoters, LeaveGroup, PassOn, Resign, Stand
from doyen.core.host import Host, Port
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import HandOverDue, LeaderElected, LeaderLost
from doyen.core.outside import Outside, Request
from doyen.core.rank import Claim, ScoreGiven, ScoreWanted, Standing, VitalsObserved
from doyen.election.announce.machine import Announce
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.machine import Pole
from doyen.election.spanning.machine import Spanning
from doyen.errors import ConfigError, LocalProtocolError
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.machine import Arbitration
from doyen.node.config import NodeConfig
from doyen.node.stack import ELECTION as ELECTION
from doyen.node.stack import MEMBERSHIP as MEMBERSHIP
from doyen.node.stack import NOTES, Site, Stack
from doyen.sim.corruption import corrupt
from doyen.sim.engine import Simulation
from doyen.sim.folder import SimFolder
from doyen.sim.led import Led
from doyen.sim.links import Links
from doyen.sim.node import Clock, SimNode
from doyen.sim.wills import Wills

GROUP: Final = "simulated"
DISK: Final = "disk"  # The directory of a node that has a made-up disk.
LAST_WORDS: Final = ms(2)  # How long a node that leaves is there for what is due at once.
SEEDS_MAX: Final = 32

Tamper: TypeAlias = Callable[[SimNode, str, Port, Any], Any]  # (node, channel, port, machine) → the machine to run.
Fact: TypeAlias = LeaderElected | LeaderLost


def world_fields(names: Sequence[str]) -> dict[str, Any]:
    """Return every node's fields unless its configuration says otherwise: all vote, all have a disk."""
    return {"group": GROUP, "group_size": len(names), "voters": list(names), "state": DISK, "shared": DISK}


def ring_of(config: NodeConfig) -> ArbitrationConfig | None:
    """Return the configuration of the ring, if the membership is one."""
    kind = config.membership_kind()
    table = None if kind is None else config.table(kind.table)
    return table if isinstance(table, ArbitrationConfig) else None


class World:
    """The nodes of one run; `config` is that of every node, but for what differs from node to node."""

    def __init__(
        self,
        sim: Simulation,
        config: NodeConfig,
        *,
        standing_of: Callable[[int], Standing | None] | None = None,  # By index; None: may not lead.
        clock_of: Callable[[int], Clock | None] = lambda index: None,
        incarnation_of: Callable[[SimNode], int] = lambda node: node.incarnation,
        bounded_clocks: bool = True,  # Clocks keep to what the promise says of them.
        timely: bool = True,  # Messages and steps take no longer than the promise says.
        sound_memory: bool = True,  # Nobody's memory is corrupted: what a node says follows from what it said.
        seed_count: int = 0,  # The first nodes, which are the seeds of all; 0: everybody is everybody's seed.
        tamper: Tamper | None = None,
    ) -> None:
        kind = config.election_kind()
        if kind is None:
            raise ConfigError("none leaves nothing to look at: give the election of the group itself", field="election")
        self.sim, self.network, self.streams = sim, sim.network, sim.streams
        self.config, self.kind, self.durable = config, kind, bool(config.state)
        self.table: Any = config.table(kind.table)  # The election's own configuration.
        self.sort = config.promise(kind).sort
        self.bounded_clocks, self.timely, self.sound_memory = bounded_clocks, timely, sound_memory
        self._seed_count = seed_count
        own = config.standing if config.eligible else None
        self._standing_of = standing_of or (lambda index: own)
        self._clock_of, self._incarnation_of, self._tamper = clock_of, incarnation_of, tamper
        self._configs: dict[tuple[float, bool, bool], NodeConfig] = {}  # Those that differ, each made once.
        self._stacks: list[Stack | None] = []  # By node: of its present or last incarnation.
        self._elections: list[Any] = []  # By node: the machine that elects,
        self._records: list[bytes | None] = []  # what it had on the disk when this incarnation began,
        self.remembers_since: list[int] = []  # and the first incarnation that it has an unbroken record of.
        self._configured: list[Standing | None] = []  # By node: its standing when it starts; None may not lead.
        self.standings: list[Standing | None] = []  # By node: what its election goes by now.
        self.observed_at: Instant = -FOREVER  # When a node last changed its own by what it had observed.
        self._scores: dict[int, Standing] = {}  # By node: what its application answers, where that was set.
        self.names: list[tuple[NodeId, ...]] = []  # By node: the leaders it names,
        self.named_at: list[Instant] = []  # and since when.
        self.wall_offsets: dict[int, Duration] = {}  # By node: how far the clock that people read is off.
        self.batons: list[NodeId] = []  # Who handed on the baton of each number, from 1 on.
        self.wards: dict[object, NodeId] = {}  # What dead leaders began, and what acts on: by whom.
        self.began_to_lead = 0
        self.believers: dict[int, None] = {}  # Nodes whose election says that they lead, lease or no lease.
        self._had_records: set[NodeId] = set()  # Names that ever crashed with a record of the election on the disk.
        self.folder = SimFolder(sim, config.group)  # The directory that all nodes reach.
        sim.watchers.append(self._on_fact)
        sim.deed_watchers.append(self._on_deed)
        self.led, self.wills = Led(self), Wills(self)

    # Nodes.

    def add(self, name: str) -> SimNode:
        """Add a node that has not started."""
        index = len(self.sim.nodes)
        self._configured.append(self._standing_of(index))
        self.standings.append(self._configured[index])
        self.names.append(())
        self.named_at.append(0)
        self._stacks.append(None)
        self._elections.append(None)
        self._records.append(None)
        self.remembers_since.append(1)
        return self.sim.add(NodeId(name), self._setup, clock=self._clock_of(index))

    def start(self, spread: Duration = 0) -> None:
        """Start all nodes together, or at random instants within `spread`."""
        rng = self.streams.of("start")
        for node in list(self.sim.nodes):
            if spread:
                self.sim.at(int(rng.random() * spread), partial(self._start, node), f"{node.name} starts")
            else:
                self.sim.start(node)

    def _start(self, node: SimNode) -> None:
        if node.host is None:  # Else churn was there first.
            self.sim.start(node)

    def join(self, name: str | None, neighbours: Sequence[SimNode]) -> SimNode:
        """Start a new node, linked to those given; where nodes have places it stands near the first of them."""
        topology, number = self.network.topology, len(self.sim.nodes)
        if not topology.complete:
            topology.settle([node.index for node in neighbours], self.streams.of("place", topology.size))
        while name is None or name in self.sim.by_name:
            name, number = f"n{number}", number + 1
        node = self.add(name)
        self.sim.start(node)
        return node

    def leave(self, node: SimNode) -> None:
        """End a node in order: it says goodbye, as far as it can."""
        host = node.host
        if node.state in ("up", "slow") and host is not None:
            for channel in sorted(host.ports, key=lambda channel: channel == MEMBERSHIP):
                if LeaveGroup in host.ports[channel].machine.HEARS:
                    host.tell(LeaveGroup(), node.now(), channel=channel)
        # Also what is to be said right after that step: a ring's member says farewell once its own node knows.
        if self.sim.timers.is_due(node.index, self.sim.now + LAST_WORDS):
            gone = partial(self._end, node, host)
            self.sim.at(self.sim.now + LAST_WORDS, gone, f"{node.name} has left")
        else:
            self.sim.crash(node)

    def _end(self, node: SimNode, host: Host | None) -> None:
        if node.host is host:  # Else churn was there first.
            self.sim.crash(node)

    def resign(self, node: SimNode, to: NodeId | None = None) -> bool:
        """Have a node hand over, to that one or to whom the others choose; return whether its election can, now."""
        if not self.kind.resigns or node.host is None:
            return False
        try:
            self.machine(node).check_heir(to)
        except LocalProtocolError:
            return False
        self.sim.tell(node, Resign(to), channel=ELECTION)
        if self.kind.stands_again:
            self.standings[node.index] = None
        return True

    def stand(self, node: SimNode) -> None:
        """Have a node that resigned stand for election again."""
        if self.kind.stands_again and node.host is not None:
            self.standings[node.index] = self._scores.get(node.index, self._configured[node.index])
            self.sim.tell(node, Stand(), channel=ELECTION)

    def pass_on(self, node: SimNode, count: int = 1) -> bool:
        """Have a leader hand on as many batons, each its own number; return whether its election can, now."""
        try:
            for _ in range(count):
                self.machine(node).check_baton(b"")
                self.batons.append(node.name)
                number = len(self.batons)
                self.sim.tell(node, PassOn(number, str(number).encode()), channel=ELECTION)
        except LocalProtocolError:
            return False
        return True

    def change_voters(self, node: SimNode, rng: Random) -> bool:
        """Have a leader add, remove or replace one voter, at random; return whether it began to."""
        machine = self.machine(node)
        if not isinstance(machine, Pole):
            return False
        voters = machine.electorate.voters
        spare = sorted(other.name for other in self.sim.up() if other.name not in voters)
        joins = spare[int(rng.random() * len(spare))] if spare else None
        leaves = sorted(voters)[int(rng.random() * len(voters))]
        after = voters | {joins} if joins is not None else voters
        if joins is None or rng.random() < 0.67:
            after -= {leaves}
        try:
            if len(after) < len(self.config.voters):
                return False
            machine.check_voters(after)
        except LocalProtocolError:
            return False
        self.sim.tell(node, ChangeVoters(self.sim.event_count, after), channel=ELECTION)
        return True

    def set_score(self, node: SimNode, score: Standing) -> None:
        """Set what the node's application says that it is worth, now and whenever it is asked."""
        self.standings[node.index] = self._scores[node.index] = score
        if node.host is not None:
            if not self._is_rated:
                self.sim.tell(node, ScoreGiven(0, score), channel=ELECTION)
            if NOTES in node.host.ports:
                self.sim.tell(node, ChangeNote(score=float(score)), channel=NOTES)

    def step_wall_clock(self, node: SimNode, by: Duration) -> None:
        """Set the clock that people read, and nothing else goes by."""
        self.wall_offsets[node.index] = self.wall_offsets.get(node.index, 0) + by

    def corrupt(self, node: SimNode, rng: Random) -> bool:
        """Draw anew all that a node's election remembers; return whether that kind of election is to bear it."""
        machine = self.machine(node)
        if node.host is None or not isinstance(machine, Spanning):
            return False
        names = [other.name for other in self.sim.nodes]
        corrupt(machine, names, rng, now=node.now(), far=rng.random() < 0.5)
        self.sim.note_deed("corrupt", node)
        return True

    def _on_deed(self, deed: str, node: SimNode) -> None:
        if deed == "crash" and ELECTION in node.disk:
            self._had_records.add(node.name)

    def _setup(self, node: SimNode, host: Host) -> None:
        self.believers.pop(node.index, None)
        self.standings[node.index] = self._configured[node.index]
        self.names[node.index], self.named_at[node.index] = (), self.sim.now
        self._records[node.index] = record = node.disk.get(ELECTION) if self.durable else None
        if record is None:
            self.remembers_since[node.index] = node.incarnation
        self._stacks[node.index] = Stack(
            self._config_of(node),
            Site(
                node=node.name,
                incarnation=Incarnation(self._incarnation_of(node)),
                address=Address(node.name, 0),
                seeds=self._seeds_of(node),
                add=partial(self._add, node, host),
                rng=node.rng,
                restored=node.restored,
                durable=self.durable,
                tell=lambda fact, channel: self.sim.tell(node, fact, channel=channel),
                wall=lambda: to_seconds(self.sim.now + self.wall_offsets.get(node.index, 0)),
            ),
        )

    def _config_of(self, node: SimNode) -> NodeConfig:
        standing, newcomer = self._configured[node.index], node.name not in self._had_records
        key = (float(standing or 0), standing is not None, newcomer or self.config.newcomer)
        if key not in self._configs:
            worth, eligible, newcomer = key
            self._configs[key] = replace(self.config, standing=worth, eligible=eligible, newcomer=newcomer)
        return self._configs[key]

    def _seeds_of(self, node: SimNode) -> tuple[Address, ...]:
        """Return other nodes; but the first node, when it first starts, knows of nobody: one must found a ring."""
        if self.config.membership_kind() is None or (node.index == 0 and node.incarnation == 1):
            return ()
        count = min(self._seed_count, SEEDS_MAX) or SEEDS_MAX + 1
        others = [other.name for other in self.sim.nodes[:count] if other is not node]
        return tuple(Address(name, 0) for name in others[:SEEDS_MAX])

    def _add(
        self,
        node: SimNode,
        host: Host,
        channel: str,
        build: Callable[[Port], Any],
        *,
        follows: Iterable[str] | None = None,
    ) -> Port:
        return host.add(channel, lambda port: self._made(node, channel, port, build(port)), follows=follows)

    def _made(self, node: SimNode, channel: str, port: Port, machine: Any) -> Any:
        if self._tamper is not None:
            machine = self._tamper(node, channel, port, machine)
        if channel == ELECTION:
            self._elections[node.index] = machine
        return machine

    # What a node is.

    def stack(self, node: SimNode) -> Stack:
        """Return the machines of a node's present incarnation, or of its last one."""
        found = self._stacks[node.index]
        assert found is not None, f"{node.name} has never started"
        return found

    def machine(self, node: SimNode) -> Any:
        """Return the machine of a node that elects."""
        return self._elections[node.index]

    def claim(self, node: SimNode) -> Claim | None:
        standing = self.standings[node.index]
        return None if standing is None else (standing, node.name)

    def record_of(self, node: SimNode, kind: type[Any]) -> Any:
        """Return the record of the election that a node's present incarnation found on its disk, or None."""
        data = self._records[node.index]
        return None if data is None else decode(data, type=kind)

    def has_forgotten(self, node: SimNode) -> bool:
        """Return whether a node began without the record of an earlier incarnation: its name no longer votes."""
        return self.durable and self._records[node.index] is None and node.name in self._had_records

    def is_holding(self, node: SimNode) -> bool:
        """Return whether effects of a node's election wait for its disk."""
        assert node.host is not None
        return node.host.ports[ELECTION].waits_for_disk

    @property
    def has_own_clocks(self) -> bool:
        return any(node.clock is not None for node in self.sim.nodes)

    # Who leads, as seen from outside.

    def named_by(self, node: SimNode) -> tuple[NodeId, ...]:
        machine = self.machine(node)
        if isinstance(machine, Announce):  # The one election with several leaders.
            return machine.leaders
        leader = self.stack(node).reigns[""].leader
        return () if leader is None else (leader,)

    def acts(self, node: SimNode) -> bool:
        """Return whether a node may act as the leader at this instant, by its own clock; a paused one may, too."""
        if node.host is None or self.stack(node).reigns[""].mine is None:
            return False
        return bool(self.machine(node).leads(node.now()))

    def acting(self) -> list[SimNode]:
        """Return the nodes that act as leaders, best first."""
        found = [self.sim.nodes[index] for index in self.believers if self.acts(self.sim.nodes[index])]
        return sorted(found, key=lambda node: (self.standings[node.index] or 0, node.name), reverse=True)

    def _note_standing(self, node: SimNode) -> None:
        """Note the standing that a node has by what it observed itself; leadership may move now."""
        machine, before = self.machine(node), self.standings[node.index]
        if isinstance(machine, Announce) and before is not None and before != machine.standing:
            self.standings[node.index] = machine.standing
            self.observed_at = self.sim.disturbed_at = self.sim.now

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        stack = self._stacks[node.index]
        if stack is None or node.host is None:
            return
        stack.observe(channel, fact, node.now())
        if isinstance(fact, ScoreWanted):
            self.sim.tell(node, ScoreGiven(fact.number, self._score_of(node)), channel=channel)
        if isinstance(fact, Request):
            self.folder.ask(node, channel, fact, self._outside(node, stack))
        if isinstance(fact, HandOverDue):
            self.sim.tell(node, Resign(fact.to, 0, fact.because), channel=channel)
        if isinstance(fact, VitalsObserved):
            self._note_standing(node)
        if channel != ELECTION:
            return
        if isinstance(fact, LeaderElected | LeaderLost):
            if stack.reigns[""].mine is None:
                self.believers.pop(node.index, None)
            elif node.index not in self.believers:
                self.believers[node.index] = None
                self.began_to_lead += 1
        named = self.named_by(node)
        if named != self.names[node.index]:
            self.names[node.index], self.named_at[node.index] = named, self.sim.now

    def _outside(self, node: SimNode, stack: Stack) -> Outside:
        site, config = stack.site, self.table
        return Outside(
            node=node.name, incarnation=site.incarnation, group=self.config.group, name="", shared=DISK, config=config
        )

    @property
    def _is_rated(self) -> bool:
        """Return whether the election goes by measured quality, whatever score is set."""
        return self.kind.asks_oracle and self.config.oracle == "quality"

    def _score_of(self, node: SimNode) -> Standing:
        """Return what a node answers when an election asks for its score."""
        if self._is_rated:
            from doyen.score.rating import own_quality, rating_of

            return own_quality(rating_of(self.config.attributes, self.config.measures))
        score = self._scores.get(node.index, self._configured[node.index])
        return 0 if score is None else score

    def links(self, nodes: Iterable[SimNode] | None = None) -> Links[SimNode]:
        """Return who hears whom among those nodes, or among all that are up."""
        network = self.network
        return Links(self.sim.up() if nodes is None else nodes, lambda a, b: network.reaches(a.index, b.index))

    def regions(self) -> list[list[SimNode]]:
        """Return the nodes that are up and hang together by two-way links, over any number of them."""
        up, network = list(self.sim.up()), self.network
        if (network.topology.complete and network.unbroken) or self.kind.needs.shared:
            return [up] if up else []
        return self.links().components()

    def quorum_connected(self, region: Iterable[SimNode]) -> list[SimNode]:
        """Return the voters that have two-way links to a majority of the voters, and may lead."""
        electorate = self.electorate
        able = [node for node in region if node.name in electorate.names and not self.has_forgotten(node)]
        found = self.links(able).quorum_connected(able, lambda nodes: electorate.is_majority({n.name for n in nodes}))
        return [node for node in found if self.standings[node.index] is not None]

    @property
    def electorate(self) -> Electorate:
        """Return the newest electorate that any node has."""
        charters = [machine.keeper.newest for machine in self._elections if isinstance(machine, Pole)]
        if not charters:
            return Electorate(0, frozenset(map(NodeId, self.config.voters)))
        return max(charters, key=lambda charter: charter.stamp).electorate

    @property
    def knows_its_voters(self) -> bool:
        """Return whether all nodes that are up go by the same electorate."""
        machines = (self.machine(node) for node in self.sim.up())
        return len({machine.keeper.newest.electorate for machine in machines if isinstance(machine, Pole)}) <= 1

    def can_elect(self, region: list[SimNode]) -> bool:
        """Return whether a region must come to one leader.

        A quorum's needs a voter that has two-way links to most voters, a ring's most nodes, and members.
        """
        rings = [m for node in region if isinstance(m := self.stack(node).membership, Arbitration)]
        if rings and rings[0].config.partition == "split":
            return False  # Parts that have split do not grow together by themselves.
        if self.sort == "weak" or self.kind.needs.shared:
            return True
        if self.sort == "quorum":
            return bool(self.quorum_connected(region))
        # Where a group loses its majority all leave the ring, and nobody is left to join.
        return 2 * len(region) > len(list(self.sim.up())) and any(ring.is_member for ring in rings)

    def disagreement(self, region: list[SimNode]) -> str | None:
        """Return why a region does not have one leader that all of it name and that acts, or None."""
        acting = [node.name for node in region if self.acts(node)]
        if self.sort == "quorum" and acting:
            region = self._within_hearsay(region, acting)
        named = Counter(self.named_by(node) for node in region)
        if len(named) > 1:
            whom = ", ".join(f"{'/'.join(leaders) or 'nobody'} by {count}" for leaders, count in named.most_common(4))
            who = ", ".join(acting) or "nobody"
            return f"{len(region)} nodes name {len(named)} different leaders ({whom}); {who} acts"
        leaders = next(iter(named))
        eligible = [node for node in region if self.standings[node.index] is not None]
        machine = self.machine(region[0])
        count = min(machine.leader_count, len(eligible))
        if len(leaders) != count:
            return f"{len(leaders)} leaders are named where {count} should be"
        for name in leaders:
            if not any(node.name == name for node in region):
                return f"all name {name}, which is not among them"
            if name not in acting:
                return f"all name {name}, which does not act as leader"
        if isinstance(machine, Announce) and machine.config.leader_is == "best":
            claims = sorted((self.claim(node) or (0, node.name) for node in eligible), reverse=True)
            best = tuple(name for _, name in claims[:count])
            if leaders != best:
                return f"all name {'/'.join(leaders)}, but the best are {'/'.join(best)}"
        extra = [name for name in acting if name not in leaders]
        return f"{', '.join(extra)} act as leaders though nobody names them" if extra else None

    def _within_hearsay(self, region: list[SimNode], acting: list[NodeId]) -> list[SimNode]:
        """Return who hears a leader, or somebody that does, both ways; hearsay goes no further."""
        links = self.links(region)
        direct = {other for node in region if node.name in acting for other in links.linked(node)}
        return [node for node in region if any(other in direct for other in links.linked(node))]
