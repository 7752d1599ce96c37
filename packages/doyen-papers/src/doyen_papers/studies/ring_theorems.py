"""The theorems of [ARB §VI], as printed, each with the times that a run of it shows; in T_l, T_a = T_l/2.

crash    one member dies: how soon its monitors suspect it, recover, and go by their repaired groups
unheard  the same, and every explicit notice of an upgraded group is lost
one-way  P's requests to Q are lost, and nothing else: P's lease times out first, and Q's follows
cut      nothing passes between P and Q: both leases time out, each for itself
join     one joiner, nothing fails; joiners: four at once; broken-join: somebody dies while one joins
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.membership.ring.geometry import Name, neighbours
from doyen.membership.ring.messages import (
    ArbUpgrd,
    JoinedRing,
    JoinPhase,
    LeaseRequest,
    RecoveryStarted,
    Requested,
    Upgraded,
)
from doyen.sim.engine import DROP
from doyen.sim.node import SimNode
from doyen_papers.studies.arbitration import ArbitrationSetting, Ring

Case = Literal["crash", "unheard", "one-way", "cut", "join", "joiners", "broken-join", "quiet"]

Arbiters = Literal["central", "pairwise"]

LOOKS: Final = 50  # Per T_l, at whether an upgrade has reached the other side.
JOINERS: Final = 4
NODES: Final = 32


class Seen(Struct, kw_only=True):
    """The times that one run shows; empty where the case has none."""

    detection: list[float] = []  # Crash to suspicion, by monitor.
    recovery: list[float] = []  # Suspicion to recovery, by monitor.
    consistency: list[float] = []  # Crash to the last recovery.
    upgrade: list[float] = []  # Upgrade to the other side's going by it.
    second_timeout: list[float] = []
    second_request: list[float] = []
    lifespan: list[float] = []  # Suspicion to the loser's departure.
    left_late: int = 0  # Losers that were there when the winner's wait was over.
    after_phase_1: list[float] = []
    joined: int = 0
    group_sizes: list[int] = []
    messages_per_lease: float | None = None  # Per node.
    violations: int = 0  # Of any rule that the ring's observer knows.
    lines: list[str] = []


def show(case: Case, arbiters: Arbiters, seed: int) -> Seen:
    """Play one case with one seed."""
    setting = ArbitrationSetting(mode="paper", arbiters=arbiters, nodes=NODES)
    ring = Ring(setting, seed)
    play = _Play(ring)
    ring.run(2 * ring.config.lease)
    ring.run(int(ring.rng.random() * ring.config.lease))
    _CASES[case](play)
    seen = play.seen
    seen.violations, seen.lines = ring.watch.violations.total(), ring.watch.lines[:3]
    return seen


class _Play:
    def __init__(self, ring: Ring) -> None:
        self.ring, self.seen, self.lease = ring, Seen(), ring.config.lease
        self.requested: dict[tuple[Name, Name], Instant] = {}
        self.recovered: dict[tuple[Name, Name], Instant] = {}
        self.phase_2: dict[str, Instant] = {}
        ring.sim.watchers.append(self._on_fact)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case Requested():
                self.requested.setdefault(((node.name, 1), fact.peer.name), now)
                self.seen.group_sizes.append(len(fact.group))
            case RecoveryStarted():
                self.recovered[(node.name, 1), fact.peer.name] = now
            case Upgraded():
                self._look_until_reached(node.name, fact, now)
            case JoinPhase(phase=2):
                self.phase_2[node.name] = now
            case JoinedRing():
                self.seen.joined += 1
                self.seen.after_phase_1.append(self.in_leases(now - self.phase_2[node.name]))

    def in_leases(self, time: Duration) -> float:
        return time / self.lease

    def _look_until_reached(self, me: NodeId, fact: Upgraded, since: Instant) -> None:
        """[ARB Thm 1] Look until the other side goes by the upgraded group, while both leases live."""
        other = self.ring.watch.member(fact.peer.name)
        pair = None if other is None else other.pairs.get((me, 1))
        if other is None or pair is None or not pair.watching:
            return
        if pair.theirs is not None and pair.theirs.number >= fact.version:
            self.seen.upgrade.append(self.in_leases(self.ring.sim.now - since))
        elif self.ring.sim.now - since < 3 * self.lease:
            look: Callable[[], None] = lambda: self._look_until_reached(me, fact, since)  # noqa: E731
            self.ring.sim.look(self.ring.sim.now + self.lease // LOOKS, look)
        else:
            self.seen.upgrade.append(3.0)

    # Cases.

    def crash(self) -> None:
        ring, watch = self.ring, self.ring.watch
        ring.crash_random(1)
        ring.rest(least=9)
        (name, crashed) = next(iter(watch.crashed_at.items()))
        suspected = {m: at for (m, peer), at in watch.suspected.items() if peer == name and m in watch.monitors[name]}
        self.seen.detection = [self.in_leases(at - crashed) for at in suspected.values()]
        self.seen.consistency = [self.in_leases(max(at for at, peer in watch.recoveries if peer == name) - crashed)]
        self.seen.recovery = [
            self.in_leases(at - suspected[me]) for (me, peer), at in self.recovered.items() if peer == name
        ]
        watch.check_neighbourhoods()

    def unheard(self) -> None:
        """[ARB Thm 1] The next lease request must tell it."""
        ring = self.ring
        ring.watch.votes_promised = False
        ring.sim.filters.append(lambda sender, channel, to, message: DROP if isinstance(message, ArbUpgrd) else 0)
        ring.sim.network_changed()
        ring.crash_random(1)
        ring.rest(least=9)

    def one_way(self) -> None:
        ring = self.ring
        one = ring.rng.choice(ring.seats)
        other = ring.rng.choice(sorted(ring.founding.neighbourhoods[one.name]))

        def verdict(sender: SimNode, channel: str, receiver: SimNode, message: Any) -> Duration:
            lost = isinstance(message, LeaseRequest) and (sender.name, receiver.name) == (one.node, other.node)
            return DROP if lost else 0

        ring.sim.filters.append(verdict)
        ring.sim.network_changed()
        ring.run(8 * self.lease)
        self._pair(one.name, other.name)

    def cut(self) -> None:
        one, other = self.ring.cut_link()
        self.ring.run(8 * self.lease)
        self._pair(one.name, other.name)

    def _pair(self, one: Name, other: Name) -> None:
        """Note what became of two neighbours of which at least one has suspected the other."""
        suspected = self.ring.watch.suspected
        times = sorted((suspected[pair], pair) for pair in ((one, other), (other, one)) if pair in suspected)
        (first, (winner, loser)), *rest = times
        self.seen.second_timeout = [self.in_leases(at - first) for at, _ in rest]
        begun = self.requested[winner, loser]
        self.seen.second_request = [
            self.in_leases(at - begun) for pair, at in self.requested.items() if pair == (loser, winner)
        ]
        left = [(at, fact.seat.name) for at, fact in self.ring.watch.departures if fact.seat.name in (one, other)]
        self.seen.lifespan = [self.in_leases(at - first) for at, _ in left]
        wait = 2 * self.lease + self.ring.config.arbitration
        self.seen.left_late = int(not left) + sum(at - first > wait for at, _ in left)

    def join(self) -> None:
        self.ring.join()
        self.ring.rest(least=6)
        self.ring.watch.check_neighbourhoods()

    def joiners(self) -> None:
        for _ in range(JOINERS):
            self.ring.join()
        self.ring.rest(least=6)
        self.ring.watch.check_neighbourhoods()

    def broken_join(self) -> None:
        """A neighbour-to-be, or the joiner itself, dies at some instant of the four phases."""
        ring = self.ring
        joiner = ring.join()
        ring.run(int(ring.rng.random() * 5 * self.lease))
        if ring.rng.random() < 0.3:
            ring.crash(joiner)
        else:
            near = neighbours(ring.machine(joiner.name).seat, ring.seats, ring.config.neighbours)
            ring.crash(ring.nodes[ring.rng.choice(sorted(near)).node])
        ring.rest(least=12)
        ring.watch.check_neighbourhoods()

    def quiet(self) -> None:
        before, leases = self.ring.sim.message_count, 20
        self.ring.run(leases * self.lease)
        self.seen.messages_per_lease = (self.ring.sim.message_count - before) / leases / NODES


_CASES: Final[dict[Case, Callable[[_Play], None]]] = {
    "crash": _Play.crash,
    "unheard": _Play.unheard,
    "one-way": _Play.one_way,
    "cut": _Play.cut,
    "join": _Play.join,
    "joiners": _Play.joiners,
    "broken-join": _Play.broken_join,
    "quiet": _Play.quiet,
}
