"""What `doyen check` leaves out hides nothing: quiet states and verdicts are those of a search without reductions."""

from collections.abc import Callable

import pytest
from broken_voters import SAFETY, Broken
from unreduced import plain, reduced, unreduced

from doyen.check.case import Case
from doyen.check.explore import explore, left_of
from doyen.check.turns import Faults
from doyen.core.clock import ms

NONE: dict[str, int] = dict.fromkeys(Faults.__struct_fields__, 0)
FAULTS = [
    pytest.param(100, {"losses": 1}, 1, id="a loss"),
    pytest.param(100, {"losses": 1, "resignations": 1}, 2, id="a loss and a resignation", marks=pytest.mark.soak),
    pytest.param(200, {"cuts": 1, "breaks": 1}, 1, id="a cut or a broken link"),
    pytest.param(
        100, {"crashes": 1, "losses": 1, "timers": 1, "resignations": 1}, 1, id="any one", marks=pytest.mark.soak
    ),
    pytest.param(100, {"holds": 1, "duplicates": 1}, 1, id="a held or a doubled one", marks=pytest.mark.soak),
    pytest.param(100, {"crashes": 1, "resignations": 1}, 2, id="a crash and a resignation", marks=pytest.mark.soak),
    pytest.param(300, {"cuts": 1, "timers": 1}, 1, id="a cut or a late timer", marks=pytest.mark.soak),
]


def _case(horizon_ms: int, faults: dict[str, int], in_all: int) -> Case:
    return Case(election="pole", horizon=ms(horizon_ms), faults=Faults(**(NONE | faults)), in_all=in_all)


@pytest.mark.parametrize(("horizon_ms", "faults", "in_all"), FAULTS)
def test_the_quiet_states_are_those_of_the_unreduced_search(
    horizon_ms: int, faults: dict[str, int], in_all: int, tell: Callable[[str], None]
) -> None:
    case = _case(horizon_ms, faults, in_all)
    world, left = case.world(), left_of(case.faults, in_all)
    quiet, broken, count = reduced(world, left)
    others, others_broken, other_count = unreduced(world, left)
    assert (quiet, broken) == (others, others_broken) and not broken
    assert len(quiet) > 4 and other_count > (10 if in_all == 1 else 5) * count  # Decision 114.
    tell(f"check reduced: {count:,} states for {other_count:,}, {len(quiet):,} quiet ones alike")


SMALL = [broken for broken in SAFETY if broken.in_all == 1]


@pytest.mark.parametrize(
    "broken",
    [pytest.param(broken, id=broken.name) for broken in SMALL],
)
@pytest.mark.soak
def test_the_verdict_on_a_broken_voter_is_that_of_the_unreduced_search(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.patch(monkeypatch)
    case = _case(broken.horizon_ms, broken.faults, broken.in_all)
    world, left = case.world(broken.tamper), left_of(case.faults, broken.in_all)
    assert reduced(world, left)[1] == unreduced(world, left)[1] == {broken.rule}


@pytest.mark.parametrize(
    ("horizon_ms", "in_all"),
    [(200, 1), pytest.param(100, 3, marks=pytest.mark.soak), pytest.param(300, 1, marks=pytest.mark.soak)],
)
def test_states_as_numbers_are_explored_like_states(horizon_ms: int, in_all: int) -> None:
    case = Case(election="pole", horizon=ms(horizon_ms), in_all=in_all)
    left = left_of(case.faults, in_all)
    slow, fast = plain(case.world(), left), explore(case.world(), left)
    assert (slow.states, slow.transitions, slow.exhausted, slow.reigns) == (
        fast.states,
        fast.transitions,
        fast.exhausted,
        fast.reigns,
    )
    assert fast.exhausted and fast.states > 500


@pytest.mark.soak
def test_states_as_numbers_give_the_same_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = SAFETY[0]
    broken.patch(monkeypatch)
    case = _case(broken.horizon_ms, broken.faults, broken.in_all)
    left = left_of(case.faults, broken.in_all)
    slow, fast = (by(case.world(broken.tamper), left) for by in (plain, explore))
    assert slow.violations == fast.violations != []
