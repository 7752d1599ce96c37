"""Churn-tolerant elections: the paper's sentences, the settled points, and the scenarios that must pass.  [CTOL]"""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from doyen.core import FOREVER, Emit, Host, Multicast, NodeId, Persist, Send, SetTimer, Term, ms, seconds
from doyen.core.commands import Initiate, Resign
from doyen.core.ids import Incarnation
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.view import Member, MemberWanted, Status, ViewChanged, ViewEditor
from doyen.election.churn.config import CTolerantConfig
from doyen.election.churn.initiator import Role
from doyen.election.churn.local import Local
from doyen.election.churn.machine import CTolerant
from doyen.election.churn.messages import (
    Ask,
    AttemptBegan,
    BackOffEnds,
    BootstrapBegins,
    CannotElect,
    Confirm,
    Decided,
    DoubtRepeats,
    ElectionBegins,
    ElectionId,
    Leader,
    LeaderAck,
    LeaderHeld,
    LeaderIsAsked,
    MemberIsAsked,
    Memory,
    MoreAreAsked,
    NextTermBegins,
    NotifyLeader,
    NotifyRepeats,
    Query,
    Record,
    Response,
    ResponseCounted,
)
from doyen.election.churn.standpoint import hash_rank, salted
from doyen.errors import ConfigError
from doyen.membership.missing import MissingEstimated
from doyen.membership.reliable import CopiesAreSent
from doyen.membership.swim.roundtrip import RoundTripEstimated
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.testing import RecordingOut
from doyen_papers.studies.views import ToldViews
from doyen_papers.studies.walkthrough import walk

ME = NodeId("4")
TIMEOUT = ms(500)


def names(*numbers: int) -> list[NodeId]:
    return [NodeId(str(n)) for n in numbers]


class FirstOnes(Random):
    """Asks the first members it knows; every other draw is one half."""

    def random(self) -> float:
        return 0.5

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        return sorted(population)[:k]


class Bench:
    """One machine with a view that the test writes; ranks are the names as numbers."""

    def __init__(self, me: str = "4", members: tuple[int, ...] = (0, 1, 2, 3, 4), **given: Any) -> None:
        self.out = RecordingOut()
        self.editor = ViewEditor()
        incarnation = Incarnation(given.pop("incarnation", 1))
        restored = given.pop("restored", None)
        more = {key: given.pop(key) for key in ("ranks_differ", "rank") if key in given}
        given = {"variant": "base", "missing_max": 2, "ask_interval": FOREVER, "bootstrap_after": FOREVER} | given
        self.config = CTolerantConfig(**given)
        more.setdefault("rank", int)
        self.machine = CTolerant(
            NodeId(me), incarnation, self.config, self.out, FirstOnes(), restored=restored, durable=False, **more
        )
        self.machine.start(0)
        self.put(*(Member(node=name) for name in names(*members)))

    def put(self, *members: Member, now: int = 0) -> list[Any]:
        changed = tuple(member.node for member in members if self.editor.put(member))
        self.machine.on_view_changed(ViewChanged(self.editor.view, changed), now)
        return self.out.take()

    def status(self, node: int, status: Status, now: int = 0) -> list[Any]:
        return self.put(Member(node=NodeId(str(node)), status=status), now=now)

    def hear(self, sender: int, message: Any, now: int = 0) -> list[Any]:
        self.machine.on_message(NodeId(str(sender)), message, now)
        return self.out.take()

    def fire(self, timer: Any, now: int) -> list[Any]:
        self.machine.on_timer(timer, now)
        return self.out.take()

    def initiate(self, now: int = 0) -> list[Any]:
        self.machine.initiate(now)
        return self.out.take()

    def answer(self, sender: int, *candidates: int, attempt: int = 1, excluded: Any = (), now: int = 0) -> list[Any]:
        election = self.machine.initiator.election
        assert election is not None
        return self.hear(sender, Response(election, attempt, tuple(names(*candidates)), excluded), now)


