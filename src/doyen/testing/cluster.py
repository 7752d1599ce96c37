"""A group in made-up time: the very machines of `doyen.join`, an in-memory network, faults, and a clock you move.

    cluster = Cluster(5, loss=0.2, seed=7)
    first = cluster.run_until_leader()
    cluster.partition({first}, rest=True)
    cluster.run_for("10s")
    assert cluster.acting_leaders_at_once() <= 1

Nothing sleeps; the same seed gives the same run; a failing test is repeated by its arguments alone (`repr(cluster)`).
"""

from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import Duration, Instant, parse_duration, to_seconds
from doyen.core.commands import Resign
from doyen.core.ids import NodeId
from doyen.core.kinds import ElectionChoice
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.errors import ConfigError, LocalProtocolError
from doyen.node.arguments import chosen
from doyen.node.config import NodeConfig
from doyen.node.events import Event
from doyen.node.layers import by_path, configure
from doyen.node.reign import Reign
from doyen.node.stack import Stack
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.node import Clock, SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.sim.world import DISK, ELECTION, World
from doyen.testing.lanes import Lanes

if TYPE_CHECKING:
    from doyen.node.node import Node as RealNode
    from doyen.postmortem.simulated import Simulated
    from doyen.testing.madeup.world import Main, Program, Programs

