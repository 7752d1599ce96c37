"""The spanning election, step by step: whole effect lists, no network, no clock.  [MADM Algorithms 11–13]"""

import msgspec
import pytest

from doyen.core.clock import seconds
from doyen.core.codec import Codec
from doyen.core.effects import Emit, Persist, Send, SetTimer
from doyen.core.ids import Incarnation, NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkChanged
from doyen.core.order import order
from doyen.core.rank import ScoreGiven
from doyen.core.view import Member, Status, ViewChanged, ViewEditor
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.machine import Spanning
from doyen.election.spanning.messages import (
    SEQUENCE_MAX,
    Ack,
    Agm,
    AnswerWaitEnds,
    Candidate,
    CoParentWaitEnds,
    Eim,
    ElectionId,
    ElectionRepeats,
    Enquire,
    Ldm,
    LeaderUnreachable,
    Message,
    Mqfm,
    NotYet,
    Phase,
    ReportsAreRequested,
    Request,
    RequestWaitEnds,
    Reset,
    State,
    newer,
)
from doyen.election.spanning.messages import Status as Standing
from doyen.errors import ConfigError, RemoteProtocolError
from doyen.testing import RecordingOut

S = seconds(1)
CONFIG = SpanningConfig(hop_delay=S, diameter_max=3)
A, B, C, D, E = (NodeId(n) for n in "12345")
FIRST = ElectionId(1, A)


def node(
    me: NodeId, *neighbours: NodeId, standing: float = 0.5, returning: bool = False
) -> tuple[Spanning, RecordingOut]:
    out = RecordingOut()
    machine = Spanning(me, CONFIG, out, standing=standing, neighbours=neighbours, returning=returning)
    machine.start(0)
    return machine, out


def sent(out: RecordingOut) -> list[tuple[NodeId, Message]]:
    return [(effect.to, effect.message) for effect in out.take() if isinstance(effect, Send)]  # type: ignore[misc]


def test_madm_algorithm_11_the_initiator_asks_all_its_neighbours() -> None:
    machine, out = node(A, B, C)
    machine.initiate(10 * S)
    assert out.take() == [
        Send(B, Eim(FIRST, 0)),
        Send(C, Eim(FIRST, 0)),
        SetTimer(AnswerWaitEnds(FIRST, 1), 12 * S),
        SetTimer(ReportsAreRequested(FIRST, 1), 10 * S + CONFIG.report_wait(0)),
    ]
    assert machine.status is Standing.NULL


def test_madm_algorithm_12_the_first_eim_makes_a_parent() -> None:
    machine, out = node(B, A, C)
    machine.on_message(A, Eim(FIRST, 0), S)
    assert out.take() == [
        Send(A, Ack(FIRST)),
        Send(C, Eim(FIRST, 1)),
        SetTimer(AnswerWaitEnds(FIRST, 1), 3 * S),
        SetTimer(ReportsAreRequested(FIRST, 1), S + CONFIG.report_wait(1)),
        SetTimer(ElectionRepeats(FIRST), S + CONFIG.declaration_wait),
    ]


def test_madm_algorithm_12_a_leaf_reports_at_once_and_sends_no_ack() -> None:
    machine, out = node(B, A)
    machine.on_message(A, Eim(FIRST, 0), S)
    assert sent(out) == [(A, Mqfm(FIRST, Candidate(0.5, B), True))]
    assert machine.phase is Phase.AWAITING


def test_a_second_eim_proves_co_parenthood_and_co_parents_are_told_once() -> None:
    machine, out = node(B, A, C, D)
    machine.on_message(A, Eim(FIRST, 0), 0)
    out.take()
    machine.on_message(C, Eim(FIRST, 1), S)
    assert sent(out) == [(C, Agm(FIRST))]
    machine.on_message(C, Agm(FIRST), S)  # Before or after: nothing new.
    assert sent(out) == []
    machine.on_message(D, Mqfm(FIRST, Candidate(0.9, E), True), 2 * S)  # A child whose ACK was overtaken.
    assert out.take() == [
        Send(C, Mqfm(FIRST, Candidate(0.9, E), False)),
        SetTimer(CoParentWaitEnds(FIRST), 5 * S),
    ]
    machine.on_message(C, Mqfm(FIRST, Candidate(0.95, C), False), 3 * S)
    assert sent(out) == [(A, Mqfm(FIRST, Candidate(0.95, C), True))]  # To the parent: that, and what co-parents said.


