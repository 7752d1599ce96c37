"""Hybrid elections that are broken on purpose: the faults that each takes to show it, and the rule that it breaks."""

from typing import Any, NamedTuple

import pytest

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.election.churn.confirming import Confirming
from doyen.election.churn.initiator import Initiator
from doyen.election.churn.machine import CTolerant
from doyen.election.churn.messages import Record


class TakesEveryLeader(CTolerant):
    """The term check is dropped: whatever LEADER comes last counts, as the paper's pseudo-code says."""

    def accepts(self, record: Record) -> bool:
        return record != self.held


class TakesAnyInitiator(CTolerant):
    """Of two elections in one term the later LEADER counts, and not that of the lower initiator."""

    def accepts(self, record: Record) -> bool:
        held = self.held
        later = held is not None and held.election.number == record.election.number and held != record
        return later or super().accepts(record)


class TakesTentativeForFinal(CTolerant):
    """A tentative leader ends an election: nobody begins anew where its initiator died before the confirmation."""

    def ends(self, record: Record) -> bool:
        return True


class DoubtsNobody(CTolerant):
    """A leader that the view holds dead is never asked, nor given up."""

    def begin_doubt(self, now: Instant, *, was_watched: bool) -> None:
        pass


def _never_notified(self: Initiator, leader: NodeId, now: Instant) -> None:
    self.stop()


def _any_confirmation(self: Confirming, held: Record | None) -> Record | None:
    if held is None or self._heard is None or held.final:
        return None
    return Record(held.election, held.sequence + 1, True, held.leader, held.leader_incarnation)


class Broken(NamedTuple):
    name: str
    rule: str
    faults: dict[str, int]
    in_all: int
    horizon_ms: int = 300
    machine: type[CTolerant] | None = None
    patched: tuple[Any, str, Any] | None = None  # (class, name, what is there instead)

    def tamper(self, machine: Any) -> None:
        if self.machine is not None and type(machine) is CTolerant:
            machine.__class__ = self.machine

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if self.patched is not None:
            monkeypatch.setattr(*self.patched)


BROKEN = [
    Broken("the term check is dropped", "back", {"holds": 1, "breaks": 1}, 2, machine=TakesEveryLeader),
    Broken("a lower initiator does not count", "back", {"crashes": 1, "holds": 1}, 2, machine=TakesAnyInitiator),
    Broken("a tentative leader is final", "agreed", {"crashes": 2}, 2, machine=TakesTentativeForFinal),
    Broken("a dead leader is kept", "agreed", {"crashes": 1}, 1, machine=DoubtsNobody),
    Broken(
        "a leader is never confirmed",
        "agreed",
        {"crashes": 1},
        1,
        patched=(Initiator, "_become_notified", _never_notified),
    ),
    Broken("any confirmation counts", "final", {"crashes": 2}, 2, patched=(Confirming, "confirmed", _any_confirmation)),
]
