"""Why a leader was chosen: what each election's account says, from the facts that it was told."""

from types import SimpleNamespace
from typing import Any

import pytest

from doyen.core import NodeId, Term
from doyen.election.announce.kind import Announced
from doyen.election.by_key.kind import Owned
from doyen.election.churn.kind import Counted, Hashed, ranks
from doyen.election.churn.messages import AttemptBegan, ElectionId, LeaderHeld, Record, ResponseCounted
from doyen.election.claims import EpochClaimed
from doyen.election.engine.kind import Claimed
from doyen.election.engine.messages import StoreAnswers, StoreFails
from doyen.election.pole.kind import Granted
from doyen.election.pole.messages import ElectionBegun, Selected
from doyen.election.spanning.kind import Measured

A, B, C = (NodeId(name) for name in "abc")


def pole(epoch: int = 3, best: Any = ((5.0, 2.0), A), inherited_in: int = 0) -> Any:
    return SimpleNamespace(ballot=SimpleNamespace(epoch=epoch, best=best), inherited_in=inherited_in)


def test_a_quorum_names_the_scores_of_those_that_proposed() -> None:
    account = Granted()
    remark = account.note(Selected(3, A, (A, C, B), 0))
    assert remark is not None and (remark.kind, remark.text) == ("chosen", "epoch 3: a chosen from a, c, b")
    assert str(account.reasons(pole(), Term(3, A))) == (
        "best score of those that proposed (a 5/2, b no better, or later, c no better, or later)"
    )
    assert str(account.reasons(pole(), Term(3, B))) == "b leads epoch 3 by the word of a majority"
    assert str(account.reasons(pole(epoch=4), Term(3, A))) == "a leads epoch 3 by the word of a majority"


def test_a_quorum_forgets_the_proposers_of_an_earlier_epoch() -> None:
    account = Granted()
    account.note(Selected(3, A, (A, B), 0))
    remark = account.note(ElectionBegun(4))
    assert remark is not None and (remark.kind, remark.text) == ("begun", "epoch 4 begun")
    assert str(account.reasons(pole(4), Term(4, A))) == "a leads epoch 4 by the word of a majority"


def test_a_quorum_says_that_its_leader_was_handed_over_to() -> None:
    told = Granted().reasons(pole(best=None, inherited_in=3), Term(3, A))
    assert str(told) == "handed over by the leader before it (a the best score that it knew)"
    assert "majority" in str(Granted().reasons(pole(best=None, inherited_in=2), Term(3, A)))


def churn(initiator: NodeId, *, final: bool = True, handed_over: Any = None, missing_max: Any = "auto") -> Any:
    record = SimpleNamespace(election=SimpleNamespace(initiator=initiator), final=final)
    ranked = {A: -7.0, B: -5.0, C: -1.0}
    point = SimpleNamespace(handed_over=handed_over, rank=ranked.get, tie=None, confidence=0.95, missing_max=lambda: 2)
    return SimpleNamespace(me=A, held=record, point=point, config=SimpleNamespace(missing_max=missing_max))


def test_scores_are_shown_as_they_are_and_of_equals_the_hash_that_decides() -> None:
    hashes = {A: 0x22 << 56, B: 0x11 << 56, C: 0x33 << 56}
    scored = {A: -0.5, B: -0.5, C: -0.0}
    assert ranks(scored.__getitem__, hashes.__getitem__, [A, B, C]) == {B: "0.5 #11000000", A: "0.5 #22000000", C: "0"}
    scored[C] = 0.0
    assert ranks(scored.__getitem__, hashes.__getitem__, [A, C]) == {A: "0.5", C: "0"}
    scored = dict.fromkeys(scored, 0.0)
    assert ranks(scored.__getitem__, hashes.__getitem__, [A, B]) == {B: "#11000000", A: "#22000000"}


def test_scores_that_came_after_the_choice_are_no_reason_for_it() -> None:
    account = Counted()
    account.note(AttemptBegan(ElectionId(1, A, 1), 1))
    account.note(ResponseCounted(B, excluded=(), candidates=(A, B), leaders=()))
    told = account.reasons(churn(A), Term(1, B))  # By now the score of a is greater.
    assert str(told) == "best rank of the candidates of 1 answer, as they were then (b best, a no better)"


def held(initiator: NodeId, number: int = 1, final: bool = True) -> LeaderHeld:
    return LeaderHeld(Record(ElectionId(number, initiator, 1), 0, final, A, 1))