def test_co_parents_are_waited_for_no_longer_than_their_bound() -> None:
    machine, out = node(B, A, C)
    machine.on_message(A, Eim(FIRST, 0), 0)
    machine.on_message(C, Eim(FIRST, 1), S)
    out.take()
    machine.on_timer(CoParentWaitEnds(FIRST), 4 * S)
    assert sent(out) == [(A, Mqfm(FIRST, Candidate(0.5, B), True))]


def test_children_are_waited_for_without_end_as_long_as_they_answer() -> None:
    machine, out = node(B, A, C, D)
    machine.on_message(A, Eim(FIRST, 0), 0)
    machine.on_message(C, Ack(FIRST), S)
    machine.on_message(D, Ack(FIRST), S)
    out.take()
    machine.on_timer(ReportsAreRequested(FIRST, 1), 9 * S)
    assert out.take() == [
        Send(C, Request(FIRST)),
        Send(D, Request(FIRST)),
        SetTimer(RequestWaitEnds(FIRST, 1), 11 * S),
    ]
    machine.on_message(C, NotYet(FIRST), 10 * S)
    machine.on_timer(RequestWaitEnds(FIRST, 1), 11 * S)  # D is silent, and dropped; C's wait is renewed.
    assert out.take() == [SetTimer(ReportsAreRequested(FIRST, 2), 11 * S + CONFIG.report_wait(1))]
    machine.on_message(C, Mqfm(FIRST, Candidate(0.1, C), True), 12 * S)
    assert sent(out) == [(A, Mqfm(FIRST, Candidate(0.5, B), True))]


def test_a_request_is_answered_at_once() -> None:
    machine, out = node(B, A, C)
    machine.on_message(A, Eim(FIRST, 0), 0)
    out.take()
    machine.on_message(A, Request(FIRST), S)
    assert sent(out) == [(A, NotYet(FIRST))]
    machine.on_message(C, Mqfm(FIRST, Candidate(0.9, C), True), S)
    machine.on_message(A, Request(FIRST), 2 * S)
    assert sent(out) == [(A, Mqfm(FIRST, Candidate(0.9, C), True))] * 2
    machine.on_message(A, Ldm(FIRST, Candidate(0.9, C)), 3 * S)
    out.take()
    machine.on_message(A, Request(FIRST), 4 * S)
    assert sent(out) == [(A, Ldm(FIRST, Candidate(0.9, C)))]


def test_whoever_answers_nothing_in_time_is_dropped() -> None:
    machine, out = node(A, B, C, standing=0.1)
    machine.initiate(0)
    machine.on_message(B, Mqfm(FIRST, Candidate(0.9, B), True), S)
    out.take()
    machine.on_timer(AnswerWaitEnds(FIRST, 1), 2 * S)
    assert sent(out) == [(B, Ldm(FIRST, Candidate(0.9, B))), (C, Ldm(FIRST, Candidate(0.9, B)))]


def test_an_answer_that_comes_too_late_makes_patient_and_calm_makes_less_so() -> None:
    machine, out = node(A, B, C)
    machine.initiate(0)
    machine.on_timer(AnswerWaitEnds(FIRST, 1), 2 * S)  # Both are given up; it leads itself.
    machine.on_message(B, Ack(FIRST), 3 * S)
    out.take()
    machine.initiate(4 * S)  # So soon again: twice a reason.
    assert SetTimer(AnswerWaitEnds(ElectionId(2, A), 1), (4 + 2 * 4) * S) in out.take()
    machine.on_message(B, Ldm(ElectionId(3, B), Candidate(0.9, B)), 5 * S)
    later = 5 * S + 2 * CONFIG.declaration_wait
    out.take()
    machine.initiate(later)
    assert SetTimer(AnswerWaitEnds(ElectionId(4, A), 1), later + 2 * 2 * S) in out.take()


def test_madm_algorithm_13_declaration_floods_once() -> None:
    machine, out = node(B, A, C)
    machine.on_message(A, Eim(FIRST, 0), 0)
    machine.on_message(C, Agm(FIRST), S)
    out.take()
    machine.on_message(A, Ldm(FIRST, Candidate(0.9, C)), 3 * S)
    assert out.take() == [Send(C, Ldm(FIRST, Candidate(0.9, C))), Emit(LeaderElected(Term(1, C)))]
    assert machine.status is Standing.NON_LEADER
    machine.on_message(C, Ldm(FIRST, Candidate(0.9, C)), 4 * S)
    assert out.take() == []


