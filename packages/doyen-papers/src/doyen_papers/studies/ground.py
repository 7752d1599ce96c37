"""The places of [CTOL §VI]: radios of 4 m on a grid, at random, or in crowds, and routes of least length.

    grid      7×7 (as square as N allows), 2.5 m apart: neighbours are within reach, diagonal ones too
    random    uniform; 49 nodes in 15 m × 15 m, other sizes at the same .22 nodes/m²
    cluster   five crowds of 7, 7, 9, 10 and 16 of 49 (in proportion for other sizes) around random centres
    complete  everybody beside everybody: one hop

Random and cluster are redrawn until everybody reaches everybody.
"""

from math import dist, isqrt, sqrt
from typing import Final, Literal

from doyen.core.clock import ms
from doyen.errors import ConfigError
from doyen.sim.network import Delay, Loss, NetworkConfig
from doyen.sim.streams import Stream
from doyen.sim.topology import Topology

Ground = Literal["grid", "random", "cluster", "complete"]
Place = tuple[float, float]

REACH_M: Final = 4.0
SPACING_M: Final = 2.5
DENSITY: Final = 49 / 225
CROWDS: Final = (7, 7, 9, 10, 16)
CROWD_M: Final = 2.5  # A crowd lies within this of its centre, in x and in y.
DRAWS_MAX: Final = 5000


def radio(drop: float) -> NetworkConfig:
    """[CTOL §VI] Each hop takes up to 50 ms, and loses its share."""
    loss = Loss(model="uncorrelated" if drop else "none", prob=drop)
    return NetworkConfig(delay=Delay(model="uniform", mean=ms(25), spread=ms(25)), loss=loss)


def build_ground(ground: Ground, size: int, rng: Stream) -> Topology:
    if size < 1:
        raise ConfigError(f"{size} is too few: give at least 1", field="nodes")
    if ground == "complete":
        return Topology(size, None)
    side = sqrt(size / DENSITY)
    for _ in range(DRAWS_MAX):
        topology = from_places(draw_places(ground, size, side, rng))
        if topology.connected():
            return topology
    raise ConfigError(f"{DRAWS_MAX} placements of {size} nodes were all disconnected: try another seed", field="nodes")


def draw_places(ground: Ground, size: int, side: float, rng: Stream) -> list[Place]:
    if ground == "grid":
        rows = next(r for r in range(isqrt(size), 0, -1) if size % r == 0)
        columns = size // rows
        return [(SPACING_M * (i % columns), SPACING_M * (i // columns)) for i in range(size)]
    if ground == "random":
        return [(rng.random() * side, rng.random() * side) for _ in range(size)]
    places: list[Place] = []
    for i in range(len(CROWDS)):
        upto = round(size * sum(CROWDS[: i + 1]) / sum(CROWDS))
        x, y = rng.random() * side, rng.random() * side
        while len(places) < upto:
            near = (x + (2 * rng.random() - 1) * CROWD_M, y + (2 * rng.random() - 1) * CROWD_M)
            places.append((min(max(near[0], 0.0), side), min(max(near[1], 0.0), side)))
    return places


def from_places(places: list[Place]) -> Topology:
    """Link all nodes that are within reach of each other."""
    size = len(places)
    near = [(a, b) for a in range(size) for b in range(a) if dist(places[a], places[b]) <= REACH_M]
    return Topology(size, near, places)
