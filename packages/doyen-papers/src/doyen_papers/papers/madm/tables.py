"""Tables 6.2 to 6.5, what follows from them, and the walk-through: no chance in any of it.  [MADM §6.2.5, §6.3]"""

from math import floor
from typing import Final

from msgspec.structs import replace
from numpy import array, eye, float64, full
from numpy.linalg import lstsq
from numpy.typing import NDArray

from doyen.core.ids import NodeId
from doyen.score.topsis import quality
from doyen_papers.papers.cells import curve, numbers
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot
from doyen_papers.papers.madm.cells import Results
from doyen_papers.papers.madm.chapter import ATTRIBUTES, GRAPHS, SEVEN, SEVEN_QUALITY, TABLES, neighbours, prioritised
from doyen_papers.score.graph import closeness, degree, modification_time
from doyen_papers.score.table import rate
from doyen_papers.studies.spanning import Failure, Run, SpanningSetting, What, graph, simulate

#: Figure 6.2: what fails one hop after the start, when node 3 has got its EIM.
FIGURE_6_2: Final[dict[str, tuple[str, ...]]] = {
    "2-3": ("2-3",),
    "3-4": ("3-4",),
    "2-3, 0-3": ("2-3", "0-3"),
    "2-3, 0-3, 3-5": ("2-3", "0-3", "3-5"),
    **{f"node {n}": (n,) for n in "0123456"},
}
STEPS: Final = 20  # Of Newton's method; six are enough.
NUDGE: Final = 1e-6


def truncated(value: float, digits: int) -> float:
    """Cut decimals off, as the tables do."""
    return float(floor(value * 10**digits + 1e-9) / 10**digits)


def recovered() -> dict[str, float]:
    """Return the weights whose quality factors are nearest to the thirty printed ones, by least squares.

    Steps begin with equal weights and know nothing of Table 6.2's, not even that they add up to 1.
    """
    rows = [row for table in TABLES.values() for row in table]
    printed = array([float(row.quality) + 0.00005 for row in rows])  # The decimals that are cut off are unknown.
    weights = full(len(ATTRIBUTES), 1 / len(ATTRIBUTES))

    def found(tried: NDArray[float64]) -> NDArray[float64]:
        attributes = [replace(one, weight=float(weight)) for one, weight in zip(ATTRIBUTES, tried, strict=True)]
        return array([quality(row.values, attributes).value for row in rows])

    for _ in range(STEPS):
        here = found(weights)
        slopes = [(found(weights + nudge) - here) / NUDGE for nudge in NUDGE * eye(len(weights))]
        weights = weights + lstsq(array(slopes).T, printed - here, rcond=None)[0]
    return {one.name: float(weight) for one, weight in zip(ATTRIBUTES, weights, strict=True)}


def _weights(results: Results) -> Outcome:
    found = {f"weight of {name}, from the thirty quality factors": weight for name, weight in recovered().items()}
    return Outcome(cells=numbers(found))


def _quality(results: Results) -> Outcome:
    cells = []
    for table, rows in TABLES.items():
        for row in rows:
            value = truncated(quality(row.values, ATTRIBUTES).value, 4)
            cells.append(Measured(where=f"Table {table}, node {row.node}", mean=value))
    for table, rows in TABLES.items():
        rated = rate({row.node: row.values for row in rows}, ATTRIBUTES)
        best = rated.quality[rated.leader].value
        cells.append(Measured(where=f"Table {table}, leader", mean=float(rated.leader)))
        cells.append(Measured(where=f"Table {table}, leader's quality", mean=round(best, 6)))
        graph_of = neighbours(GRAPHS[table])
        wrong = sum(degree(graph_of, row.node) != row.degree for row in rows)
        wrong += sum(truncated(closeness(graph_of, row.node), 2) != row.closeness for row in rows)
        cells.append(Measured(where=f"Table {table}, degrees and closeness that differ", mean=wrong))
    return Outcome(cells=cells)


def _prioritised(results: Results) -> Outcome:
    cells = []
    for table, rows in TABLES.items():
        for attribute in ATTRIBUTES:
            leader = rate({row.node: row.values for row in rows}, prioritised(attribute.name)).leader
            cells.append(Measured(where=f"Table {table}, leader where {attribute.name} weighs .8", mean=float(leader)))
    more = rate({row.node: row.values for row in TABLES["6.5"]}, prioritised("Fr", 0.84)).leader
    return Outcome(cells=[*cells, Measured(where="Table 6.5, leader where Fr weighs .84", mean=float(more))])


def _modification(results: Results) -> Outcome:
    cells, panels = [], []
    for table, edges in GRAPHS.items():
        graph_of, label = neighbours(edges), f"Table {table}"
        times = [
            Measured(
                where=f"{label}, node {row.node} leads",
                mean=modification_time(graph_of, row.node),
                unit="c",
                curve=label,
                x=float(row.node),
            )
            for row in TABLES[table]
        ]
        best = rate({row.node: row.values for row in TABLES[table]}, ATTRIBUTES).leader
        elected = [time for time in times if time.x == float(best)]
        cells += times
        curves = [
            curve(label, 0, [time.x or 0.0 for time in times], times, legend="who leads"),
            curve(f"{label}, elected", 1, [float(best)], elected, legend=f"the one elected: {best}", ring=True),
        ]
        panels.append(Panel(curves=curves, title=f"{label}: time to modify data, by leader"))
    return Outcome(cells=cells, plot=Plot(panels=panels, x_label="the node that leads", y_label="time in c"))


def seven(*failures: Failure, best: str | None = None, silent: bool = False) -> Run:
    found = graph(SEVEN, SEVEN_QUALITY | ({best: 0.99} if best else {}))
    return simulate(SpanningSetting(graph=found, initiators=(NodeId("2"),), failures=failures, silent=silent), 1)


def _walk(results: Results) -> Outcome:
    run = seven()
    cells = numbers(run.messages, unit="messages")
    cells += numbers({f"{kind}, longest": bits for kind, bits in run.bits.items()}, unit="bits")
    cells.append(Measured(where="declared at", mean=run.declared_at, unit="hops"))
    cells.append(Measured(where="leader", mean=float(run.regions[0].leader or -1)))
    return Outcome(cells=cells)


def _failures(results: Results) -> Outcome:
    cells = []
    for name, parts in FIGURE_6_2.items():
        what: What = "fail-node" if name.startswith("node") else "fail-link"
        run = seven(*(Failure(what, tuple(NodeId(n) for n in part.split("-")), 1.0) for part in parts))
        for region in run.regions:
            leader = float(region.leader) if region.leader is not None else None
            cells.append(Measured(where=f"{name} fails: {{{','.join(region.members)}}}", mean=leader))
    broken = Failure("fail-link", (NodeId("1"), NodeId("2")), 1.0)
    for how, silent in (
        ("as printed", True),
        ("with re-parenting", False),
    ):  # Unless a node is notified, it seeks no parent.
        declared = seven(broken, best="1", silent=silent).declarations[0].leader
        cells.append(Measured(where=f"node 1 is the best and 1-2 fails, {how}", mean=float(declared)))
    return Outcome(cells=cells)


MADE: Final[dict[str, Made]] = {
    "table6.2": ((), _weights),
    "tables": ((), _quality),
    "prioritised": ((), _prioritised),
    "modification": ((), _modification),
    "fig6.1": ((), _walk),
    "fig6.2": ((), _failures),
}