def sent(effects: list[Any], kind: type) -> list[tuple[NodeId, Any]]:
    return [(e.to, e.message) for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def told(effects: list[Any], kind: type) -> list[Any]:
    return [e.fact for e in effects if isinstance(e, Emit) and isinstance(e.fact, kind)]


def election(number: int, initiator: int = 3, incarnation: int = 1) -> ElectionId:
    return ElectionId(number, NodeId(str(initiator)), incarnation)


def record(leader: int, number: int = 1, initiator: int = 3, sequence: int = 1, final: bool = True) -> Record:
    return Record(election(number, initiator), sequence, final, NodeId(str(leader)), 1)


# ── One step at a time ──────────────────────────────────────────────────────────────────────────────────────


def test_ctol_alg_1_the_initiator_asks_c_plus_f_plus_1_members() -> None:
    bench = Bench(failure_max=1)
    mine = ElectionId(1, ME, 1)
    query = Query(mine, 1, 1, 0)
    assert bench.initiate(now=ms(7)) == [
        Emit(AttemptBegan(mine, 1)),
        *(Send(node, query) for node in names(0, 1, 2, 3)),
        SetTimer(MoreAreAsked(1, 1), at=ms(507)),
    ]


def test_ctol_alg_1_the_lowest_of_c_plus_1_responses_is_notified() -> None:
    bench = Bench(failure_max=1)
    bench.initiate()
    assert not sent(bench.answer(1, 1), NotifyLeader)
    assert not sent(bench.answer(2, 0), NotifyLeader)
    mine = ElectionId(1, ME, 1)
    assert bench.answer(3, 2, now=ms(40)) == [
        Emit(ResponseCounted(NodeId("3"), (), tuple(names(0, 1, 2)), tuple(names(0, 1, 2)))),
        Emit(Decided(mine, 1, 1, True, NodeId("0"))),
        Send(NodeId("0"), NotifyLeader(mine, 1, True)),
        SetTimer(NotifyRepeats(1, 1, 0), at=ms(540)),
    ]


def test_ctol_alg_1_timeout_without_a_new_response_asks_as_many_more_without_responders() -> None:
    bench = Bench(members=(0, 1, 2, 3, 4, 5, 6))
    bench.initiate()
    bench.answer(0, 0, now=ms(300))
    assert bench.fire(MoreAreAsked(1, 1), ms(500)) == [SetTimer(MoreAreAsked(1, 1), at=ms(800))]
    effects = bench.fire(MoreAreAsked(1, 1), ms(800))
    assert [node for node, _ in sent(effects, Query)] == names(1, 2)
    assert SetTimer(MoreAreAsked(1, 1), at=ms(1300)) in effects


def test_ctol_alg_1_no_leader_after_timeout_begins_another_attempt() -> None:
    bench = Bench(notify_retry_max=0)
    bench.initiate()
    for sender in (0, 1, 2):
        bench.answer(sender, 0)
    effects = bench.fire(NotifyRepeats(1, 1, 0), TIMEOUT)
    assert told(effects, AttemptBegan) == [AttemptBegan(ElectionId(1, ME, 1), 2)]
    assert {query.attempt for _, query in sent(effects, Query)} == {2}


def test_a_lost_notification_is_repeated_before_everybody_is_asked_anew() -> None:
    bench = Bench(notify_retry_max=1)
    bench.initiate()
    for sender in (0, 1, 2):
        bench.answer(sender, 0)
    assert sent(bench.fire(NotifyRepeats(1, 1, 0), TIMEOUT), NotifyLeader)
    assert sent(bench.fire(NotifyRepeats(1, 1, 1), 2 * TIMEOUT), Query)


def test_ctol_alg_1_the_notified_node_tells_everybody_and_again_until_each_has_acknowledged() -> None:
    bench = Bench(me="0", members=(0, 1, 2))
    notify = NotifyLeader(election(1, 2), 1, True)
    mine = Record(election(1, 2), 1, True, NodeId("0"), 1)
    effects = bench.hear(2, notify, ms(10))
    assert sent(effects, Leader) == [(NodeId("1"), Leader(mine, 1)), (NodeId("2"), Leader(mine, 1))]
    assert told(effects, LeaderElected) == [LeaderElected(Term(1, NodeId("0")))]
    assert bench.hear(2, LeaderAck(1)) == []
    again = bench.fire(CopiesAreSent(1, 1), ms(260))
    assert again == [Send(NodeId("1"), Leader(mine, 1)), SetTimer(CopiesAreSent(1, 2), at=ms(510))]
    bench.hear(1, LeaderAck(1))
    assert bench.fire(CopiesAreSent(1, 2), ms(510)) == []


def test_ctol_alg_1_a_member_marks_the_leader_and_acknowledges() -> None:
    bench = Bench()
    effects = bench.hear(0, Leader(record(0), 7), ms(1))
    assert effects == [
        Send(NodeId("0"), LeaderAck(7)),
        SetTimer(NextTermBegins(election(1)), at=ms(1) + int(1.25 * bench.config.final_timeout)),
        Emit(LeaderElected(Term(1, NodeId("0")))),
        Emit(LeaderHeld(record(0))),
    ]
    assert bench.fire(NextTermBegins(election(1)), seconds(13)) == []  # It was final.


def test_ctol_alg_2_optimistic_tells_each_lower_one_and_confirms_when_all_are_in() -> None:
    bench = Bench(variant="optimistic")
    bench.initiate()
    assert sent(bench.answer(1, 2), NotifyLeader) == [(NodeId("2"), NotifyLeader(ElectionId(1, ME, 1), 1, False))]
    assert not sent(bench.answer(2, 3), NotifyLeader)
    assert sent(bench.answer(3, 2), NotifyLeader) == [(NodeId("2"), NotifyLeader(ElectionId(1, ME, 1), 2, True))]


def test_ctol_alg_3_a_responder_excludes_first_and_then_takes_x_itself_among_them() -> None:
    bench = Bench(me="1")
    counts = {0: 5, 2: 0, 3: 2, 4: 1}
    bench.put(*(Member(node=NodeId(str(n)), suspicion_count=count) for n, count in counts.items()))
    effects = bench.hear(4, Query(election(1, 4), 1, 2, 2))
    response = Response(election(1, 4), 1, tuple(names(1, 2)), ((NodeId("0"), 5), (NodeId("3"), 2)))
    assert sent(effects, Response) == [(NodeId("4"), response)]


def test_settled_4_unhealthy_lists_hold_only_counts_of_one_and_more_ties_by_hash() -> None:
    bench = Bench(me="1")
    counts = {0: 0, 2: 1, 3: 1, 4: 1}
    bench.put(*(Member(node=NodeId(str(n)), suspicion_count=count) for n, count in counts.items()))
    ((_, response),) = sent(bench.hear(4, Query(election(1, 4), 1, 9, 2)), Response)
    assert response.excluded == ((NodeId("2"), 1), (NodeId("3"), 1))
    ((_, response),) = sent(bench.hear(4, Query(election(1, 4), 1, 9, 9)), Response)
    assert response.excluded == ((NodeId("2"), 1), (NodeId("3"), 1), (NodeId("4"), 1))
    assert response.candidates == tuple(names(0, 1))


def test_settled_4_exclusion_by_top_of_summed_counts_lets_the_less_unhealthy_lead() -> None:
    excluded = ((NodeId("0"), 1), (NodeId("1"), 5))
    for exclusion, leader in (("union", 2), ("top", 0)):
        bench = Bench(variant="preferred", exclusion=exclusion, unhealthy_count=1, missing_max=1)
        bench.initiate()
        bench.answer(0, 0, 2, excluded=excluded[1:])
        ((node, _),) = sent(bench.answer(1, 2, excluded=excluded[:1]), NotifyLeader)
        assert node == NodeId(str(leader)), exclusion


def test_ctol_alg_3_an_empty_set_retries_with_a_greater_x_and_a_smaller_y() -> None:
    bench = Bench(variant="preferred", candidate_count=2, unhealthy_count=2)
    bench.initiate()
    sick = ((NodeId("0"), 3), (NodeId("1"), 2))
    bench.answer(0, 0, 1)
    bench.answer(1, 0, 1)
    effects = bench.answer(2, 0, 1, excluded=sick)
    assert {(q.attempt, q.candidate_count, q.unhealthy_count) for _, q in sent(effects, Query)} == {(2, 3, 1)}


def test_ctol_theorem_2_with_x_n_and_y_0_somebody_is_always_left() -> None:
    bench = Bench(variant="preferred", candidate_count=1, unhealthy_count=3)
    bench.initiate()
    sick = ((NodeId("0"), 3),)
    for attempt in range(1, 5):
        query_y = 4 - attempt
        for sender in (0, 1, 2):
            effects = bench.answer(sender, 0, attempt=attempt, excluded=sick if query_y else ())
        if not query_y:
            assert sent(effects, NotifyLeader)


def test_settled_5_hybrid_restarts_on_an_empty_set_only_when_all_responses_are_in() -> None:
    bench = Bench(variant="hybrid")
    bench.initiate()
    assert not sent(bench.answer(0, 0, excluded=((NodeId("0"), 1),)), Query)
    assert not sent(bench.answer(1, 0), Query)
    assert sent(bench.answer(2, 0), Query)


def test_settled_5_late_answers_to_an_earlier_attempt_do_not_count() -> None:
    bench = Bench(notify_retry_max=0)
    bench.initiate()
    for sender in (0, 1, 2):
        bench.answer(sender, 0)
    bench.fire(NotifyRepeats(1, 1, 0), TIMEOUT)
    assert bench.answer(3, 1, attempt=1) == []
    assert told(bench.answer(3, 1, attempt=2), ResponseCounted)


def test_settled_3_a_suspected_member_is_present() -> None:
    bench = Bench(me="1")
    bench.status(0, Status.SUSPECTED)
    ((_, response),) = sent(bench.hear(4, Query(election(1, 4), 1, 1, 0)), Response)
    assert response.candidates == (NodeId("0"),)
    bench.status(0, Status.FAILED)
    ((_, response),) = sent(bench.hear(4, Query(election(1, 4), 1, 1, 0)), Response)
    assert response.candidates == (NodeId("1"),)


def test_settled_7_too_few_known_is_a_clear_state_with_back_off() -> None:
    bench = Bench(members=(3, 4), missing_max=4)
    effects = bench.initiate()
    (shortage,) = told(effects, CannotElect)
    assert str(shortage) == "cannot elect safely: knows 2 of 5 needed"
    assert bench.machine.initiator.shortage == shortage
    assert SetTimer(BackOffEnds(1, 1), at=seconds(1)) in effects
    assert bench.fire(BackOffEnds(1, 1), seconds(1)) == [SetTimer(BackOffEnds(1, 2), at=seconds(3))]
    for tries in range(2, 12):
        (timer,) = bench.fire(BackOffEnds(1, tries), seconds(100))
    assert timer == SetTimer(BackOffEnds(1, 12), at=seconds(130))  # Never more than back_off_max.
    effects = bench.put(*(Member(node=name) for name in names(0, 1, 2)))
    assert len(sent(effects, Query)) == 5
    assert bench.machine.initiator.shortage is None


def test_settled_6_a_dead_would_be_leader_is_replaced_as_soon_as_the_view_says_so() -> None:
    bench = Bench()
    bench.initiate()
    for sender in (0, 1, 2):
        bench.answer(sender, 0)
    effects = bench.status(0, Status.FAILED, now=ms(100))
    assert told(effects, AttemptBegan) == [AttemptBegan(ElectionId(1, ME, 1), 2)]
    assert NodeId("0") not in [node for node, _ in sent(effects, Query)]


def test_a_member_whose_view_says_that_the_leader_is_gone_begins_the_next_term() -> None:
    for status, reason in ((Status.FAILED, "failed"), (Status.LEFT, "left")):
        bench = Bench()
        bench.hear(0, Leader(record(0), 1))
        effects = bench.status(0, status, now=seconds(1))
        if status is Status.FAILED:  # The view may err, so the leader is asked, for as long as one waits anyway.
            assert told(effects, LeaderLost) == [] and sent(effects, Ask)[0][0] == NodeId("0")
            effects = bench.fire(DoubtRepeats(1), seconds(1) + ms(500))
        assert told(effects, LeaderLost) == [LeaderLost(Term(1, NodeId("0")), reason)]
        wait = ms(500) if status is Status.FAILED else ms(250)
        assert SetTimer(ElectionBegins(1), at=seconds(1) + wait) in effects
        assert bench.machine.leader is None
        assert {q.election.number for _, q in sent(bench.fire(ElectionBegins(1), seconds(2)), Query)} == {2}


def test_who_hears_of_a_newer_election_meanwhile_does_not_begin_one() -> None:
    bench = Bench()
    bench.hear(0, Leader(record(0), 1))
    bench.status(0, Status.FAILED, now=seconds(1))
    bench.hear(3, Query(election(2), 1, 1, 0), seconds(1))
    assert bench.fire(ElectionBegins(1), seconds(2)) == []


def test_a_suspected_leader_goes_on_leading() -> None:
    bench = Bench()
    bench.hear(0, Leader(record(0), 1))
    assert bench.status(0, Status.SUSPECTED) == []


def test_settled_2_a_worse_initiator_is_refused_and_told_of_the_better() -> None:
    bench = Bench(me="2")
    bench.hear(1, Query(election(1, 1), 1, 1, 0))
    ((to, response),) = sent(bench.hear(3, Query(election(1, 3), 1, 1, 0)), Response)
    assert (to, response.better, response.candidates) == (NodeId("3"), election(1, 1), ())


def test_settled_2_an_initiator_that_hears_of_a_lower_one_stops_and_resumes_after_a_timeout() -> None:
    bench = Bench()
    bench.initiate()
    effects = bench.hear(2, Response(ElectionId(1, ME, 1), 1, (), better=election(1, 3)), ms(1))
    assert bench.machine.initiator.role is Role.IDLE
    (timer,) = effects
    assert timer == SetTimer(NextTermBegins(election(1, 3)), at=ms(1) + ms(12_500))
    assert bench.answer(0, 0) == []
    assert {q.election for _, q in sent(bench.fire(timer.timer, timer.at), Query)} == {ElectionId(2, ME, 1)}


def test_settled_1_the_greatest_term_then_the_lower_initiator_then_the_sequence_counts() -> None:
    ranked = [
        record(0, number=1, initiator=4, sequence=9),
        record(0, number=1, initiator=3, sequence=1),
        record(0, number=1, initiator=3, sequence=2),
        record(0, number=2, initiator=4, sequence=1),
    ]
    for i, low in enumerate(ranked):
        assert not low.supersedes(low)
        for high in ranked[i + 1 :]:
            assert high.supersedes(low) and not low.supersedes(high)


def test_settled_1_who_holds_a_tentative_leader_for_too_long_begins_the_next_term() -> None:
    bench = Bench()
    bench.hear(0, Leader(record(0, final=False), 1))
    assert {q.election.number for _, q in sent(bench.fire(NextTermBegins(election(1)), seconds(13)), Query)} == {2}


def test_settled_1_who_answered_an_initiator_that_died_begins_the_next_term() -> None:
    bench = Bench()
    bench.hear(3, Query(election(1), 1, 1, 0))
    effects = bench.status(3, Status.FAILED, now=seconds(1))
    assert SetTimer(ElectionBegins(1), at=seconds(1) + ms(250)) in effects
    assert sent(bench.fire(ElectionBegins(1), seconds(2)), Query)


def test_leadership_lost_to_another_is_told_before_the_other_is_named() -> None:
    bench = Bench(me="2")
    bench.hear(4, NotifyLeader(election(1, 4), 1, False))
    effects = bench.hear(0, Leader(record(0, initiator=4, sequence=2), 1))
    assert [e.fact for e in effects if isinstance(e, Emit)][:2] == [
        LeaderLost(Term(1, NodeId("2")), "outranked"),
        LeaderElected(Term(1, NodeId("0"))),
    ]
    assert bench.fire(CopiesAreSent(1, 1), ms(250)) == []  # It no longer tells that it leads.


def test_a_former_life_does_not_lead_and_the_next_term_is_begun() -> None:
    bench = Bench(me="0", incarnation=2)
    effects = bench.hear(1, Leader(record(0)))
    assert bench.machine.leader is None
    assert SetTimer(ElectionBegins(1), at=0) in effects
    assert {q.election for _, q in sent(bench.fire(ElectionBegins(1), 0), Query)} == {ElectionId(2, NodeId("0"), 2)}


def test_a_member_that_turns_up_later_is_told_who_leads() -> None:
    bench = Bench(me="0", members=(0, 1))
    bench.hear(1, NotifyLeader(election(1, 1), 1, True))
    bench.hear(1, LeaderAck(1))
    ((to, message),) = sent(bench.put(Member(node=NodeId("2")), now=ms(9)), Leader)
    assert to == NodeId("2") and message.number == 1
    assert not sent(bench.status(2, Status.SUSPECTED), Leader)  # Told once is enough.


def test_the_term_is_on_the_disk_before_anybody_hears_of_it() -> None:
    out = RecordingOut()
    machine = CTolerant(ME, Incarnation(2), CTolerantConfig(), out, FirstOnes(), restored=Memory(5))
    machine.initiate(0)
    assert out.effects[0] == Persist(Memory(6))
    assert {q.election.number for _, q in sent(out.effects, Query)} == {6}


def test_a_wild_term_cannot_use_up_all_terms() -> None:
    bench, wild = Bench(), 2**53
    bench.initiate()
    mine = bench.machine.initiator.election
    assert mine is not None
    for lie in (
        Leader(record(0, wild), 1),
        Query(election(wild), 1, 5, 0),
        Response(mine, 1, (), better=election(wild)),
        NotifyLeader(election(wild), 1, True),
        Confirm(election(wild), 1, 2),
        Ask(election(wild), 1),
    ):
        assert bench.hear(3, lie) == []
    assert bench.machine.point.number == 1 and bench.machine.leader is None
    bench.hear(3, Leader(record(0, 2**32), 1))
    assert bench.machine.leader == NodeId("0")


def test_asking_brings_whoever_is_behind_up_to_date() -> None:
    ahead, behind = Bench(ask_interval=seconds(10)), Bench(me="2")
    ahead.hear(0, Leader(record(0), 1))
    (question,) = [e.message for e in ahead.fire(MemberIsAsked(2), seconds(1)) if isinstance(e, Send)]
    ((to, back),) = sent(behind.hear(4, question), Ask)
    assert (to, back) == (ME, Ask())
    ((_, answer),) = sent(ahead.hear(2, back), Leader)
    behind.hear(4, answer)
    assert behind.machine.leader == NodeId("0")
    assert behind.hear(4, question) == []  # Nothing new: silence.


def test_a_group_that_hears_of_no_leader_begins_by_itself() -> None:
    bench = Bench(bootstrap_after=seconds(2))
    assert sent(bench.fire(BootstrapBegins(), seconds(3)), Query)
    led = Bench(bootstrap_after=seconds(2))
    led.hear(0, Leader(record(0), 1))
    assert led.fire(BootstrapBegins(), seconds(3)) == []


def test_any_rank_may_take_the_place_of_the_hash() -> None:
    load = {name: float(10 - int(name)) for name in names(0, 1, 2, 3, 4)}
    bench = Bench(rank=load.__getitem__)
    ((_, response),) = sent(bench.hear(3, Query(election(1), 1, 2, 0)), Response)
    assert response.candidates == tuple(names(4, 3))
    assert response.ranks == ()


def test_where_nodes_rank_by_what_each_knows_answers_carry_the_ranks() -> None:
    bench = Bench(ranks_differ=True, missing_max=1)
    ((_, response),) = sent(bench.hear(4, Query(ElectionId(1, ME, 1), 1, 2, 0)), Response)
    assert response.ranks == (0, 1)
    bench.initiate()
    mine = bench.machine.initiator.election
    assert mine is not None
    bench.hear(0, Response(mine, 1, (NodeId("0"),), ranks=(7.5,)))
    effects = bench.hear(1, Response(mine, 1, (NodeId("1"),), ranks=(2.5,)))
    assert sent(effects, NotifyLeader)[0][0] == NodeId("1")


def test_the_rank_hash_is_wire_stable() -> None:
    assert f"{hash_rank(NodeId('n0')):064x}" == "6b92e7a999399b6bd0997e406844a4e12d8576c7cb3c174702400a9b6a48f029"


def test_elections_of_one_group_are_spread_over_its_members_by_a_salted_hash() -> None:
    members, kinds = (
        [NodeId(name) for name in ("ant", "bee", "cat")],
        ("mail", "cron", "pay", "index", "audit", "sweep"),
    )
    best = {name: min(members, key=salted("jobs", name)) for name in kinds}
    assert best == {name: min(members, key=salted("jobs", name)) for name in kinds}
    assert len({*best.values()}) > 1
    assert (
        f"{salted('jobs', 'mail')(NodeId('n0')):064x}"
        == "a198aaec1408d9f561e76cc44885d0e40c4a6b3e944c627f33c02c9d7f654f23"
    )


def test_auto_takes_c_from_the_estimator_and_never_more_than_the_view_allows() -> None:
    bench = Bench(missing_max="auto", members=tuple(range(5)))
    assert bench.machine.point.missing_max() == 1  # Unknown yet: a tenth of the view.
    bench.machine.on_missing_estimated(MissingEstimated(3, 0.9, 40), 0)
    assert len(sent(bench.initiate(), Query)) == 4
    bench.machine.on_missing_estimated(MissingEstimated(30, 0.9, 40), 0)
    assert bench.machine.point.missing_max() == 4


def test_responses_always_fit_a_datagram() -> None:
    long = [NodeId(f"{i:064d}") for i in range(200)]
    bench = Bench(me=long[0], members=(), rank=lambda node: 0)
    bench.put(*(Member(node=name, suspicion_count=i % 2) for i, name in enumerate(long)))
    ((_, response),) = sent(bench.hear(3, Query(election(1), 1, 200, 200)), Response)
    assert response.candidates
    assert sum(len(n) for n in response.candidates) + sum(len(n) for n, _ in response.excluded) < 1100


def test_bad_configurations_name_the_field() -> None:
    for field, value in (("missing_max", -1), ("candidate_count", 0), ("response_timeout", 0), ("final_timeout", 1)):
        with pytest.raises(ConfigError) as caught:
            CTolerantConfig(**{field: value})
        assert caught.value.field == field


def test_the_local_baseline_takes_the_lowest_of_its_own_view() -> None:
    out, editor = RecordingOut(), ViewEditor()
    machine = Local(NodeId("2"), out, rank=int)
    for node in names(1, 2, 3):
        editor.put(Member(node=node))
    machine.on_view_changed(ViewChanged(editor.view, tuple(names(1, 2, 3))), 0)
    assert out.take() == [Emit(LeaderElected(Term(1, NodeId("1"))))]
    editor.put(Member(node=NodeId("1"), status=Status.FAILED))
    machine.on_view_changed(ViewChanged(editor.view, tuple(names(1))), 0)
    editor.put(Member(node=NodeId("0")))
    machine.on_view_changed(ViewChanged(editor.view, tuple(names(0))), 0)
    assert out.take() == [
        Emit(LeaderElected(Term(2, NodeId("2")))),
        Emit(LeaderLost(Term(2, NodeId("2")), "outranked")),
        Emit(LeaderElected(Term(3, NodeId("0")))),
    ]


# ── Scenarios ───────────────────────────────────────────────────────────────────────────────────────────────


class Group:
    """Simulated nodes 0…N−1 whose views the test writes; ranks are the names as numbers."""

    def __init__(self, size: int, **given: Any) -> None:
        self.config = CTolerantConfig(
            **({"variant": "base", "missing_max": 1, "ask_interval": FOREVER, "bootstrap_after": FOREVER} | given)
        )
        streams = Streams(3)
        network = Network(NetworkConfig(delay=Delay(mean=ms(10))), Topology(size, None), streams)
        self.sim = Simulation(network, streams, wire=True)  # Through the codec, as on a real network.
        self.views = ToldViews(self.sim)
        self.facts: list[tuple[str, Any]] = []
        self.counts = {Query: 0, Response: 0, NotifyLeader: 0}
        self.sim.watchers.append(lambda node, channel, fact, now: self.facts.append((node.name, fact)))
        self.sim.send_watchers.append(self._count)
        self.nodes = [self.sim.add(NodeId(str(i)), self._setup) for i in range(size)]
        for node in self.nodes:
            self.sim.start(node)
        self.views.complete(self.nodes)

    def _setup(self, node: SimNode, host: Host) -> None:
        host.add(
            "election",
            lambda port: CTolerant(
                node.name, node.incarnation, self.config, port, node.rng("election"), rank=int,
                restored=node.restored("election", Memory),
            ),
        )  # fmt: skip

    def _count(self, node: SimNode, channel: str, message: Any, now: int) -> None:
        if type(message) in self.counts:
            self.counts[type(message)] += 1

    def machine(self, i: int) -> CTolerant:
        host = self.nodes[i].host
        assert host is not None
        machine: Any = host.ports["election"].machine
        return machine  # type: ignore[no-any-return]

    def initiate(self, i: int) -> None:
        self.sim.tell(self.nodes[i], Initiate(), channel="election")

    def run(self, span: int) -> None:
        self.sim.run(until=self.sim.now + span)

    def put(self, i: int, member: int, status: Status) -> None:
        self.views.set(self.nodes[i], [Member(node=NodeId(str(member)), status=status)])

    def leaders(self) -> list[int | None]:
        return [
            None if n.host is None or self.machine(n.index).leader is None else int(self.machine(n.index).leader or 0)
            for n in self.nodes
        ]

    def filter(self, rule: Callable[[SimNode, SimNode, Any], int]) -> None:
        self.sim.filters.append(lambda sender, channel, receiver, message: rule(sender, receiver, message))
        self.sim.network_changed()

    @property
    def unicasts(self) -> int:
        return sum(self.counts.values())

    @property
    def multicasts(self) -> int:
        return sum(1 for name, fact in self.facts if isinstance(fact, LeaderHeld) and fact.record.leader == name)


@pytest.mark.parametrize("size", [4, 7, 16, 49])
def test_ctol_lemma_1_two_c_plus_f_plus_1_plus_1_unicasts_and_1_multicast(size: int) -> None:
    for c in (0, 1, 2, size - 2):
        for f in (0, 1):
            group = Group(size, missing_max=c, failure_max=f)
            group.initiate(size - 1)
            group.run(seconds(5))
            assert (group.unicasts, group.multicasts) == (2 * (c + f + 1) + 1, 1)
            assert group.leaders() == [0] * size


def test_ctol_figure_1() -> None:
    figure = walk("ctol/figure1")
    assert (figure.unicasts, figure.multicasts, figure.notified, figure.agreed) == (7, 1, [0], True)


def test_ctol_figure_2() -> None:
    figure = walk("ctol/figure2")
    steps = [(s.sender, s.excluded, s.candidates, s.leaders) for s in figure.steps]
    assert steps == [
        (4, {"3": 2, "1": 1}, [0, 2], [0, 2]),
        (0, {"3": 6, "1": 3}, [0, 2], [0, 2]),
        (1, {"3": 8, "0": 5, "1": 3}, [2], [2]),
    ]
    assert (figure.notified, figure.unicasts, figure.multicasts) == ([0, 2], 8, 2)
    assert (figure.leader, figure.agreed) == (2, True)


def test_figure_2_with_leader_0_delayed_past_leader_2() -> None:
    assert walk("ctol/figure2", late={0: seconds(1)}).agreed


def test_a_late_leader_5_after_leader_0() -> None:
    bench = Bench(members=(0, 1, 2, 3, 4, 5), variant="optimistic")
    bench.hear(0, Leader(record(0, sequence=2), 1))
    bench.hear(5, Leader(record(5, sequence=1, final=False), 1))
    assert bench.machine.leader == NodeId("0")


def test_leader_of_a_dead_leaders_earlier_term() -> None:
    bench = Bench()
    bench.hear(1, Leader(record(1, number=2), 1))
    bench.hear(0, Leader(record(0, number=1), 1))
    assert bench.machine.leader == NodeId("1")
    fresh = Bench()
    fresh.status(0, Status.FAILED)
    (_, question) = sent(fresh.hear(2, Leader(record(0, number=1))), Ask)[0]
    assert question.echo  # Is it really dead?  It is asked, and does not answer:
    assert sent(fresh.fire(DoubtRepeats(1), seconds(5)), Ask)
    effects = fresh.fire(DoubtRepeats(1), seconds(11))
    assert told(effects, LeaderLost) == [LeaderLost(Term(1, NodeId("0")), "failed")]
    assert {q.election.number for _, q in sent(fresh.fire(ElectionBegins(1), seconds(12)), Query)} == {2}


def test_a_living_leader_that_one_view_holds_dead_goes_on_leading() -> None:
    group = Group(4)
    group.put(3, 0, Status.FAILED)
    group.initiate(2)
    group.run(seconds(20))
    assert group.leaders() == [0, 0, 0, 0]
    assert not [fact for _, fact in group.facts if isinstance(fact, LeaderLost)]


def test_decision_22_answering_a_living_leader_by_the_next_term_never_ends() -> None:
    """One view errs forever, as c = 1 allows: by the literal rule its node asks forever and has no leader."""
    groups = {rule: Group(4, dead_leader=rule) for rule in ("ask", "next-term")}
    for group in groups.values():
        group.put(3, 0, Status.FAILED)
        group.initiate(2)
        group.run(seconds(60))
    assert groups["ask"].leaders() == [0, 0, 0, 0] and groups["ask"].unicasts == 5
    assert groups["next-term"].leaders() == [0, 0, 0, None] and groups["next-term"].unicasts > 100


def test_settled_6_a_leader_known_dead_is_answered_by_the_next_term_where_so_wanted() -> None:
    bench = Bench(variant="base", dead_leader="next-term")
    bench.status(0, Status.FAILED)
    assert not told(bench.hear(0, Leader(record(0, number=1), 1)), LeaderElected)
    assert {q.election.number for _, q in sent(bench.fire(ElectionBegins(1), seconds(1)), Query)} == {2}


@pytest.mark.parametrize("variant", ["base", "optimistic", "preferred", "hybrid"])
def test_a_leader_that_resigns_is_passed_over_for_a_while(variant: str) -> None:
    group = Group(5, variant=variant, resign_cool_down=seconds(20))
    group.initiate(4)
    group.run(seconds(3))
    assert group.leaders() == [0] * 5
    group.sim.tell(group.nodes[0], Resign(), channel="election")
    group.run(seconds(3))
    assert group.leaders() == [1] * 5
    assert ("0", LeaderLost(Term(1, NodeId("0")), "resigned")) in group.facts
    group.initiate(3)  # Somebody who does not know: still not node 0.
    group.run(seconds(5))
    assert group.leaders() == [1] * 5
    group.run(seconds(15))
    group.initiate(3)
    group.run(seconds(3))
    assert group.leaders() == [0] * 5


def test_timeout_follows_the_measured_round_trips_where_so_wanted() -> None:
    for timeout, waits in (("config", ms(500)), ("auto", ms(60))):
        bench = Bench(timeout=timeout)
        bench.machine.on_round_trip_estimated(RoundTripEstimated(ms(20), ms(30)), 0)
        bench.machine.initiate(0)
        assert SetTimer(MoreAreAsked(1, 1), at=waits) in bench.out.take()


@pytest.mark.parametrize("variant", ["base", "optimistic", "preferred", "hybrid"])
def test_members_that_decline_do_not_choose_each_other_for_ever(variant: str) -> None:
    group = Group(3, variant=variant, resign_cool_down=seconds(60))
    group.initiate(2)
    group.run(seconds(3))
    for leader, following in ((0, 1), (1, 2)):  # In the order of their ranks: the best has resigned already.
        assert group.leaders() == [leader] * 3
        group.sim.tell(group.nodes[leader], Resign(), channel="election")
        group.run(seconds(3))
        assert group.leaders() == [following] * 3
    group.sim.tell(group.nodes[2], Resign(NodeId("0")), channel="election")  # Nobody wishes to: somebody must.
    group.run(seconds(3))
    assert len(set(group.leaders())) == 1 and None not in group.leaders()
    assert max(fact.record.election.number for _, fact in group.facts if isinstance(fact, LeaderHeld)) <= 10


def test_gossip_in_place_of_a_fan_out_reaches_everybody_by_another_trace() -> None:
    traces = {}
    for fan_out in (0, 2):
        group = Group(16, fan_out=fan_out)
        group.initiate(9)
        group.run(seconds(10))
        assert group.leaders() == [0] * 16
        traces[fan_out] = group.sim.trace.digest()
    assert traces[0] != traces[2]


def test_two_preferred_initiators_with_different_quorums() -> None:
    group = Group(6, variant="preferred", missing_max=1, candidate_count=2, unhealthy_count=1)
    for i, sick in enumerate((0, 0, 0, 1, 1, 1)):
        group.views.set(group.nodes[i], [Member(node=NodeId(str(sick)), suspicion_count=3)] if i != sick else [])
    group.initiate(4)
    group.initiate(5)
    group.run(seconds(30))
    assert len(set(group.leaders())) == 1
    assert {group.machine(i).held for i in range(6)} == {group.machine(0).held}


def test_a_new_initiators_first_sequence_against_a_remembered_third() -> None:
    bench = Bench()
    bench.hear(0, Leader(record(0, number=1, sequence=3), 1))
    bench.hear(1, Leader(record(1, number=2, sequence=1), 1))
    assert bench.machine.leader == NodeId("1")


def test_initiator_crash_after_the_first_notify() -> None:
    group = Group(6, variant="optimistic", missing_max=2, begin_spread=ms(200))
    for i in (2, 3):  # Some do not know the lowest; the bound of c holds.
        group.put(i, 0, Status.FAILED)

    def crash(node: SimNode, channel: str, message: Any, now: int) -> None:
        if isinstance(message, NotifyLeader) and node.index == 5 and node.host is not None:
            group.sim.at(now, lambda: group.sim.crash(node), "initiator dies")

    group.sim.send_watchers.append(crash)
    group.initiate(5)
    group.run(seconds(1))
    assert group.nodes[5].host is None
    group.run(seconds(40))
    assert group.leaders() == [0, 0, 0, 0, 0, None]
    assert all(group.machine(i).final for i in range(5))


def test_a_dead_lowest_node_still_listed_by_one_responder() -> None:
    group = Group(5, missing_max=2, notify_retry_max=0)
    group.sim.crash(group.nodes[0])
    for i in (1, 2, 4):
        group.put(i, 0, Status.FAILED)
    group.initiate(4)
    group.run(seconds(2))
    attempts = sum(1 for _, fact in group.facts if isinstance(fact, AttemptBegan))
    group.put(3, 0, Status.FAILED)
    group.run(seconds(5))
    assert group.leaders() == [None, 1, 1, 1, 1]
    assert attempts > 1  # It stalled while somebody listed the dead.


def test_a_leader_falsely_removed_by_everybody_goes_on_while_it_answers() -> None:
    group = Group(5, ask_interval=seconds(2))
    group.initiate(3)
    group.run(seconds(1))
    assert group.leaders() == [0] * 5
    for i in range(1, 5):
        group.put(i, 0, Status.FAILED)
    group.run(seconds(30))
    assert group.leaders() == [0] * 5
    assert not [fact for _, fact in group.facts if isinstance(fact, LeaderLost)]
    for i in range(1, 5):
        group.put(i, 0, Status.ALIVE)
    group.run(seconds(10))
    assert group.leaders() == [0] * 5


def test_a_leader_that_the_list_does_not_know_is_asked_and_looked_for() -> None:
    """Nobody watches such a leader: without the questions its end would never be noticed."""
    bench = Bench(members=(3, 4))
    effects = bench.hear(3, Leader(record(0), 1))
    assert told(effects, LeaderElected) == [LeaderElected(Term(1, NodeId("0")))]
    assert sent(effects, Ask)[0] == (NodeId("0"), Ask(election(1), 1, True))
    assert told(effects, MemberWanted) == [MemberWanted(NodeId("0"))]
    bench.hear(0, Leader(record(0)), seconds(9))  # It lives.
    effects = bench.fire(DoubtRepeats(1), seconds(18))
    assert told(effects, MemberWanted) and not told(effects, LeaderLost)
    effects = bench.fire(DoubtRepeats(1), seconds(19))
    assert told(effects, LeaderLost) == [LeaderLost(Term(1, NodeId("0")), "dead")]
    bench.fire(ElectionBegins(1), seconds(20))
    assert bench.machine.initiator.election == election(2, initiator=4)


def test_a_leader_that_comes_to_the_list_is_asked_no_more() -> None:
    bench = Bench(members=(3, 4))
    bench.hear(3, Leader(record(0), 1))
    bench.status(0, Status.ALIVE, now=seconds(1))
    assert bench.fire(DoubtRepeats(1), seconds(12)) == []


def test_terms_that_end_though_their_leaders_live_make_members_patient() -> None:
    bench = Bench()
    for number in range(1, 4):
        bench.hear(number % 2, Leader(record(number % 2, number=number), 1))
    bench.status(1, Status.FAILED, now=seconds(1))
    assert sent(bench.fire(DoubtRepeats(1), seconds(1) + ms(500)), Ask)  # Two needless terms: four times as long.
    assert told(bench.fire(DoubtRepeats(1), seconds(1) + 4 * ms(500)), LeaderLost)


def test_a_leader_that_hands_over_makes_nobody_patient() -> None:
    bench = Bench()
    bench.hear(0, Leader(record(0), 1))
    bench.hear(1, Leader(record(1, number=2, initiator=0), 1))
    bench.status(1, Status.FAILED, now=seconds(1))
    assert told(bench.fire(DoubtRepeats(1), seconds(1) + ms(500)), LeaderLost)


def test_who_has_a_leader_does_not_begin_in_place_of_an_election_that_came_to_nothing() -> None:
    bench = Bench()
    bench.hear(0, Leader(record(0), 1))
    bench.hear(2, Query(election(2, 2), 1, 1, 0))
    assert not sent(bench.fire(NextTermBegins(election(2, 2)), seconds(20)), Query)
    bench.hear(2, Query(election(3, 2), 1, 1, 0), seconds(20))
    bench.status(0, Status.LEFT, now=seconds(21))
    assert sent(bench.fire(NextTermBegins(election(3, 2)), seconds(60)), Query)


def test_initiator_queries_and_elects_itself() -> None:
    group = Group(2, missing_max=1)
    group.initiate(0)
    group.run(seconds(1))
    assert group.leaders() == [0, 0]
    assert group.unicasts == 5


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("variant", ["base", "optimistic", "preferred", "hybrid"])
def test_settled_7_one_and_two_node_groups_work(size: int, variant: str) -> None:
    group = Group(size, variant=variant, missing_max="auto", bootstrap_after=seconds(1))
    group.run(seconds(30))
    assert group.leaders() == [0] * size
    if size == 2:
        group.sim.crash(group.nodes[0])
        group.put(1, 0, Status.FAILED)
        group.run(seconds(5))
        assert group.leaders() == [None, 1]


def test_a_restarted_leader_leads_again_only_under_a_new_term() -> None:
    group = Group(4, ask_interval=seconds(2))
    group.initiate(3)
    group.run(seconds(3))
    group.sim.crash(group.nodes[0])
    group.run(ms(100))  # Too short for anybody to notice.
    group.sim.start(group.nodes[0])
    group.views.tell(group.nodes[0], tuple(group.views.view(group.nodes[0].name).members))
    group.run(seconds(20))
    assert group.leaders() == [0] * 4
    assert {group.machine(i).held.election.number for i in range(4)} == {2}  # type: ignore[union-attr]


def test_two_leaders_across_a_partition_become_one_when_it_heals() -> None:
    group = Group(6, missing_max=1, ask_interval=seconds(2))
    group.initiate(5)
    group.run(seconds(2))
    left, right = group.nodes[:3], group.nodes[3:]
    group.sim.partition("split", left, right)
    for a in range(3):
        for b in range(3, 6):
            group.put(a, b, Status.FAILED)
            group.put(b, a, Status.FAILED)
    group.run(seconds(10))
    assert group.leaders() == [0, 0, 0, 3, 3, 3]
    group.sim.heal("split")
    for a in range(3):
        for b in range(3, 6):
            group.put(a, b, Status.ALIVE)
            group.put(b, a, Status.ALIVE)
    group.run(seconds(20))
    assert group.leaders() == [3] * 6  # By term: healed without an election.


def test_a_term_never_goes_back_across_a_restart() -> None:
    bench = Bench(restored=Memory(3), incarnation=2)
    effects = bench.hear(0, Leader(record(0, number=2), 1))
    assert bench.machine.leader is None
    assert {q.election.number for _, q in sent(bench.fire(ElectionBegins(3), seconds(1)), Query)} == {4}
    assert SetTimer(ElectionBegins(3), at=ms(250)) in effects


BAD = [
    ["Q", [0, "3", 1], 1, 1, 0],
    ["Q", [1, "", 1], 1, 1, 0],
    ["Q", [1, "3", -1], 1, 1, 0],
    ["Q", [1, "3", 1], 1, -1, 0],
    ["Q", [2**60, "3", 1], 1, 1, 0],
    ["R", [1, "3", 1], 1, ["x" * 65], []],
    ["R", [1, "3", 1], 1, ["x"] * 600, []],
    ["R", [1, "3", 1], 1, ["x"], [["y", -1]]],
    ["R", [1, "3", 1], 1, ["x"], [], None, [float("nan")]],
    ["R", [1, "3", 1], 1, ["x"], [], None, [1, 2]],
    ["L", [[1, "3", 1], 1, True, "", 1], 1],
    ["Z"],
]


@pytest.mark.parametrize("message", BAD, ids=str)
def test_what_no_member_would_say_is_refused_by_the_decoder(message: list[Any]) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=CTolerant.MESSAGES)


