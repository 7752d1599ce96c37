"""A world whose nodes are processes: each runs a program on a real `doyen.Node`, under the faults of the simulator."""

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from doyen.core.clock import Duration
from doyen.core.host import Host
from doyen.core.ids import Address, NodeId
from doyen.core.rank import Standing
from doyen.errors import LocalProtocolError
from doyen.node.config import DEFAULT_PORT
from doyen.node.events import Event
from doyen.node.node import Node
from doyen.node.reign import Reign
from doyen.node.stack import Stack
from doyen.sim.engine import Simulation
from doyen.sim.node import SimNode
from doyen.sim.world import World
from doyen.testing.madeup.process import Process
from doyen.testing.madeup.refusal import EscapedMadeUpTime
from doyen.testing.madeup.swap import Place, reached
from doyen.testing.madeup.wires import Wires

Program = Callable[[Node], Coroutine[Any, Any, object]]
Main = Callable[[str], Coroutine[Any, Any, object]]
NODES_MAX: Final = 254 * 256


class Programs(World):
    """Runs a process on each node; a node that is started again runs its programs again."""

    def __init__(
        self,
        sim: Simulation,
        config: Any,
        *,
        main: Main | None,
        shows_wall_clock: bool,
        lateness_max: Duration,
        **options: Any,
    ) -> None:
        self.wires = Wires()
        self.escapes: list[EscapedMadeUpTime] = []
        self.failures: list[BaseException] = []
        self.main, self.shows_wall_clock, self.lateness_max = main, shows_wall_clock, lateness_max
        self.programs: dict[str, list[Program]] = {}
        self.places: list[Place] = reached(main)  # Where what the programs reach keeps clocks.
        self._looked_at: set[int] = set()
        self.processes: dict[int, Process] = {}
        self._ended: list[Process] = []
        self.event_watchers: list[Callable[[SimNode, Event], None]] = []  # Called with every elected and lost.
        self._own: dict[int, Node] = {}  # By index: the node that this world made.
        self._is_killing = False
        super().__init__(sim, config, **options)
        sim.deed_watchers.append(self._on_end)

    # Processes.

    def _setup(self, node: SimNode, host: Host) -> None:
        self.believers.pop(node.index, None)
        self.names[node.index], self.named_at[node.index] = (), self.sim.now
        self._records[node.index] = None
        self.processes[node.index] = process = Process(self, node)
        if self.main is not None:
            process.run(self.main(str(node.name)), is_main=True)
        else:
            self._own[node.index] = made = Node(self._config_here(node))
            process.run(self._joined(made), is_main=True)

    async def _joined(self, node: Node) -> None:
        async with node:
            for program in self.programs.get(node.name, []):
                self.process_of(node.name).run(program(node))
            await node.ended.wait()

    def _config_here(self, node: SimNode) -> Any:
        others = [other for other in self.sim.nodes if other is not node]
        return msgspec.structs.replace(
            self._config_of(node),
            name=node.name,
            bind=str(Address(self.wires.host(node), DEFAULT_PORT)),
            seeds=tuple(str(Address(self.wires.host(other), DEFAULT_PORT)) for other in others[:32]),
            find_local=False,
        )

    def add_program(self, name: str, program: Program) -> None:
        """Run a program on a node, now if it has joined, and whenever it is started again."""
        self.programs.setdefault(name, []).append(program)
        if id(program) not in self._looked_at:
            self._looked_at.add(id(program))
            self.places += reached(program)
        process = self.processes.get(self.sim.by_name[NodeId(name)].index)
        if process is not None and not process.loop.is_dead:
            node = self.node(name)
            if node.running:
                process.run(program(node))

    def process_of(self, name: str) -> Process:
        process = self.processes.get(self.sim.by_name[NodeId(name)].index)
        if process is None or process.loop.is_dead:
            raise LocalProtocolError(f"{name} does not run: restart it first")
        return process

    def alive(self) -> Iterator[Process]:
        return (process for process in self.processes.values() if not process.loop.is_dead)

    def node(self, name: str) -> Node:
        """Return the `doyen.Node` of a process: the one that was made for it, or the first that it joined with."""
        index = self.sim.by_name[NodeId(name)].index
        found = self._own.get(index) or next(iter(self.processes[index].nodes), None)
        if found is None:
            raise LocalProtocolError(f"{name} has not joined a group yet: run_for(…) lets it")
        return found

    def fail(self, node: SimNode, error: BaseException) -> None:
        """Stop the run: a program raised an error."""
        if not any(error is known for known in self.failures):
            error.add_note(f"in made-up process {node.name} at {self.sim.now / 1e9:.6f} s")
            self.failures.append(error)
        self.sim.stopped = True

    def on_exit(self, process: Process) -> None:
        """End a node whose main program has returned, as the kernel does."""
        if self.processes.get(process.node.index) is process and not process.loop.is_dead:
            self.sim.at(self.sim.now, partial(self.kill, process.node), f"{process.node.name} exits")

    def kill(self, node: SimNode) -> None:
        """End a process at once; unlike after a crash, its machine goes on and closes its connections."""
        self._is_killing = True
        try:
            self.sim.crash(node)
        finally:
            self._is_killing = False

    def _on_end(self, deed: str, node: SimNode) -> None:
        process = self.processes.get(node.index)
        if deed == "crash" and process is not None and not process.loop.is_dead:
            process.die()
            self._ended.append(process)
            self.wires.forget(node, killed=self._is_killing)
            self.believers.pop(node.index, None)

    def unwind(self) -> None:
        """End all processes once the run is over."""
        for process in [*self._ended, *self.processes.values()]:
            if not process.loop.is_closed():
                process.unwind()

    # Commands to a process that runs.

    def leave(self, node: SimNode) -> None:
        process = self.process_of(node.name)
        process.run(self.node(node.name).leave())

    def resign(self, node: SimNode, to: NodeId | None = None) -> bool:
        self.process_of(node.name).run(self.node(node.name).resign(to=to))
        return True

    def set_score(self, node: SimNode, score: Standing) -> None:
        raise LocalProtocolError("a program's score is its own: join with score=… in it, or tell(score=…)")

    # Who leads, as seen from outside.

    def reign(self, node: SimNode) -> Reign | None:
        """Return the group's own election of a node, as its process knows it; None: it has not joined."""
        process = self.processes.get(node.index)
        joined = [] if process is None or process.loop.is_dead else process.nodes
        return joined[0].agent.stack.reigns.get("") if joined and joined[0].running else None

    def named_by(self, node: SimNode) -> tuple[NodeId, ...]:
        reign = self.reign(node)
        return () if reign is None or reign.leader is None else (reign.leader,)

    def acts(self, node: SimNode) -> bool:
        reign = self.reign(node)
        process = self.processes.get(node.index)
        return reign is not None and process is not None and process.nodes[0].is_leader

    def stack(self, node: SimNode) -> Stack:
        return self.node(node.name).agent.stack

    def on_event(self, node: SimNode, event: Event) -> None:
        """Follow an event of a node: it tells what the simulator's facts tell of bare stacks."""
        reign = self.reign(node)
        if reign is None or event.election or event.kind not in ("elected", "lost"):
            return
        if reign.mine is None:
            self.believers.pop(node.index, None)
        elif node.index not in self.believers:
            self.believers[node.index] = None
            self.began_to_lead += 1
        named = self.named_by(node)
        if named != self.names[node.index]:
            self.names[node.index], self.named_at[node.index] = named, self.sim.now
        self.sim.trace.records += (self.sim.now, -1 - node.index)
        for watch in self.event_watchers:
            watch(node, event)
