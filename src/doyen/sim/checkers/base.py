"""The base of every checker: one invariant, watched in one run, with a count of how often it really looked."""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.kinds import DELAYS
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.errors import InvariantViolated
from doyen.sim.node import SimNode
from doyen.sim.world import ELECTION, Fact, World

LOOK_MAX: Final = 16  # How many nodes a checker looks at after every event, in turn.
LEADERSHIP: Final = (LeaderElected, LeaderLost)

NodeStart = tuple[int, int]  # A node's index, and its incarnation.


class Violation(InvariantViolated):
    """An invariant that does not hold: its name, when, and for whom."""

    def __init__(self, check: str, at: Instant, text: str) -> None:
        super().__init__(f"{check} violated at {at / 1e9:.9f} s: {text}")
        self.check, self.at, self.text = check, at, text


class Checker:
    """One invariant.  Subclasses override what they watch; `rule` says what must hold."""

    name: ClassVar[str]
    rule: ClassVar[str]

    def __init__(self, world: World) -> None:
        self.world, self.sim = world, world.sim
        self.looked = 0
        self.attach()

    @classmethod
    def applies(cls, world: World) -> bool:
        """Return whether the world's stack promises this."""
        return True

    def attach(self) -> None:
        """Subscribe to what the checker watches."""

    def count(self) -> int:
        """Return how often it really looked."""
        return self.looked

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        """Look at the end of the run; by `settled_at` everything should have been in order."""

    def fail(self, text: str) -> None:
        raise Violation(self.name, self.sim.now, text)

    def each_announce(self, look: Callable[[SimNode, Announce], None]) -> None:
        """Look after every event at every live machine of announce-listen, or at LOOK_MAX of them in turn."""
        if not isinstance(self.world.table, AnnounceConfig):
            return
        turn = 0

        def check(now: Instant) -> None:
            nonlocal turn
            nodes = self.sim.nodes
            if len(nodes) > LOOK_MAX:
                turn = (turn + LOOK_MAX) % len(nodes)
                nodes = (nodes + nodes)[turn : turn + LOOK_MAX]
            for node in nodes:
                if node.host is not None:
                    machine = self.world.machine(node)
                    if isinstance(machine, Announce):  # Suppression alone has other machines.
                        self.looked += 1
                        look(node, machine)

        self.sim.checks.append(check)

    def on_leadership(self, look: Callable[[SimNode, Fact], None]) -> None:
        """Look at every fact of the group's election that a live node tells."""

        def watch(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
            if channel == ELECTION and fact.__class__ in LEADERSHIP and node.host is not None:
                self.looked += 1
                look(node, fact)

        self.sim.watchers.append(watch)


def is_exact(world: World) -> bool:
    """Return whether nothing is lost, late or slow, also on disks, and clocks agree: then stated times are exact."""
    network, delay = world.network.config, world.network.config.delay
    exact = delay.model == "constant" and not delay.link_spread and delay.mean <= DELAYS[world.config.preset]
    exact = exact and world.network.topology.complete and not world.sim.disk_delay and not world.has_own_clocks
    return exact and world.sound_memory and network == network.without_faults()


def start_of(node: SimNode) -> NodeStart:
    return node.index, node.incarnation


def is_own(node: SimNode, fact: Fact) -> bool:
    """Return whether the fact is about the node's own reign."""
    leader: NodeId = fact.term.leader
    return leader == node.name
