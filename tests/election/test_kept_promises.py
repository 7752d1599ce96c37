"""Small promises of the elections that no other test of one step asks for; a mutation campaign found them."""

from types import SimpleNamespace
from typing import Any

import pytest

from doyen.core.ids import NodeId, Term
from doyen.election.churn.kind import Counted
from doyen.election.churn.messages import ElectionId, LeaderAck, Response, term_number
from doyen.election.churn.tally import Tally
from doyen.election.pole.naming import Naming
from doyen.election.spanning.quality import Quality
from doyen.errors import ConfigError
from doyen.membership.swim.config import SwimConfig
from doyen.testing import RecordingOut

A, B, C = map(NodeId, "abc")


def test_a_term_whose_leader_resigned_is_past_and_its_next_one_is_not() -> None:
    naming = Naming(RecordingOut())
    naming.end(5, A)
    assert naming.is_past(5, A) and naming.is_past(4, A)
    assert not naming.is_past(6, A) and not naming.is_past(5, B)
    naming.name(Term(7, B))
    assert naming.is_past(6, C) and naming.is_past(7, A) and not naming.is_past(7, B) and not naming.is_past(7, C)


def test_the_best_rank_that_any_answer_gave_counts() -> None:
    point: Any = SimpleNamespace(order=lambda node, rank=None: (rank, 0, node), me=A, declined=False)
    point.config = SimpleNamespace(exclusion="union")
    for ranks in ((3, 1), (1, 3)):
        tally = Tally(point, 0)
        for sender, rank in zip((A, B), ranks, strict=True):
            assert tally.add(sender, Response(ElectionId(1, A, 1), 1, candidates=(C,), ranks=(rank,)))
        assert tally.order(C)[0] == 1


def test_an_ack_speaks_of_no_term() -> None:
    assert term_number(LeaderAck(3)) == 0


def test_who_has_resigned_is_not_measured() -> None:
    asked: list[float] = []

    def measure() -> float:
        asked.append(0)
        return 7.0

    quality = Quality(1.0, measure)
    assert quality.candidate(A).quality == 7.0 and len(asked) == 1
    quality.resigned = True
    quality.candidate(A)
    assert len(asked) == 1


def test_the_initiator_explains_by_what_it_counted_and_another_names_the_initiator() -> None:
    account = Counted()
    record = SimpleNamespace(election=SimpleNamespace(initiator=A), final=True)
    rank = SimpleNamespace(words=str)
    machine = SimpleNamespace(me=A, held=record, point=SimpleNamespace(handed_over=None, rank=rank, tie=None))
    account.candidates = ()
    assert "counted the answers and announced it" in account.reasons(machine, Term(1, A)).text
    account.candidates, account.answered, account.excluded = (A,), (A, B), ((A, 1),)
    assert "best rank of the candidates of 2 answers" in account.reasons(machine, Term(1, A)).text


def test_a_join_is_not_rarer_than_a_comparison() -> None:
    config = SwimConfig()
    with pytest.raises(ConfigError, match="must not be more than sync_interval"):
        SwimConfig(join_interval=config.sync_interval + 1)
