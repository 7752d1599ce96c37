"""Ranks that nodes observe themselves, beside an oracle's.  [LE §5.1, §5.7]"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from doyen_papers.papers.cells import Outcomes, cell, curve, paired
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task
from doyen_papers.papers.le.cells import Observing
from doyen_papers.studies.observed import HOWS, By

SIZES: Final = (5, 10, 20)
Rank = By | Literal["neighbours"]
UNITS: Final[dict[Rank, str]] = {"delay": "ms", "loss": "of messages", "neighbours": "of members"}
TITLES: Final[dict[Rank, str]] = {"neighbours": "share of members that do not hear the leader"}


def _task(by: Rank, nodes: int) -> Task:
    return Task(Observing(by, nodes), "machine", 60)


def _outcome(results: Mapping[Task, Any]) -> Outcome:
    cells: list[Measured] = []
    panels = []
    for by, unit in UNITS.items():
        found: dict[int, Outcomes] = {nodes: results[_task(by, nodes)] for nodes in SIZES}
        curves = []
        for colour, how in enumerate(HOWS):
            for nodes, one in found.items():
                more = {"unit": unit, "curve": f"{by}, {how}", "x": float(nodes)}
                cells.append(cell(f"{by}, {how}, N={nodes}: excess", one, f"{how}: excess", **more))
                cells.append(cell(f"{by}, {how}, N={nodes}: messages", one, f"{how}: messages"))
                cells.append(cell(f"{by}, {how}, N={nodes}: reigns", one, f"{how}: changes"))
                if by == "neighbours":
                    cells.append(cell(f"{by}, {how}, N={nodes}: name that leader", one, f"{how}: agree"))
            points = [one.of[f"{how}: excess"] for one in found.values()]
            curves.append(curve(f"{by}, {how}", colour, SIZES, points, legend=how))
        panels.append(Panel(curves=curves, title=TITLES.get(by, f"{by} above the best node's, per member")))
        for nodes, one in found.items():
            where = f"{by}, name - observed, N={nodes}"
            cells.append(paired(where, one, "name: excess", "observed: excess", unit=unit))
            cells.append(
                paired(f"{by}, observed - oracle, N={nodes}", one, "observed: excess", "oracle: excess", unit=unit)
            )
    return Outcome(cells=cells, plot=Plot(panels=panels, x_label="nodes N", y_label="ms; share"))


TASKS: Final = tuple(_task(by, nodes) for by in UNITS for nodes in SIZES)
MADE: Final[dict[str, Made]] = {"observed": (TASKS, _outcome)}
