"""Figures 7 to 11 of [ARB]."""

from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, Final

from doyen.core.clock import format_duration, ms
from doyen.sim.runs import figure
from doyen_papers.papers.arb.cells import (
    DETECTION_GROUPS,
    REAL_GROUPS,
    REAL_LEASES,
    Results,
    lateness_note,
    of_runs,
    quartiles,
    real,
    sim,
)
from doyen_papers.papers.arb.loads import drawn
from doyen_papers.papers.cells import curve, difference, measured
from doyen_papers.papers.item import Made, Measured, Outcome, Panel, Plot, Task
from doyen_papers.studies.arbitration import Run

if TYPE_CHECKING:
    from doyen_lab.ring_runs import RealRun

# Figure 7.

CA7: Final = sim(10, arbiters="central", nodes=32, arbiter_count=5, events=3, crash=1, crash_arbiters=1)
DA7: Final = sim(10, nodes=32, events=8, crash=2)


def _figure_7(results: Results) -> Outcome:
    cells, curves = [], []
    for colour, (label, task) in enumerate((("CA", CA7), ("DA", DA7))):
        runs: list[Run] = results[task]
        events = len(runs[0].by_event)
        found = [
            of_runs(
                f"{label}, after {i + 1} events",
                runs,
                lambda run, i=i: float(run.by_event[i]),  # type: ignore[misc]
                curve=label,
                x=float(i + 1),
                unit="nodes",
            )
            for i in range(events)
        ]
        cells += found
        curves.append(curve(label, colour, [0.0, *(cell.x or 0.0 for cell in found)], [32.0, *found]))
    return Outcome(
        cells=cells, plot=Plot(panels=[Panel(curves=curves)], x_label="kill events", y_label="nodes in the ring")
    )


# Figure 8.

REAL8: Final = real(ms(256), REAL_GROUPS)
PRINTED8: Final = real(ms(256), REAL_GROUPS, as_printed=True)
DRAWS8: Final = {count: sim(200, nodes=64, crash=count) for count in (4, 8, 12)}


def _killed(run: "RealRun", how: str = "") -> list[Measured]:
    note = lateness_note(run)
    killed = sum(len(kill.killed) for kill in run.kills)
    first = float(run.kills[0].alive if run.kills else run.left_over)
    cells = [
        Measured(where=f"{how}alive after 1 killed at once", mean=first, note=note),
        Measured(
            where=f"{how}survivors less started plus killed", mean=run.left_over - run.started + killed, note=note
        ),
    ]
    for count in (2, 3):
        extra = sum(kill.extra for kill in run.kills if len(kill.killed) == count)
        cells.append(Measured(where=f"{how}departures besides, {count} killed at once", mean=float(extra), note=note))
    late = Measured(where=f"{how}lateness of a control process, p99", mean=run.worst_late, unit="T_l", note=note)
    return [*cells, late]


def _figure_8(results: Results) -> Outcome:
    run: RealRun = results[REAL8]
    alive = [float(run.started), *(float(kill.alive) for kill in run.kills)]
    cells = [*_killed(run), *_killed(results[PRINTED8], "at random, as printed: ")]
    for count, task in DRAWS8.items():
        runs: list[Run] = results[task]
        cells.append(
            of_runs(
                f"share of clean draws, {count} at once", runs, lambda run: float(run.forced == 0), note="simulated"
            )
        )
    line = curve("alive", 1, range(len(alive)), alive, legend="64 real processes")
    groups = ", ".join(str(len(kill.killed)) for kill in run.kills)
    return Outcome(
        cells=cells,
        plot=Plot(panels=[Panel(curves=[line])], x_label=f"kill events (groups of {groups})", y_label="alive"),
    )


# Figure 9.

DA9: Final = sim(1, nodes=1000, events=100, crash=1)
CA9: Final = sim(1, arbiters="central", nodes=1000, arbiter_count=9, events=100, crash=1)


def _figure_9(results: Results) -> Outcome:
    da: list[Run] = results[DA9]
    ca: list[Run] = results[CA9]
    worst = max(max(run.request_counts) for run in da)
    alone = [float(most) for most in drawn(1000)]
    ratio = max(max(run.request_counts) for run in ca) / max(worst, 1)
    counts = sorted(count for run in da for count in run.request_counts)
    cells = [
        of_runs("DA, requests per failure", da, lambda run: run.requests / run.failures),
        of_runs("DA, per node", da, lambda run: sum(run.request_counts) / len(run.request_counts)),
        Measured(where="DA, worst node", mean=float(worst)),
        measured("DA, worst node of rings without a protocol", figure(alone)),
        of_runs(
            "DA, share below 10", da, lambda run: sum(c < 10 for c in run.request_counts) / len(run.request_counts)
        ),
        of_runs("CA, per arbitrator", ca, lambda run: sum(run.request_counts) / len(run.request_counts)),
        of_runs("CA, in all", ca, lambda run: float(run.requests)),
        Measured(
            where="worst central over worst distributed",
            mean=ratio,
            stderr=ratio * stdev(alone) / mean(alone),  # One ring is one draw of its busiest node.
        ),
    ]
    xs = sorted(set(counts))
    shares = [sum(count <= x for count in counts) / len(counts) for x in xs]
    line = curve("DA", 1, xs, shares, legend="DA, 1,000 nodes")
    return Outcome(
        cells=cells,
        plot=Plot(panels=[Panel(curves=[line])], x_label="requests received", y_label="share of nodes"),
    )


# Figure 10.  The grid is ours: the paper's is lost.

SIZES10: Final = (16, 64, 256)
GRID10: Final = ((2, 2), (2, 8), (5, 2), (5, 8))  # (k, j)


RUNS10: Final = {16: 60, 64: 24, 256: 6}  # Small rings are cheap, and where joiners meet.


