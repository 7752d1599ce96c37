"""The parts of the spanning election: what a returning node makes of its neighbours' answers, and what links keep."""

from doyen.core.clock import seconds
from doyen.core.commands import Resign
from doyen.core.effects import Send, SetTimer
from doyen.core.ids import NodeId
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.links import Links, view_of
from doyen.election.spanning.machine import Spanning
from doyen.election.spanning.messages import (
    Candidate,
    Eim,
    ElectionId,
    Ldm,
    Phase,
    Progress,
    PulseBegins,
    ResetEnds,
    State,
)
from doyen.election.spanning.patience import Patience
from doyen.election.spanning.returning import Verdict, verdict
from doyen.testing import RecordingOut

A, B, C, D = (NodeId(n) for n in "1234")
OLD, NEW = ElectionId(1, A), ElectionId(2, A)
BEST = Candidate(0.9, D)


def says(
    election: ElectionId | None, leader: Candidate | None, progress: Progress = "idle", anchored: bool = False
) -> State:
    return State(election, leader, progress, anchored, 1, False)


def test_a_returning_node_adopts_a_leader_that_is_declared_and_no_candidate_of_an_open_election() -> None:
    links = (A, B, C)
    gathering = says(NEW, BEST, "gathering", anchored=True)
    assert verdict(D, links, {A: gathering, B: says(NEW, None)}) == Verdict(NEW, None, A, [])
    assert verdict(C, links, {A: gathering, B: says(NEW, BEST)}) == Verdict(NEW, BEST, A, [])


def test_a_returning_node_joins_below_the_lowest_neighbour_that_has_a_way_up() -> None:
    gathering = {peer: says(NEW, None, "gathering", anchored=peer != A) for peer in (A, C, B)}
    assert verdict(D, (A, B, C), gathering) == Verdict(NEW, None, B, [])
    reported = {peer: says(NEW, None, "reported") for peer in (A, B)}
    assert verdict(D, (A, B), reported) == Verdict(NEW, None, None, [])  # It looks on.


def test_a_returning_node_begins_where_nobody_knows_an_election_or_it_led_itself() -> None:
    assert verdict(D, (A, B), {A: None, B: says(None, None)}) is None
    assert verdict(D, (A,), {A: says(NEW, BEST)}) is None
    assert verdict(D, (A, B), {A: None, B: says(NEW, Candidate(0.9, B))}) == Verdict(NEW, Candidate(0.9, B), None, [])


def test_of_neighbours_apart_the_lowest_node_begins_and_others_tell_who_is_behind() -> None:
    answers = {A: says(OLD, BEST), B: says(NEW, Candidate(0.5, B))}
    assert verdict(C, (A, B), answers) == Verdict(NEW, Candidate(0.5, B), None, [A])
    assert verdict(C, (B,), answers) == Verdict(NEW, Candidate(0.5, B), None, [])  # A is no neighbour any more.
    assert verdict(A, (C, B), {C: says(OLD, BEST), B: says(NEW, BEST)}) is None


def test_what_a_neighbour_said_does_not_outlive_its_link() -> None:
    links, view = Links(A, [B, C], RecordingOut()), view_of(NEW, BEST)
    links.hear(B, says(NEW, BEST), 10)
    links.differs(B, view, (OLD, None), 10, 5)
    assert links.count(view, 0, 20) == 2  # B said that it is one hop away.
    links.lose(B)
    links.gain(B)
    assert links.count(view, 0, 20) == 3  # Nobody says anything: one more than last time.
    assert not links.differs(B, view, (OLD, None), 20, 5)  # They differ since 20, not since 10.
    assert links.differs(B, view, (OLD, None), 25, 5)


def test_the_leader_is_one_hop_further_than_the_nearest_neighbour_that_names_it() -> None:
    links, view = Links(A, [B, C], RecordingOut()), view_of(NEW, BEST)
    links.hear(B, State(NEW, BEST, "idle", False, 4, False), 10)
    links.hear(C, State(NEW, BEST, "idle", False, 2, False), 10)
    assert links.count(view, 0, 20) == 3


def test_views_differ_once_they_have_differed_in_one_way_for_the_whole_wait() -> None:
    links, mine = Links(A, [B], RecordingOut()), view_of(NEW, BEST)
    assert not links.differs(B, mine, (OLD, None), 10, 5)
    assert not links.differs(B, mine, (OLD, D), 15, 5)  # In another way since.
    assert not links.differs(B, mine, (OLD, D), 19, 5) and links.differs(B, mine, (OLD, D), 20, 5)
    assert not links.differs(B, mine, (OLD, D), 3, 5)  # Noted in the future, by memory that makes no sense: anew.
    assert links.differs(B, mine, (OLD, D), 8, 5)


def test_patience_that_is_dated_in_the_future_is_dated_now() -> None:
    def strained(repaired_at: int, joined_at: int) -> int:
        patience = Patience(SpanningConfig(hop_delay=seconds(1), diameter_max=3))
        patience.join(seconds(900))
        patience.strain = 8
        patience.initiate(seconds(900))
        patience.repair(repaired_at)
        patience.initiate(joined_at)
        patience.join(joined_at)
        return patience.strain

    calm = SpanningConfig(hop_delay=seconds(1), diameter_max=3).declaration_wait
    assert strained(seconds(100), seconds(100) + calm) == 4  # Calm since the repair: halved, and nothing grew.
    assert strained(seconds(1000), seconds(900) + calm) == 4  # What lies in the past stays.
    assert strained(seconds(100), seconds(100) + calm - 1) == 17  # Initiated again too soon.


