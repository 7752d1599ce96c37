"""The wills of leaders that are killed: sent once all that acted has ended, and again long after (decision 96).

A leader's process dies; what it began, its *ward*, may act on until the lease ends, and `World.wards` tells so.
Its will is sent when the ward has ended, three times, as a keeper does.  Wills are remembered, as a network or a thief
would: an old one, of a term that is over, comes again at any time.
"""

from typing import TYPE_CHECKING, Any, Final

from doyen.core.clock import Duration, Instant, ms
from doyen.core.leadership import LeaderElected
from doyen.election.pole.machine import Pole
from doyen.node.stack import ELECTION
from doyen.sim.node import SimNode
from doyen.sim.streams import Stream

if TYPE_CHECKING:
    from doyen.sim.world import World

ROUNDS: Final = 3
APART: Final[Duration] = ms(30)


class Wills:
    """The wills that are kept for the leaders of one run."""

    early = False  # A broken keeper sends the will while the ward acts.

    def __init__(self, world: "World") -> None:
        self.world, self.sim = world, world.sim
        self._past: list[tuple[SimNode, int, Any]] = []  # The author, the term and the will of each reign.
        self.sim.watchers.append(self._on_fact)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if channel == ELECTION and isinstance(fact, LeaderElected) and fact.term.leader == node.name:
            will = self._of(node)
            if will is not None:
                self._past.append((node, fact.term.number, will))

    def _of(self, node: SimNode) -> Any:
        machine = self.world.machine(node)
        return machine.will() if isinstance(machine, Pole) else None

    def kill(self, node: SimNode, rng: Stream) -> bool:
        """Kill a leader that has left a will; return whether it did.  In half of the cases its ward outlives it."""
        will, lease = self._of(node), self.world.machine(node).lease_until()
        share = max(0.0, 2.0 * rng.random() - 1.0)
        if will is None or lease is None or not self.world.acts(node):
            return False
        over_at = lease if node.clock is None else node.clock.true(lease)
        ward, ends_at = object(), self.sim.now + int(share * (over_at - 1 - self.sim.now))
        self.world.wards[ward] = node.name
        self.sim.crash(node)
        self.sim.at(ends_at, lambda: self.world.wards.pop(ward), f"what {node.name} began ends")
        sent_at = self.sim.now if self.early else ends_at
        for number in range(ROUNDS):
            self.sim.at(sent_at + number * APART, lambda: self._send(node, will, over_at), f"{node.name}'s will")
        return True

    def _send(self, node: SimNode, will: Any, until: Instant) -> None:
        if self.sim.now < until:
            self.sim.multicast(node, self.sim.channel(ELECTION), will)

    def play(self, rng: Stream) -> bool:
        """Send a will of a term that is over once more; return whether there is one."""
        acting = {self.world.machine(self.sim.nodes[index]).term for index in self.world.believers}
        numbers = {term.number for term in acting if term is not None}
        old = [(node, will) for node, number, will in self._past if number not in numbers]
        if not old or self.world.wards:
            return False
        own = [(node, will) for node, will in old if node.index in self.world.believers]
        old = own if own and rng.random() < 0.5 else old  # Half of them are stolen from who leads now.
        node, will = old[-1 - int(rng.random() * min(len(old), 4))]  # Voters remember the latest terms best.
        self.sim.multicast(node, self.sim.channel(ELECTION), will)
        return True
