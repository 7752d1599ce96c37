"""The owner of a key leads."""

from random import Random

from doyen.core import Emit, Host, Send, ms, seconds
from doyen.core.clock import Instant
from doyen.core.commands import LeaveGroup
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.view import Status, ViewChanged
from doyen.election.by_key.config import ByKeyConfig
from doyen.election.by_key.machine import LeaderByKey
from doyen.election.by_key.messages import Answer, Claim, Reign
from doyen.election.churn.config import CTolerantConfig
from doyen.election.churn.machine import CTolerant
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import POINTS, Seat, point_of, seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import LeftRing, NeighboursChanged, ReignBegan
from doyen.membership.ring.neighbourhood import founding
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.testing import RecordingOut
from doyen_papers.studies.arbitration import ArbitrationSetting, Ring

KEY = point_of("leader")
ME, BEFORE, AFTER = (Seat((KEY + d) % POINTS, NodeId(n)) for d, n in ((5, "me"), (-1000, "before"), (1000, "after")))
NEARER = Seat((KEY + 1) % POINTS, NodeId("nearer"))


def elector() -> tuple[LeaderByKey, RecordingOut]:
    out = RecordingOut()
    machine = LeaderByKey(ME.node, ByKeyConfig(), out)
    machine.on_neighbours_changed(NeighboursChanged(ME, BEFORE, AFTER, (BEFORE, AFTER)), 0)
    return machine, out


def lead(machine: LeaderByKey, out: RecordingOut) -> None:
    out.take()
    for node in (BEFORE.node, AFTER.node):
        machine.on_message(node, Answer(1, True, 0), ms(1))


def test_the_owner_acts_once_both_next_neighbours_say_so() -> None:
    machine, out = elector()
    assert [e.to for e in out.take() if isinstance(e, Send)] == [BEFORE.node, AFTER.node]
    machine.on_message(BEFORE.node, Answer(1, True, 4), ms(1))
    assert not machine.is_leader
    machine.on_message(AFTER.node, Answer(1, True, 2), ms(1))
    assert out.take() == [Emit(LeaderElected(Term(5, ME.node))), Emit(ReignBegan(KEY, 5))]


def test_a_wild_term_cannot_use_up_all_terms() -> None:
    machine, _ = elector()
    machine.on_message(BEFORE.node, Reign(2**63), ms(1))
    assert machine.term is None
    machine.on_message(BEFORE.node, Answer(1, True, 2**63), ms(1))
    machine.on_message(AFTER.node, Answer(1, True, 2), ms(1))
    assert machine.term == Term(3, ME.node)


def test_whoever_acts_or_knows_somebody_nearer_does_not_yield() -> None:
    machine, out = elector()
    lead(machine, out)
    out.take()
    machine.on_message(AFTER.node, Claim(1, AFTER), ms(2))
    assert out.take() == [Send(AFTER.node, Answer(1, False, 1))]


def test_an_old_owner_stops_before_it_yields_to_a_joiner() -> None:
    machine, out = elector()
    lead(machine, out)
    out.take()
    machine.on_neighbours_changed(NeighboursChanged(ME, NEARER, AFTER, (NEARER, BEFORE, AFTER)), ms(3))
    assert out.take() == [Emit(LeaderLost(Term(1, ME.node), "outranked"))]
    machine.on_message(NEARER.node, Claim(7, NEARER), ms(4))
    assert out.take() == [Send(NEARER.node, Answer(7, True, 1))]


def test_who_leaves_the_ring_stops_at_once() -> None:
    machine, out = elector()
    lead(machine, out)
    out.take()
    machine.on_left_ring(LeftRing(ME, "outvoted"), ms(3))
    assert out.take() == [Emit(LeaderLost(Term(1, ME.node), "left"))]


def test_a_joiner_nearer_to_the_key_takes_over_in_an_acknowledged_hand_over() -> None:
    ring = Ring(ArbitrationSetting(leader=True, nodes=12, delay=ms(5)), 4)
    ring.run(seconds(2))
    (old,) = ring.watch.acting
    ring.join(Seat(KEY, NodeId("joiner")))
    ring.rest(least=3)
    ring.run(seconds(1))
    assert list(ring.watch.acting) == ["joiner"] != [old]
    assert not any(ring.watch.violations.values())
    assert ring.watch.reigns[-1][2] > ring.watch.reigns[0][2]  # A higher term, without an election.


def test_an_announced_leave_permits_takeover_at_once() -> None:
    ring = Ring(ArbitrationSetting(leader=True, nodes=12, delay=ms(5)), 4)
    ring.run(seconds(2))
    (old,) = ring.watch.acting
    at = ring.sim.now
    ring.sim.tell(ring.nodes[NodeId(old)], LeaveGroup(), channel="ring")
    ring.run(seconds(1))
    ((new, since),) = ring.watch.acting.items()
    assert new != old and since - at < ms(300)
    assert not any(ring.watch.violations.values())


def test_the_ring_is_a_membership_for_other_elections() -> None:
    """[CTOL] elects on the view that the ring tells, and again when the ring declares its leader dead."""
    streams = Streams(3)
    sim = Simulation(
        Network(NetworkConfig(delay=Delay(mean=ms(2))), Topology(7, None), streams), streams
    )  # fmt: skip
    seats = [seat(NodeId(f"n{i}")) for i in range(7)]
    shared = founding(seats, 2)
    views: dict[str, ViewChanged] = {}
    elected: list[tuple[Instant, str, Term]] = []

    def setup(node: SimNode, host: Host) -> None:
        place = next(s for s in seats if s.node == node.name)
        config = ArbitrationConfig.practical(7, neighbours=2)
        host.add("ring", lambda out: Arbitration(place, config, out, Random(node.name), founding=shared))
        host.add(
            "election",
            lambda out: CTolerant(
                node.name, node.incarnation, CTolerantConfig(missing_max=1), out, Random(node.name), durable=False
            ),
        )

    def watch(node: SimNode, channel: str, fact: object, now: Instant) -> None:
        if isinstance(fact, ViewChanged):
            views[node.name] = fact
        if isinstance(fact, LeaderElected):
            elected.append((now, node.name, fact.term))

    sim.watchers.append(watch)
    nodes = {s.node: sim.add(s.node, setup) for s in seats}
    for node in nodes.values():
        sim.start(node)
    sim.run(until=seconds(5))
    assert all(len(list(fact.view.present())) == 7 for fact in views.values())
    first = {name: term.leader for _, name, term in elected}
    (leader,) = set(first.values())
    assert len(first) == 7
    elected.clear()
    sim.crash(nodes[leader])
    sim.run(until=seconds(16))
    assert all(fact.view[leader].status is Status.FAILED for name, fact in views.items() if name != leader)
    second = {name: term.leader for _, name, term in elected}
    assert len(second) == 6 and len(set(second.values())) == 1 and leader not in second.values()