def _join(size: int, each_side: int, joins: int) -> Task:
    return sim(RUNS10[size], nodes=size, neighbours=each_side, joins=joins)


ONE10: Final = sim(10, nodes=32, joins=1)
TASKS10: Final = {(n, k, j): _join(n, k, j) for n in SIZES10 for k, j in GRID10}


def _figure_10(results: Results) -> Outcome:
    cells, curves = [of_runs("one joiner", results[ONE10], lambda run: run.joins[0], unit="T_l")], []
    means: dict[tuple[int, int, int], Measured] = {}
    least = min(took for task in TASKS10.values() for run in results[task] for took in run.joins)
    cells.append(Measured(where="least of all", mean=least, stderr=0.0, unit="T_l"))
    for colour, (k, j) in enumerate(GRID10):
        label = f"k={k}, j={j}"
        found = []
        for n in SIZES10:
            runs: list[Run] = results[TASKS10[n, k, j]]
            cell = of_runs(
                f"{label}, N={n}",
                runs,
                lambda run: sum(run.joins) / len(run.joins) if run.joins else None,
                curve=label,
                x=float(n),
                unit="T_l",
            )
            means[n, k, j] = cell
            found.append(cell)
        cells += found
        curves.append(curve(label, colour, [cell.x or 0.0 for cell in found], found))
    first, last = SIZES10[0], SIZES10[-1]
    trends = [
        ("falls with N", means[first, 5, 8], means[last, 5, 8]),
        ("rises with k", means[first, 5, 8], means[first, 2, 8]),
        ("rises with j", means[first, 5, 8], means[first, 5, 2]),
    ]
    trends += [(f"falls with N, k={k}, j={j}", means[first, k, j], means[last, k, j]) for k, j in GRID10[:-1]]
    corners = [(n, other) for n in SIZES10[:-1] for other in (2, 8) if (n, other) != (first, 8)]
    trends += [(f"rises with k, N={n}, j={j}", means[n, 5, j], means[n, 2, j]) for n, j in corners]
    sides = [(n, other) for n in SIZES10[:-1] for other in (2, 5) if (n, other) != (first, 5)]
    trends += [(f"rises with j, N={n}, k={k}", means[n, k, 8], means[n, k, 2]) for n, k in sides]
    for where, much, little in trends:
        cells.append(difference(where, much, little, unit="T_l", note=f"{much.where} less {little.where}"))
    plot = Plot(panels=[Panel(curves=curves)], x_label="nodes N", y_label="time to join / T_l")
    return Outcome(cells=cells, plot=plot)


# Figure 11.

SIM11: Final = sim(30, nodes=64, events=8, crash=1)
REAL11: Final = {lease: real(lease, DETECTION_GROUPS) for lease in REAL_LEASES}


def _figure_11(results: Results) -> Outcome:
    cells: list[Measured] = []
    runs: list[Run] = results[SIM11]
    cells.append(of_runs("simulated, per monitor, mean", runs, lambda run: sum(run.detections) / len(run.detections)))
    cells.append(
        of_runs("simulated, all monitors, mean", runs, lambda run: sum(run.detections_all) / len(run.detections_all))
    )
    last = [took for run in runs for took in run.detections_all]
    for name, value in zip(("first", "second", "third"), quartiles(last), strict=True):
        cells.append(Measured(where=f"simulated, all monitors, {name} quartile", mean=value, unit="T_l"))
    found: dict[str, list[Measured]] = {"mean": [], "first quartile": [], "median": [], "third quartile": []}
    for lease, task in REAL11.items():
        run: RealRun = results[task]
        times = [took for kill in run.kills for took in kill.per_monitor]
        last = [took for kill in run.kills for took in kill.all_monitors]
        spot, note = f"T_l = {format_duration(lease)}", lateness_note(run)
        late = Measured(where=f"{spot}, lateness of a control process, p99", mean=run.worst_late, unit="T_l")
        beyond = sum(
            not 1 - kill.late_worst <= took < 2 + kill.late_worst for kill in run.kills for took in kill.per_monitor
        )
        # Where the machine did not keep time there is nothing to judge: a miss, and the note says why.
        kept = run.valid and len(times) > 1
        where = f"{spot}, outside [1, 2) plus lateness"
        cells += [Measured(where=where, mean=float(beyond) if kept else None, note=note), late]
        if not kept:
            cells.append(Measured(where=f"{spot}, per monitor, mean", mean=None, note=note))
            continue
        first, median, third = quartiles(times)
        more: dict[str, Any] = {"unit": "T_l", "note": note, "x": lease / 1e9}
        for name, value in (
            ("mean", mean(times)),
            ("first quartile", first),
            ("median", median),
            ("third quartile", third),
        ):
            cell = Measured(where=f"{spot}, per monitor, {name}", mean=value, curve=name, **more)
            found[name].append(cell)
            cells.append(cell)
        cells.append(Measured(where=f"{spot}, all monitors, mean", mean=sum(last) / len(last), note=note, unit="T_l"))
    curves = [
        curve(name, i, [cell.x or 0.0 for cell in points], points)
        for i, (name, points) in enumerate(found.items())
        if points
    ]
    plot = Plot(panels=[Panel(curves=curves)], x_label="T_l / s", y_label="detection / T_l")
    return Outcome(cells=cells, plot=plot)


MADE: Final[dict[str, Made]] = {
    "fig7": ((CA7, DA7), _figure_7),
    "fig8": ((REAL8, PRINTED8, *DRAWS8.values()), _figure_8),
    "fig9": ((DA9, CA9), _figure_9),
    "fig10": ((ONE10, *TASKS10.values()), _figure_10),
    "fig11": ((SIM11, *REAL11.values()), _figure_11),
}
