"""The benchmark itself: it runs, its figures are well formed, and the peers do the same work.  Never a timed test."""

import json
import subprocess
import sys
from math import sqrt

import pytest

from doyen_lab.simulators import ours, simpy_bare, simpy_inline, simpy_manual
from doyen_lab.simulators.timing import ratio
from doyen_lab.simulators.workloads import Detection, Election

PEERS = {"ours": ours, "simpy": simpy_manual, "simpy_inline": simpy_inline, "simpy_bare": simpy_bare}


def mean_and_error(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


def agree(samples: dict[str, list[float]]) -> None:
    mine, error = mean_and_error(samples["ours"])
    for name, values in samples.items():
        theirs, other = mean_and_error(values)
        assert abs(mine - theirs) < 4 * sqrt(error**2 + other**2), (name, mine, theirs)


@pytest.mark.parametrize("figure", ["tmax_s", "messages"])
def test_all_peers_elect_alike(figure: str) -> None:
    work = Election(nodes=12, duration=None)
    agree(
        {name: [float(getattr(peer.elect(work, seed), figure)) for seed in range(150)] for name, peer in PEERS.items()}
    )


def test_all_peers_detect_alike() -> None:
    work = Detection(nodes=30, periods=30)
    agree({name: [float(peer.detect(work, seed).silent) for seed in range(20)] for name, peer in PEERS.items()})
    share = sum(ours.detect(work, seed).silent for seed in range(20)) / (20 * work.nodes * work.periods)
    assert abs(share - (1 - 0.95**2)) < 0.01


def test_ratios_compare_best_with_best() -> None:
    found = ratio([4.0, 3.0], [2.0, 1.0])
    assert (found.ratio, found.low, found.high) == (3.0, 2.0, 3.0)


def test_the_command_answers_with_one_object() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "doyen", "bench", "sim", "--quick", "--json"], stdout=subprocess.PIPE, check=True
    )
    found = json.loads(done.stdout)
    assert set(found["announce"]) == set(found["detector"]) == {"simpy", "simpy_inline", "simpy_bare"}
    ratios = [*found["announce"].values(), *found["detector"].values(), found["kernel"]["simpy"]]
    assert len(ratios) == 7
    for one in ratios:
        assert 0 < one["low"] <= one["high"] and one["ratio"] > 0
