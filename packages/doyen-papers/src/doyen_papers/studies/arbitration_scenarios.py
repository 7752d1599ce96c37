"""Scenarios that must pass, by name: in each, one thing happens to a ring, and one thing must come of it.  [ARB]

`play(name, seed)` returns None, or what went wrong.
"""

from collections.abc import Callable
from typing import Any, Final

from doyen.core.clock import Duration, Instant, ms
from doyen.core.ids import NodeId
from doyen.membership.ring.geometry import Name, Seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import (
    ArbUpgrd,
    Condemned,
    LeaseAck,
    LeaseRequest,
    ProposeReply,
    Requested,
    Suspected,
    Upgraded,
    Vote,
)
from doyen.sim.engine import DROP
from doyen.sim.network import Delay
from doyen.sim.node import SimNode
from doyen_papers.studies.arbitration import ArbitrationSetting, Build, Ring

Drop = Callable[[str, str, Any], bool]  # (sender, receiver, message)
Scenario = Callable[[int, Build], None]


class _Wrong(Exception):
    """A scenario did not pass."""


def play(name: str, seed: int, build: Build = Arbitration) -> str | None:
    try:
        SCENARIOS[name](seed, build)
    except _Wrong as wrong:
        return str(wrong)
    return None


def _ring(seed: int, build: Build, *, delay: Delay | None = None, **setting: Any) -> Ring:
    ring = Ring(ArbitrationSetting(**({"nodes": 32, "rejoin": False} | setting)), seed, build=build, delay=delay)
    ring.run(2 * ring.config.lease)
    ring.run(int(ring.rng.random() * ring.config.lease))
    return ring


def _dropping(ring: Ring, drop: Drop) -> None:
    def verdict(sender: SimNode, channel: str, receiver: SimNode, message: Any) -> Duration:
        return DROP if drop(sender.name, receiver.name, message) else 0

    ring.watch.votes_promised = False
    ring.sim.filters.append(verdict)
    ring.sim.network_changed()


def _settle(ring: Ring, leases: int = 8) -> set[Name]:
    """Let the ring come to rest; return who left."""
    ring.run(leases * ring.config.lease)
    ring.rest()
    _hold(not ring.watch.lines, "".join(ring.watch.lines[:1]))
    return {fact.seat.name for _, fact in ring.watch.departures}


def _hold(holds: bool, otherwise: str) -> None:
    if not holds:
        raise _Wrong(otherwise)


def _nobody_left(left: set[Name]) -> None:
    _hold(not left, f"{sorted(left)} left")


def _link_cut(seed: int, build: Build) -> None:
    ring = _ring(seed, build)
    one, other = ring.cut_link()
    left = _settle(ring)
    alone = len(left) == 1 and left < {one.name, other.name}
    _hold(alone, f"the link {one}-{other} was cut, and {sorted(left)} left: exactly one of the two ought to")


def _equal_phases(seed: int, build: Build) -> None:
    ring = _ring(seed, build, equal_phases=True, delay=Delay(model="uniform", mean=ms(5), spread=ms(4)))
    one, other = ring.cut_link()
    left = _settle(ring)
    among = bool(left) and left <= {one.name, other.name}
    _hold(among, f"the link {one}-{other} was cut, and {sorted(left)} left: one of the two, or both")


