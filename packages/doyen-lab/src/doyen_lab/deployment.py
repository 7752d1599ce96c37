"""Figures 13 to 17 of [CTOL] on this machine: 16 hosts in a 4×4 mesh, one drop rate, Medley's default timers.

Deviation [CTOL §VII]: hosts are network namespaces, and routes are static shortest paths, where the paper has OLSRD.
Deviation: an election begins when a leader is killed, whose end its members learn from their connections; the paper
  does not say how one begins.  What is not a timer is this project's preset for local networks.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from doyen.core.clock import ms, seconds
from doyen_lab.contest.asking import need_commands
from doyen_lab.contest.beside_zookeeper import Beside, measure
from doyen_lab.contest.elections import Completion, elections
from doyen_lab.contest.ours import MeshTimers, on_mesh, paper_missing_max
from doyen_lab.contest.trial import with_groups
from doyen_lab.contest.zookeeper import PACKAGES, Ensemble
from doyen_lab.iproute import check_rights
from doyen_lab.mesh import Guests, Mesh

ROWS = COLUMNS = 4
VARIANTS = ("base", "optimistic", "preferred", "hybrid")
EARLY_S = 100.0  # [CTOL §VII-B] The warm-up, apart from the stable state.
TIMERS = MeshTimers(period=seconds(2), ack_timeout=ms(500), suspicion_timeout=seconds(16), response_timeout=ms(500))

Step = Callable[[str], None]


def check_premises(*, zookeeper: bool) -> None:
    """Refuse to begin without root, and without ZooKeeper where it is needed."""
    check_rights()
    if zookeeper:
        need_commands("ZooKeeper", PACKAGES)


def timers_at(drop: float) -> MeshTimers:
    """Return the authors' timers, with their c of this drop rate."""
    return replace(TIMERS, missing_max=paper_missing_max(drop, ROWS * COLUMNS))


def elect_on_mesh(drop: float, kills: int, on_step: Step = lambda text: None) -> dict[str, Completion]:
    """[CTOL Fig. 13, 14] Kill the leaders of all four protocols that many times; return each protocol's elections."""
    timers = timers_at(drop)
    with Mesh(ROWS, COLUMNS, tenants=VARIANTS, drop=drop) as mesh:
        return asyncio.run(
            with_groups(
                lambda folder: [on_mesh(mesh, name, replace(timers, election=name), folder) for name in VARIANTS],
                lambda groups: elections(groups, kills, on_step=on_step),
            )
        )


def run_beside_zookeeper(drop: float, minutes: float, on_step: Step = lambda text: None) -> Beside:
    """[CTOL Fig. 15-17] Leave Hybrid over Medley and a ZooKeeper ensemble alone for that time, and count."""
    whole = 60 * minutes
    with Mesh(ROWS, COLUMNS, tenants=("doyen", "zookeeper"), drop=drop) as mesh:
        early_s = min(EARLY_S, whole / 3)
        course = partial(measure, mesh, seconds=whole, early_s=early_s, every_s=5.0, takeovers=0, on_step=on_step)
        return asyncio.run(
            with_groups(
                lambda folder: [
                    on_mesh(mesh, "doyen", timers_at(drop), folder),
                    Ensemble("zookeeper", Guests(mesh, "zookeeper"), folder),
                ],
                lambda groups: course(groups[:1], groups[1]),
            )
        )
