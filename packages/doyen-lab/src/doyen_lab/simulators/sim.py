"""`doyen bench sim`: the simulator beside SimPy, in one run."""

import os
import platform
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from doyen.core.clock import seconds
from doyen_lab.contest.figures import Ratio
from doyen_lab.simulators import ours, simpy_bare, simpy_inline, simpy_manual
from doyen_lab.simulators.timing import ratio, repeat
from doyen_lab.simulators.workloads import Detection, Election
from doyen_papers.analysis.setting import Setting
from doyen_papers.studies.announce import study

KERNEL_RUNS, MANUAL_RUNS = 20_000, 10


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The workloads, and how often each is run; `quick` only shows that it works."""

    repetitions: int = 5
    election: Election = Election()
    detection: Detection = Detection()
    large_nodes: int = 1000
    kernel_runs: int = KERNEL_RUNS
    manual_runs: int = MANUAL_RUNS

    @classmethod
    def quick(cls) -> "Workload":
        return cls(
            repetitions=2,
            election=Election(nodes=20, duration=seconds(20)),
            detection=Detection(nodes=20, periods=10),
            large_nodes=60,
            kernel_runs=200,
            manual_runs=2,
        )


def measure(load: Workload, tick: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run every workload on every peer, interleaved; see docs/explanation/speed.md."""
    elect, detect = load.election, load.detection
    until_agreed = msgspec.structs.replace(elect, duration=None)
    steady = _peers("elect", elect, load.repetitions, tick)
    alone = _peers("elect", until_agreed, load.repetitions, tick, seeds=10)
    detector = _peers("detect", detect, load.repetitions, tick)
    kernel, runs = _kernel(until_agreed, load, tick)
    return {
        "announce": steady["ratios"],
        "detector": detector["ratios"],
        "kernel": {"simpy": kernel},
        "election_alone": alone["ratios"],
        "scale": _scale(load, tick),
        "events_per_second": {"announce": steady["speed"], "detector": detector["speed"]},
        "kernel_runs_per_second": runs,
        "workload": {
            "announce": f"LE-S, N={elect.nodes}, loss {elect.loss} uncorrelated, election and steady leadership for "
            f"{(elect.duration or 0) / 1e9:g} s",
            "detector": f"ping/ack, N={detect.nodes}, {detect.periods} periods, loss {detect.loss}",
            "election_alone": "LE-S as above, until everybody names the winner; ten runs",
            "kernel": f"the election alone, per run: {load.kernel_runs} by kernel, {load.manual_runs} in SimPy",
        },
        "machine": {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
    }


def contests(load: Workload) -> int:
    """Return how many times `tick` will be called."""
    return load.repetitions * (4 + 4 + 4 + 2 + 2)


def _peers(
    kind: str, work: Election | Detection, repetitions: int, tick: Callable[[], None], seeds: int = 1
) -> dict[str, Any]:
    delivery_count = 0  # Ours: on average everybody has as many.

    def contest(run: Callable[[Any, int], Any]) -> None:
        nonlocal delivery_count
        counted = sum(run(work, seed).delivery_count for seed in range(seeds))
        delivery_count = counted or delivery_count

    sides = {"doyen": ours, "simpy": simpy_manual, "simpy_inline": simpy_inline, "simpy_bare": simpy_bare}
    taken = repeat({name: partial(contest, getattr(side, kind)) for name, side in sides.items()}, repetitions, tick)
    ratios = {name: ratio(taken[name], taken["doyen"]) for name in sides if name != "doyen"}
    speed = {name: round(delivery_count / min(taken[name])) for name in sides}
    return {"ratios": ratios, "speed": speed}


def _kernel(work: Election, load: Workload, tick: Callable[[], None]) -> tuple[Ratio, int]:
    setting = Setting(nodes=work.nodes, loss=work.loss)
    study(setting, runs=1, seed=1, engine="kernel")  # Compiled, once per machine: not counted.
    taken = repeat(
        {
            "kernel": lambda: study(setting, runs=load.kernel_runs, seed=1, engine="kernel"),
            "simpy": lambda: [simpy_manual.elect(work, seed) for seed in range(load.manual_runs)],
        },
        load.repetitions,
        tick,
    )
    found = ratio(taken["simpy"], taken["kernel"], scale=load.manual_runs / load.kernel_runs)
    return found, round(load.kernel_runs / min(taken["kernel"]))


def _scale(load: Workload, tick: Callable[[], None]) -> dict[str, Any]:
    """Measure the deliveries per second at many nodes against those at a few."""
    counts: dict[int, int] = {}

    def contest(nodes: int) -> None:
        counts[nodes] = ours.elect(msgspec.structs.replace(load.election, nodes=nodes), 1).delivery_count

    few, many = load.election.nodes, load.large_nodes
    taken = repeat({str(nodes): partial(contest, nodes) for nodes in (few, many)}, load.repetitions, tick)
    speeds = {nodes: counts[nodes] / min(taken[str(nodes)]) for nodes in (few, many)}
    return {
        "nodes": [few, many],
        "events_per_second": [round(speeds[few]), round(speeds[many])],
        "ratio": speeds[many] / speeds[few],
    }
