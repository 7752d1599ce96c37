"""The owner of a key leads."""

from random import Random

from doyen.core import Emit, Host, Incarnation, Member, Send, SetTimer, ms, seconds
from doyen.core.clock import Instant
from doyen.core.commands import LeaveGroup
from doyen.core.ids import TERM_LEAP_MAX, NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.view import Status, ViewChanged, ViewEditor
from doyen.election.by_key.config import ByKeyConfig
from doyen.election.by_key.machine import LeaderByKey
from doyen.election.by_key.messages import Answer, Claim, ClaimRepeats, Reign
from doyen.election.churn.config import CTolerantConfig
from doyen.election.churn.machine import CTolerant
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import POINTS, Seat, distance, point_of, seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import LeftRing, NeighboursChanged, ReignBegan, ReignHeard
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


def test_only_a_next_neighbour_is_granted_the_key_and_only_by_who_neither_acts_nor_ought_to() -> None:
    out = RecordingOut()
    machine = LeaderByKey(BEFORE.node, ByKeyConfig(), out)
    assert machine.granted == frozenset()
    machine.on_message(ME.node, Claim(1, ME), 0)
    assert out.take() == [Send(ME.node, Answer(1, False, 0))]  # It is in no ring yet.
    machine.on_neighbours_changed(NeighboursChanged(BEFORE, None, ME, (ME,)), 0)
    machine.on_message(ME.node, Claim(2, ME), 1)
    machine.on_message(AFTER.node, Claim(3, AFTER), 2)
    assert out.take() == [Send(ME.node, Answer(2, True, 0)), Send(AFTER.node, Answer(3, False, 0))]


def test_who_owns_the_key_grants_it_to_nobody_whether_it_acts_or_not() -> None:
    machine, out = elector()
    out.take()
    for acts in (False, True):
        assert machine.is_leader is acts
        machine.on_message(AFTER.node, Claim(7, AFTER), ms(1))
        assert out.take()[-1] == Send(AFTER.node, Answer(7, False, int(acts)))
        lead(machine, out)
    assert machine.granted == {BEFORE.node, AFTER.node}


def test_an_answer_lifts_the_term_but_not_one_that_is_too_far_ahead() -> None:
    machine, _ = elector()
    machine.on_message(BEFORE.node, Answer(1, False, 3), ms(1))
    machine.on_message(BEFORE.node, Answer(1, True, 3 + TERM_LEAP_MAX + 1), ms(2))
    machine.on_message(AFTER.node, Answer(2, True, 50), ms(3))  # Of another claim.
    machine.on_message(AFTER.node, Answer(1, True, 2), ms(4))
    assert machine.term == Term(4, ME.node)
    machine, _ = elector()
    machine.on_message(BEFORE.node, Answer(1, True, TERM_LEAP_MAX), ms(1))
    machine.on_message(AFTER.node, Answer(1, True, 0), ms(1))
    assert machine.term == Term(TERM_LEAP_MAX + 1, ME.node)


def test_a_claim_ends_when_another_is_nearer_and_its_late_answers_count_for_nothing() -> None:
    machine, out = elector()
    machine.on_message(BEFORE.node, Answer(1, True, 0), ms(1))
    machine.on_neighbours_changed(NeighboursChanged(ME, BEFORE, NEARER, (BEFORE, NEARER)), ms(2))
    out.take()
    machine.on_message(NEARER.node, Answer(1, True, 0), ms(3))
    machine.on_timer(ClaimRepeats(1), ms(4))
    assert out.take() == [] and not machine.is_leader


