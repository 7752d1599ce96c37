"""Elections that a store decides: the effects of one member in each step."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from doyen.core.clock import Instant, ms, seconds
from doyen.core.commands import Resign
from doyen.core.effects import Emit, Multicast, SetTimer
from doyen.core.ids import Incarnation, NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkBroken
from doyen.core.outside import Answered
from doyen.core.rank import ScoreGiven, ScoreWanted
from doyen.core.view import Member as Listed
from doyen.core.view import Status as ListedAs
from doyen.core.view import ViewChanged, ViewEditor
from doyen.election.engine.config import EngineConfig
from doyen.election.engine.machine import CANDIDATES_MAX, Engine
from doyen.election.engine.messages import (
    ActingBegins,
    AnswerIsLate,
    ClaimIsDue,
    EpochClaimed,
    Found,
    Leads,
    LeaseEnds,
    LookIsDue,
    Record,
    ScoreIsLate,
    Stands,
    Status,
    StoreAnswers,
    StoreFails,
    StoreForgets,
    ToStore,
    Vacated,
)
from doyen.errors import LocalProtocolError
from doyen.testing import RecordingOut

A, B, C = (NodeId(name) for name in "abc")
CONFIG = EngineConfig(lease=seconds(3), renew_interval=seconds(1), stand_time=ms(100))
GUARD, LEASE, RENEW, STAND = CONFIG.guard(0), CONFIG.lease, CONFIG.renew_interval, CONFIG.stand_time
ME = Incarnation(7)


def of(node: NodeId, epoch: int = 4, serial: int = 1, **more: Any) -> Record:
    more = {"incarnation": Incarnation(1), "phase": "acting", "lease": LEASE} | more
    return Record(epoch=epoch, node=node, serial=serial, **more)


def mine(epoch: int, serial: int = 0, **more: Any) -> Record:
    return of(A, epoch, serial, **({"incarnation": ME, "phase": "claimed"} | more))


class Member:
    """Member a, which has just asked the store at 0; every step returns its effects."""

    def __init__(self, me: NodeId = A, **more: Any) -> None:
        self.out = RecordingOut()
        self.machine = Engine(me, ME, CONFIG, self.out, **more)
        self.machine.start(0)
        self.asked = ToStore(number=1)
        self.due: dict[type, Any] = {}  # The last timer of each sort.
        assert self.take() == [Emit(self.asked), SetTimer(AnswerIsLate(1), GUARD)]

    def take(self) -> list[Any]:
        effects = self.out.take()
        for effect in effects:
            if isinstance(effect, Emit) and isinstance(effect.fact, ToStore):
                self.asked = effect.fact
            elif isinstance(effect, SetTimer):
                self.due[type(effect.timer)] = effect.timer
        return effects

    def answer(self, record: Record | None, at: Instant, *, swapped: bool = False) -> list[Any]:
        found = msgspec.msgpack.encode(Found(swapped, record))
        self.machine.on_answered(Answered(self.asked.number, found=found), at)
        return self.take()

    def confirm(self, at: Instant) -> list[Any]:
        """The store has swapped as it was asked to."""
        assert self.asked.wanted is not None
        return self.answer(self.asked.wanted, at, swapped=True)

    def timer(self, timer: Any, at: Instant) -> list[Any]:
        self.machine.on_timer(timer, at)
        return self.take()

    def hear(self, sender: NodeId, message: Any, at: Instant) -> list[Any]:
        self.machine.on_message(sender, message, at)
        return self.take()

    def look(self, at: Instant) -> list[Any]:
        """The next look at the store, or the next renewal, is due."""
        return self.timer(self.due[LookIsDue], at)

    def lists(self, node: NodeId, status: ListedAs, incarnation: int, at: Instant) -> list[Any]:
        """The member list says so."""
        editor = ViewEditor()
        editor.put(Listed(node=node, incarnation=Incarnation(incarnation), status=status))
        self.machine.on_view_changed(ViewChanged(editor.view, (node,)), at)
        return self.take()

    def claims(self, record: Record | None, at: Instant) -> None:
        """Replace the record, which is vacant at `at` by the last answer."""
        assert self.machine.status is Status.STANDING
        self.timer(self.due[ClaimIsDue], at)
        assert self.machine.status is Status.CLAIMING and self.asked.expected == record

    def leads(self) -> Instant:
        """Lead epoch 1; return when the last renewal, which is confirmed, was asked for."""
        self.answer(None, 0)
        self.claims(None, STAND)
        self.confirm(STAND)
        self.look(seconds(1))
        self.confirm(seconds(1))
        self.look(seconds(2))
        self.confirm(seconds(2))
        assert Emit(LeaderElected(Term(1, A))) in self.timer(ActingBegins(1), GUARD)
        self.confirm(GUARD + ms(1))
        assert self.machine.leads(GUARD + LEASE - 1) and not self.machine.leads(GUARD + LEASE)
        return GUARD


def is_asked(effects: list[Any]) -> bool:
    return any(isinstance(effect, Emit) and isinstance(effect.fact, ToStore) for effect in effects)


# Claiming.


def test_where_nobody_holds_it_candidates_wait_for_each_other_and_one_claims_and_waits_for_a_guard() -> None:
    member = Member()
    assert member.answer(None, 10) == [
        SetTimer(ClaimIsDue(1, False), 10 + STAND),
        Emit(ScoreWanted(1)),
        SetTimer(ScoreIsLate(1), 10 + STAND // 2),
    ]
    member.machine.on_score_given(ScoreGiven(1, 5), 20)
    assert member.take() == [Multicast(Stands(1, 5.0))]
    assert member.timer(ScoreIsLate(1), 10 + STAND // 2) == []  # It stands already.
    now = 10 + STAND
    assert member.timer(ClaimIsDue(1, False), now) == [
        Emit(ToStore(number=2, wanted=mine(1))),
        SetTimer(AnswerIsLate(2), now + GUARD),
    ]
    assert member.confirm(now + 5) == [
        Emit(EpochClaimed(1, ())),
        Multicast(Leads(mine(1))),
        SetTimer(ActingBegins(1), 10 + GUARD),
        SetTimer(LookIsDue(3), now + RENEW),
    ]
    assert member.machine.status is Status.WAITING and not member.machine.leads(now + 5)


def test_a_member_that_knows_no_score_in_time_stands_with_its_last_one() -> None:
    member = Member()
    member.answer(None, 10)
    member.machine.on_score_given(ScoreGiven(0, 3), 11)  # Of an earlier question.
    assert member.take() == []
    assert member.timer(ScoreIsLate(2), 20) == []
    assert member.timer(ScoreIsLate(1), 20) == [Multicast(Stands(1, 3.0))]


def test_a_claimant_renews_while_it_waits_and_leads_when_no_earlier_leader_can() -> None:
    member = Member()
    member.answer(None, 0)
    member.claims(None, STAND)
    member.confirm(STAND)
    assert member.look(RENEW) == [
        Emit(ToStore(number=4, wanted=mine(1, 1), expected=mine(1))),
        SetTimer(AnswerIsLate(4), RENEW + GUARD),
    ]
    assert member.confirm(RENEW + 5) == [Multicast(Leads(mine(1, 1))), SetTimer(LookIsDue(5), 2 * RENEW)]
    assert member.timer(ActingBegins(1), GUARD - 1) == []
    assert member.timer(ActingBegins(2), GUARD) == []
    acting = mine(1, 2, phase="acting", free=True)
    assert member.timer(ActingBegins(1), GUARD) == [
        SetTimer(LeaseEnds(1), RENEW + LEASE),
        Emit(LeaderElected(Term(1, A))),
        Emit(ToStore(number=6, wanted=acting, expected=mine(1, 1))),
        SetTimer(AnswerIsLate(6), 2 * GUARD),
    ]
    assert member.machine.leads(RENEW + LEASE - 1) and not member.machine.leads(RENEW + LEASE)
    assert member.confirm(GUARD + 5) == [Multicast(Leads(acting)), SetTimer(LookIsDue(7), GUARD + RENEW)]
    assert member.machine.lease_until() == GUARD + LEASE  # From when it asked, not from the answer.


def test_a_claim_whose_lease_is_over_does_not_lead() -> None:
    member = Member()
    member.answer(None, 0)
    member.claims(None, STAND)
    member.confirm(STAND)
    assert member.timer(ActingBegins(1), STAND + LEASE) == []
    assert not member.machine.leading


def test_a_claim_that_another_forestalled_is_given_up() -> None:
    member = Member()
    member.answer(None, 0)
    member.claims(None, STAND)
    effects = member.answer(of(B, 1, phase="claimed"), STAND + 5)
    assert member.machine.status is Status.WATCHING and not is_asked(effects)
    assert SetTimer(member.due[LookIsDue], STAND + 5 + GUARD) in effects


@pytest.mark.parametrize("swapped", [True, False])
def test_a_confirmed_swap_of_anothers_record_is_no_claim(swapped: bool) -> None:
    member = Member()
    member.answer(None, 0)
    member.claims(None, STAND)
    member.answer(mine(1, incarnation=Incarnation(6)), STAND + 5, swapped=swapped)
    assert member.machine.status is not Status.WAITING


# Candidates.


def standing(score: float = 5.0, **more: Any) -> Member:
    """Return a member that stands for epoch 1 since 0."""
    member = Member(**more)
    member.answer(None, 0)
    member.machine.on_score_given(ScoreGiven(1, score), 0)
    member.take()
    return member


@pytest.mark.parametrize(
    ("sender", "standing_of", "waits"),
    [(B, 9.0, True), (B, 5.0, True), (NodeId("A"), 5.0, False), (B, 4.0, False), (B, None, False), (B, -1.0, False)],
)
def test_a_better_candidate_goes_first_by_score_then_by_the_highest_name(
    sender: NodeId, standing_of: float | None, waits: bool
) -> None:
    member = standing()
    member.hear(sender, Stands(1, standing_of), 5)
    effects = member.timer(ClaimIsDue(1, False), STAND)
    assert is_asked(effects) is not waits
    if waits:
        assert effects == [SetTimer(ClaimIsDue(1, True), 3 * STAND)]
        assert is_asked(member.timer(ClaimIsDue(1, True), 3 * STAND))  # It waits once.
    member.confirm(3 * STAND)
    assert member.machine.outvied == (sender,)


def test_who_stands_for_another_epoch_is_no_rival() -> None:
    member = standing()
    member.hear(B, Stands(2, 9.0), 5)
    assert is_asked(member.timer(ClaimIsDue(1, False), STAND))
    member.confirm(STAND)
    assert member.machine.outvied == ()


def test_no_more_rivals_are_kept_than_there_may_be() -> None:
    member = standing()
    for i in range(2 * CANDIDATES_MAX):
        member.hear(NodeId(f"n{i}"), Stands(1, 1.0), 5)
    member.timer(ClaimIsDue(1, False), STAND)
    assert len(member.machine.outvied) == CANDIDATES_MAX


def test_a_candidate_does_not_claim_while_the_store_owes_an_answer() -> None:
    member = standing()
    assert is_asked(member.timer(LookIsDue(1), 10))
    assert member.timer(ClaimIsDue(1, False), STAND) == [SetTimer(ClaimIsDue(1, True), 2 * STAND)]
    assert member.timer(ClaimIsDue(2, False), STAND) == []  # Of another epoch.


def test_a_member_that_does_not_stand_only_looks_again() -> None:
    member = Member(stands=False)
    assert member.answer(None, 10) == [SetTimer(LookIsDue(2), 10 + GUARD)]


def test_a_candidacy_that_nobody_knew_of_makes_a_member_look_at_the_store() -> None:
    member = Member()
    member.answer(of(B), 0)
    assert member.hear(C, Stands(6, 1.0), 10) == []  # Not the next epoch.
    assert is_asked(member.hear(C, Stands(5, 1.0), 11))


# Following.


def test_a_holder_is_named_once_it_has_renewed() -> None:
    member = Member()
    assert member.answer(of(B), 10) == [SetTimer(LookIsDue(2), 10 + GUARD), SetTimer(LookIsDue(3), 10 + GUARD)]
    assert member.hear(B, Leads(of(B, serial=2)), 20) == [
        Emit(LeaderElected(Term(4, B))),
        SetTimer(LookIsDue(4), 20 + GUARD),
    ]
    assert member.machine.named == B


def test_a_holder_that_waits_is_not_named() -> None:
    member = Member()
    member.answer(of(B, phase="claimed"), 10)
    member.hear(B, Leads(of(B, serial=2, phase="claimed")), 20)
    assert member.machine.named is None


@pytest.mark.parametrize(
    ("sender", "record"),
    [
        (C, of(B, serial=5)),  # It is not the sender's.
        (B, of(B, serial=1)),  # Nor is it news.
        (C, of(C, epoch=3, serial=9)),
        (C, of(C, epoch=4 + CANDIDATES_MAX + 1)),  # Only the store may say so.
    ],
)
def test_not_every_word_of_a_leader_counts(sender: NodeId, record: Record) -> None:
    member = Member()
    member.answer(of(B), 10)
    assert member.hear(sender, Leads(record), 20) == []
    assert member.machine.record == of(B)


def test_the_highest_epoch_that_may_be_told_is_believed() -> None:
    member = Member()
    member.answer(of(B), 10)
    member.hear(C, Leads(of(C, epoch=4 + CANDIDATES_MAX)), 20)
    assert member.machine.named == C


def test_before_the_store_has_answered_nobody_is_believed() -> None:
    member = Member()
    assert member.hear(B, Leads(of(B)), 20) == [] and member.machine.record is None


def test_while_the_leader_is_heard_the_store_is_not_asked() -> None:
    member = Member()
    member.answer(of(B), 0)
    member.hear(B, Leads(of(B, serial=2)), seconds(2))
    number = member.due[LookIsDue].number
    assert member.timer(LookIsDue(number - 1), seconds(3)) == []  # An earlier timer.
    assert member.timer(LookIsDue(number), seconds(2) + GUARD - 1) == [
        SetTimer(LookIsDue(number + 1), seconds(2) + GUARD)
    ]
    assert is_asked(member.timer(LookIsDue(number + 1), seconds(2) + GUARD))


def test_a_candidate_that_hears_a_leader_follows_it() -> None:
    member = Member()
    member.answer(of(B, phase="released"), 0)
    assert member.machine.status is Status.STANDING
    member.hear(C, Leads(of(C, epoch=5)), 10)
    assert member.machine.status is Status.WATCHING and member.machine.named == C


def test_a_newer_epoch_that_does_not_act_yet_ends_the_term_that_is_named() -> None:
    member = Member()
    member.answer(of(B), 0)
    member.hear(B, Leads(of(B, serial=2)), 10)
    assert Emit(LeaderLost(Term(4, B), "silent")) in member.hear(C, Leads(of(C, epoch=5, phase="claimed")), 20)


def test_a_leader_that_a_silent_store_has_hidden_is_named_again_once_it_renews() -> None:
    """The store still has what it had: whoever wrote that may be dead."""
    member, lease = Member(), 3 * LEASE
    member.answer(of(B, lease=lease), 0)
    member.hear(B, Leads(of(B, serial=2, lease=lease)), 10)
    member.look(10 + GUARD)
    assert Emit(LeaderLost(Term(4, B), "silent")) in member.timer(member.due[AnswerIsLate], 10 + 2 * GUARD)
    found = member.answer(of(B, serial=2, lease=lease), 20 + 2 * GUARD)
    assert member.machine.named is None and not is_asked(found), "nor is the record vacant yet"
    member.hear(B, Leads(of(B, serial=3, lease=lease)), 30 + 2 * GUARD)
    assert member.machine.named == B


@pytest.mark.parametrize("late", [True, False])
def test_who_forestalled_a_claim_is_named_unless_its_renewal_is_overdue_by_then(late: bool) -> None:
    """The answer to the claim may take long, and that leader may be dead meanwhile."""
    member, theirs = Member(), of(B, epoch=1, lease=3 * LEASE)
    member.answer(None, 0)
    member.claims(None, STAND)
    member.hear(B, Leads(theirs), STAND + 1)
    member.answer(theirs, STAND + 1 + CONFIG.overdue - (0 if late else 1))
    assert member.machine.status is Status.WATCHING and member.machine.named == (None if late else B)
    member.hear(B, Leads(of(B, epoch=1, serial=2, lease=3 * LEASE)), STAND + GUARD)
    assert member.machine.named == B


# A record counts as nobody's …


def test_after_a_guard_without_a_renewal() -> None:
    for early in (1, 0):
        member = Member()
        member.answer(of(B), 10)
        member.look(10 + GUARD - early)
        effects = member.answer(of(B), 10 + GUARD + 5)
        assert (Emit(ScoreWanted(5)) in effects) is (early == 0)


def test_after_a_guard_of_the_holders_own_lease_where_that_is_longer() -> None:
    longer = CONFIG.guard(2 * LEASE)
    member = Member()
    member.answer(of(B, lease=2 * LEASE), 10)
    member.look(10 + longer - 1)
    assert Emit(ScoreWanted(5)) not in member.answer(of(B, lease=2 * LEASE), 10 + longer)
    member.look(10 + longer)
    assert Emit(ScoreWanted(5)) in member.answer(of(B, lease=2 * LEASE), 10 + longer)
    member.claims(of(B, lease=2 * LEASE), 20 + longer)
    assert member.asked.wanted == mine(5, lease=2 * LEASE)  # Until it acts, the earlier leader might.


@pytest.mark.parametrize(
    ("status", "incarnation", "dead"),
    [(ListedAs.FAILED, 1, True), (ListedAs.LEFT, 1, True), (ListedAs.ALIVE, 2, True), (ListedAs.ALIVE, 1, False)],
)
def test_once_its_holder_is_known_to_be_dead_and_a_renewal_is_overdue(
    status: ListedAs, incarnation: int, dead: bool
) -> None:
    member = Member()
    member.answer(of(B), 10)
    number = member.due[LookIsDue].number
    found = member.lists(B, status, incarnation, 20)
    assert found == ([SetTimer(LookIsDue(number + 1), 10 + CONFIG.overdue)] if dead else [])
    assert member.lists(C, ListedAs.FAILED, 1, 21) == []
    if dead:
        member.lists(B, status, incarnation, 22)
        member.look(10 + CONFIG.overdue - 1)
        assert Emit(ScoreWanted(5)) not in member.answer(of(B), 10 + CONFIG.overdue)
        member.look(10 + CONFIG.overdue)
        assert Emit(ScoreWanted(5)) in member.answer(of(B), 10 + CONFIG.overdue)
        member.claims(of(B), 20 + CONFIG.overdue)
        waits = SetTimer(ActingBegins(5), 10 + GUARD)  # For the lease, all the same.
        assert waits in member.confirm(20 + CONFIG.overdue)


@pytest.mark.parametrize(
    ("fact", "dead"),
    [
        (LinkBroken(B, Incarnation(1), True), True),
        (LinkBroken(B, Incarnation(1), False), False),
        (LinkBroken(B, Incarnation(2), True), False),
        (LinkBroken(C, Incarnation(1), True), False),
    ],
)
def test_a_process_that_is_gone_is_dead(fact: LinkBroken, dead: bool) -> None:
    member = Member()
    member.answer(of(B), 10)
    number = member.due[LookIsDue].number
    member.machine.on_link_broken(fact, 20)
    assert member.take() == ([SetTimer(LookIsDue(number + 1), 10 + CONFIG.overdue)] if dead else [])


def test_an_earlier_life_of_this_member_is_dead_and_is_not_named() -> None:
    member = Member()
    member.answer(of(A), 10)
    member.look(10 + CONFIG.overdue)
    assert Emit(ScoreWanted(5)) in member.answer(of(A), 10 + CONFIG.overdue)
    assert member.machine.named is None


@pytest.mark.parametrize(
    ("vacated", "frees"),
    [
        (Vacated(4, Incarnation(1)), True),
        (Vacated(4, Incarnation(2)), False),
        (Vacated(3, Incarnation(1)), False),
        (Vacated(5, Incarnation(1)), False),
    ],
)
def test_at_once_after_a_resignation_of_that_very_term_and_then_nothing_is_waited_for(
    vacated: Vacated, frees: bool
) -> None:
    member = Member()
    member.answer(of(B), 0)
    member.hear(B, Leads(of(B, serial=2)), 10)
    effects = member.hear(B, vacated, 20)
    assert effects == (
        [
            Emit(LeaderLost(Term(4, B), "resigned")),
            SetTimer(ClaimIsDue(5, False), 20 + STAND),
            Emit(ScoreWanted(5)),
            SetTimer(ScoreIsLate(5), 20 + STAND // 2),
        ]
        if frees
        else []
    )
    if frees:
        member.claims(of(B, serial=2), 20 + STAND)
        assert Emit(LeaderElected(Term(5, A))) in member.confirm(20 + STAND)


def test_an_earlier_resignation_does_not_hide_a_later_one() -> None:
    member = Member()
    member.answer(of(B), 0)
    member.hear(B, Vacated(4, Incarnation(1)), 10)
    member.hear(C, Vacated(3, Incarnation(1)), 11)
    assert member.machine.vacated == (4, B, 1)
    member.hear(C, Vacated(5, Incarnation(1)), 12)
    assert member.machine.vacated == (5, C, 1)


@pytest.mark.parametrize("free", [True, False])
def test_a_released_record_is_vacant_and_frees_if_its_holder_acted(free: bool) -> None:
    member = Member()
    released = of(B, phase="released", free=free)
    assert Emit(ScoreWanted(5)) in member.answer(released, 10)
    member.claims(released, STAND)
    effects = member.confirm(STAND)
    assert (Emit(LeaderElected(Term(5, A))) in effects) is free
    assert (SetTimer(ActingBegins(5), 10 + GUARD) in effects) is not free


@pytest.mark.parametrize("in_store", [True, False])
def test_an_heir_claims_at_once_and_others_wait_three_times_as_long(in_store: bool) -> None:
    for heir in (A, C):
        member = Member()
        member.answer(of(B, phase="released", free=True, heir=heir) if in_store else of(B), 10)
        effects = member.take() if in_store else member.hear(B, Vacated(4, Incarnation(1), heir), 10)
        claiming = member.machine.status is Status.CLAIMING
        assert claiming is (heir == A)
        if not in_store and heir == C:
            assert SetTimer(ClaimIsDue(5, False), 10 + 3 * STAND) in effects


# Holding.


def test_a_renewal_that_came_twice_is_followed_by_another() -> None:
    member = Member()
    at = member.leads()
    member.look(at + RENEW)
    ahead = replace(member.asked.wanted, serial=9)  # type: ignore[type-var]
    effects = member.answer(ahead, at + RENEW + 5)  # Not swapped: an earlier swap has come first.
    assert member.machine.leading and is_asked(effects)
    assert member.asked.wanted is not None and member.asked.wanted.serial == 10 and member.asked.expected == ahead


def test_a_leader_whose_record_was_replaced_stops() -> None:
    member = Member()
    at = member.leads()
    member.look(at + RENEW)
    effects = member.answer(of(B, epoch=2, phase="claimed"), at + RENEW + 5)
    assert effects[0] == Emit(LeaderLost(Term(1, A), "outranked"))
    assert member.machine.status is Status.WATCHING


def test_a_leader_does_not_stop_by_hearsay() -> None:
    member = Member()
    at = member.leads()
    assert member.hear(B, Leads(of(B, epoch=2)), at + 5) == [] and member.machine.leads(at + 5)


@pytest.mark.parametrize(
    "step",
    [
        lambda machine, at: machine.on_timer(ScoreIsLate(99), at),
        lambda machine, at: machine.on_message(B, Stands(1, 1.0), at),
        lambda machine, at: machine.on_score_given(ScoreGiven(1, 1), at),
        lambda machine, at: machine.on_view_changed(ViewChanged(ViewEditor().view, (B,)), at),
        lambda machine, at: machine.on_link_broken(LinkBroken(B, Incarnation(1)), at),
        lambda machine, at: machine.on_answered(Answered(1, failed="late"), at),
        lambda machine, at: machine.resign(Resign(), at),
    ],
)
def test_a_lease_ends_before_any_input_and_the_store_is_asked(step: Any) -> None:
    member = Member()
    at = member.leads()
    step(member.machine, at + LEASE)
    effects = member.take()
    assert effects[0] == Emit(LeaderLost(Term(1, A), "lease over")) and is_asked(effects)
    assert member.machine.status is Status.WATCHING


def test_the_timer_of_a_lease_that_was_prolonged_is_set_again() -> None:
    member = Member()
    at = member.leads()
    number = member.due[LeaseEnds].number
    assert member.timer(LeaseEnds(number + 1), at + 5) == []
    assert member.timer(LeaseEnds(number), at + 5) == [SetTimer(LeaseEnds(number + 1), at + LEASE)]


def test_who_resigns_stops_at_once_and_goes_last_in_the_next_election() -> None:
    member = Member()
    at = member.leads()
    assert member.machine.will() == Vacated(1, ME)
    before = member.machine.record
    assert before is not None
    member.machine.resign(Resign(B), at + 10)
    released = replace(before, serial=before.serial + 1, phase="released", heir=B)
    effects = member.take()
    assert effects[:2] == [Emit(LeaderLost(Term(1, A), "resigned")), Multicast(Vacated(1, ME, B))]
    assert effects[2] == Emit(ToStore(number=member.asked.number, wanted=released, expected=before))
    assert member.machine.will() is None and not member.machine.leads(at + 10)
    effects = member.confirm(at + 20)
    assert SetTimer(ClaimIsDue(2, False), at + 20 + 3 * STAND) in effects
    member.machine.on_score_given(ScoreGiven(2, 9), at + 21)
    assert member.take() == [Multicast(Stands(2, None))]
    member.hear(C, Stands(2, -7.0), at + 22)
    assert not is_asked(member.timer(ClaimIsDue(2, False), at + 20 + 3 * STAND))  # Anybody goes first.


def test_who_never_acted_says_nothing_of_stopping_and_frees_nobody() -> None:
    member = Member()
    member.answer(None, 0)
    member.claims(None, STAND)
    member.confirm(STAND)
    member.machine.leave(2 * STAND)
    effects = member.take()
    assert not any(isinstance(effect, Multicast) for effect in effects)
    assert member.asked.wanted is not None and member.asked.wanted.phase == "released" and not member.asked.wanted.free


def test_who_left_does_nothing_more() -> None:
    member = Member()
    at = member.leads()
    member.machine.leave(at + 10)
    assert Emit(LeaderLost(Term(1, A), "left")) in member.take()
    assert member.confirm(at + 20) == []
    assert member.hear(B, Leads(of(B, epoch=2)), at + 30) == []
    assert member.look(at + 40) == []


def test_nobody_hands_over_to_itself() -> None:
    member = Member()
    at = member.leads()
    with pytest.raises(LocalProtocolError, match="it is this member itself"):
        member.machine.resign(Resign(A), at)
    assert member.machine.leads(at)


def test_a_will_goes_to_all_others_that_are_present() -> None:
    member = Member()
    assert member.machine.will_goes_to == frozenset()
    editor = ViewEditor()
    for node, status in ((A, ListedAs.ALIVE), (B, ListedAs.SUSPECTED), (C, ListedAs.FAILED)):
        editor.put(Listed(node=node, incarnation=ME, status=status))
    member.machine.on_view_changed(ViewChanged(editor.view, (A, B, C)), 10)
    assert member.machine.will_goes_to == {B}


# A store that fails.


def test_a_store_that_fails_is_told_once_and_asked_again() -> None:
    member = Member()
    fails = Answered(1, failed="no route")
    member.machine.on_answered(Answered(2, failed="no route"), 10)  # Not to the last request.
    assert member.take() == []
    member.machine.on_answered(fails, 10)
    assert member.take() == [Emit(StoreFails("no route")), SetTimer(LookIsDue(2), 10 + RENEW)]
    member.machine.on_answered(fails, 11)  # Nothing is asked any more.
    assert member.take() == []
    assert is_asked(member.look(10 + RENEW))
    member.machine.on_answered(Answered(member.asked.number, failed="no route"), 20 + RENEW)
    assert member.take() == [SetTimer(LookIsDue(4), 20 + 2 * RENEW)]
    member.look(20 + 2 * RENEW)
    assert member.answer(of(B), 21 + 2 * RENEW)[0] == Emit(StoreAnswers())


def test_a_claim_that_failed_may_have_been_swapped_and_is_given_up() -> None:
    member = Member()
    member.answer(None, 0)
    member.claims(None, STAND)
    member.machine.on_answered(Answered(member.asked.number, failed="no route"), STAND + 5)
    assert member.machine.status is Status.WATCHING


def test_a_store_that_does_not_answer_for_a_guard_hides_its_leader() -> None:
    member = Member()
    member.answer(of(B), 0)
    member.hear(B, Leads(of(B, serial=2)), 10)
    member.look(10 + GUARD)
    number = member.asked.number
    assert member.timer(AnswerIsLate(number - 1), 10 + 2 * GUARD) == []
    (told, lost) = member.timer(AnswerIsLate(number), 10 + 2 * GUARD)
    assert isinstance(told.fact, StoreFails) and "has not answered for 3.006" in str(told.fact)
    assert lost == Emit(LeaderLost(Term(4, B), "silent"))


def test_a_leader_is_named_for_a_guard_after_the_last_news_of_it() -> None:
    member = Member()
    member.answer(of(B), 0)
    member.hear(B, Leads(of(B, serial=2)), 10)
    member.look(10 + GUARD)
    member.hear(B, Leads(of(B, serial=3)), 11 + GUARD)
    (told,) = member.timer(AnswerIsLate(member.asked.number), 10 + 2 * GUARD)
    assert isinstance(told.fact, StoreFails) and member.machine.named == B


def test_a_leader_that_the_store_leaves_alone_leads_until_its_lease_is_over() -> None:
    member = Member()
    at = member.leads()
    member.look(at + RENEW)
    member.machine.on_answered(Answered(member.asked.number, failed="no route"), at + RENEW + 5)
    assert member.take() == [
        Emit(StoreFails("no route")),
        SetTimer(member.due[LookIsDue], at + 2 * RENEW + 5),
    ]
    assert member.machine.leads(at + LEASE - 1) and not member.machine.leads(at + LEASE)


def test_an_answer_that_was_asked_for_before_newer_news_is_old() -> None:
    member = Member()
    member.answer(of(B), 0)
    member.look(GUARD)
    member.hear(B, Leads(of(B, serial=3)), GUARD + 5)
    member.answer(of(B, serial=2), GUARD + 10)
    assert member.machine.record == of(B, serial=3)


def test_news_that_the_record_is_gone_or_newer_is_believed_whenever_it_was_asked_for() -> None:
    member = Member()
    member.answer(of(B), 0)
    member.look(GUARD)
    member.hear(B, Leads(of(B, serial=3)), GUARD + 5)
    member.answer(None, GUARD + 10)
    assert member.machine.record == of(B, serial=3)  # Older news, of a store that did not know it yet.
    newer = Member()
    newer.answer(of(B), 0)
    newer.look(GUARD)
    newer.hear(B, Leads(of(B, serial=3)), GUARD + 5)
    newer.answer(of(B, serial=4), GUARD + 10)
    assert newer.machine.record == of(B, serial=4)


@pytest.mark.parametrize("stands", [False, True])
def test_where_nobody_ever_held_it_nobody_is_dead_and_the_store_is_asked_again(stands: bool) -> None:
    member = Member(stands=stands)
    member.answer(None, 0)
    member.lists(B, ListedAs.FAILED, 1, ms(1))
    member.lists(C, ListedAs.ALIVE, 1, ms(2))
    member.machine.on_link_broken(LinkBroken(B, Incarnation(1), gone=True), ms(3))
    assert member.machine.named is None
    if not stands:
        assert is_asked(member.look(GUARD))


def test_who_resigns_is_ahead_of_every_renewal_that_the_store_may_still_swap() -> None:
    member = Member()
    at = member.leads()
    member.look(at + RENEW)  # A renewal is under way, one above the record that is known.
    under_way = member.asked.wanted
    member.machine.resign(Resign(), at + RENEW + 1)
    member.take()
    assert under_way is not None and member.asked.wanted is not None
    assert member.asked.wanted.phase == "released" and member.asked.wanted.serial > under_way.serial


# Figures.


def test_a_configuration_renews_at_least_twice_in_a_lease() -> None:
    assert EngineConfig(lease=seconds(2), renew_interval=seconds(1))
    with pytest.raises(Exception, match="renew_interval"):
        EngineConfig(lease=seconds(2), renew_interval=seconds(1) + 1)
    assert CONFIG.overdue == seconds(1.5)
    assert CONFIG.settle_max == 2 * (2 * GUARD + seconds(6) + ms(400))
    assert CONFIG.guard(seconds(1)) == GUARD == 3_006_006_007
    assert CONFIG.guard(seconds(30)) == 30_060_060_061


# A store that loses what it confirmed.


@pytest.mark.parametrize("lost", ["its own", "one that was vacated", "one that was released"])
def test_a_store_that_went_back_frees_nobody_for_a_later_leader_may_still_act(lost: str) -> None:
    member = Member()
    at = member.leads() + RENEW
    member.look(at)
    own = member.machine.record
    if lost == "one that was vacated":
        member.hear(B, Vacated(2, Incarnation(1)), at)
    member.answer(of(B, epoch=2), at + 5)
    member.hear(C, Leads(of(C, epoch=3)), at + 10)
    at += 10 + GUARD
    member.look(at)
    back = {
        "its own": own,
        "one that was vacated": of(B, epoch=2),
        "one that was released": of(B, epoch=2, phase="released", free=True),
    }[lost]
    effects = member.answer(back, at + 5)
    assert Emit(StoreForgets(3, 1 if lost == "its own" else 2)) in effects
    member.claims(back, at + 5 + 3 * STAND)
    assert member.asked.wanted is not None and member.asked.wanted.epoch == 4
    effects = member.confirm(at + 5 + 3 * STAND)
    assert SetTimer(ActingBegins(4), at + 5 + GUARD) in effects and not member.machine.leading


def test_a_store_that_lost_its_record_is_told_once_and_the_epochs_go_on() -> None:
    member = Member()
    at = member.leads() + RENEW
    member.look(at)
    effects = member.answer(None, at + 5)
    assert effects[0] == Emit(StoreForgets(1, 0))
    assert "it has no record any more" in str(effects[0].fact)
    assert Emit(LeaderLost(Term(1, A), "outranked")) in effects
    member.claims(None, at + 5 + STAND)
    assert member.asked.wanted is not None and member.asked.wanted.epoch == 2
    assert SetTimer(ActingBegins(2), at + 5 + GUARD) in member.confirm(at + 5 + STAND)
