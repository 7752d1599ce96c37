"""Arbitrated membership, step by step."""

import gc
from itertools import pairwise, permutations, product
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doyen.core import Emit, Send, SetTimer, ms
from doyen.core.ids import NodeId
from doyen.core.view import Status, ViewChanged
from doyen.errors import ConfigError
from doyen.membership.ring.arbitrator import PRUNE_ABOVE, Arbitrator, Version
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Roster, Seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import (
    Arb,
    ArbitrationAdvances,
    Condemned,
    Discovered,
    JoinAdvances,
    LeaseAck,
    LeaseRequest,
    Leave,
    LeftRing,
    Locked,
    Messages,
    News,
    NewsKind,
    PairDropped,
    ProposalAdvances,
    Propose,
    ProposeReply,
    ReconciliationRepeats,
    RecoveryStarted,
    RecoveryStarts,
    Release,
    Released,
    Requested,
    RosterWanted,
    Said,
    SessionAdvances,
    Suspected,
    Unlock,
    UpgradeAborted,
    UpgradeBegins,
    Upgraded,
    Verdict,
    Vote,
)
from doyen.membership.ring.neighbourhood import founding
from doyen.membership.ring.pair import Electorate, Pair, Stage
from doyen.membership.ring.spread import PART_MAX, Spread
from doyen.testing import RecordingOut
from doyen_papers.studies.central import CentralArbitrator, CentralMemory

P, Q, R, S, T = (Seat(10 * i, NodeId(name)) for i, name in enumerate("PQRST", 1))
CONFIG = ArbitrationConfig.paper(neighbours=2)
PRACTICAL = ArbitrationConfig(neighbours=2)
T_L, T_A, T_ARB = CONFIG.lease, CONFIG.arbitration, CONFIG.recent


def member(config: ArbitrationConfig = CONFIG, *, view: bool = False) -> tuple[Arbitration, RecordingOut]:
    out = RecordingOut()
    machine = Arbitration(P, config, out, Random(1), founding=founding([P, Q, R, S, T], 2), view=view)
    machine.start(0)
    out.take()
    return machine, out


@pytest.mark.parametrize("next_number", [5, 11])  # A clock that was set back makes a lesser number.
@pytest.mark.parametrize(
    "overlap", [False, True]
)  # Whether it is back before its earlier incarnation is known to be dead.
def test_the_incarnation_that_is_in_the_ring_is_the_one_that_is_shown(next_number: int, overlap: bool) -> None:
    machine, out = member(PRACTICAL, view=True)
    before, after = (Seat(60, NodeId("U"), number) for number in (10, next_number))
    steps = [(NewsKind.JOINED, before), (NewsKind.DEAD, before), (NewsKind.JOINED, after)]
    if overlap:
        steps[1:] = reversed(steps[1:])
    said = Said(tuple(News(kind, seat) for kind, seat in steps))
    machine.on_message(Q.node, LeaseRequest(1, 1, 9, 1, said), ms(1))
    shown = [fact for fact in facts(out) if isinstance(fact, ViewChanged)][-1].view[NodeId("U")]
    assert (shown.incarnation, shown.status) == (next_number, Status.ALIVE)


def facts(out: RecordingOut) -> list[Any]:
    return [effect.fact for effect in out.take() if isinstance(effect, Emit)]


def open_session(machine: Arbitration, out: RecordingOut, now: int = 0) -> int:
    """Begins the next session of (P, Q) at `now`."""
    pair = machine.pairs[Q.name]
    pair.started_at, pair.established = now - T_L, True
    machine.on_timer(SessionAdvances(Q.name, pair.session, machine.config.resends + 1), now)
    return pair.session


def suspect_q(machine: Arbitration, out: RecordingOut) -> None:
    session = open_session(machine, out)
    out.take()
    machine.on_timer(SessionAdvances(Q.name, session, machine.config.resends + 1), T_L)


def test_a_session_is_a_request_and_ends_after_t_l() -> None:
    machine, out = member()
    session = open_session(machine, out, now=ms(50))
    assert out.take() == [
        Send(Q.node, LeaseRequest(1, 1, session, 1)),
        SetTimer(SessionAdvances(Q.name, session, 1), at=ms(50) + T_L),
    ]


