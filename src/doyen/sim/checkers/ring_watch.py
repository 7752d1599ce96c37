"""One observer of a ring, from outside and in true time, for all theorems of [ARB].

Every bound is divided by (1 − r) under drift.  A checker of `ring` is one theorem's name, rule and count.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name, neighbours
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import (
    Condemned,
    JoinedRing,
    LeftRing,
    RecoveryStarted,
    Requested,
    Suspected,
    Upgraded,
)
from doyen.membership.ring.pair import Pair, Stage
from doyen.sim.engine import Simulation
from doyen.sim.node import SimNode

Handler = Callable[["Watch", Name, Any, Instant], None]  # (watch, who tells, fact, now)


class Watch:
    """The observer of one ring; a class that derives from it says how a violation is taken (`fail`)."""

    HANDLERS: ClassVar[dict[type, Handler]] = {}

    def __init__(self, sim: Simulation, config: ArbitrationConfig, channel: str) -> None:
        self.sim, self.config, self.channel = sim, config, channel
        self.looked: Counter[str] = Counter()  # By theorem.
        self.crashed_at: dict[Name, Instant] = {}
        self.monitors: dict[Name, frozenset[Name]] = {}  # By crashed member: those who watched it for certain,
        self.listing: dict[Name, frozenset[Name]] = {}  # and those whose neighbourhood it was in, certain or not.
        self.suspected: dict[tuple[Name, Name], Instant] = {}
        self.condemned: set[tuple[Name, Name]] = set()
        self.departures: list[tuple[Instant, LeftRing]] = []
        self.left_aloud: set[Name] = set()  # Members that said that they leave.
        self.in_reach: dict[Name, list[tuple[Instant, frozenset[Name]]]] = {}  # By asker: when, and who could vote.
        self.incarnations: dict[NodeId, int] = {}  # Of the present seats, as far as members told.
        self.votes_promised = True  # Enough votes arrive: they are repeated often enough for what is lost.
        slow = 1.0 - config.drift
        self._two_leases = int(2 * config.lease / slow) + 2
        self._lifespan = int((2 * config.lease + config.arbitration) / slow) + 2
        recent = (2 * config.lease + config.arbitration) * (1 + config.drift) / (1 - config.drift)
        self._consistency = int((2 * config.lease + recent) / slow) + 2
        sim.watchers.append(self._on_fact)

    def fail(self, theorem: str, text: str) -> None:
        """Take a violation."""
        raise NotImplementedError

    def plan(self, when: Instant, look: Callable[[], None], what: str) -> None:
        """Plan a later look that leaves no trace."""
        self.sim.look(when, look)

    # What is there.

    def machine(self, node: str) -> Arbitration | None:
        found = self.sim.by_name.get(NodeId(node))
        if found is None or found.host is None or self.channel not in found.host.ports:
            return None
        machine = found.host.ports[self.channel].machine
        return machine if isinstance(machine, Arbitration) else None

    def member(self, name: Name) -> Arbitration | None:
        """Return the machine of that incarnation if it is a member; a paused one finds out when it resumes."""
        machine = self.machine(name[0])
        if machine is not None and self.sim.by_name[NodeId(name[0])].state == "paused":
            return None
        return machine if machine is not None and machine.is_member and machine.seat.name == name else None

    def members(self) -> list[Arbitration]:
        found = (self.machine(node.name) for node in self.sim.nodes)
        return [machine for machine in found if machine is not None and machine.is_member]

    # What happens.

    def note_crash(self, node: SimNode) -> None:
        """Note who watches and lists a member; called just before it crashes."""
        machine = self.machine(node.name)
        if machine is None or not machine.is_member:
            return
        name, now = machine.seat.name, self.sim.now
        self.crashed_at[name] = now
        pairs = [(other.seat.name, other.pairs[name]) for other in self.members() if name in other.pairs]
        self.monitors[name] = frozenset(other for other, pair in pairs if pair.certain and pair.watching)
        self.listing[name] = frozenset(other for other, pair in pairs if pair.stage is Stage.ACTIVE)
        self.plan(now + self._two_leases, lambda: self._check_detected(name), "look: detection")
        self.plan(now + self._consistency, lambda: self._check_consistent(name), "look: consistency")

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        handle = self.HANDLERS.get(fact.__class__)
        if handle is not None and channel == self.channel:
            # By the incarnation that told it: a step may end one.
            handle(self, (node.name, self.incarnations.get(node.name, 1)), fact, now)

    def _on_suspected(self, me: Name, fact: Suspected, now: Instant) -> None:
        peer = fact.peer.name
        self.suspected[me, peer] = now
        if fact.certain:
            self.plan(now + self._two_leases, lambda: self._check_symmetric(me, peer), "look: symmetric")

    def _on_requested(self, me: Name, fact: Requested, now: Instant) -> None:
        self.looked["mutual"] += 1
        if self.suspected.get((me, fact.peer.name)) != now:
            self.fail("mutual", f"{me} asked about {fact.peer}, and not at once")
        self.in_reach.setdefault(me, []).append((now, self._reach(me)))

    def _reach(self, me: Name) -> frozenset[Name]:
        """Return who is able to vote, and to be heard, as things are now."""
        mine, found = self.sim.by_name[me[0]], [me]
        for node in self.sim.nodes:
            machine = self.machine(node.name)
            if node.state != "up" or node is mine or (machine is not None and not machine.is_member):
                continue
            reaches = self.sim.network.reaches
            if reaches(mine.index, node.index) and reaches(node.index, mine.index):
                found.append((node.name, 1) if machine is None else machine.seat.name)
        return frozenset(found)

    def _check_symmetric(self, me: Name, peer: Name) -> None:
        """Look whether the suspect suspects in turn; the first has not acked since, even if it has left."""
        self.looked["symmetric"] += 1
        other = self.member(peer)
        pair = None if other is None else other.pairs.get(me)
        if pair is not None and pair.watching and pair.stage is Stage.ACTIVE:
            self.fail("symmetric", f"{me} suspected {peer} long ago, and {peer} still goes by its lease")

    def _check_detected(self, name: Name) -> None:
        for monitor in self.monitors[name]:
            machine = self.member(monitor)
            pair = None if machine is None else machine.pairs.get(name)
            self.looked["detection"] += 1
            if pair is not None and pair.watching and pair.stage is Stage.ACTIVE:
                self.fail("detection", f"{monitor} has not noticed the crash of {name} in 2·T_l")

    def _check_consistent(self, name: Name) -> None:
        for monitor in self.listing[name]:
            machine = self.member(monitor)
            self.looked["consistency"] += 1
            pair = None if machine is None else machine.pairs.get(name)
            if pair is not None and pair.stage is Stage.ACTIVE:  # A dormant one is a new attempt to reach it.
                self.fail("consistency", f"{monitor} still lists {name} after 4·T_l + T_a")

    def _on_condemned(self, me: Name, fact: Condemned, now: Instant) -> None:
        peer = fact.peer.name
        self.condemned.add((me, peer))
        self.looked["recent"] += 1
        self._check_mutual(me, peer)
        since = self.suspected[me, peer]
        self.plan(max(since + self._lifespan, now), lambda: self._check_gone("lifespan", me, peer), "look: lifespan")

    def _check_mutual(self, me: Name, peer: Name) -> None:
        if (peer, me) in self.condemned and self.member(me) is not None and self.member(peer) is not None:
            self.fail("recent", f"{me} and {peer} live, and each was granted the other's death")

    def note_awake(self, node: SimNode) -> None:
        """Look at a node that resumed and did what it had missed: if it was voted out, it has left by now."""
        for me, peer in self.condemned:
            if peer[0] == node.name:
                self._check_mutual(me, peer)
                if self.suspected[me, peer] + self._lifespan <= self.sim.now:
                    self._check_gone("lifespan", me, peer)

    def _check_gone(self, theorem: str, me: Name, peer: Name) -> None:
        self.looked[theorem] += 1
        if theorem == "lifespan" and me in self.left_aloud:
            return  # It left, too, and said so before the wait was over: who heard that may stay.
        if self.member(peer) is not None:
            self.fail(theorem, f"{peer} is still here, though {me} had it voted out")

    def _on_recovery(self, me: Name, fact: RecoveryStarted, now: Instant) -> None:
        self._check_gone("recovery", me, fact.peer.name)

    def _on_upgraded(self, me: Name, fact: Upgraded, now: Instant) -> None:
        peer, version = fact.peer.name, fact.version
        self.plan(now + self._two_leases, lambda: self._check_upgraded(me, peer, version), "look: upgrade")

    def _check_upgraded(self, me: Name, peer: Name, version: int) -> None:
        mine, theirs = self.member(me), self.member(peer)
        if mine is None or theirs is None:
            return
        ours, other = mine.pairs.get(peer), theirs.pairs.get(me)
        if ours is None or other is None or not (ours.watching and other.watching):
            return
        if ours.stage is not Stage.ACTIVE or other.stage is not Stage.ACTIVE:
            return  # Another pair of the same two, made since.
        self.looked["upgrade"] += 1
        if other.theirs is None or other.theirs.number < version <= ours.mine.number:
            self.fail("upgrade", f"{peer} does not go by version {version} of {me} after 2·T_l")
        elif other.theirs.number == ours.mine.number and other.theirs.members != ours.mine.members:
            self.fail("upgrade", f"{peer} and {me} go by different groups of one version")

    def _on_left(self, me: Name, fact: LeftRing, now: Instant) -> None:
        self.departures.append((now, fact))
        self.incarnations[me[0]] = fact.seat.incarnation + 1
        if self.config.announced and (fact.why == "asked" or self.config.partition != "collapse"):
            self.left_aloud.add(me)
        if self.votes_promised:
            self._check_majority(me, fact, now)

    def _check_majority(self, me: Name, fact: LeftRing, now: Instant) -> None:
        if fact.why == "no majority":
            self.looked["majority"] += 1
            since = now - int(self.config.arbitration / (1 - self.config.drift)) - 2
            able = self._reach(me).intersection(*(who for at, who in self.in_reach.get(me, []) if at >= since))
            count = sum(seat.name in able for seat in fact.group)
            if 2 * count > len(fact.group):
                self.fail("majority", f"{me} left: {fact.detail}, and {count} of them were in reach all the time")
        elif fact.why == "outvoted" and self.config.double_majority:
            self.looked["majority"] += 1
            if not any(peer == me for _, peer in self.suspected):
                self.fail("majority", f"{me} was outvoted: {fact.detail}, and nobody had accused it")

    def _on_joined(self, me: Name, fact: JoinedRing, now: Instant) -> None:
        self.incarnations[me[0]] = fact.seat.incarnation

    # At the end, in quiet.

    def check_neighbourhoods(self, *, one_ring: bool = True) -> None:
        """[ARB Thm 6, 7] Look whether all watch exactly their neighbours among the living, and are watched by them."""
        members = {machine.seat.name: machine for machine in self.members()}
        seats = [machine.seat for machine in members.values()]
        for machine in members.values():
            self.looked["joins"] += 1
            due = neighbours(machine.seat, seats, self.config.neighbours)
            if one_ring and {seat.name for seat in due} - machine.pairs.keys():
                missing = sorted({seat.name for seat in due} - machine.pairs.keys())
                self.fail("joins", f"{machine.seat} does not watch {missing}, its neighbours")
            for name, pair in machine.pairs.items():
                other = members.get(name)
                if _is_probe(machine, pair):
                    continue
                if other is None:
                    self.fail("joins", f"{machine.seat} watches {name}, which is not there")
                elif machine.seat.name not in other.pairs:
                    self.fail("joins", f"{machine.seat} watches {name}, and not the other way round")
                elif pair.stage is not Stage.ACTIVE:
                    self.fail("joins", f"{machine.seat} and {name} never became active")
                elif one_ring and pair.seat not in due:
                    self.fail("joins", f"{machine.seat} watches {name}, which is not its neighbour")

    def check_doors(self) -> None:
        """[ARB Thm 7] Look whether anybody serves two joiners at once; called often."""
        for machine in self.members():
            joining = [p for p in machine.pairs.values() if p.join and p.stage is Stage.DORMANT and not p.initiator]
            self.looked["joins"] += 1
            if len(joining) > 1:
                self.fail("joins", f"{machine.seat} serves {[str(p.seat) for p in joining]} at once")

    def is_settled(self) -> bool:
        """Return whether everybody watches whom it ought to, by groups that both sides know."""
        members = self.members()
        here = {machine.seat.name for machine in members}
        for machine in members:
            current = machine.neighbours
            pairs = {pair.name: pair for pair in machine.pairs.values() if not _is_probe(machine, pair)}
            if not here.issuperset(pairs):
                return False  # Somebody has yet to find out.
            if {seat.name for seat in machine.desired} != set(pairs):
                return False
            for pair in pairs.values():
                if pair.stage is not Stage.ACTIVE or not pair.watching:
                    return False
                if not machine.central and (pair.mine.members != current or pair.confirmed < pair.mine.number):
                    return False
        return True


def _is_probe(machine: Arbitration, pair: Pair) -> bool:
    """Return whether a pair only probes whether somebody out of reach is back."""
    return pair.stage is Stage.DORMANT and pair.initiator and pair.name in machine.lost


Watch.HANDLERS = {
    Suspected: Watch._on_suspected,
    Requested: Watch._on_requested,
    Condemned: Watch._on_condemned,
    RecoveryStarted: Watch._on_recovery,
    Upgraded: Watch._on_upgraded,
    LeftRing: Watch._on_left,
    JoinedRing: Watch._on_joined,
}
