"""Proves the arithmetic of a quorum's lease and guard by an SMT solver (z3, the extra `prove`).

What a voter counts and what its leader counts begin with one heartbeat, and run on two clocks:

    leader   sends it at 0, and acts until its own clock has counted `lease`:   true time lease / rate
    voter    hears it after any delay, and is bound for `guard` of its own:     true time delay + guard / rate

Safe: no voter is free before the leader has stopped.  Kept: a leader whose heartbeats and acks take at most a stated
delay each, with so many lost in a row, is renewed before its lease ends.
"""

from fractions import Fraction
from typing import Any

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.errors import ConfigError

LOST_MAX = 64


class Claim(Struct, frozen=True, kw_only=True):
    """A question to the solver, and its answer."""

    name: str
    holds: bool
    text: str
    breaks: dict[str, float] = {}  # Numbers within the bounds for which it does not hold.


def safe(lease: Duration, guard: Duration, drift: float) -> Claim:
    """Ask whether every voter is bound for as long as its leader acts, for all rates within the drift."""
    z3 = _solver()
    leader, voter, delay, stops, free = z3.Reals("leader_rate voter_rate delay stops_at free_at")
    found = _counterexample(
        z3,
        _within(z3, leader, drift),
        _within(z3, voter, drift),
        delay >= 0,
        stops * leader == lease,
        (free - delay) * voter == guard,
        free < stops,
    )
    text = f"with rates within {drift:g} and any delay, no voter is free before the leader has stopped"
    numbers = {
        name: value / 1e9 if name in ("delay", "stops_at", "free_at") else value for name, value in found.items()
    }
    return Claim(name="safe", holds=not found, text=text, breaks=numbers)


def kept(lease: Duration, beat: Duration, delay: Duration, lost: int, drift: float) -> Claim:
    """Ask whether a leader keeps its lease when `lost` heartbeats or acks in a row are lost."""
    z3 = _solver()
    leader, there, back = z3.Reals("leader_rate delay_there delay_back")
    found = _counterexample(
        z3,
        _within(z3, leader, drift),
        z3.And(there >= 0, there <= delay, back >= 0, back <= delay),
        (lost + 1) * beat + (there + back) * leader >= lease,
    )
    text = f"with delays up to {delay / 1e6:g} ms and {lost} lost in a row, the leader is renewed in time"
    numbers = {name: value / 1e9 if name.startswith("delay") else value for name, value in found.items()}
    return Claim(name="kept", holds=not found, text=text, breaks=numbers)


def lost_max(lease: Duration, beat: Duration, delay: Duration, drift: float) -> int:
    """Return how many may be lost in a row; -1: not even none."""
    return next((lost - 1 for lost in range(LOST_MAX) if not kept(lease, beat, delay, lost, drift).holds), LOST_MAX)


def _solver() -> Any:
    try:
        import z3
    except ImportError:
        raise ConfigError("doyen prove needs a solver, which is not installed: pip install 'doyen[prove]'") from None
    return z3


def _within(z3: Any, rate: Any, drift: float) -> Any:
    exact = Fraction(drift)
    bound = z3.Q(exact.numerator, exact.denominator)
    return z3.And(rate >= 1 - bound, rate <= 1 + bound)


def _counterexample(z3: Any, *conditions: Any) -> dict[str, float]:
    """Return numbers that meet all conditions; none: the solver has shown that there are none."""
    solver = z3.Solver()
    solver.add(*conditions)
    answer = solver.check()
    if answer == z3.unsat:
        return {}
    if answer != z3.sat:
        raise ConfigError(f"the solver has come to no end: {solver.reason_unknown()}")
    model = solver.model()
    found = {}
    for name in model.decls():
        if name.arity() == 0:
            value = model.eval(name(), model_completion=True)
            found[str(name)] = float((value if z3.is_rational_value(value) else value.approx(12)).as_fraction())
    return found
