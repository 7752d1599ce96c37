"""The orderings the chapter publishes, each at its worst N.  [LE §5.4]"""

from collections.abc import Callable
from typing import Final

from doyen.sim.runs import Figure
from doyen_papers.analysis.setting import LossModel
from doyen_papers.papers.item import Made, Measured, Outcome, Task
from doyen_papers.papers.le.cells import Gap, Quantity, Results, farthest, figure_of, gap, gap_cell, narrowest, task

SIZES: Final = (5, 10, 20, 50, 100, 200, 500)
JOINED_SIZES: Final = (10, 50)
BOTH: Final[tuple[LossModel, ...]] = ("correlated", "uncorrelated")
MODELS: Final[tuple[LossModel, ...]] = ("none", *BOTH)
DEPARTURE_LISTEN_S: Final = 3.0
SMALL: Final = "SUP: uncorrelated - correlated, messages, N up to 50"  # In larger groups the two are equal.
UNITS: Final[dict[Quantity, str]] = {"tmax": "s", "messages": "messages"}

WORDS: Final[tuple[tuple[str, Quantity], ...]] = (("time", "tmax"), ("messages", "messages"))

Of = Callable[[int], Task]


def _plain(name: str, model: LossModel) -> Of:
    return lambda nodes: task(name, nodes, model)


def _gaps(results: Results, greater: Of, less: Of, quantity: Quantity) -> list[Gap]:
    return [gap(n, figure_of(results[greater(n)], quantity), figure_of(results[less(n)], quantity)) for n in SIZES]


# (name in expected.toml, the greater, the lesser, of what)
ABOVE: Final[list[tuple[str, Of, Of, Quantity]]] = [
    *(
        (f"{name}: uncorrelated - correlated, {word}", _plain(name, "uncorrelated"), _plain(name, "correlated"), what)
        for name in ("LE-S", "SUP")
        for word, what in WORDS
    ),
    ("LE-S - SUP, time, no loss", _plain("LE-S", "none"), _plain("SUP", "none"), "tmax"),
    ("LE-S - SUP, messages, no loss", _plain("LE-S", "none"), _plain("SUP", "none"), "messages"),
    *((f"LE-M - SUP, time, {model}", _plain("LE-M", model), _plain("SUP", model), "tmax") for model in BOTH),
    *((f"LE-S - LE-M, time, {model}", _plain("LE-S", model), _plain("LE-M", model), "tmax") for model in BOTH),
]

LATER: Final[list[tuple[str, Of, Of]]] = [
    *((f"LE-S - LE-A, time, {model}", _plain("LE-S", model), _plain("LE-A", model)) for model in MODELS),
    ("LE-S - AL, time, uncorrelated", _plain("LE-S", "uncorrelated"), _plain("AL", "uncorrelated")),
]


def _joins(model: LossModel, nodes: int) -> Task:
    return task("LE-S", nodes, model, event="joiner-better")


def _joins_worse(name: str, nodes: int) -> Task:
    return task(name, nodes, "uncorrelated", event="joiner-worse")


def _departs(model: LossModel) -> Task:
    return task("LE-S", 10, model, event="leader-departs", listen_s=DEPARTURE_LISTEN_S)


def _timer(timer: str, nodes: int) -> Task:
    return task("LE-S", nodes, "correlated", timer=timer, runs_times=10)


HALF_AND_WHOLE: Final = (task("LE-S", 250, "uncorrelated"), task("LE-S", 500, "uncorrelated"))
TIMER_SIZES: Final = (100, 10)


def _events(results: Results) -> list[Measured]:
    found = []
    for model in MODELS:
        gaps = [
            gap(n, results[_joins(model, n)].reestablishment, _delayed(results[task("LE-S", n + 1, model)].tmax))
            for n in JOINED_SIZES
        ]
        found.append(gap_cell(f"better joiner - leadership delay, {model}", farthest(gaps, 0.0), unit="s"))
    gaps = [
        gap(n, *(results[_joins_worse(name, n)].reestablishment for name in ("LE-S", "LE-A"))) for n in JOINED_SIZES
    ]
    found.append(gap_cell("worse joiner: LE-S - LE-A, uncorrelated", farthest(gaps, 0.0), unit="s"))
    for model in BOTH:
        apart = gap(0, results[_departs(model)].reestablishment, results[_departs("none")].reestablishment)
        found.append(gap_cell(f"leader departs: {model} - none", apart, unit="s", note="N=10, T_L=3"))
    return found


def _delayed(tmax: Figure | None, delay_s: float = 0.1) -> Figure | None:
    return None if tmax is None else Figure(tmax.mean + delay_s, tmax.stderr)


def _fewer(results: Results) -> list[Measured]:
    """Messages overall, signed so that "fewer first, fewer overall" is above 0."""

    def signed(n: int, one: Task, other: Task) -> Gap:
        first = gap(n, figure_of(results[one], "first_messages"), figure_of(results[other], "first_messages"))
        _, overall, stderr = gap(n, results[one].messages, results[other].messages)
        return n, overall if first[1] > 0 else -overall, stderr

    variants = [
        signed(n, task(more, n, "uncorrelated"), task(less, n, "uncorrelated"))
        for n in SIZES
        for more, less in (("LE-A", "LE-S"), ("LE-S", "LE-M"))
    ]
    found = [gap_cell("fewer first, fewer overall: LE-M, LE-S, LE-A", narrowest(variants), unit="messages")]
    for n in TIMER_SIZES:
        one = signed(n, _timer("uniform", n), _timer("exponential", n))
        found.append(gap_cell(f"fewer first, fewer overall: timers, N={n}", (0, *one[1:]), unit="messages"))
    return found


def _outcome(results: Results) -> Outcome:
    cells = [
        gap_cell(where, narrowest(_gaps(results, greater, less, quantity)), unit=UNITS[quantity])
        for where, greater, less, quantity in ABOVE
    ]
    cells += [
        gap_cell(where, farthest(_gaps(results, greater, less, "tmax"), 0.5), unit="s")
        for where, greater, less in LATER
    ]
    small = _gaps(results, _plain("SUP", "uncorrelated"), _plain("SUP", "correlated"), "messages")[: SIZES.index(100)]
    cells.append(gap_cell(SMALL, narrowest(small), unit="messages"))
    half, whole = (results[wanted].tmax for wanted in HALF_AND_WHOLE)
    cells += _events(results)
    cells.append(gap_cell("uncorrelated: tmax at N=500 - at N=250", gap(0, whole, half), unit="s"))
    return Outcome(cells=cells + _fewer(results))


TASKS: Final = (
    *(of(n) for _, greater, less, _ in ABOVE for of in (greater, less) for n in SIZES),
    *(of(n) for _, greater, less in LATER for of in (greater, less) for n in SIZES),
    *(wanted for model in MODELS for n in JOINED_SIZES for wanted in (_joins(model, n), task("LE-S", n + 1, model))),
    *(_joins_worse(name, n) for name in ("LE-S", "LE-A") for n in JOINED_SIZES),
    *(_departs(model) for model in MODELS),
    *HALF_AND_WHOLE,
    *(_timer(timer, n) for timer in ("uniform", "exponential") for n in TIMER_SIZES),
)

MADE: Final[dict[str, Made]] = {"orderings": (TASKS, _outcome)}
