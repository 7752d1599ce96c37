"""A group in made-up time: the very machines of `doyen.join`, an in-memory network, faults, and a clock you move.

    cluster = Cluster(5, loss=0.2, seed=7)
    first = cluster.run_until_leader()
    cluster.partition({first}, rest=True)
    cluster.run_for("10s")
    assert cluster.acting_leaders_at_once() <= 1

Nothing sleeps; the same seed gives the same run; a failing test is repeated by its arguments alone (`repr(cluster)`).
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct

from doyen.core.clock import Duration, Instant, parse_duration, to_seconds
from doyen.core.commands import Resign
from doyen.core.ids import NodeId
from doyen.core.kinds import ElectionChoice
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.errors import ConfigError, LocalProtocolError
from doyen.node.arguments import chosen
from doyen.node.config import NodeConfig
from doyen.node.layers import by_path, configure
from doyen.node.stack import Stack
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.node import Clock, SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.sim.world import DISK, ELECTION, World

STEP: Duration = 10_000_000  # How finely `run_until` looks.


class Seen(Struct, frozen=True):
    """One fact: somebody came to name a leader, or to lose one."""

    at_s: float
    """The made-up time, in seconds."""
    node: str
    """The node that named a leader, or lost one."""
    kind: str
    """What happened: elected or lost."""
    leader: str
    """The leader that was named or lost."""
    term: int
    """The number of that leader's term."""
    reason: str = ""
    """Why it was lost."""


