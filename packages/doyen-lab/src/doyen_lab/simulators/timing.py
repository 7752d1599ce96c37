"""Turn by turn: CPU time of several contestants in one process, ratios with their spread."""

import gc
import time
from collections.abc import Callable

from doyen_lab.contest.figures import Ratio

CLOCK_STEP_S = 1e-6  # A loaded virtual machine may account for CPU late: nothing takes less than this.


def repeat(
    contestants: dict[str, Callable[[], object]], repetitions: int, tick: Callable[[], None]
) -> dict[str, list[float]]:
    """Return the seconds of CPU of each repetition; contestants take turns, so that noise hits them alike."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repetitions):
        for name, run in contestants.items():
            gc.collect()  # Nobody pays for another's garbage.
            begun = time.process_time()
            run()
            taken[name].append(max(time.process_time() - begun, CLOCK_STEP_S))
            tick()
    return taken


def ratio(peer: list[float], ours: list[float], *, scale: float = 1.0) -> Ratio:
    """Return how many times as long the peer took: best against best, and the bounds of single repetitions.

    `scale` says how many times our work the peer did, where it did less of it.
    """
    by_turn = [theirs / mine / scale for theirs, mine in zip(peer, ours, strict=True)]
    return Ratio(min(peer) / min(ours) / scale, min(by_turn), max(by_turn))
