"""Voters of POLE that break safety, on purpose: what each takes to show it is stated before any run."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import pytest

from doyen.core.clock import Instant, ms
from doyen.core.ids import NodeId
from doyen.core.machine import Hears
from doyen.election.by_key.machine import LeaderByKey
from doyen.election.pole.ballot import Ballot
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import Status
from doyen.election.pole.promise import Voter, VoterRecord
from doyen.election.pole.reign import Lease
from doyen.membership.ring.messages import LeftRing


class PromiseNotDurable(Pole):
    """Votes again after a restart, as if it had never promised anything."""

    def start(self, now: Instant) -> None:
        self.voter.promise = VoterRecord(0)
        self.able, self.status = True, Status.ELECTING
        self.ballot = Ballot(0, self.electorate)
        super().start(now)


class PromiseForgottenByARestart(Pole):
    """Does not wait after a restart until the lease of its leader is over."""

    def start(self, now: Instant) -> None:
        super().start(now)
        self.voter.bound_until = 0


class LeaseOfAnyNumber(Pole):
    """Acts on grants, however old."""

    def leads(self, now: Instant) -> bool:
        return self.is_leader


class LeaseOnAnotherClock(Pole):
    """Reads a clock that was set back since."""

    def leads(self, now: Instant) -> bool:
        return super().leads(now - ms(200))


class Broken(NamedTuple):
    name: str
    faults: dict[str, int]
    in_all: int
    rule: str = "alone"
    machine: type[Pole] | None = None
    patched: tuple[Any, str, Any] | None = None  # (class, name, what is there instead)
    horizon_ms: int = 400

    def tamper(self, machine: Any) -> None:
        if self.machine is not None and type(machine) is Pole:
            machine.__class__ = self.machine

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if self.patched is not None:
            monkeypatch.setattr(*self.patched)


def _reached_by_one(self: Electorate, instants: dict[NodeId, Instant]) -> Instant | None:
    return max(instants.values(), default=None)


def _free_of_all(self: Voter, leader: NodeId) -> Instant:
    return 0


def _until(self: Lease) -> Instant:
    reached = self.electorate.reached(self._anchors)
    return -1 if reached is None else reached + 2 * self._length


CUT = {"cuts": 1}
SAFETY = [
    Broken("a lease without an end", CUT, 1, machine=LeaseOfAnyNumber, horizon_ms=600),
    Broken("a lease on a clock that was set back", CUT, 1, machine=LeaseOnAnotherClock, horizon_ms=600),
    Broken("a lease twice as long", CUT, 1, patched=(Lease, "until", property(_until)), horizon_ms=600),
    Broken("a lease without a majority", CUT, 1, patched=(Electorate, "reached", _reached_by_one), horizon_ms=600),
    Broken("a voter that is bound to nobody", CUT | {"breaks": 2}, 3, patched=(Voter, "free_at", _free_of_all)),
    Broken(
        "a promise that is not durable",
        CUT | {"crashes": 2},
        3,
        rule="shared",
        machine=PromiseNotDurable,
        horizon_ms=200,
    ),
    Broken("a restart that does not wait", CUT | {"crashes": 2}, 3, machine=PromiseForgottenByARestart, horizon_ms=200),
]


class LeadsWithoutAPlace(LeaderByKey):
    """Leads on after it has left the ring."""

    def on_left_ring(self, fact: LeftRing, now: Instant) -> None:
        """Keep the place."""

    HEARS: ClassVar[Hears] = {**LeaderByKey.HEARS, LeftRing: on_left_ring}


def tampered(sound: type[Any], broken: type[Any]) -> Callable[[Any], None]:
    """Return what makes a machine of that class a broken one."""

    def tamper(machine: Any) -> None:
        if type(machine) is sound:
            machine.__class__ = broken

    return tamper