def test_a_tentative_leader_that_stays_is_confirmed_by_one_multicast() -> None:
    bench = Bench(me="0", members=(0, 1, 2), variant="optimistic")
    bench.hear(2, NotifyLeader(election(1, 2), 1, False))
    bench.hear(1, LeaderAck(1))
    bench.hear(2, LeaderAck(1))
    effects = bench.hear(2, NotifyLeader(election(1, 2), 2, True), ms(100))
    assert Multicast(Confirm(election(1, 2), 1, 2)) in effects
    assert [to for to, _ in sent(effects, Leader)] == names(2)  # The initiator waits for it.


def test_a_tentative_leader_acts_once_it_is_final() -> None:
    bench = Bench(me="0", members=(0, 1, 2), variant="optimistic")
    machine = bench.machine
    bench.hear(2, NotifyLeader(election(1, 2), 1, False))
    assert machine.is_leader and not machine.leads(0) and machine.waits_for == "its election is not final yet"
    bench.hear(2, NotifyLeader(election(1, 2), 2, True))
    assert machine.leads(0) and not machine.waits_for
    bench.hear(1, NotifyLeader(election(2, 1), 1, False))  # It is named again, and was not to stop meanwhile.
    assert not machine.final and machine.leads(0)
    bench.hear(1, Leader(record(1, 2, initiator=1, sequence=2, final=False), 1))
    assert not machine.leads(0) and not machine.waits_for
    bench.hear(1, NotifyLeader(election(2, 1), 3, False))  # Another was named between: it waits again.
    assert machine.is_leader and not machine.leads(0)


