"""Theorems 1 to 8, the corollaries and Equation 2: a bound, and the worst that simulated rings show.  [ARB §IV, §VI]"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from typing import Final

from doyen.core.ids import NodeId
from doyen.membership.ring.geometry import Seat, group, seat
from doyen.membership.ring.neighbourhood import founding
from doyen_papers.papers.arb.cells import Results, theorem
from doyen_papers.papers.cells import numbers
from doyen_papers.papers.item import Made, Measured, Outcome, Task
from doyen_papers.studies.ring_theorems import NODES, Arbiters, Case, Seen

EACH_SIDE: Final = 3
MONITORS: Final = 2 * EACH_SIDE
BOTH: Final[tuple[Arbiters, ...]] = ("pairwise", "central")
Values = Callable[[Seen], Iterable[float]]


def _worst(
    where: str,
    found: list[Seen],
    of: Values,
    which: Callable[[list[float]], float],
    unit: str = "T_l",
    each: int = 1,
) -> Measured:
    """Return the greatest or the least value of all runs.  It is no mean: what is shown is what happened.

    In every run it must have happened `each` times at least: who never did it was no sooner than any bound.
    """
    values = [value for seen in found for value in of(seen)]
    short = sum(len(list(of(seen))) < each for seen in found)
    note = f"{len(values)} times in {len(found)} runs, N={NODES}, k={EACH_SIDE}, T_a = T_l/2"
    if short:
        note = f"in {short} of {len(found)} runs it happened fewer than {each} times; {note}"
    return Measured(where=where, mean=None if short else which(values), stderr=0.0, unit=unit, note=note)


def _bounds(case: Case, what: Values, words: str, least: bool, each: int, results: Results) -> Outcome:
    cells = []
    for arbiters in BOTH:
        found: list[Seen] = results[theorem(case, arbiters)]
        cells.append(_worst(f"{arbiters}: {words}, longest", found, what, max, each=each))
        if least:
            cells.append(_worst(f"{arbiters}: {words}, shortest", found, what, min, each=each))
    return Outcome(cells=cells)


def _upgrade(results: Results) -> Outcome:
    cases: dict[str, Case] = {"": "crash", "the notice is lost: ": "unheard"}
    return Outcome(
        cells=[
            _worst(f"{how}upgrade to the other side, longest", results[theorem(case)], lambda seen: seen.upgrade, max)
            for how, case in cases.items()
        ]
    )


def _pair(what: Values, words: str, results: Results) -> Outcome:
    """The proofs speak of one lease that times out while the other's last session was acknowledged."""
    outcome = _bounds("one-way", what, words, True, 1, results)
    cut: list[Seen] = results[theorem("cut")]
    more = [
        _worst(f"link cut: {words}, longest", cut, what, max),
        _worst(f"link cut: {words}, shortest", cut, what, min),
    ]
    return Outcome(cells=outcome.cells + more)


def _late(results: Results) -> Outcome:
    cells = []
    cases: tuple[Case, ...] = ("one-way", "cut")
    for case in cases:
        found: list[Seen] = results[theorem(case)]
        late = float(sum(seen.left_late for seen in found))
        cells.append(Measured(where=f"{case}: losers still there after T_arb", mean=late, note=f"{len(found)} runs"))
    return Outcome(cells=cells)


def _joins(case: Case, results: Results) -> Outcome:
    found: list[Seen] = results[theorem(case)]
    broken = float(sum(seen.violations for seen in found))
    lines = "; ".join(line for seen in found for line in seen.lines)[:300]
    cells = [Measured(where="violations of consistency", mean=broken, note=f"{len(found)} runs. {lines}".strip())]
    if case == "joiners":
        unfinished = float(sum(4 - seen.joined for seen in found))
        cells.append(Measured(where="joiners of four that did not get in", mean=unfinished))
    return Outcome(cells=cells)


def _phases(results: Results) -> Outcome:
    found: list[Seen] = results[theorem("join")]
    return Outcome(cells=[_worst("after phase 1, longest", found, lambda seen: seen.after_phase_1, max)])


def _overhead(results: Results) -> Outcome:
    quiet: list[Seen] = results[theorem("quiet")]
    crashed: list[Seen] = results[theorem("crash")]
    sent = [seen.messages_per_lease or 0.0 for seen in quiet]

    def sizes(seen: Seen) -> Iterable[float]:
        return map(float, seen.group_sizes)

    return Outcome(
        cells=[
            *numbers({"leasing messages per node and T_l": sum(sent) / len(sent)}),
            _worst("members of a group, least", crashed, sizes, min, unit=""),
            _worst("members of a group, most", crashed, sizes, max, unit=""),
            *numbers({"groups that a node is in": float(groups_of_a_node())}),
        ]
    )


def groups_of_a_node() -> int:
    """Return the groups that a node of a ring is in, counted: of all pairs of neighbours, those that ask it."""
    ring = founding((seat(NodeId(f"n{i:02d}")) for i in range(NODES)), EACH_SIDE)
    asked: Counter[Seat] = Counter()
    for one, other in combinations(ring.seats, 2):
        if other in ring.neighbourhoods[one.name]:
            asked.update(group(one, ring.neighbourhoods[one.name], other, ring.neighbourhoods[other.name]))
    return max(asked.values())


def _known_to_all(seen: Seen) -> list[float]:
    """Return when the last monitor began to recover, if all of them did."""
    return seen.consistency if len(seen.recovery) == MONITORS else []


def _of(case: Case) -> tuple[Task, ...]:
    return tuple(theorem(case, arbiters) for arbiters in BOTH)


def _timeouts(seen: Seen) -> list[float]:
    return seen.second_timeout


def _requests(seen: Seen) -> list[float]:
    return seen.second_request


PAIR: Final = (*_of("one-way"), theorem("cut"))
MADE: Final[dict[str, Made]] = {
    "theorem1": ((theorem("crash"), theorem("unheard")), _upgrade),
    "theorem2": (
        _of("crash"),
        partial(_bounds, "crash", lambda seen: seen.detection, "crash to suspicion", True, MONITORS),
    ),
    "theorem3": (PAIR, partial(_pair, _timeouts, "first timeout to the second")),
    "corollary1": (PAIR, partial(_pair, _requests, "first request to the second")),
    "theorem4": (
        _of("one-way"),
        partial(_bounds, "one-way", lambda seen: seen.lifespan, "suspicion to departure", False, 1),
    ),
    "corollary2": ((theorem("one-way"), theorem("cut")), _late),
    "corollary3": (
        _of("crash"),
        partial(_bounds, "crash", lambda seen: seen.recovery, "suspicion to recovery", True, MONITORS),
    ),
    "theorem5": (
        _of("crash"),
        partial(_bounds, "crash", _known_to_all, "crash to the last recovery", False, 1),
    ),
    "theorem6": ((theorem("broken-join"),), partial(_joins, "broken-join")),
    "theorem7": ((theorem("joiners"),), partial(_joins, "joiners")),
    "theorem8": ((theorem("join"),), _phases),
    "overhead": ((theorem("quiet"), theorem("crash")), _overhead),
}
