"""Counts for a study of a ring, besides the theorems: requests, joins, recoveries, reigns, and every violation.  [ARB]

Upper bounds are watched always; lower bounds only where nothing is lost, cut or skewed (`exact`).
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name
from doyen.membership.ring.messages import JoinedRing, RecoveryStarted, Requested, Suspected, UpgradeAborted
from doyen.sim.checkers.ring import RULES
from doyen.sim.checkers.ring_watch import Watch
from doyen.sim.engine import Simulation
from doyen.sim.node import SimNode

THEOREMS: Final = (*RULES, "owners")  # The last one: never two who act for one key.


class StudyWatch(Watch):
    """It keeps a line for each violation, and goes on."""

    def __init__(
        self,
        sim: Simulation,
        config: ArbitrationConfig,
        channel: str,
        election: str,
        *,
        exact: bool,
        delay: Duration = 0,
    ) -> None:
        super().__init__(sim, config, channel)
        self._election, self._exact, self._delay = election, exact, delay
        self.violations: Counter[str] = Counter()
        self.lines: list[str] = []
        self.recoveries: list[tuple[Instant, Name]] = []
        self.joins: list[JoinedRing] = []
        self.aborts = 0
        self.requests: Counter[Name] = Counter()
        self.acting: dict[str, Instant] = {}  # By node: since when it acts for the key.
        self.reigns: list[tuple[Instant, str, int]] = []
        self.owners_promised = True

    def fail(self, theorem: str, text: str) -> None:
        self.violations[theorem] += 1
        if len(self.lines) < 50:
            self.lines.append(f"{theorem} at {self.sim.now / self.config.lease:.4f} T_l: {text}")

    def plan(self, when: Instant, look: Callable[[], None], what: str) -> None:
        """Plan a later look as an act of the world, in its trace."""
        self.sim.at(when, look, what)

    def note_crash(self, node: SimNode) -> None:
        super().note_crash(node)
        self.acting.pop(node.name, None)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if channel == self._election:
            self._on_leadership(node, fact, now)
        elif channel == self.channel:
            self._count(node, fact, now)
        super()._on_fact(node, channel, fact, now)

    def _count(self, node: SimNode, fact: Any, now: Instant) -> None:
        match fact:
            case Suspected():
                self._check_lower_bound((node.name, self.incarnations.get(node.name, 1)), fact.peer.name, now)
            case Requested():
                self.requests.update(seat.name for seat in fact.group)
            case RecoveryStarted():
                self.recoveries.append((now, fact.peer.name))
            case JoinedRing():
                self.joins.append(fact)
            case UpgradeAborted():
                self.aborts += 1

    def _check_lower_bound(self, me: Name, peer: Name, now: Instant) -> None:
        """[ARB Thm 2] No monitor suspects a crashed member before T_l is over, less the delay."""
        crashed = self.crashed_at.get(peer)
        if crashed is not None and self._exact and me in self.monitors[peer]:
            self.looked["detection"] += 1
            if now - crashed < self.config.lease - self._delay:
                self.fail("detection", f"{me} suspected {peer} only {now - crashed} ns after its crash")

    def _on_leadership(self, node: SimNode, fact: Any, now: Instant) -> None:
        if fact.__class__ is LeaderElected and fact.term.leader == node.name:
            self.looked["owners"] += 1
            self.reigns.append((now, node.name, fact.term.number))
            living = (name for name in self.acting if self.sim.by_name[NodeId(name)].host is not None)
            others = [name for name in living if name != node.name]
            if others and self.owners_promised:
                self.fail("owners", f"{node.name} acts while {others} act")
            self.acting[node.name] = self.sim.now
        elif fact.__class__ is LeaderLost and fact.term.leader == node.name:
            self.acting.pop(node.name, None)
