"""`doyen check pole` with wills, batons and changed voters: the sound voter holds, and broken ones are found."""

from collections.abc import Callable
from typing import Any

import pytest

from doyen.check.case import Case
from doyen.check.turns import Faults, Turns
from doyen.core.clock import Instant, ms
from doyen.core.commands import PassOn
from doyen.core.leadership import BatonPassed
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import Charter

NONE: dict[str, int] = dict.fromkeys(Faults.__struct_fields__, 0)


def _case(horizon_ms: int, in_all: int, spares: int = 0, **faults: int) -> Case:
    return Case(election="pole", horizon=ms(horizon_ms), spares=spares, in_all=in_all, faults=Faults(**(NONE | faults)))


@pytest.mark.parametrize(
    ("case", "reigns"),
    [
        pytest.param(_case(400, 1, wills=1, batons=1, changes=1), 2, id="one of them, over a lease"),
        pytest.param(_case(100, 1, 1, wills=1, batons=1, changes=1), 2, id="one of them, with a spare"),
        pytest.param(_case(100, 2, wills=1, batons=1, changes=1), 2, id="two of them", marks=pytest.mark.soak),
        pytest.param(_case(200, 2, wills=1, batons=1), 2, id="a baton and a will", marks=pytest.mark.soak),
        pytest.param(_case(100, 2, 1, wills=1, batons=1, changes=1), 3, id="two, with a spare", marks=pytest.mark.soak),
        pytest.param(_case(100, 3, wills=1, batons=1, changes=1), 2, id="all of them", marks=pytest.mark.soak),
    ],
)
def test_the_sound_voter_holds(case: Case, reigns: int, tell: Callable[[str], None]) -> None:
    world, found = case.run()
    assert (found.violations, found.exhausted, found.reigns) == ([], True, reigns)
    charters = {came.message for _, _, came in world.turns.messages if isinstance(came.message, Charter)}
    assert {charter.baton for charter in charters} > {b""}
    if case.faults.changes:
        sizes = {len(charter.voters) for charter in charters}
        assert sizes == ({2, 3, 4} if case.spares else {2, 3})
        assert any(charter.leaving for charter in charters), "it goes by the majorities of both"
    tell(f"check pole, {case.faults}, {case.in_all} in all: {found.states:,} states")


class SaysPassedAtOnce(Pole):
    """A baton counts as passed on before any other voter has it."""

    def write_baton(self, command: PassOn, now: Instant) -> None:
        super().write_baton(command, now)
        self.out.emit(BatonPassed((command.number,)))


def test_a_baton_that_is_said_to_be_passed_on_too_soon_is_found() -> None:
    def tamper(machine: Any) -> None:
        if type(machine) is Pole:
            machine.__class__ = SaysPassedAtOnce

    violations = _case(100, 2, wills=1, batons=1).run(tamper=tamper)[1].violations
    assert [violation.rule for violation, _ in violations] == ["baton"]


def test_a_will_that_is_sent_while_its_author_lives_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "crashed", lambda self, index, turn, disk: turn)
    violations = _case(100, 1, wills=1).run()[1].violations
    assert [violation.rule for violation, _ in violations] == ["alone"]
