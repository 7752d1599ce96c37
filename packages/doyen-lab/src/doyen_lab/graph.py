"""Computes the neighbours in a made-up network, and the way between hosts that are not neighbours."""

from collections.abc import Iterable, Sequence

from doyen.errors import ConfigError
from doyen_papers.score.graph import distances

Edge = tuple[int, int]


def full_mesh(size: int) -> list[Edge]:
    return [(a, b) for a in range(size) for b in range(a + 1, size)]


def grid(rows: int, columns: int) -> list[Edge]:
    """Return the links of a grid: host r·columns + c has neighbours above, below, left and right of row r, column c."""
    if rows < 1 or columns < 1:
        raise ConfigError(f"{rows}×{columns} is no grid: give 1 or more rows and columns")
    right = [(r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)]
    down = [(r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)]
    return sorted(right + down)


def check_edges(size: int, edges: Iterable[Edge]) -> list[Edge]:
    """Return each link once, the lesser end first; raise `ConfigError` for what links no two of these hosts."""
    found = set()
    for a, b in edges:
        if not (0 <= a < size and 0 <= b < size) or a == b:
            raise ConfigError(f"({a}, {b}) links no two of {size} hosts: give two different numbers below {size}")
        found.add((min(a, b), max(a, b)))
    return sorted(found)


def next_hops(size: int, edges: Sequence[Edge]) -> list[list[int | None]]:
    """Return, as `[a][b]`, the lowest neighbour of a on a shortest way to b, or None where there is no way.

    The way from a to b and the way back may differ, as on any network of static routes.
    """
    neighbours: dict[int, list[int]] = {host: [] for host in range(size)}
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    hops: list[list[int | None]] = [[None] * size for _ in range(size)]
    for goal in range(size):
        distance = distances(neighbours, goal)
        for start in distance:
            nearer = [other for other in neighbours[start] if distance[other] == distance[start] - 1]
            hops[start][goal] = min(nearer, default=None)
    return hops


def way(hops: list[list[int | None]], a: int, b: int) -> list[Edge] | None:
    """Return the links from a to b, in order; None where there is no way."""
    links: list[Edge] = []
    while a != b:
        step = hops[a][b]
        if step is None:
            return None
        links.append((a, step))
        a = step
    return links
