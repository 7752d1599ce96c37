"""The recurrences Q and S, evaluated as they are printed, beside simulated messages.  [LE §5.3.3.3]"""

from random import Random
from typing import Final

from doyen.sim.runs import figure
from doyen_papers.analysis import announce_recurrence as recurrence
from doyen_papers.papers.cells import measured as of_figure
from doyen_papers.papers.cells import numbers
from doyen_papers.papers.item import Made, Measured, Outcome
from doyen_papers.papers.le.cells import LOSS, Results, measured, task

SIZES: Final = (2, 10)
NODES: Final = 10
ROUNDS: Final = 100
SHOWN: Final = (10, 50, 100)
DRAWS: Final = 20_000
TASKS: Final = {
    (nodes, model): task("LE-S", nodes, model, delay_s=0.0) for nodes in SIZES for model in ("none", "uncorrelated")
}


def _outcome(results: Results) -> Outcome:
    cells: list[Measured] = []
    for (nodes, model), wanted in TASKS.items():
        formula = recurrence.mean_count(recurrence.first_round(nodes, 0.0 if model == "none" else LOSS), nodes)
        where = f"first-round messages, {model}, N={nodes}: Σ i·Q(i, N)"
        cells.append(measured(where, results[wanted], "first_messages", formula=formula))
        if nodes == NODES:
            anew = figure(_sent(nodes, 0.0 if model == "none" else LOSS, Random(seed)) for seed in range(DRAWS))
            cells.append(of_figure(f"{where}, wake-ups drawn anew", anew, formula=formula))
    found = recurrence.rounds(NODES, LOSS, ROUNDS)
    terms = recurrence.printed_terms(found, NODES)
    values: dict[str, float | None] = {
        f"N={NODES}: Σ Q(i, N)": sum(found[0][NODES]),
        f"N={NODES}: Σ Q(i, N, 3)": sum(found[2][NODES]),
        f"N={NODES}: terms r = 51 … 100 of Σ i·r·Q(i, N, r)": sum(terms[50:]),
    }
    once = (sum(i * value for i, value in enumerate(one[NODES][:NODES])) for one in found)
    values[f"N={NODES}: Σ i·Q(i, N, r), each message once"] = sum(once)
    values |= {f"N={NODES}: S(N, {r})": recurrence.survives(found, NODES, r, LOSS) for r in (2, 3)}
    values |= {f"N={NODES}: Σ i·r·Q(i, N, r) up to r = {r}": sum(terms[:r]) for r in SHOWN}
    cells += numbers(values)
    total = results[TASKS[NODES, "uncorrelated"]]
    where = f"messages, uncorrelated, N={NODES}: Σ i·r·Q(i, N, r)"
    cells.append(measured(where, total, "messages", formula=sum(terms)))
    return Outcome(cells=cells)


def _sent(nodes: int, loss: float, rng: Random) -> int:
    """Return how many send in the first round if every process meets senders whose wake-ups are drawn anew for it."""
    sent = 1
    for _ in range(nodes - 1):
        mine = rng.random()
        sent += all(rng.random() > mine or rng.random() < loss for _ in range(sent))
    return sent


MADE: Final[dict[str, Made]] = {"recurrences": (tuple(TASKS.values()), _outcome)}