def test_a_claim_is_repeated_to_those_that_have_not_granted_it() -> None:
    machine, out = elector()
    machine.on_message(BEFORE.node, Answer(1, True, 0), ms(1))
    out.take()
    at, lease = ms(10), ByKeyConfig().lease
    machine.on_timer(ClaimRepeats(1), at)
    assert out.take() == [Send(AFTER.node, Claim(1, ME)), SetTimer(ClaimRepeats(1), at + lease // 4)]


def test_a_term_that_is_heard_again_names_its_leader_only_while_nobody_is_named() -> None:
    out = RecordingOut()
    machine = LeaderByKey(BEFORE.node, ByKeyConfig(), out)
    editor = ViewEditor()
    for node in (BEFORE.node, ME.node):
        editor.put(Member(node=node, incarnation=Incarnation(1)))
    machine.on_view_changed(ViewChanged(editor.view, (ME.node,)), 0)
    machine.on_message(ME.node, Reign(4), 1)
    assert out.take() == [Emit(LeaderElected(Term(4, ME.node)))]
    machine.on_message(ME.node, Reign(4), 2)
    machine.on_message(AFTER.node, Reign(3), 2)  # An earlier term.
    assert out.take() == [] and machine.named == ME.node
    machine.on_left_ring(LeftRing(BEFORE, "left"), 3)
    assert out.take() == [Emit(LeaderLost(Term(4, ME.node), "left"))]
    machine.on_message(ME.node, Reign(4), 4)
    assert out.take() == [Emit(LeaderElected(Term(4, ME.node)))]


def test_a_claim_does_not_make_a_node_forget_the_leader_of_the_term_that_it_knows() -> None:
    machine, _ = elector()
    editor = ViewEditor()
    editor.put(Member(node=AFTER.node, incarnation=Incarnation(1)))
    machine.on_message(AFTER.node, Reign(4), ms(1))
    machine.on_view_changed(ViewChanged(ViewEditor().view, (AFTER.node,)), ms(2))
    assert machine.named is None
    machine.on_message(BEFORE.node, Answer(1, False, 4), ms(3))  # The same term.
    machine.on_neighbours_changed(NeighboursChanged(ME, BEFORE, NEARER, (BEFORE, NEARER)), ms(4))
    machine.on_view_changed(ViewChanged(editor.view, (AFTER.node,)), ms(5))
    assert machine.term == Term(4, AFTER.node)


def test_a_term_of_which_only_an_answer_told_is_named_once_its_leader_says_so() -> None:
    machine, _ = elector()
    machine.on_message(BEFORE.node, Answer(1, False, 4), ms(1))
    editor = ViewEditor()
    editor.put(Member(node=AFTER.node, incarnation=Incarnation(1)))
    machine.on_view_changed(ViewChanged(editor.view, (AFTER.node,)), ms(2))
    assert machine.named is None
    machine.on_message(AFTER.node, Reign(4), ms(3))
    assert machine.term == Term(4, AFTER.node)


def test_the_same_neighbours_again_change_nothing_and_a_seat_of_its_own_is_claimed_anew() -> None:
    machine, out = elector()
    out.take()
    machine.on_neighbours_changed(NeighboursChanged(ME, BEFORE, AFTER, (BEFORE, AFTER)), ms(1))
    assert out.take() == []
    moved = Seat(ME.point, ME.node, ME.incarnation + 1)
    machine.on_neighbours_changed(NeighboursChanged(moved, BEFORE, AFTER, (BEFORE, AFTER)), ms(2))
    assert [e.message for e in out.take() if isinstance(e, Send)] == [Claim(2, moved)] * 2


def test_a_leader_says_so_to_every_other_member_that_comes_and_to_nobody_else() -> None:
    machine, out = elector()
    lead(machine, out)
    out.take()
    editor = ViewEditor()
    for node, status in ((ME.node, Status.ALIVE), (AFTER.node, Status.ALIVE), (BEFORE.node, Status.FAILED)):
        editor.put(Member(node=node, incarnation=Incarnation(1), status=status))
    machine.on_view_changed(ViewChanged(editor.view, (ME.node, BEFORE.node, AFTER.node)), ms(2))
    assert out.take() == [Send(AFTER.node, Reign(1))]


def test_a_leader_is_named_once_it_is_known_for_a_member() -> None:
    """Else nobody would tell that it is gone, and it would be named for ever."""
    out = RecordingOut()
    machine = LeaderByKey(BEFORE.node, ByKeyConfig(), out)
    editor = ViewEditor()
    editor.put(Member(node=ME.node, incarnation=Incarnation(1)))
    machine.on_view_changed(ViewChanged(editor.view, (ME.node,)), 0)
    machine.on_message(ME.node, Reign(4), 1)
    machine.on_reign_heard(ReignHeard(KEY, 5, AFTER), 2)
    assert out.take() == [Emit(LeaderElected(Term(4, ME.node))), Emit(LeaderLost(Term(4, ME.node), "outranked"))]
    machine.on_reign_heard(ReignHeard(KEY, 5, AFTER), 3)
    assert out.take() == [] and machine.named is None
    editor.put(Member(node=AFTER.node, incarnation=Incarnation(1)))
    machine.on_view_changed(ViewChanged(editor.view, (AFTER.node,)), 4)
    assert out.take() == [Emit(LeaderElected(Term(5, AFTER.node)))]


def test_where_no_list_is_kept_a_leader_is_named_at_once() -> None:
    machine = LeaderByKey(BEFORE.node, ByKeyConfig(), RecordingOut())
    machine.on_reign_heard(ReignHeard(KEY, 5, AFTER), 1)
    assert machine.named == AFTER.node


def test_of_two_leaders_in_one_term_the_nearer_to_the_key_counts() -> None:
    """It took the key back from one that led so shortly that its term was not heard of."""
    out = RecordingOut()
    machine = LeaderByKey(BEFORE.node, ByKeyConfig(), out)
    editor = ViewEditor()
    near, far = sorted((ME.node, AFTER.node), key=lambda node: distance(point_of(node), KEY))
    for node in (near, far):
        editor.put(Member(node=node, incarnation=Incarnation(1)))
    machine.on_view_changed(ViewChanged(editor.view, (near, far)), 0)
    machine.on_message(far, Reign(4), 1)
    machine.on_message(near, Reign(4), 2)
    machine.on_message(far, Reign(4), 3)
    assert out.take() == [Emit(LeaderElected(Term(4, far))), Emit(LeaderElected(Term(4, near)))]
    editor.put(Member(node=near, incarnation=Incarnation(1), status=Status.FAILED))
    machine.on_view_changed(ViewChanged(editor.view, (near,)), 4)
    machine.on_message(far, Reign(4), 5)
    assert machine.term == Term(4, far)
