"""Scores, leaders and bandwidth: no chance in any of it.  [POLE §2, Table 3, Fig. 3]"""

from typing import Final

from doyen.core.ids import NodeId
from doyen.score.oracles import CONSENSUS, LATENCY, ORACLES, WORST_CASE
from doyen_papers.papers.cells import curve
from doyen_papers.papers.item import Made, Mark, Measured, Outcome, Panel, Plot
from doyen_papers.papers.pole.cells import Results
from doyen_papers.papers.pole.model import leader_of
from doyen_papers.score.oracles import score_all
from doyen_papers.studies.pole import ServiceSetting
from doyen_papers.studies.pole_places import TABLE_2, deployment
from doyen_papers.studies.service import NIC_BITS_PER_S, tcp_bits_per_s

SCORES: Final = {"θ_c": CONSENSUS, "θ_l": LATENCY, "θ_w": WORST_CASE}
RTTS: Final = (0.0, *TABLE_2)
STEPS: Final = 40  # Halvings of a share: finer than a float can tell.


def _scores(results: Results) -> Outcome:
    cells = []
    for name in ("1", "3", "two-dc"):
        place = deployment(name)
        for symbol, oracle in SCORES.items():
            found = score_all(oracle, place.matrix(), place.rates(), exclude=place.leader, reattribute=True)
            for server in ("p1", "p3", "p4"):
                value = found.scores[NodeId(server)]
                cells.append(Measured(where=f"{name}, {symbol} of {server}", mean=value, unit="ms"))
    for name in ("1", "3", "two-dc"):
        cells.append(Measured(where=f"{name}, latency changes leader at p", mean=_changes_at(name)))
    return Outcome(cells=cells)


def _changes_at(name: str) -> float:
    """Return the share from which on the leader is that of p = 1.  (At p = 0 of Deployment 1, p2, p3, p4 are equal.)"""
    low, high = 0.0, 1.0
    last = leader_of(ServiceSetting(deployment=name, share=high))
    for _ in range(STEPS):
        middle = (low + high) / 2
        same = leader_of(ServiceSetting(deployment=name, share=middle)) == last
        low, high = (low, middle) if same else (middle, high)
    return high


def _leaders(results: Results) -> Outcome:
    cells = []
    for oracle in ORACLES:
        for name in "123":
            leader = leader_of(ServiceSetting(deployment=name, oracle=oracle))
            cells.append(Measured(where=f"{name}, {oracle}", mean=float(leader[1:])))
    leader = leader_of(ServiceSetting(deployment="1", oracle="composite"))
    return Outcome(cells=[*cells, Measured(where="1, composite", mean=float(leader[1:]))])


def _figure_3(results: Results) -> Outcome:
    carried = {"TCP": [tcp_bits_per_s(rtt) / 1e6 for rtt in RTTS], "UDP": [NIC_BITS_PER_S / 1e6] * len(RTTS)}
    cells = [
        Measured(where=f"{name}, RTT {rtt:g}", mean=value, unit="Mbit/s", curve=name, x=rtt)
        for name, values in carried.items()
        for rtt, value in zip(RTTS, values, strict=True)
    ]
    curves = [curve(name, i, RTTS, values) for i, (name, values) in enumerate(carried.items())]
    marks = [Mark(77.06, "77.06 ms: the longest used")]
    plot = Plot(panels=[Panel(curves=curves, marks=marks)], x_label="round trip in ms", y_label="Mbit/s")
    return Outcome(cells=cells, plot=plot)


MADE: Final[dict[str, Made]] = {"scores": ((), _scores), "leaders": ((), _leaders), "fig3": ((), _figure_3)}