def test_joining_an_election_is_losing_the_leader_and_freezes_quality() -> None:
    machine, out = node(A)
    machine.initiate(0)  # A region of one leads itself, at once.
    assert out.take() == [Emit(LeaderElected(Term(1, A)))]
    machine.on_link_changed(LinkChanged(B, True), S)
    out.take()
    machine.on_score_given(ScoreGiven(1, 0.7), S)
    machine.on_message(B, Eim(ElectionId(2, B), 0), 2 * S)
    machine.on_score_given(ScoreGiven(2, 0.9), S)
    machine.on_score_given(ScoreGiven(3, float("nan")), S)
    assert machine.quality.value == 0.9
    effects = out.take()
    assert effects[0] == Emit(LeaderLost(Term(1, A), "election"))
    assert Send(B, Mqfm(ElectionId(2, B), Candidate(0.7, A), True)) in effects


def test_the_lowest_initiator_conducts_and_a_higher_sequence_beats_it() -> None:
    assert newer(ElectionId(1, A), ElectionId(1, B))
    assert newer(ElectionId(2, B), ElectionId(1, A))
    assert newer(ElectionId(1, NodeId("2")), ElectionId(1, NodeId("10")))
    assert newer(FIRST, None)
    assert not newer(None, FIRST)
    machine, out = node(B, A, C)
    machine.initiate(0)
    out.take()
    machine.on_message(A, Eim(FIRST, 0), S)
    assert machine.election == FIRST
    assert machine.gathering is not None
    assert machine.gathering.parent == A
    out.take()
    machine.on_message(C, Eim(ElectionId(1, C), 0), S)  # Initiated at the same time by a higher id: discarded.
    assert sent(out) == []


def test_no_declaration_means_a_new_election_above_the_highest_seen() -> None:
    machine, out = node(C, B)
    machine.on_message(B, Eim(ElectionId(7, A), 3), 0)
    out.take()
    machine.on_timer(ElectionRepeats(ElectionId(6, A)), S)  # Of an election that is over.
    assert out.take() == []
    machine.on_timer(ElectionRepeats(ElectionId(7, A)), CONFIG.declaration_wait)
    assert sent(out) == [(B, Eim(ElectionId(8, C), 0))]


def test_whoever_took_part_and_was_not_counted_initiates_anew() -> None:
    machine, out = node(B, A, standing=0.9)
    machine.on_message(A, Eim(FIRST, 0), 0)
    out.take()
    machine.on_message(A, Ldm(FIRST, Candidate(0.5, A)), 3 * S)
    assert sent(out) == [(A, Eim(ElectionId(2, B), 0))]


def test_ties_go_to_the_lowest_id_at_every_hop() -> None:
    machine, out = node(NodeId("10"), A, NodeId("2"), standing=0.5)
    machine.on_message(A, Eim(FIRST, 0), 0)
    out.take()
    machine.on_message(NodeId("2"), Mqfm(FIRST, Candidate(0.5, NodeId("2")), True), S)
    assert sent(out) == [(A, Mqfm(FIRST, Candidate(0.5, NodeId("2")), True))]


def test_a_lost_parent_is_replaced_by_a_neighbour_that_has_not_reported() -> None:
    machine, out = node(C, A, B, D)
    machine.on_message(A, Eim(FIRST, 0), 0)
    machine.on_message(B, Agm(FIRST), S)
    machine.on_message(D, Mqfm(FIRST, Candidate(0.9, D), True), S)
    out.take()
    machine.on_link_changed(LinkChanged(A, False), 2 * S)
    assert sent(out) == [(B, Enquire(FIRST))]
    machine.on_message(B, State(FIRST, None, "gathering", True, 0, False), 4 * S)
    machine.on_message(B, Mqfm(FIRST, Candidate(0.1, B), False), 4 * S)
    assert sent(out)[0] == (B, Ack(FIRST))
    assert machine.gathering is not None
    assert machine.gathering.parent == B
    assert machine.gathering.reported == Candidate(0.9, D)


def test_a_node_asked_by_its_own_orphaned_parent_looks_for_another_and_tells_it() -> None:
    machine, out = node(C, A, B)
    machine.on_message(A, Eim(FIRST, 0), 0)
    machine.on_message(B, Eim(FIRST, 0), 0)
    out.take()
    machine.on_message(A, Enquire(FIRST), S)
    assert sent(out) == [(B, Enquire(FIRST))]
    machine.on_message(B, State(FIRST, None, "gathering", True, 0, False), 2 * S)
    assert sent(out) == [(B, Ack(FIRST)), (A, State(FIRST, None, "gathering", True, 0, False))]
    machine.on_message(B, Mqfm(FIRST, Candidate(0.2, B), False), 3 * S)
    assert sent(out) == []  # A will be a child: it is waited for.
    machine.on_message(A, Ack(FIRST), 4 * S)
    machine.on_message(A, Mqfm(FIRST, Candidate(0.99, A), True), 4 * S)
    assert sent(out) == [(B, Mqfm(FIRST, Candidate(0.99, A), True))]