# A pulse makes sense of whatever memory holds.

S = seconds(1)
CONFIG = SpanningConfig(hop_delay=S, diameter_max=3)


def follower() -> tuple[Spanning, RecordingOut]:
    """Return node 2, whose neighbours 1 and 3 have declared node 4 in the first election."""
    out = RecordingOut()
    machine = Spanning(B, CONFIG, out, standing=0.5, neighbours=(A, C))
    machine.start(0)
    machine.on_message(A, Eim(OLD, 0), S)
    machine.on_message(A, Ldm(OLD, BEST), 2 * S)
    assert machine.leader == BEST and machine.phase is Phase.IDLE
    out.take()
    return machine, out


def begun(out: RecordingOut) -> list[ElectionId]:
    return [e.message.election for e in out.take() if isinstance(e, Send) and isinstance(e.message, Eim) and e.to == A]


def test_in_order_a_pulse_changes_nothing_and_tells_the_neighbours() -> None:
    machine, out = follower()
    machine.on_message(A, says(OLD, BEST), 2 * S)
    machine.on_timer(PulseBegins(), 3 * S)
    assert out.take() == [
        SetTimer(PulseBegins(), 3 * S + CONFIG.pulse_interval),
        Send(A, State(OLD, BEST, "idle", False, 2, False)),
        Send(C, State(OLD, BEST, "idle", False, 2, False)),
    ]


def test_a_leader_of_no_election_is_forgotten_and_another_is_elected() -> None:
    machine, out = follower()
    machine.election = None
    machine.on_timer(PulseBegins(), 3 * S)
    assert begun(out) == [ElectionId(2, B)] and machine.leader is None


def test_a_gathering_of_another_election_is_given_up_and_begun_anew_above_what_is_known() -> None:
    machine, out = follower()
    machine.on_message(A, Eim(NEW, 0), 3 * S)
    out.take()
    machine.election = ElectionId(9, A)
    machine.on_timer(PulseBegins(), 4 * S)
    assert begun(out) == [ElectionId(10, B)]


def test_a_gathering_that_is_overdue_or_dated_in_the_far_future_is_begun_anew() -> None:
    for deadline_at in (4 * S - 1, 4 * S + CONFIG.declaration_wait + 1):
        machine, out = follower()
        machine.on_message(A, Eim(NEW, 0), 3 * S)
        machine.deadline_at = deadline_at
        out.take()
        machine.on_timer(PulseBegins(), 4 * S)
        assert begun(out) == [ElectionId(3, B)]
    machine, out = follower()
    machine.on_message(A, Eim(NEW, 0), 3 * S)
    machine.deadline_at = 4 * S + CONFIG.declaration_wait
    out.take()
    machine.on_timer(PulseBegins(), 4 * S)
    assert begun(out) == []


def test_a_reset_that_is_overdue_ends() -> None:
    machine, out = follower()
    machine.phase, machine.election, machine.deadline_at = Phase.RESETTING, None, S
    machine.on_timer(PulseBegins(), 4 * S)
    assert machine.phase is Phase.IDLE
    assert SetTimer(ResetEnds(True), 4 * S + 4 * S) in out.take()


def test_a_leader_that_nobody_is_near_is_a_ghost() -> None:
    machine, out = follower()
    for i in range(3):  # No neighbour says how far it is: each pulse counts one hop more.
        machine.on_timer(PulseBegins(), (3 + i) * S)
    assert machine.leader == BEST and begun(out) == []
    machine.on_timer(PulseBegins(), 6 * S)
    assert begun(out) == [ElectionId(2, B)]


def test_links_keep_nothing_of_nodes_that_are_no_neighbours() -> None:
    links, view = Links(A, [B], RecordingOut()), view_of(NEW, BEST)
    links.hear(D, says(NEW, BEST), 10)
    links.peers, links.unnotified, links.notified_at = [B, A], {B, D}, 99
    links.repair(20)
    assert (links.peers, links.unnotified, links.notified_at) == ([B], {B}, 20)
    assert links.count(view, 0, 20) == 1  # What D said does not count.


def test_a_resignation_that_is_repeated_begins_no_second_election() -> None:
    out = RecordingOut()
    machine = Spanning(A, CONFIG, out, standing=0.5, neighbours=(B,))
    machine.start(0)
    machine.on_message(B, Ldm(NEW, Candidate(0.5, A)), S)
    assert machine.leader == Candidate(0.5, A)
    out.take()
    machine.resign(Resign(), 2 * S)
    first = [e for e in out.take() if isinstance(e, Send) and isinstance(e.message, Eim)]
    machine.resign(Resign(), 3 * S)
    assert len(first) == 1 and out.take() == []


def test_a_peer_that_is_behind_is_told_unless_the_news_is_still_under_way() -> None:
    for delay, told in ((0, False), (10 * S, True)):
        machine, out = follower()
        machine.initiate(3 * S)  # Its second election; 1 and 3 are notified at 3.
        out.take()
        machine.on_message(C, Eim(OLD, 1), 3 * S + delay)
        assert any(isinstance(e, Send) and isinstance(e.message, Eim | State) for e in out.take()) is told


def test_an_election_is_called_by_its_number_and_who_began_it() -> None:
    assert str(ElectionId(3, C, 7)) == f"3/{C}"