def test_the_initiator_of_a_churn_tolerant_election_tells_whom_it_counted() -> None:
    account = Counted()
    remark = account.note(AttemptBegan(ElectionId(1, A, 1), 1))
    assert remark is not None and remark.text == "election of term 1 begun here" and account.initiator == A
    for sender in (B, C, B):
        account.note(ResponseCounted(sender, excluded=((C, 4),), candidates=(B, A, C), leaders=()))
    account.note(held(A))
    assert account.answered == (B, C) and account.final == str(Term(1, A))
    assert str(account.reasons(churn(A), Term(1, A))) == (
        "best rank of the candidates of 2 answers (a 7, b 5, c excluded, suspected 4 times)"
    )
    assert "(not final yet)" in str(account.reasons(churn(A, final=False), Term(1, A)))


def test_what_was_counted_here_does_not_explain_an_election_of_another() -> None:
    account = Counted()
    account.note(AttemptBegan(ElectionId(1, A, 1), 1))
    account.note(ResponseCounted(B, excluded=(), candidates=(B,), leaders=()))
    account.note(held(B, 2, final=False))
    assert account.answered == account.candidates == () and account.initiator == B and account.final == ""
    assert str(account.reasons(churn(B), Term(2, B))) == "b counted the answers and announced it"
    account.note(AttemptBegan(ElectionId(3, A, 1), 1))
    assert account.initiator == A


@pytest.mark.parametrize(("given", "how"), [("auto", "estimated, 95 % sure"), (2, "as configured")])
def test_the_tolerance_says_whether_it_is_estimated(given: Any, how: str) -> None:
    assert Counted().tolerance(churn(A, missing_max=given)) == f" (c+1 = 3; c = 2 {how})"


def test_a_local_choice_shows_the_hashes_that_it_compared() -> None:
    machine = SimpleNamespace(rank={A: 2**60, B: 2**50}.get, considered={B, A})
    assert Hashed().reasons(machine, Term(1, B)).compared == {"b": "#00040000", "a": "#10000000"}


@pytest.mark.parametrize(
    ("standing", "leader_is", "said"),
    [
        (9.0, "best", "greatest standing of those heard (b 4, a 9)"),
        (None, "best", "greatest standing of those heard (b 4)"),
        (9.0, "earliest", "earliest wake-up of those heard (b 4)"),
    ],
)
def test_an_announced_leader_is_compared_with_this_node_where_standings_decide(
    standing: float | None, leader_is: str, said: str
) -> None:
    machine = SimpleNamespace(claims=[(4.0, B)], standing=standing, me=A, config=SimpleNamespace(leader_is=leader_is))
    assert str(Announced().reasons(machine, Term(1, B))) == said


def test_a_claim_in_a_store_is_told_with_the_others_that_stood() -> None:
    account = Claimed()
    told = account.note(EpochClaimed(5, (B, C)))
    assert told is not None and (told.kind, told.text) == ("chosen", "epoch 5 claimed")
    machine = SimpleNamespace(me=A)
    assert str(account.reasons(machine, Term(5, A))) == (
        "this member claimed epoch 5 in the store (b no better, or later, c no better, or later)"
    )
    assert str(account.reasons(machine, Term(6, B))) == "b holds epoch 6 in the store"
    failed = account.note(StoreFails("no route"))
    assert failed is not None and failed.needs_a_person and (failed.kind, failed.text) == ("shortage", "no route")
    again = account.note(StoreAnswers())
    assert again is not None and (again.kind, again.text) == ("begun", "the store can be used again")
    assert account.note("anything else") is None


def test_the_greatest_quality_in_reach_is_shown_beside_this_nodes_own() -> None:
    machine = SimpleNamespace(me=A, quality=SimpleNamespace(value=5.0), leader=SimpleNamespace(node=B, quality=7.25))
    told = Measured().reasons(machine, Term(1, B))
    assert str(told) == "greatest quality in reach (b 7.25, a 5)"
    machine.leader = None
    assert str(Measured().reasons(machine, Term(1, A))) == "greatest quality in reach (a 5)"


def test_the_owner_of_a_key_names_the_neighbours_that_agreed() -> None:
    def told(leader: NodeId, *granted: NodeId) -> str:
        return str(Owned().reasons(SimpleNamespace(me=A, granted=frozenset(granted)), Term(1, leader)))

    assert told(A, C, B) == "this node is closest to the key, and its neighbours agree: b, c"
    assert told(A) == "this node is closest to the key, and its neighbours agree: there is no other"
    assert told(B) == "b says that it owns the key, and its neighbours agree"


def test_a_claimed_epoch_is_explained_by_its_holder_and_by_those_that_it_outvied_here() -> None:
    account, machine = Claimed(), SimpleNamespace(me=A)
    account.note(EpochClaimed(4, (B, C)))
    mine = account.reasons(machine, Term(4, A))
    assert "this member claimed epoch 4" in mine.text and list(mine.compared) == ["b", "c"]
    other = account.reasons(machine, Term(5, B))
    assert "b holds epoch 5" in other.text and not other.compared