def returned(
    states: dict[NodeId, State | None], standing: float = 0.99
) -> tuple[Spanning, list[tuple[NodeId, Message]]]:
    machine, out = node(C, *states, standing=standing, returning=True)
    assert sent(out) == [(peer, Enquire(None)) for peer in states]
    for peer, state in states.items():
        if state is not None:
            machine.on_message(peer, state, S)
    if machine.phase is Phase.RETURNING:
        from doyen.election.spanning.messages import EnquiryEnds

        machine.on_timer(EnquiryEnds(), 2 * S)
    return machine, sent(out)


def test_return_outside_an_election_adopts_the_leader_even_a_worse_one() -> None:
    machine, said = returned({A: State(FIRST, Candidate(0.3, A), "idle", False, 0, False), B: None})
    assert (machine.leader, said) == (Candidate(0.3, A), [])


def test_return_during_an_election_reports_to_one_that_has_not() -> None:
    machine, said = returned(
        {
            A: State(FIRST, None, "reported", True, 0, False),
            B: State(FIRST, None, "gathering", True, 0, False),
        }
    )
    assert said == [(B, Ack(FIRST)), (B, Mqfm(FIRST, Candidate(0.99, C), True))]
    assert machine.phase is Phase.AWAITING


def test_return_when_all_have_reported_waits_for_the_declaration() -> None:
    machine, said = returned({A: State(FIRST, None, "reported", True, 0, False)})
    assert (said, machine.phase) == ([], Phase.AWAITING)
    machine.on_message(A, Ldm(FIRST, Candidate(0.3, A)), 3 * S)  # A better one that took no part has no say.
    assert machine.leader == Candidate(0.3, A)


def test_return_of_the_leader_itself_or_to_nobody_initiates() -> None:
    _, said = returned({A: State(FIRST, Candidate(0.9, C), "idle", False, 0, False)})
    assert said == [(A, Eim(ElectionId(2, C), 0))]
    _, said = returned({A: None})
    assert said == [(A, Eim(ElectionId(1, C), 0))]


def test_link_up_compares_and_the_lower_id_initiates() -> None:
    low, low_out = node(A)
    high, high_out = node(B)
    low.initiate(0)
    high.initiate(0)
    for machine, out, peer in ((low, low_out, B), (high, high_out, A)):
        out.take()
        machine.on_link_changed(LinkChanged(peer, True), 9 * S)
    of_low, of_high = low_out.take(), high_out.take()
    assert isinstance(of_low[0], Send)
    assert isinstance(of_high[0], Send)
    low.on_message(B, of_high[0].message, 10 * S)
    high.on_message(A, of_low[0].message, 10 * S)
    assert (B, Eim(ElectionId(2, A), 0)) in sent(low_out)
    assert all(not isinstance(message, Eim) for _, message in sent(high_out))


def test_link_up_between_agreeing_ends_changes_nothing() -> None:
    machine, out = node(A, B)
    machine.on_message(B, Ldm(FIRST, Candidate(0.9, B)), 0)
    machine.on_link_changed(LinkChanged(C, True), S)
    out.take()
    machine.on_message(C, State(FIRST, Candidate(0.9, B), "idle", False, 1, True), 2 * S)
    assert out.take() == []
    machine.on_message(C, State(FIRST, None, "reported", True, 1, False), 2 * S)
    assert sent(out) == [(C, Ldm(FIRST, Candidate(0.9, B)))]  # It has missed the declaration.


def test_the_failure_detector_starts_an_election() -> None:
    machine, out = node(A, B)
    machine.on_message(B, Ldm(ElectionId(4, B), Candidate(0.9, B)), 0)
    out.take()
    machine.on_leader_unreachable(LeaderUnreachable(C), S)  # Not mine.
    assert out.take() == []
    machine.on_leader_unreachable(LeaderUnreachable(B), S)
    assert out.take()[:2] == [Emit(LeaderLost(Term(4, B), "election")), Send(B, Eim(ElectionId(5, A), 0))]