def test_the_next_session_begins_only_at_the_end_of_an_established_one() -> None:
    machine, out = member()
    session = open_session(machine, out)
    machine.on_message(Q.node, LeaseAck(1, 1, session, 1), ms(10))
    out.take()
    machine.on_timer(SessionAdvances(Q.name, session, 1), T_L)
    assert out.take()[0] == Send(Q.node, LeaseRequest(1, 1, session + 1, 1))


def test_a_lost_request_is_repeated_within_its_session_and_moves_no_bound() -> None:
    machine, out = member(PRACTICAL)
    session = open_session(machine, out)
    out.take()
    machine.on_timer(SessionAdvances(Q.name, session, 1), T_L // 3)
    assert out.take() == [
        Send(Q.node, LeaseRequest(1, 1, session, 1)),
        SetTimer(SessionAdvances(Q.name, session, 2), at=2 * (T_L // 3)),
    ]


def test_arb_rule_2_a_timeout_is_arbitrated_at_once_and_oneself_votes_too() -> None:
    machine, out = member()
    suspect_q(machine, out)
    effects = out.take()
    assert [e.fact for e in effects if isinstance(e, Emit)] == [Suspected(Q, True), Requested(Q, (P, Q, R, S, T))]
    assert [e.to for e in effects if isinstance(e, Send)] == [Q.node, R.node, S.node, T.node]
    assert effects[-1] == SetTimer(ArbitrationAdvances(Q.name, 1, 1), at=T_L + T_A)


def test_arb_rule_1_after_a_timeout_the_other_is_never_acked_again() -> None:
    machine, out = member()
    machine.on_message(Q.node, LeaseRequest(1, 1, 9, 1), ms(1))
    assert out.take() == [Send(Q.node, LeaseAck(1, 1, 9, 1))]
    suspect_q(machine, out)
    out.take()
    machine.on_message(Q.node, LeaseRequest(1, 1, 10, 1), T_L + ms(1))
    assert out.take() == []


def test_a_majority_condemns_and_recovery_waits_for_corollary_3() -> None:
    machine, out = member()
    suspect_q(machine, out)
    for voter in (R, S):
        machine.on_message(voter.node, Vote(1, 1, 1, Verdict.ACCEPT), T_L + ms(5))
    out.take()
    machine.on_timer(ArbitrationAdvances(Q.name, 1, 1), T_L + T_A)
    assert out.take() == [Emit(Condemned(Q)), SetTimer(RecoveryStarts(Q.name), at=T_L + T_ARB + 1)]
    for pair in machine.pairs.values():
        pair.started_at = T_L + T_ARB  # The others' leases went on.
    machine.on_timer(RecoveryStarts(Q.name), T_L + T_ARB + 1)
    assert RecoveryStarted(Q) in facts(out)
    assert Q.name not in machine.pairs and Q not in machine.roster


@pytest.mark.parametrize("verdicts", [(), (Verdict.ACCEPT,), (Verdict.ACCEPT, Verdict.REJECT, Verdict.REJECT)])
def test_without_a_majority_the_asker_leaves(verdicts: tuple[Verdict, ...]) -> None:
    machine, out = member()
    suspect_q(machine, out)
    for voter, verdict in zip((R, S, T), verdicts, strict=False):
        machine.on_message(voter.node, Vote(1, 1, 1, verdict), T_L + ms(5))
    machine.on_timer(ArbitrationAdvances(Q.name, 1, 1), T_L + T_A)
    assert not machine.is_member
    assert any(isinstance(fact, LeftRing) for fact in facts(out))


def test_exactly_half_is_no_majority() -> None:
    is_majority = Electorate(CONFIG, {}).is_majority
    assert not is_majority(4, 8) and is_majority(5, 8) and is_majority(5, 9)


def test_a_node_that_slept_finds_its_time_run_out_before_it_answers_anybody() -> None:
    machine, out = member(PRACTICAL)
    open_session(machine, out)
    out.take()
    machine.on_message(R.node, LeaseRequest(1, 1, 5, 1), 20 * T_L)
    assert not machine.is_member
    assert not any(isinstance(e, Send) and isinstance(e.message, LeaseAck) for e in out.take())


def test_an_announced_leave_drops_the_leaver_without_arbitration() -> None:
    machine, out = member(PRACTICAL)
    suspect_q(machine, out)
    out.take()
    machine.on_message(Q.node, Leave(Q), T_L + ms(1))
    assert PairDropped(Q, "left") in facts(out)
    machine.on_timer(ArbitrationAdvances(Q.name, 1, 3), T_L + T_A)
    assert machine.is_member


@pytest.mark.parametrize("phase", [1, 2, 3])
def test_a_joiner_that_is_told_to_leave_does_not_begin_again(phase: int) -> None:
    out = RecordingOut()
    machine = Arbitration(P, PRACTICAL, out, Random(1), contacts=[Q.node], view=False)
    machine.start(0)
    machine.on_timer(JoinAdvances(1, 1, 0), 0)
    if phase >= 2:
        machine.on_message(Q.node, Discovered(1, 1, Q, True, (R,)), ms(1))
    if phase >= 3:
        for seat in (Q, R):
            machine.on_message(seat.node, Locked(1, 1, 1, True), ms(2))
    effects = out.take()
    assert [effect.fact.phase for effect in effects if isinstance(effect, Emit)] == list(range(1, phase + 1))
    machine.leave(ms(3))
    released = [Send(seat.node, Unlock(1, P, 1)) for seat in (Q, R)]
    assert out.take() == (released if phase >= 2 else [])
    for effect in effects:
        if isinstance(effect, SetTimer):
            machine.on_timer(effect.timer, effect.at + PRACTICAL.lease)
    assert out.take() == [] and not machine.is_joining


@pytest.mark.parametrize("announced", [True, False])
def test_a_joiner_that_begins_again_as_somebody_else_lets_those_go_that_it_had_asked(announced: bool) -> None:
    out = RecordingOut()
    config = msgspec.structs.replace(PRACTICAL, announced=announced)
    machine = Arbitration(P, config, out, Random(1), contacts=[Q.node], view=False)
    machine.start(0)
    machine.on_timer(JoinAdvances(1, 1, 0), 0)
    machine.on_message(Q.node, Discovered(1, 1, Q, True, (R,)), ms(1))
    for seat in (Q, R):
        machine.on_message(seat.node, Locked(1, 1, 1, True), ms(2))
    for seat in (Q, R):
        machine.on_message(seat.node, LeaseAck(1, 1, 1, 1, Said((), 0, 0, 1, (Q, R))), ms(3))
    for seat in (Q, R):
        machine.on_timer(SessionAdvances(seat.name, 1, config.resends + 1), ms(2) + config.lease)
    assert {pair.stage for pair in machine.pairs.values()} == {Stage.COMMITTED} and not machine.is_member
    out.take()
    machine.on_message(Q.node, Released(1, 1), ms(3) + config.lease)  # One will not have it.
    told = [effect for effect in out.take() if isinstance(effect, Send) and isinstance(effect.message, Leave)]
    assert sorted(effect.to for effect in told) == [Q.node, R.node] * announced
    assert all(effect.message == Leave(P) for effect in told) and machine.seat.incarnation == P.incarnation + 1


def test_algorithm_1_in_its_order() -> None:
    arbitrator = Arbitrator(CONFIG)
    assert arbitrator.judge(P.name, Q.name, 1, 0).verdict is Verdict.ACCEPT  # Records Q.
    assert arbitrator.judge(P.name, Q.name, 1, 1).verdict is Verdict.ACCEPT  # Q is recorded.
    assert arbitrator.judge(Q.name, P.name, 1, T_ARB).verdict is Verdict.REJECT
    assert arbitrator.judge(Q.name, R.name, 1, 1).verdict is Verdict.ACCEPT  # Another pair, another list.
    assert arbitrator.judge(Q.name, P.name, 1, T_ARB + 1).verdict is Verdict.ACCEPT  # Expired.


def test_a_proposal_is_rejected_while_the_other_side_accuses_or_proposes() -> None:
    arbitrator, version = Arbitrator(CONFIG), Version(2, frozenset({R}))
    arbitrator.judge(Q.name, P.name, 1, 0)
    assert not arbitrator.consider(P.name, Q.name, version, 1, T_ARB)
    assert arbitrator.consider(P.name, Q.name, version, 1, T_ARB + 1)
    assert not arbitrator.consider(Q.name, P.name, version, 1, T_ARB + 2)


def test_a_withdrawn_proposal_stands_in_nobodys_way() -> None:
    arbitrator, version = Arbitrator(PRACTICAL), Version(2, frozenset({R}))
    assert arbitrator.consider(P.name, Q.name, version, 1, 0)
    assert not arbitrator.consider(Q.name, P.name, version, 1, 1)
    arbitrator.withdraw(P.name, Q.name, 1)  # Another version.
    assert not arbitrator.consider(Q.name, P.name, version, 1, 2)
    arbitrator.withdraw(P.name, Q.name, 2)
    assert arbitrator.consider(Q.name, P.name, version, 1, 3)


def test_upgrades_of_all_pairs_go_together_and_are_taken_once_a_majority_has_accepted() -> None:
    machine, out = member(PRACTICAL)
    machine.on_message(Q.node, Leave(Q), ms(1))
    due = [e for e in out.take() if isinstance(e, SetTimer) and isinstance(e.timer, UpgradeBegins)]
    assert {e.timer.name for e in due} == {R.name, S.name, T.name} and len({e.at for e in due}) == 1
    now = due[0].at
    machine.on_timer(due[0].timer, now)
    sent = {e.to: e.message for e in out.take() if isinstance(e, Send)}
    assert sent.keys() == {Q.node, R.node, S.node, T.node}  # Q is of the groups as they are.
    assert [pair.peer for pair in sent[R.node].pairs] == [R.name, S.name, T.name]
    votes = tuple((pair.number, True) for pair in sent[R.node].pairs)
    machine.on_message(R.node, ProposeReply(1, 1, votes), now + ms(1))
    assert facts(out) == []
    machine.on_message(S.node, ProposeReply(1, 1, votes), now + ms(2))  # With its own, three of five.
    assert [fact.peer for fact in facts(out) if isinstance(fact, Upgraded)] == [R, S, T]


def test_a_proposal_that_nobody_answers_is_made_three_times_and_then_given_up() -> None:
    machine, out = member(PRACTICAL)
    machine.on_message(Q.node, Leave(Q), ms(1))
    (due, *_) = [e for e in out.take() if isinstance(e, SetTimer) and isinstance(e.timer, UpgradeBegins)]
    machine.on_timer(due.timer, due.at)
    asked, given_up, effects = 0, [], out.take()
    while not given_up:
        asked += any(isinstance(e, Send) and e.to == R.node and isinstance(e.message, Propose) for e in effects)
        (timer,) = [
            e for e in effects if isinstance(e, SetTimer) and getattr(e.timer, "name", None) == R.name
        ] or pytest.fail("nothing is planned any more")
        assert isinstance(timer.timer, ProposalAdvances)
        machine.on_timer(timer.timer, timer.at)
        effects = out.take()
        given_up = [e.fact for e in effects if isinstance(e, Emit) and isinstance(e.fact, UpgradeAborted)]
    assert (asked, [fact.peer for fact in given_up]) == (3, [R])
    assert due.at + T_A - 3 <= timer.at <= due.at + T_A  # A third each time.


def test_staleness_looks_at_the_suspects_version_and_tells_the_new_neighbourhood() -> None:
    arbitrator, version = Arbitrator(CONFIG), Version(2, frozenset({R}))
    assert arbitrator.consider(P.name, Q.name, version, 1, 0)
    judged = arbitrator.judge(Q.name, P.name, 1, 1)
    assert judged.verdict is Verdict.STALE and judged.newer == version
    assert arbitrator.judge(Q.name, P.name, 2, 2).verdict is Verdict.ACCEPT
    assert arbitrator.judge(P.name, Q.name, 1, 3).verdict is Verdict.REJECT  # One's own version is never stale.


@pytest.mark.parametrize("stays", [False, True])
def test_a_stale_request_needs_majorities_of_both_groups(stays: bool) -> None:
    machine, out = member(PRACTICAL)
    suspect_q(machine, out)
    out.take()
    u, v, w = (Seat(60 + i, NodeId(name)) for i, name in enumerate("UVW"))
    machine.on_message(R.node, Vote(1, 1, 1, Verdict.STALE, 5, (P, u, v, w)), T_L + ms(1))
    asked = {e.to: e.message.version for e in out.take() if isinstance(e, Send) and isinstance(e.message, Arb)}
    assert asked == {Q.node: 5, R.node: 5, S.node: 5, T.node: 5, u.node: 5, v.node: 5, w.node: 5}
    for voter in (R, S, T, u) if stays else (R, S, T):  # Four of the new eight are half, and of the old five most.
        machine.on_message(voter.node, Vote(1, 1, 1, Verdict.ACCEPT), T_L + ms(2))
    machine.on_timer(ArbitrationAdvances(Q.name, 1, 3), T_L + T_A)
    assert machine.is_member is stays


def test_a_central_arbitrator_that_was_just_put_in_records_both_and_rejects() -> None:
    for accused in (R, S):  # Whomever they accuse once it is established,
        for recorded in (P, Q):  # the suspecter and the suspect alike are in its list.
            memory = CentralMemory(CONFIG, booted_at=0)
            assert memory.judge(P.name, Q.name, T_ARB - 1) is Verdict.REJECT
            assert memory.judge(recorded.name, accused.name, T_ARB + 1) is Verdict.REJECT
    memory = CentralMemory(CONFIG, booted_at=0)
    memory.judge(P.name, Q.name, T_ARB - 1)
    assert memory.judge(R.name, S.name, T_ARB + 1) is Verdict.ACCEPT  # Nobody else is.
    for replacement, verdict in ((False, Verdict.ACCEPT), (True, Verdict.REJECT)):
        out = RecordingOut()
        arbiter = CentralArbitrator(CONFIG, out, replacement=replacement)
        arbiter.start(0)
        arbiter.on_message(P.node, Arb(1, 1, 7, Q, 0, P), ms(1))
        assert out.take() == [Send(P.node, Vote(1, 1, 7, verdict))]


def test_round_trips_above_t_a_are_refused_with_the_numbers() -> None:
    machine, out = member(ArbitrationConfig(neighbours=2, arbitration=ms(20)))
    for peer, took in ((Q, ms(40)), (R, ms(30)), (S, ms(50))):
        assert machine.is_member
        pair = machine.pairs[peer.name]
        pair.started_at, pair.established = -T_L, True
        machine.on_timer(SessionAdvances(peer.name, pair.session, 3), 0)
        machine.on_message(peer.node, LeaseAck(1, 1, pair.session, 1), took)
    (left,) = [fact for fact in facts(out) if isinstance(fact, LeftRing)]
    assert left.why == "refused" and "20ms" in left.detail and "30ms" in left.detail


def test_a_slow_start_is_no_measurement() -> None:
    machine, out = member(ArbitrationConfig(neighbours=2, arbitration=ms(20)))
    for took in (ms(40), ms(10), ms(40), ms(40), ms(40)):
        session = open_session(machine, out)
        machine.on_message(Q.node, LeaseAck(1, 1, session, 1), took)
    assert machine.is_member


def test_a_pair_that_begins_anew_does_not_answer_for_the_one_that_was_let_go() -> None:
    machine, out = member(PRACTICAL)
    machine.pairs[Q.name] = Pair(Q, machine.pairs[Q.name].mine, 0, initiator=True)
    machine.on_message(Q.node, LeaseRequest(1, 1, 7, 1), ms(1))
    assert out.take() == [Send(Q.node, Released(1, 1))]


def test_who_asked_for_release_and_is_invited_knows_that_it_was_released() -> None:
    machine, _ = member(PRACTICAL)
    old = machine.pairs[Q.name]
    old.release = True
    said = Said((), 0, 0, 3, (P, R))
    machine.on_message(Q.node, LeaseRequest(1, 1, 1, 0, said, Q), ms(1))
    new = machine.pairs[Q.name]
    assert new is not old and new.stage is Stage.DORMANT and not new.certain


def test_drift_lengthens_what_arbitrators_remember() -> None:
    assert ArbitrationConfig().recent == 2 * T_L + T_A
    assert ArbitrationConfig(drift=0.01).recent == pytest.approx((2 * T_L + T_A) * 1.01 / 0.99, abs=2)


def test_messages_survive_the_wire() -> None:
    for message in (LeaseRequest(1, 1, 3, 1), Arb(1, 2, 7, Q, 0, P), Vote(1, 1, 1, Verdict.STALE, 5, (P, Q))):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Messages) == message


@pytest.mark.parametrize(
    ("field", "value"), [("lease", 0), ("neighbours", 0), ("drift", 0.5), ("partition", "majority"), ("resends", -1)]
)
def test_what_cannot_work_names_its_field(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        ArbitrationConfig(**{field: value})


def test_no_part_keeps_a_way_back_to_the_machine() -> None:
    machine, _ = member(PRACTICAL, view=True)
    suspect_q(machine, RecordingOut())
    seen: dict[int, Any] = {}
    found = list(vars(machine).values())
    while found:
        for held in gc.get_referents(found.pop()):
            if id(held) not in seen and not isinstance(held, type | ModuleType | FunctionType):
                seen[id(held)] = held
                found.append(held)
    assert any(isinstance(held, Pair) for held in seen.values())
    assert id(machine) not in seen


NAMES = tuple(seat.name for seat in (P, Q, R, S))


@given(requests=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(0, T_ARB)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_an_arbitrator_judges_each_pair_as_if_there_were_no_other(requests: list[tuple[Any, Any, int]]) -> None:
    """Two pairs with one member in common share nothing: else a death in one would be denied in the other."""
    together, apart, now = Arbitrator(CONFIG), dict[frozenset[Any], Arbitrator](), 0
    for asker, suspect, later in requests:
        now += later
        if asker != suspect:
            alone = apart.setdefault(frozenset((asker, suspect)), Arbitrator(CONFIG))
            assert together.judge(asker, suspect, 1, now) == alone.judge(asker, suspect, 1, now)


def test_an_arbitrator_forgets_only_what_no_longer_counts() -> None:
    arbitrator = Arbitrator(CONFIG)
    strangers = [(NodeId(f"n{i}"), 1) for i in range(2 * PRUNE_ABOVE)]
    for i, (one, other) in enumerate(pairwise(strangers)):
        assert arbitrator.judge(one, other, 1, i).verdict is Verdict.ACCEPT
    for i, (one, other) in enumerate(pairwise(strangers)):
        assert arbitrator.judge(other, one, 1, i + T_ARB).verdict is Verdict.REJECT, i


def test_a_death_in_one_pair_is_not_denied_in_another_in_any_order_of_three_requests() -> None:
    asked = list(permutations(NAMES[:3], 2))
    for requests in product(asked, repeat=3):
        together, apart = Arbitrator(CONFIG), {frozenset(pair): Arbitrator(CONFIG) for pair in asked}
        for now, (asker, suspect) in enumerate(requests):
            alone = apart[frozenset((asker, suspect))]
            assert together.judge(asker, suspect, 1, now) == alone.judge(asker, suspect, 1, now), requests


def test_where_the_size_is_known_the_larger_part_stays_and_else_it_is_as_configured() -> None:
    assert (ArbitrationConfig.practical(8).partition, ArbitrationConfig.practical(8).expected_size) == ("majority", 8)
    assert ArbitrationConfig.practical() == ArbitrationConfig()


def test_lines_that_a_neighbour_has_not_read_ride_again_and_those_that_it_has_read_do_not() -> None:
    spread, pair = Spread(Roster((P, Q)), is_whole=True), Pair(Q, Version(1, frozenset((Q,))), 0, initiator=True)
    pair.session, pair.confirmed = 2, 1
    for number, seat in enumerate((R, S, T)):
        assert spread.learn(News(NewsKind.JOINED, seat), P.name, number)
    said = spread.for_pair(pair)
    assert said is not None and [line.seat for line in said.news] == [R, S, T] and said.first == 0
    assert spread.read(pair, Said((), 0, 2)) == ()  # It has read two lines.
    said = spread.for_pair(pair)
    assert said is not None and [line.seat for line in said.news] == [T] and said.first == 2
    assert spread.read(pair, Said((), 0, 99)) == () and spread.for_pair(pair) is None  # No more than there are.


def test_a_newcomer_learns_the_whole_list_in_pieces_and_who_is_gone_with_the_first() -> None:
    seats = [Seat(point, NodeId(f"n{point}"), 1) for point in range(3 * PART_MAX)]
    spread, learned = Spread(Roster(seats), is_whole=True), Spread(Roster((P,)), is_whole=False)
    spread.roster.remove(seats.pop(), left=False)
    after, pieces = -1, list[tuple[object, bool]]()
    while not pieces or pieces[-1][1]:
        piece = spread.part(RosterWanted(1, 1, after), P)
        learned.learn_list(piece.seats, piece.gone, P.name, whole=not piece.more)
        pieces.append((piece.gone, piece.more))
        after = piece.seats[-1].point
    assert [gone for gone, _ in pieces] == [((f"n{3 * PART_MAX - 1}", 1),), (), ()]
    assert learned.is_whole and {*seats} <= {*learned.roster}


def test_lines_that_came_before_are_not_read_twice() -> None:
    spread, pair = Spread(Roster((P, Q)), is_whole=True), Pair(Q, Version(1, frozenset((Q,))), 0, initiator=True)
    lines = tuple(News(NewsKind.JOINED, seat) for seat in (R, S, T))
    assert spread.read(pair, Said(lines[:2], 5, 0)) == lines[:2]  # The other's log begins with line 5.
    assert spread.read(pair, Said(lines, 5, 0)) == lines[2:]
    assert spread.read(pair, Said(lines, 5, 0)) == ()
    assert spread.read(pair, Said(lines[:1], 20, 0)) == lines[:1]  # It was cut since.


def hear(machine: Arbitration, now: int, *lines: News) -> None:
    """Has Q tell these lines with its next request."""
    said = Said(lines, machine.pairs[Q.name].heard)
    machine.on_message(Q.node, LeaseRequest(1, 1, 9, 1, said), now)


def test_a_member_stays_in_the_larger_part_and_leaves_the_smaller_one_and_a_half() -> None:
    seats = [P, Q, R, S, T, Seat(60, NodeId("U")), Seat(70, NodeId("V"))]
    for size, may_be_lost in ((6, 3), (7, 3), (8, 2), (9, 2)):
        out = RecordingOut()
        config = ArbitrationConfig(neighbours=1, partition="majority", expected_size=size)
        machine = Arbitration(P, config, out, Random(1), founding=founding(seats, 1))
        machine.start(0)
        for count, seat in enumerate(seats[2 : 2 + may_be_lost], 1):  # None of its two neighbours: it knows better.
            hear(machine, ms(count), News(NewsKind.LOST, seat, 1))
            assert machine.is_member, (size, count)
        hear(machine, ms(9), News(NewsKind.LOST, seats[2 + may_be_lost], 1))
        assert [fact.why for fact in facts(out) if isinstance(fact, LeftRing)] == ["minority"], size


def test_whoever_does_not_answer_an_invitation_is_not_invited_again_before_a_lease_is_over() -> None:
    out = RecordingOut()
    config = ArbitrationConfig(neighbours=1)
    machine = Arbitration(P, config, out, Random(1), founding=founding([P, Q, R, S, T], 1))
    machine.start(0)
    hear(machine, ms(1), News(NewsKind.LEFT, Q))

    def invited() -> list[NodeId]:
        sent = [
            effect for effect in out.take() if isinstance(effect, Send) and isinstance(effect.message, LeaseRequest)
        ]
        return [effect.to for effect in sent if effect.message.seat is not None]

    assert invited() == [R.node]
    ended_at = ms(1) + config.lease
    machine.on_timer(SessionAdvances(R.name, 1, config.resends + 1), ended_at)
    assert R.name not in machine.pairs and invited() == [S.node]
    machine.on_timer(ReconciliationRepeats(P.incarnation), ended_at + config.lease - 1)
    assert invited() == []
    machine.on_timer(ReconciliationRepeats(P.incarnation), ended_at + config.lease)
    assert invited() == [R.node]


def test_a_neighbour_that_is_wanted_again_stays_once_it_has_acked_the_session_after_next() -> None:
    machine, out = member(PRACTICAL)
    pair = machine.pairs[Q.name]
    pair.release = True
    asked_in = pair.session
    for now in (ms(1), ms(2)):  # Whatever else is heard meanwhile puts nothing off.
        hear(machine, now, News(NewsKind.LOST, T, now))
        session = open_session(machine, out, now)
        assert not [e for e in out.take() if isinstance(e, Send) and isinstance(e.message, Release)]
        assert pair.release, "it may have had the last Release by now"
        machine.on_message(Q.node, LeaseAck(1, 1, session, 1), now)
        assert pair.release == (session < asked_in + 2)
    assert machine.pairs[Q.name] is pair and session == asked_in + 2