@pytest.mark.parametrize("order", ["leader first", "confirmation first"])
def test_a_confirmation_may_overtake_its_leader(order: str) -> None:
    bench = Bench(variant="optimistic")
    messages: list[Any] = [Leader(record(0, final=False), 1), Confirm(election(1), 1, 2)]
    for message in messages if order == "leader first" else reversed(messages):
        bench.hear(0, message)
    assert bench.machine.final
    assert bench.fire(NextTermBegins(election(1)), seconds(20)) == []


def test_a_confirmation_of_another_election_or_leader_confirms_nothing() -> None:
    bench = Bench(variant="optimistic")
    bench.hear(0, Leader(record(0, final=False), 1))
    bench.hear(0, Confirm(election(2), 1, 2))
    bench.hear(1, Confirm(election(1), 1, 2))
    bench.hear(0, Confirm(election(1), 3, 4))
    assert not bench.machine.final


def test_who_misses_the_confirmation_asks_the_leader() -> None:
    bench = Bench(variant="optimistic", ask_interval=seconds(10))
    bench.hear(0, Leader(record(0, final=False), 1))
    asked = sent(bench.fire(LeaderIsAsked(election(1), 1, seconds(1)), seconds(2)), Ask)
    assert asked[0] == (NodeId("0"), Ask(election(1), 1))  # It answers once it is final,
    assert {question for _, question in asked} == {asked[0][1]} and len(asked) == 3  # and two others if they know.
    bench.hear(0, Leader(record(0, sequence=2)))
    assert bench.fire(LeaderIsAsked(election(1), 1, seconds(1)), seconds(4)) == []