def test_a_membership_that_reports_the_leader_failed_starts_an_election() -> None:
    machine, _ = node(A, B)
    machine.on_message(B, Ldm(FIRST, Candidate(0.9, B)), 0)
    editor = ViewEditor()
    editor.put(Member(node=B))
    machine.on_view_changed(ViewChanged(editor.view, (B,)), S)
    assert not machine.electing
    editor.put(Member(node=B, status=Status.FAILED))
    machine.on_view_changed(ViewChanged(editor.view, (B,)), S)
    assert machine.electing


def test_strangers_are_counted_and_not_heard() -> None:
    machine, out = node(A, B)
    machine.on_message(C, Eim(ElectionId(9, C), 0), 0)
    assert out.take() == []


def test_sequences_that_are_used_up_are_reset_by_all() -> None:
    machine, out = node(A, B)
    machine.sequence.highest = SEQUENCE_MAX
    machine.initiate(0)
    assert sent(out) == [(B, Reset())]
    machine.on_message(B, Eim(ElectionId(SEQUENCE_MAX, B), 0), S)  # Deaf.
    assert machine.phase is Phase.RESETTING
    assert machine.sequence.highest == 0


def test_the_highest_sequence_is_durable_before_it_is_spoken_of() -> None:
    out = RecordingOut()
    machine = Spanning(A, CONFIG, out, standing=0.5, neighbours=[B], restored=6)
    machine.initiate(0)
    assert out.take()[:2] == [Persist(7), Send(B, Eim(ElectionId(7, A), 0))]
    machine.on_message(B, Ldm(ElectionId(9, B), Candidate(0.9, B)), S)
    assert out.take() == [Persist(9), Emit(LeaderElected(Term(9, B)))]
    machine.on_message(B, Ldm(ElectionId(9, B), Candidate(0.9, B)), S)
    assert out.take() == []
    machine.sequence.highest = SEQUENCE_MAX
    machine.initiate(2 * S)
    assert Persist(0) in out.take()  # Used up: all begin again.


def test_quality_is_measured_on_joining_and_frozen() -> None:
    out, values = RecordingOut(), iter([0.7, 0.9, float("nan")])
    machine = Spanning(B, CONFIG, out, measure=lambda: next(values), neighbours=[A])
    for sequence, expected in ((1, 0.7), (2, 0.9), (3, 0.9), (4, 0.9)):  # No number, and then a mistake: as it was.
        election = ElectionId(sequence, A)
        machine.on_message(A, Eim(election, 0), 0)
        machine.on_message(A, Request(election), S)  # Asked again, it says the same.
        assert sent(out) == [(A, Mqfm(election, Candidate(expected, B), True))] * 2


def test_messages_survive_the_codec_and_bad_ones_do_not() -> None:
    codec = Codec("g")
    codec.speak("election", Spanning.MESSAGES)
    messages: list[Message] = [
        Eim(FIRST, 3),
        Ack(FIRST),
        Agm(FIRST),
        Mqfm(FIRST, Candidate(0.5, B), True),
        Ldm(FIRST, Candidate(0.5, B)),
        Request(FIRST),
        NotYet(FIRST),
        Enquire(None),
        State(FIRST, Candidate(0.5, B), "idle", False, 2, True),
        Reset(),
    ]
    for message in messages:
        assert codec.decode(codec.encode(A, Incarnation(1), "election", message)).message == message
    for bad in (
        ["E", [-1, "1"], 0],
        ["E", [1, ""], 0],
        ["M", [1, "1"], [float("nan"), "1"], True],
        ["E", [2**60, "1"], 0],
    ):
        data = msgspec.msgpack.encode([1, "g", "1", 1, "election", bad])
        with pytest.raises(RemoteProtocolError):
            codec.decode(data)


def test_waits_nest() -> None:
    for depth in range(CONFIG.diameter_max - 1):
        assert CONFIG.report_wait(depth) > CONFIG.report_wait(depth + 1)
        assert CONFIG.report_wait(depth) >= 2 * S + CONFIG.report_wait(depth + 1) + CONFIG.co_parent_wait
    assert CONFIG.declaration_wait > CONFIG.gathering_max(0) + CONFIG.diameter_max * S


@pytest.mark.parametrize(
    "bad", [{"hop_delay": 0}, {"diameter_max": 0}, {"co_parent_hops": -1}, {"hop_delay": S, "pulse_interval": 3 * S}]
)
def test_bad_configurations_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        SpanningConfig(**bad)


def test_names_are_ordered_as_numbers_where_they_are() -> None:
    assert sorted(["10", "2", "n10", "n2", "01", "1", "-1"], key=order) == ["01", "1", "2", "10", "-1", "n2", "n10"]
