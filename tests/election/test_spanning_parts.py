"""The parts of the spanning election: what a returning node makes of its neighbours' answers, and what links keep."""

from doyen.core.ids import NodeId
from doyen.election.spanning.links import Links, view_of
from doyen.election.spanning.messages import Candidate, ElectionId, Progress, State
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