class Cluster:
    """A group of nodes; `fields` are those of `doyen.join`.  By default it elects with a quorum (pole)."""

    def __init__(
        self,
        nodes: int | Iterable[str],
        *,
        loss: float = 0.0,
        delay: str | float = "1ms",
        jitter: str | float = 0,
        duplicates: float = 0.0,
        seed: int = 0,
        election: str | ElectionChoice = "pole",
        preset: str = "local",
        **fields: Any,
    ) -> None:
        self.names = [f"n{i}" for i in range(nodes)] if isinstance(nodes, int) else list(nodes)
        if not self.names:
            raise ConfigError("a cluster needs nodes: give at least 1")
        if isinstance(nodes, str) or len({*self.names}) < len(self.names):
            raise ConfigError(f"{nodes!r} are no names of nodes: give several that differ, or how many")
        world = {"loss": loss, "delay": delay, "jitter": jitter, "duplicates": duplicates, "seed": seed}
        said = world | {"election": election, "preset": preset} | fields
        who = nodes if isinstance(nodes, int) else self.names
        self._said = ", ".join([f"Cluster({who!r}", *(f"{name}={value!r}" for name, value in said.items())])
        given: dict[str, Any] = {
            "group": "test",
            "state": DISK,
            "voters": tuple(self.names),
            "preset": preset,
            **fields,
        }
        given["election"] = chosen("election", election, given)
        given["membership"] = chosen("membership", fields.get("membership", "auto"), given)
        config = configure(by_path(given, world), environment={})
        mean, spread = parse_duration(delay), parse_duration(jitter)
        network = NetworkConfig(
            delay=Delay(model="uniform" if spread else "constant", mean=mean + spread, spread=spread),
            loss=Loss(model="uncorrelated" if loss else "none", prob=loss),
            duplicate_prob=duplicates,
        )
        streams = Streams(seed)
        topology = Topology(len(self.names), None)
        self.sim = Simulation(Network(network, topology, streams), streams, wire=True)
        self.world = World(self.sim, config, clock_of=lambda index: Clock())
        self.history: list[Seen] = []
        self.watchers: list[Callable[[Seen], None]] = []
        self._cut_no = 0
        self._cuts: list[str] = []  # Not healed yet.
        self._acting_max = 0
        self.sim.watchers.append(self._on_fact)
        self.sim.checks.append(self._on_event)
        for name in self.names:
            self.world.add(name)
        self.world.start()

    def __repr__(self) -> str:
        return f"{self._said}) at {self.now_s:.3f} s"

    # Time.

    @property
    def now_s(self) -> float:
        """The made-up time, in seconds since the beginning."""
        return to_seconds(self.sim.now)

    def run_for(self, duration: str | float) -> None:
        """Let that much made-up time pass."""
        self.sim.run(until=self.sim.now + parse_duration(duration))

    def run_until(self, holds: Callable[[], Any], within: str | float = "60s") -> float:
        """Run until it holds; return how long that took, in made-up seconds."""
        began = self.sim.now
        deadline = began + parse_duration(within)
        while not holds():
            if self.sim.now >= deadline:
                raise AssertionError(f"did not come to hold within {within}: {self.who_names_whom()}; {self!r}")
            self.sim.run(until=min(deadline, self.sim.now + STEP))
        return to_seconds(self.sim.now - began)

    def run_until_leader(self, within: str | float = "60s", *, other_than: str | None = None) -> str:
        """Run until all nodes that are up name one acting leader; return its name.

        With `other_than`, until all that reach each other name another one: of a partition, one side is enough.
        """
        found: list[str] = []

        def named() -> bool:
            leaders = [self.leader()] if other_than is None else [*map(self._led_by, self.world.regions())]
            found[:] = [leader for leader in leaders if leader is not None and leader != other_than]
            return bool(found)

        self.run_until(named, within)
        return found[0]

    # Who leads.

    def leader(self) -> str | None:
        """Return the leader that all running nodes name, if it acts."""
        return self._led_by(list(self.sim.up()))

    def _led_by(self, nodes: list[SimNode]) -> str | None:
        """Return the leader that these nodes name, if it is one of them and acts."""
        named = {self.named_by(node.name) for node in nodes}
        leader = next(iter(named)) if len(named) == 1 else None
        return leader if any(node.name == leader and self.world.acts(node) for node in nodes) else None

    def acting(self) -> set[str]:
        """Return the nodes that may act as leader at this instant, each by its own clock."""
        return {name for name in self.up() if self.is_leader(name)}

    def is_leader(self, name: str) -> bool:
        """Whether that node may act as leader now."""
        return self.world.acts(self._node(name))

    def named_by(self, name: str) -> str | None:
        """Return the leader that this node names, or None."""
        return self.stack(name).reigns[""].leader

    def term(self, name: str) -> int | None:
        """Return the number of the term that this node names, or None."""
        term = self.stack(name).reigns[""].term
        return None if term is None else term.number

    def acting_leaders_at_once(self) -> int:
        """Return the most that ever acted at one instant, looked at after every event."""
        return self._acting_max

    def who_names_whom(self) -> str:
        """Return in words whom each running node names, for messages of failing tests."""
        return ", ".join(f"{name} names {self.named_by(name) or 'nobody'}" for name in self.up())

    # Who is here.

    def up(self) -> list[str]:
        """Return the names of the nodes that run."""
        return [node.name for node in self.sim.up()]

    def members(self, name: str) -> dict[str, str]:
        """Return the state of each member by name, as that node believes."""
        return {member.node: member.status.value for member in self.stack(name).members()}

    def stack(self, name: str) -> Stack:
        """Return that node's machines."""
        return self.world.stack(self._node(name))

    def config(self, name: str) -> NodeConfig:
        """Return the configuration of that node."""
        return self.stack(name).config

    # Commands.

    def resign(self, name: str, to: str | None = None) -> None:
        """Have that node give leadership up, to the best of the others or to `to`."""
        self.sim.tell(self._node(name), Resign(None if to is None else NodeId(to)), channel=ELECTION)

    def leave(self, name: str) -> None:
        """End a node in order, and for good."""
        self.world.leave(self._node(name))

    def set_score(self, name: str, score: float) -> None:
        """Set the score of that node's application, from now on."""
        self.world.set_score(self._node(name), score)

    # Faults.

    def partition(self, *sides: Iterable[str], rest: bool = False) -> str:
        """Cut the sides apart; `rest`: everybody else is a side too.  Return the name of the cut, for `heal`."""
        groups = [set(side) for side in sides]
        named = set().union(*groups) if groups else set()
        if rest:
            groups.append(set(self.names) - named)
        if len(groups) < 2:
            raise LocalProtocolError("a partition has two sides: give another, or rest=True")
        if not all(groups) or sum(map(len, groups)) > len(set().union(*groups)):
            raise LocalProtocolError("the sides of a partition have at least one node each, and none in common")
        members = [[self._node(name) for name in sorted(group)] for group in groups]
        label = self._labelled("partition")
        self.sim.partition(label, *members)
        return label

    def cut(self, sender: str, receiver: str) -> str:
        """Cut one way: what the first sends does not reach the second."""
        between = [(self._node(sender), self._node(receiver))]
        label = self._labelled("cut")
        self.sim.block(label, between)
        return label

    def _labelled(self, kind: str) -> str:
        self._cut_no += 1
        self._cuts.append(f"{kind} {self._cut_no}")
        return self._cuts[-1]

    def heal(self, label: str | None = None) -> None:
        """Heal that cut, or all of them."""
        if label is not None and label not in self._cuts:
            raise LocalProtocolError(f"there is no {label!r} to heal: {', '.join(self._cuts) or 'nothing is cut'}")
        for healed in [*self._cuts] if label is None else [label]:
            self._cuts.remove(healed)
            self.sim.heal(healed)

    def crash(self, name: str, *, disk: Literal["kept", "lost"] = "kept") -> None:
        """Stop a node at once; `disk="lost"`: what it kept is gone too."""
        if disk not in ("kept", "lost"):
            raise LocalProtocolError(f"a crashed node's disk is kept or lost, not {disk!r}")
        self.sim.crash(self._node(name), disk=disk)

    def restart(self, name: str) -> None:
        """Start a crashed node again, with what its disk kept."""
        if name in self.up():
            raise LocalProtocolError(f"{name} runs: crash it first")
        self.sim.start(self._node(name))

    def pause(self, name: str) -> None:
        """Stop a node as SIGSTOP does: inputs pile up, timers are late."""
        self.sim.pause(self._node(name))

    def resume(self, name: str) -> None:
        """Let a paused node go on; it takes the messages and timers that have waited."""
        self.sim.resume(self._node(name))

    def slow_down(self, name: str, step: str | float) -> None:
        """Have every input of a node take that long; 0 ends it."""
        self.sim.slow_down(self._node(name), parse_duration(step))

    def set_loss(self, prob: float) -> None:
        """Lose that share of all messages from now on."""
        network = self.sim.network
        config = network.config
        loss = Loss(model="uncorrelated" if prob else "none", prob=prob)
        network.config = NetworkConfig(delay=config.delay, loss=loss, duplicate_prob=config.duplicate_prob)
        self.sim.network_changed()

    def step_clock(self, name: str, by: str | float) -> None:
        """Set a node's clock ahead."""
        node = self._node(name)
        assert node.clock is not None
        node.clock.offset += parse_duration(by)

    # Inside.

    def _node(self, name: str) -> SimNode:
        found = self.sim.by_name.get(NodeId(name))
        if found is None:
            raise LocalProtocolError(f"there is no node {name!r}: one of {', '.join(self.names)}")
        return found

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case LeaderElected(term):
                self._tell(Seen(to_seconds(now), node.name, "elected", term.leader, term.number))
            case LeaderLost(term, reason):
                self._tell(Seen(to_seconds(now), node.name, "lost", term.leader, term.number, reason))

    def _tell(self, seen: Seen) -> None:
        self.history.append(seen)
        for watch in self.watchers:
            watch(seen)

    def _on_event(self, now: Instant) -> None:
        if len(self.world.believers) > self._acting_max:  # Only they can act; so nearly every event costs a comparison.
            self._acting_max = max(self._acting_max, len(self.world.acting()))
