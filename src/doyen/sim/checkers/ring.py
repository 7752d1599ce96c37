"""Checkers of a ring: the theorems of [ARB], each watched from outside, and what it comes to when it is left alone.

`ring_watch` does the looking, once for all of them; a checker here is one theorem's name, rule and count.
"""

from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from doyen.core.clock import FOREVER, Instant
from doyen.core.ids import NodeId
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import LeftRing
from doyen.sim.checkers.base import Checker, Violation
from doyen.sim.checkers.ring_watch import Watch
from doyen.sim.node import SimNode
from doyen.sim.world import MEMBERSHIP, World, ring_of

LOSS_BORNE = 0.01  # Up to here, three tries reach everybody who is in reach.


class RingWatch(Watch):
    """The watch of one world: it follows what is done to nodes, and judges by the theorems that somebody asked for."""

    def __init__(self, world: World, config: ArbitrationConfig) -> None:
        super().__init__(world.sim, config, MEMBERSHIP)
        loss = world.network.config.loss
        lossless = loss.model == "none" or loss.prob == 0
        self.votes_promised = lossless or (loss.prob <= LOSS_BORNE and bool(config.resends))
        self.asked_for: set[str] = set()
        self._woke_at: dict[NodeId, Instant] = {}
        self.sim.deed_watchers.append(self._on_deed)
        self._look_at_doors()

    def fail(self, theorem: str, text: str) -> None:
        if theorem in self.asked_for:
            raise Violation(theorem, self.sim.now, text)

    def _look_at_doors(self) -> None:
        self.check_doors()
        self.sim.look(self.sim.now + self.config.lease // 4, self._look_at_doors)

    def _on_deed(self, deed: str, node: SimNode) -> None:
        machine = self.machine(node.name)
        self._woke_at.pop(node.name, None)
        match deed:
            case "start" if machine is not None:
                # A member that comes back says by that, too, that its earlier incarnation is over.
                self.left_aloud.add((node.name, self.incarnations.get(node.name, 0)))
                self.incarnations[node.name] = machine.seat.incarnation
            case "crash":
                self.note_crash(node)
            case "pause":
                self._woke_at[node.name] = FOREVER
            case "resume":
                self._woke_at[node.name] = self.sim.now
                self.note_awake(node)

    def _check_majority(self, me: Name, fact: LeftRing, now: Instant) -> None:
        """Leave those out that were paused during their own arbitration: they asked too late."""
        patience = int(self.config.arbitration / (1 - self.config.drift)) + 2
        if now - self._woke_at.get(me[0], -patience) >= patience:
            super()._check_majority(me, fact, now)

    def why_empty(self) -> str | None:
        """Return why a ring without members is wrong; None if a group lost its majority, or the last was free to go."""
        if any(fact.why in ("no majority", "minority") for _, fact in self.departures):
            return None
        crashes = [(at, "crashed") for at in self.crashed_at.values()]
        _, why = max([*crashes, *((at, fact.why) for at, fact in self.departures)], default=(0, "never there"))
        legal = ("crashed", "asked", "asleep")
        for size in (2, 3):  # Each accused the next: of two, one is no majority; of three, each has the third's vote.
            groups = [frozenset(fact.group) for _, fact in self.departures[-size:] if fact.why == "outvoted"]
            if len(groups) == size == len(groups[0]) and len({*groups}) == 1:
                return None
        return None if why in legal else f"no group had lost its majority, and the last to leave was {why}"


class _OfTheRing(Checker):
    _watches: ClassVar[WeakKeyDictionary[World, RingWatch]] = WeakKeyDictionary()

    @classmethod
    def applies(cls, world: World) -> bool:
        return ring_of(world.config) is not None and world.bounded_clocks and world.timely

    def attach(self) -> None:
        config = ring_of(self.world.config)
        assert config is not None
        if self.world not in self._watches:
            self._watches[self.world] = RingWatch(self.world, config)
        self.watch = self._watches[self.world]
        self.watch.asked_for.add(self.name)

    def count(self) -> int:
        return self.watch.looked[self.name]


RULES: Final = {
    "upgrade": "a neighbour goes by an upgraded group within 2·T_l, if both leases live on  [ARB Thm 1]",
    "detection": "every active monitor suspects a crashed member within 2·T_l  [ARB Thm 2]",
    "symmetric": "a suspected member suspects in turn, or is gone, within 2·T_l  [ARB Thm 3]",
    "mutual": "a member that suspects asks its arbitrators at once  [ARB Cor 1]",
    "lifespan": "a member that was voted out is gone 2·T_l + T_a after it was suspected  [ARB Thm 4]",
    "recent": "no two living members have been granted each other's death  [ARB Cor 2]",
    "recovery": "when recovery starts, the other is gone  [ARB Cor 3]",
    "consistency": "4·T_l + T_a after a crash nobody who listed the dead still does  [ARB Thm 5]",
    "joins": "nobody serves two joiners at once; at rest everybody watches exactly its neighbours  [ARB Thm 6, 7]",
    "majority": (
        "a member that leaves for want of a majority had none in reach; one that is outvoted was accused  [ARB Rule 2]"
    ),
}


class Theorem(_OfTheRing):
    """One theorem of [ARB]; the watch does the looking."""

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        split = self.watch.config.partition == "split"
        if self.name == "joins" and now >= settled_at and self.watch.members() and self.watch.is_settled():
            self.watch.check_neighbourhoods(one_ring=not split)


class ComesToRest(_OfTheRing):
    name = "rest"
    rule = (
        "ring: in quiet time it comes to rest; it is empty only if a group had lost its majority, the last member "
        "crashed, slept or left, or the last two or three outvoted each other"
    )

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        if now < settled_at:
            return
        self.watch.looked[self.name] += 1
        if not self.watch.members():
            why = self.watch.why_empty()
            if why is not None:
                self.fail(f"the ring is empty: {why}")
        elif self.watch.config.partition != "split" and not self.watch.is_settled():
            joining = [node.name for node in self.sim.up() if self._is_out(node)]
            self.fail(f"the ring has not come to rest; {', '.join(joining) or 'nobody'} is out of it")

    def _is_out(self, node: SimNode) -> bool:
        membership = self.world.stack(node).membership
        return isinstance(membership, Arbitration) and not membership.is_member


THEOREMS: Final = tuple(
    type(name.title(), (Theorem,), {"name": name, "rule": f"ring: {rule}"}) for name, rule in RULES.items()
)
CHECKERS: Final[tuple[type[Checker], ...]] = (*THEOREMS, ComesToRest)