T = TypeVar("T")

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
    """A group of nodes; `fields` are those of `doyen.join`.  By default it elects with a quorum (pole).

    `like` has the settings of a node that runs, instead of fields.
    """

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
        program: "Program | None" = None,
        main: "Main | None" = None,
        lateness: str | float = 0,
        wall_clock: Literal["refused", "made-up"] = "refused",
        like: NodeConfig | None = None,
        **fields: Any,
    ) -> None:
        self.names = [f"n{i}" for i in range(nodes)] if isinstance(nodes, int) else list(nodes)
        if not self.names:
            raise ConfigError("a cluster needs nodes: give at least 1")
        if isinstance(nodes, str) or len({*self.names}) < len(self.names):
            raise ConfigError(f"{nodes!r} are no names of nodes: give several that differ, or how many")
        if wall_clock not in ("refused", "made-up"):
            raise ConfigError(f"{wall_clock!r} is no way with clocks: refused or made-up", field="wall_clock")
        world: dict[str, Any] = {"loss": loss, "delay": delay, "jitter": jitter, "duplicates": duplicates, "seed": seed}
        if lateness:
            world["lateness"] = lateness
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
        config = configure(by_path(given, world), environment={}) if like is None else like
        mean, spread = parse_duration(delay), parse_duration(jitter)
        network = NetworkConfig(
            delay=Delay(model="uniform" if spread else "constant", mean=mean + spread, spread=spread),
            loss=Loss(model="uncorrelated" if loss else "none", prob=loss),
            duplicate_prob=duplicates,
        )
        self.seed, self._network, self._config = seed, network, config
        self._main, self._lateness, self._shows_wall_clock = main, parse_duration(lateness), wall_clock == "made-up"
        self._programs: Programs | None = None
        self._film: Simulated | None = None
        self.watchers: list[Callable[[Seen], None]] = []
        self._begin(as_programs=program is not None or main is not None)
        if program is not None:
            for name in self.names:
                self.spawn(name, program)

    def _begin(self, *, as_programs: bool) -> None:
        """Make the nodes: bare stacks of machines, or processes that run programs."""
        streams = Streams(self.seed)
        topology = Topology(len(self.names), None)
        self.sim = Simulation(Network(self._network, topology, streams), streams, wire=True)
        self.history: list[Seen] = []
        self.marks: list[tuple[float, str, str]] = []
        self._cut_no = 0
        self.cuts: list[str] = []  # Not healed yet.
        self._acting_max = 0
        self._lanes = Lanes(self)
        if as_programs:
            from doyen.testing.madeup.world import Programs

            self._programs = programs = Programs(
                self.sim,
                self._config,
                main=self._main,
                shows_wall_clock=self._shows_wall_clock,
                lateness_max=self._lateness,
                clock_of=lambda index: Clock(),
            )
            programs.event_watchers.append(self._on_program_event)
            self.world: World = programs
            self._chance = Random(streams.base("global random stream"))
        else:
            self.world = World(self.sim, self._config, clock_of=lambda index: Clock())
            self.sim.watchers.append(self._on_fact)
        self.sim.checks.append(self._on_event)
        for name in self.names:
            self.world.add(name)
        self.world.start()
        if self._film is not None:
            self.film()

    def __repr__(self) -> str:
        return f"{self._said}) at {self.now_s:.3f} s"

    # Time.

    @property
    def now_s(self) -> float:
        """The made-up time, in seconds since the beginning."""
        return to_seconds(self.sim.now)

    def run_for(self, duration: str | float) -> None:
        """Let that much made-up time pass."""
        with self._time():
            self._run(self.sim.now + parse_duration(duration))

    def _time(self) -> AbstractContextManager[None]:
        """Return a context in which programs read made-up clocks."""
        if self._programs is None:
            return nullcontext()
        from doyen.testing.madeup.swap import made_up

        return made_up(self._chance, self._programs.places)

    def _run(self, until: Instant) -> None:
        self.sim.run(until=until)
        if self._programs is None:
            return
        self.sim.stopped = False
        if self._programs.failures:
            raise self._programs.failures.pop(0)
        if self._programs.escapes:
            raise self._programs.escapes.pop(0)

    def run_until(self, holds: Callable[[], Any], within: str | float = "60s") -> float:
        """Run until it holds; return how long that took, in made-up seconds."""
        began = self.sim.now
        deadline = began + parse_duration(within)
        with self._time():
            while not holds():
                if self.sim.now >= deadline:
                    raise AssertionError(f"did not come to hold within {within}: {self.who_names_whom()}; {self!r}")
                self._run(min(deadline, self.sim.now + STEP))
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
        """Return whether that node may act as leader now."""
        return self.world.acts(self._node(name))

    def named_by(self, name: str) -> str | None:
        """Return the leader that this node names, or None."""
        return next(iter(self.world.named_by(self._node(name))), None) if self._programs else self._reign(name).leader

    def term(self, name: str) -> int | None:
        """Return the number of the term that this node names, or None."""
        term = self._reign(name).term
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

    def _reign(self, name: str) -> Reign:
        return self.stack(name).reigns[""]

    def config(self, name: str) -> NodeConfig:
        """Return the configuration of that node."""
        return self.stack(name).config

    # Programs.

    def _as_programs(self) -> "Programs":
        if self._programs is None:
            if self.sim.event_count:
                raise LocalProtocolError("time has passed: ask for node(…) and spawn(…) before, or give program=…")
            self._begin(as_programs=True)
        assert self._programs is not None
        return self._programs

    def node(self, name: str) -> "RealNode":
        """Return the `doyen.Node` of that process: a real one, in made-up time.

        Ask it what it knows here; await what it does in a program, or by `run(name, node.resign())`.
        """
        self._node(name)
        return self._as_programs().node(name)

    def spawn(self, name: str, program: "Program") -> None:
        """Run a program on that node, as `await program(node)`: once it has joined, and after each restart again."""
        self._node(name)
        self._as_programs().add_program(name, program)

    def run(self, name: str, coroutine: Coroutine[Any, Any, T], within: str | float = "60s") -> T:
        """Await that in the process of a node, in made-up time; return what it returned."""
        self._node(name)
        programs = self._as_programs()
        process = programs.process_of(name)
        if self._main is None:
            self.run_until(lambda: programs.node(name).running)
        task = process.loop.create_task(coroutine)
        self.run_until(task.done, within)
        return task.result()

    def kill(self, name: str) -> None:
        """End a process at once, as SIGKILL does: its machine goes on, and closes its connections."""
        self._as_programs().kill(self._node(name))

    def mark(self, name: str, text: str) -> None:
        """Note what a program did, for the lane picture."""
        self._node(name)
        self.marks.append((self.now_s, name, text))

    def lanes(self) -> str:
        """Return a picture of the run so far, as SVG: a lane per node, who led, what was done to it, and your marks."""
        return self._lanes.svg()

    def film(self) -> None:
        """Watch what happens from here on, for `html`; the fixture does so for every cluster."""
        from doyen.postmortem.simulated import Simulated

        self._film = film = Simulated(self.world)
        if self._programs is not None:
            self._programs.event_watchers.append(film.on_event)

    def html(self) -> str:
        """Return what happened since `film`, as one file to look at: lanes, a verdict, and `explain` at any instant."""
        from doyen.postmortem.document import document

        if self._film is None:
            raise LocalProtocolError("nothing was filmed: call film() before time passes")
        return document(self._film.incident(repr(self), marks=self.marks))

    def close(self) -> None:
        """End the programs; only after this do the `finally` clauses of crashed processes run."""
        if self._programs is not None:
            self._programs.unwind()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Commands.

    def resign(self, name: str, to: str | None = None) -> None:
        """Have that node give leadership up, to the best of the others or to `to`."""
        if self._programs is not None:
            self._programs.resign(self._node(name), None if to is None else NodeId(to))
            return
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
        self.cuts.append(f"{kind} {self._cut_no}")
        return self.cuts[-1]

    def heal(self, label: str | None = None) -> None:
        """Heal that cut, or all of them."""
        if label is not None and label not in self.cuts:
            raise LocalProtocolError(f"there is no {label!r} to heal: {', '.join(self.cuts) or 'nothing is cut'}")
        for healed in [*self.cuts] if label is None else [label]:
            self.cuts.remove(healed)
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

    def _on_program_event(self, node: SimNode, event: Event) -> None:
        named = Seen(self.now_s, node.name, event.kind, event.leader or "", event.term or 0, event.reason)
        self._tell(named if event.kind == "lost" else replace(named, reason=""))

    def _tell(self, seen: Seen) -> None:
        self.history.append(seen)
        for watch in self.watchers:
            watch(seen)

    def _on_event(self, now: Instant) -> None:
        if len(self.world.believers) > self._acting_max:  # Only they can act; so nearly every event costs a comparison.
            self._acting_max = max(self._acting_max, len(self.world.acting()))