def _early_crash(seed: int, build: Build) -> None:
    ring = Ring(ArbitrationSetting(nodes=32, rejoin=False), seed, build=build)
    ring.run(ring.config.lease // 5)
    ring.crash_random(1)
    _settle(ring)
    _hold(len(ring.members()) == 31, f"{len(ring.members())} are left of 31")


def _proposer_dies(seed: int, build: Build) -> None:
    """P's upgrade for Q is known to a majority; Q never hears of it, and P crashes."""
    ring = _ring(seed, build)
    mute: set[str] = set()

    def drop(sender: str, receiver: str, message: Any) -> bool:
        told = isinstance(message, LeaseRequest | LeaseAck) and message.said is not None
        return (not mute and isinstance(message, ArbUpgrd)) or (
            sender in mute and (told or isinstance(message, ArbUpgrd))
        )

    def on_fact(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, Upgraded) and not mute:
            mute.add(node.name)
            ring.sim.at(now, lambda: ring.crash(node), "the proposer dies")

    ring.crash_random(1)
    _dropping(ring, drop)
    ring.sim.watchers.append(on_fact)
    left = _settle(ring, 14)
    _hold(bool(mute), "nobody proposed anything")
    _nobody_left(left)


def _stale_request(seed: int, build: Build) -> None:
    """P has upgraded as printed, Q has not heard of it, and their link is cut.  The arbitrators know, so Q leaves.

    Others may follow Q, if it leaves in the middle of an upgrade of its own; P, too, over another neighbour.
    """
    ring = _ring(seed, build, mode="paper")
    chosen: list[Name] = []
    condemned: list[tuple[Name, Name]] = []

    def on_fact(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, Upgraded) and not chosen:
            chosen.extend(((node.name, 1), fact.peer.name))
            ring.sim.at(now, lambda: ring.sim.partition("cut", [node], [ring.nodes[fact.peer.node]]), "cut")
        elif isinstance(fact, Condemned):
            condemned.append(((node.name, 1), fact.peer.name))

    ring.crash_random(1)
    _dropping(ring, lambda sender, receiver, message: not chosen and isinstance(message, ArbUpgrd))
    ring.sim.watchers.append(on_fact)
    left = _settle(ring, 14)
    _hold(bool(chosen), "nobody upgraded anything")
    proposer, peer = chosen
    won = (proposer, peer) in condemned and (peer, proposer) not in condemned
    _hold(peer in left and won, f"{sorted(left)} left: {proposer} ought to win against {peer}, which ought to leave")


def _aborted_upgrades(seed: int, build: Build) -> None:
    """Two neighbours of a dead node both propose, and neither gets its answers; then one of them dies."""
    ring = _ring(seed, build)
    dead = ring.crash_random(1)[0]
    monitors = sorted(ring.founding.neighbourhoods[NodeId(dead), 1])
    one, other = ring.rng.sample(monitors, 2)
    while other not in ring.founding.neighbourhoods[one.name]:
        one, other = ring.rng.sample(monitors, 2)
    until = ring.sim.now + int(7.5 * ring.config.lease)
    _dropping(
        ring,
        lambda sender, receiver, message: (
            isinstance(message, ProposeReply) and receiver in (one.node, other.node) and ring.sim.now < until
        ),
    )
    ring.run(until - ring.sim.now)
    _hold(bool(ring.watch.aborts), "nothing was aborted")
    ring.crash(ring.nodes[one.node])
    _nobody_left(_settle(ring, 10))


def _one_request_lost(seed: int, build: Build) -> None:
    ring = _ring(seed, build)
    dropped: list[str] = []

    def drop(sender: str, receiver: str, message: Any) -> bool:
        if dropped or not isinstance(message, LeaseRequest):
            return False
        dropped.append(sender)
        return True

    _dropping(ring, drop)
    left = _settle(ring)
    _hold(not left, f"one lost message cost {sorted(left)}")


def _loser_hears_nothing(seed: int, build: Build) -> None:
    """Its arbitrators' votes are lost: the loser leaves by its own clock."""
    ring = _ring(seed, build)
    pair = set(ring.cut_link())
    accused: list[tuple[Seat, Instant]] = []  # The first of the two to be suspected loses.

    def on_fact(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, Suspected) and fact.peer in pair and not accused:
            accused.append((fact.peer, now))

    ring.sim.watchers.append(on_fact)
    _dropping(
        ring,
        lambda sender, receiver, message: (
            isinstance(message, Vote) and bool(accused) and receiver == accused[0][0].node
        ),
    )
    _settle(ring)
    left = {fact.seat: at for at, fact in ring.watch.departures}
    ((loser, since),) = accused
    _hold(left.keys() == {loser}, f"{sorted(left)} left, and {loser} ought to")
    stayed = left[loser] - since
    in_time = stayed <= 2 * ring.config.lease + ring.config.arbitration
    _hold(in_time, f"{loser} stayed for {stayed / ring.config.lease:.3f} T_l")


def _central_majority_gone(seed: int, build: Build) -> None:
    ring = _ring(seed, build, mode="paper", arbiters="central")
    for arbiter in ring.arbiters[:3]:
        ring.sim.crash(arbiter)
    ring.run(20 * ring.config.lease)
    _hold(len(ring.members()) == 32, f"nobody was suspected, and {32 - len(ring.members())} left")
    ring.crash_random(1)
    _settle(ring)
    _hold(not ring.members(), f"{len(ring.members())} stayed without a majority of arbitrators")


def _join_displaces(seed: int, build: Build) -> None:
    ring = _ring(seed, build)
    asked: list[Any] = []
    ring.sim.watchers.append(
        lambda node, channel, fact, now: asked.append(fact) if isinstance(fact, Requested) else None
    )
    ring.join()
    _settle(ring)
    _hold(len(ring.members()) == 33, f"{len(ring.members())} members, and not 33")
    ring.watch.check_neighbourhoods()
    _hold(not ring.watch.lines, "".join(ring.watch.lines[:1]))
    _hold(not asked, f"{asked[:1]}")


def _joiner_dies(seed: int, build: Build) -> None:
    """A joiner crashes in any phase; the next node that comes to the same place is let in."""
    ring = _ring(seed, build, delay=Delay(mean=ms(20)))
    node = ring.join()
    ring.run(int(ring.rng.random() * 1.2 * ring.config.lease))
    place = ring.machine(node.name).seat
    ring.crash(node)
    ring.joiners.remove(node)
    ring.run(ms(10))
    ring.join(Seat(place.point, NodeId("next"), 1))
    _settle(ring, 12)
    members = {m.seat.node for m in ring.members()}
    _hold("next" in members and len(members) == 33, f"{len(members)} members; next is not there")


def _one_way_requests(seed: int, build: Build) -> None:
    """P's requests to Q are lost, and nothing else: P suspects Q, and Q must find out."""
    ring = _ring(seed, build)
    one = ring.rng.choice(ring.seats)
    other = ring.rng.choice(sorted(ring.founding.neighbourhoods[one.name]))
    _dropping(
        ring,
        lambda sender, receiver, message: (
            isinstance(message, LeaseRequest) and sender == one.node and receiver == other.node
        ),
    )
    left = _settle(ring)
    first, second = (ring.watch.suspected.get((a.name, b.name)) for a, b in ((one, other), (other, one)))
    in_time = first is not None and second is not None and 1 <= (second - first) / ring.config.lease <= 2
    _hold(
        in_time,
        f"{one} suspected {other} at {first}, and {other} {one} at {second}: [ARB Thm 3] T_l to 2·T_l later",
    )
    _hold(len(left) == 1, f"{sorted(left)} left: exactly one ought to")


def _even_split(seed: int, build: Build) -> None:
    """Two pairs of neighbours, cut in the middle: half of a group is no majority."""
    ring = _ring(seed, build, nodes=4, mode="paper", equal_phases=True)
    ring.divide([2, 2], arcs=True)
    _settle(ring)
    _hold(not ring.members(), f"{len(ring.members())} stayed with half of a group")


def _partition(sizes: str, mode: str, arcs: bool, behaviour: str) -> Scenario:
    def scenario(seed: int, build: Build) -> None:
        more: dict[str, Any] = {} if mode == "paper" else {"behaviour": behaviour}
        ring = _ring(seed, build, mode=mode, **more)
        first, second = ring.divide([int(size) for size in sizes.split("/")], arcs=arcs)
        _settle(ring, 30)
        members = {machine.seat.node for machine in ring.members()}
        sides = [len(members & {s.node for s in side}) for side in (first, second)]
        if not arcs and behaviour != "split":
            # Drawn at random, parts have a majority here and there, by chance: who stays, if anybody, is on one side.
            _hold(min(sides) == 0 and (sizes == "16/16" or sides[1] == 0), f"{sides[0]} and {sides[1]} stayed")
            return
        expected = {
            "collapse": sum(sides) == 0 if sizes == "16/16" else sides[1] == 0,
            "majority": sum(sides) == 0 if sizes == "16/16" else sides[0] > 16 and sides[1] == 0,
            # Halves drawn at random halve every group: who stays, if anybody, is chance.
            "split": sides[0] > 0 if sizes != "16/16" else not arcs or min(sides) > 0,
        }
        _hold(expected[behaviour], f"{sizes} {behaviour}: {sides[0]} and {sides[1]} stayed")

    return scenario


SCENARIOS: Final[dict[str, Scenario]] = {
    "link-cut": _link_cut,
    "link-cut-equal-phases": _equal_phases,
    "crash-after-boot": _early_crash,
    "proposer-dies": _proposer_dies,
    "stale-request": _stale_request,
    "aborted-upgrades": _aborted_upgrades,
    "one-request-lost": _one_request_lost,
    "loser-hears-nothing": _loser_hears_nothing,
    "central-majority-gone": _central_majority_gone,
    "join-displaces": _join_displaces,
    "joiner-dies": _joiner_dies,
    "one-way-requests": _one_way_requests,
    "half-is-no-majority": _even_split,
    **{
        f"partition-{sizes.replace('/', '-')}-{mode}-{'arcs' if arcs else 'random'}"
        + (f"-{behaviour}" if mode == "practical" else ""): _partition(sizes, mode, arcs, behaviour)
        for sizes in ("16/16", "24/8")
        for arcs in (True, False)
        for mode, behaviour in (
            ("paper", "collapse"),
            ("practical", "collapse"),
            ("practical", "majority"),
            ("practical", "split"),
        )
    },
}
