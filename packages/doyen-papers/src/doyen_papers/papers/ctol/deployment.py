"""Figures 13 to 17: sixteen real nodes on a lossy mesh, and a real ZooKeeper ensemble beside them.  [CTOL §VII]"""

from typing import Final

from doyen.sim.runs import Figure
from doyen_papers.papers.cells import Outcomes, cell, curve, difference, measured, paired_gain
from doyen_papers.papers.ctol.cells import HASTY, VARIANTS, Asked, Results
from doyen_papers.papers.ctol.deployed import DEVICE_BYTES, SYSTEMS
from doyen_papers.papers.ctol.figures import BY_DROP, SLOWER
from doyen_papers.papers.ctol.points import Point
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task

KILLS, MINUTES = 10, 10  # Of each protocol's leader at each drop rate; of one run beside ZooKeeper.
NAMES: Final = {"doyen": "ours", "zookeeper": "ZooKeeper"}
XS: Final = [x for _, x, _ in BY_DROP]


def mesh(point: Point) -> Task:
    return Task(Asked(question="mesh", point=point), "machine", KILLS)


def beside(point: Point) -> Task:
    return Task(Asked(question="beside", point=point), "machine", MINUTES)


def _by_variant(results: Results, name: str, unit: str) -> tuple[list[Measured], Plot]:
    cells, lines = [], []
    for colour, variant in enumerate(VARIANTS):
        for where, x, point in BY_DROP:
            found = results[mesh(point)]
            more = {"unit": unit, "curve": variant, "x": x, "note": found.why or f"{found.runs} leaders killed"}
            cells.append(cell(f"{where}: {variant}", found, f"{variant}: {name}", **more))
        found_by = [results[mesh(point)].of[f"{variant}: {name}"] for _, _, point in BY_DROP]
        lines.append(curve(variant, colour, XS, found_by))
    return cells, Plot(panels=[Panel(curves=lines)], x_label="drop per hop", y_label=name.replace("_", " "))


def _completion(results: Results) -> Outcome:
    cells, plot = _by_variant(results, "completion", "s")
    for where, _, point in BY_DROP:
        of = results[mesh(point)].of
        for variant in HASTY:
            slow, quick = of[f"{SLOWER[variant]}: completion"], of[f"{variant}: completion"]
            cells.append(difference(f"{where}: {SLOWER[variant]} - {variant}", slow, quick, unit="s"))
        for variant in VARIANTS:
            cells.append(measured(f"{where}: {variant}, never agreed", of[f"{variant}: never"], unit="kills"))
            cells.append(measured(f"{where}: {variant}, SD", of[f"{variant}: sd"], unit="s"))
    return Outcome(cells=cells, plot=plot)


def _changes(results: Results) -> Outcome:
    cells, plot = _by_variant(results, "leader_changes", "")
    return Outcome(cells=cells, plot=plot)


def _curves(results: Results, what: str, label: str, scale: float = 1.0) -> Plot:
    lines = []
    for colour, name in enumerate(SYSTEMS):
        found = [_scaled(results[beside(point)].of[f"{name}: {what}"], scale) for _, _, point in BY_DROP]
        lines.append(curve(NAMES[name], colour, XS, found))
    return Plot(panels=[Panel(curves=lines)], x_label="drop per hop", y_label=label)


def _scaled(found: Figure | None, by: float) -> Figure | None:
    return None if found is None else Figure(found.mean * by, None if found.stderr is None else found.stderr * by)


def _both(where: str, found: Outcomes, what: str, unit: str, scale: float = 1.0) -> list[Measured]:
    """Return what each system uses, and how much less ours does."""
    note = found.why or f"{found.runs} samples of 5 s"
    cells = [
        measured(f"{where}: {NAMES[name]}", _scaled(found.of[f"{name}: {what}"], scale), unit=unit, note=note)
        for name in SYSTEMS
    ]
    return [*cells, paired_gain(f"{where}: less than ZooKeeper", found, f"doyen: {what}", f"zookeeper: {what}")]


def _memory(results: Results) -> Outcome:
    cells = []
    for where, _, point in BY_DROP:
        found = results[beside(point)]
        cells += _both(where, found, "memory", "MB", 1e-6)
        peak, stable = found.of["doyen: early peak"], found.of["doyen: memory"]
        share = None if peak is None else peak.mean / DEVICE_BYTES
        above = None if peak is None or stable is None else peak.mean / stable.mean - 1
        cells.append(Measured(where=f"{where}: peak of the warm-up, of 2 GB", mean=share))
        cells.append(Measured(where=f"{where}: peak of the warm-up, above the stable state", mean=above))
    return Outcome(cells=cells, plot=_curves(results, "memory", "memory of each node / MB", 1e-6))


def _cpu(results: Results) -> Outcome:
    cells = [one for where, _, point in BY_DROP for one in _both(where, results[beside(point)], "cpu", "%")]
    return Outcome(cells=cells, plot=_curves(results, "cpu", "CPU of all nodes / % of a core"))


def _bandwidth(results: Results) -> Outcome:
    cells = []
    for where, _, point in BY_DROP:
        found = results[beside(point)]
        cells += _both(where, found, "kbit", "kbit/s")
        sds = []
        for name in SYSTEMS:
            mean = found.of[f"{name}: kbit"]
            # The deviation of the samples, from the standard error of their mean.
            sd = None if mean is None or mean.stderr is None else mean.stderr * len(found.columns["doyen: kbit"]) ** 0.5
            sds.append(sd)
            cells.append(Measured(where=f"{where}: {NAMES[name]}, SD", mean=sd, unit="kbit/s"))
            hops = found.of[f"{name}: hop kbit"]
            cells.append(measured(f"{where}: {NAMES[name]}, on all links", hops, unit="kbit/s"))
        ours, theirs = sds
        ratio = None if not ours or theirs is None else ours / theirs
        cells.append(Measured(where=f"{where}: SD, ours / ZooKeeper's", mean=ratio))
    return Outcome(cells=cells, plot=_curves(results, "kbit", "sent by all nodes / kbit/s"))


_ON_MESH: Final = tuple(mesh(point) for _, _, point in BY_DROP)
_BESIDE: Final = tuple(beside(point) for _, _, point in BY_DROP)
MADE: Final[dict[str, Made]] = {
    "fig13": (_ON_MESH, _completion),
    "fig14": (_ON_MESH, _changes),
    "fig15": (_BESIDE, _memory),
    "fig16": (_BESIDE, _cpu),
    "fig17": (_BESIDE, _bandwidth),
}
