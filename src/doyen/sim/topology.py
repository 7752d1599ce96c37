"""Places nodes and says who hears whom: a graph, and shortest routes over it.

    complete ring bus star tree torus grid geometric clusters edges

A topology of N nodes has the indices 0…N−1.  Routes are shortest by length (hops, or metres where nodes have
places), ties by the lowest index, so that the same graph always gives the same routes.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from math import ceil, cos, dist, inf, isqrt, pi, sin, sqrt
from random import Random
from typing import Annotated, Literal

from doyen.core.config import Config, Doc, Positive, Scale, need
from doyen.errors import ConfigError
from doyen.sim.streams import Stream

Shape = Literal["complete", "ring", "bus", "star", "tree", "torus", "grid", "geometric", "clusters", "edges"]
Link = tuple[int, int]
Tree = dict[int, Link]  # The last hop to each node, on the way from the root.
Spot = tuple[float, float]  # Metres east and north.

DRAWS_MAX = 1000  # The most attempts to draw a random placement that is connected.


class TopologyConfig(Config, frozen=True, kw_only=True):
    """The links between nodes."""

    shape: Annotated[Shape, Doc("Everything but `complete` is travelled hop by hop.")] = "complete"
    arity: Annotated[Positive, Doc("tree: children per node.")] = 2
    reach_m: Annotated[Scale, Doc("geometric, clusters: how far a radio carries, in metres.")] = 4.0
    density: Annotated[Scale, Doc("geometric, clusters: nodes per square metre.")] = 0.22
    cluster_count: Annotated[Positive, Doc("clusters: how many; nodes are spread over them unevenly.")] = 5
    edges: Annotated[tuple[Link, ...], Doc("edges: the graph itself, as pairs of indices.")] = ()

    def check(self) -> None:
        both = bool(self.edges) == (self.shape == "edges")
        need(both, "edges", 'and shape = "edges" go together: give both, or neither')


class Topology:
    """A graph of nodes 0…N−1 with routes; `complete` needs neither links nor routes."""

    def __init__(
        self,
        size: int,
        links: Iterable[Link] | None,
        places: Sequence[Spot] = (),
        *,
        reach_m: float = 4.0,  # How far a radio carries.
        by_radio: bool = False,  # Whether all within reach of each other are linked.
    ) -> None:
        self.size, self.places = size, tuple(places)
        self.complete, self._reach_m, self._by_radio = links is None, reach_m, by_radio
        self._neighbours: list[list[int]] = [[] for _ in range(0 if links is None else size)]
        for a, b in sorted({(min(link), max(link)) for link in links or ()}):
            if not (0 <= a < b < size):
                raise ConfigError(f"has {a}-{b}, which is not between two of the nodes 0 to {size - 1}", field="edges")
            self._neighbours[a].append(b)
            self._neighbours[b].append(a)
        self._trees: dict[tuple[int, frozenset[Link]], Tree] = {}  # By root and cuts.
        self.paths: dict[Link, list[Link]] = {}  # Found by the trees, from one node to another, where nothing is cut.
        self._hop_counts: dict[int, dict[int, int]] = {}  # By root, likewise.
        self._down: set[int] = set()
        # By node: its neighbours, how far they are, and the hops to them.
        self._links_from: dict[int, list[tuple[int, float, Link]]] = {}

    def neighbours(self, node: int) -> list[int]:
        return [n for n in range(self.size) if n != node] if self.complete else self._neighbours[node]

    def links(self) -> list[Link]:
        return [(a, b) for a in range(self.size) for b in self.neighbours(a) if a < b]

    def grow(self, place: Spot | None = None) -> int:
        """Add a node, linked to none (or, in a complete graph, to all); return its index."""
        self.size += 1
        if self.places:
            self.places = (*self.places, place or self.places[-1])
        if not self.complete:
            self._neighbours.append([])
        return self.size - 1

    def settle(self, neighbours: Sequence[int], rng: Random) -> None:
        """Add a node that is linked to those given, and stands near the first of them where nodes have places."""
        place, linked = None, set(neighbours)
        if self.places and neighbours:
            x, y = self.places[neighbours[0]]
            angle, away = 2.0 * pi * rng.random(), self._reach_m * (0.1 + 0.8 * rng.random())
            place = (x + away * cos(angle), y + away * sin(angle))
        index = self.grow(place)
        if place is not None and self._by_radio:
            linked |= {i for i in range(index) if dist(place, self.places[i]) <= self._reach_m}
        for other in sorted(linked):
            self.link(index, other)

    def link(self, a: int, b: int) -> None:
        """Add a link, e.g. of a node that has just joined."""
        assert not self.complete
        if b not in self._neighbours[a]:
            self._neighbours[a] = sorted([*self._neighbours[a], b])
            self._neighbours[b] = sorted([*self._neighbours[b], a])
            self.forget_routes()

    def set_down(self, node: int, down: bool) -> None:
        """Note whether a node is down: then it forwards nothing."""
        if not self.complete:
            (self._down.add if down else self._down.discard)(node)
            # Only routes through it change, or, when it returns, any that might now lead through it.
            stale = [
                key for key, tree in self._trees.items() if not down or any(node == hop[0] for hop in tree.values())
            ]
            for key in stale:
                del self._trees[key]
            self.paths.clear()
            self._hop_counts.clear()

    def forget_routes(self) -> None:
        self._trees.clear()
        self.paths.clear()
        self._hop_counts.clear()
        self._links_from.clear()

    def copy(self) -> "Topology":
        """Return the same graph for another run, with all nodes up."""
        other = Topology(self.size, None, self.places, reach_m=self._reach_m, by_radio=self._by_radio)
        other.complete = self.complete
        other._neighbours = [[*near] for near in self._neighbours]
        return other

    def share_routes(self, other: "Topology") -> None:
        """Keep routes where another run on the same graph keeps its own; only while nobody goes down in either."""
        self._trees, self.paths = other._trees, other.paths

    def path(self, a: int, b: int, cut: frozenset[Link] = frozenset()) -> list[Link] | None:
        """Return the hops from a to b, or None.  Routes avoid cut links and nodes that are down."""
        if self.complete:
            return [(a, b)]
        known = None if cut else self.paths.get((a, b))
        if known is not None:
            return known
        tree = self._tree(a, cut)
        if b not in tree:
            return None
        hops, at = [], b
        while at != a:
            hop = tree[at]
            hops.append(hop)
            at = hop[0]
        hops.reverse()
        if not cut:
            self.paths[a, b] = hops
        return hops

    def hop_counts(self, a: int) -> dict[int, int]:
        """Return how many hops the path from a to each other node has, of those that it reaches."""
        if self.complete:
            return dict.fromkeys(range(self.size), 1)
        counts = self._hop_counts.get(a)
        if counts is None:
            tree, counts = self._tree(a, frozenset()), {a: 0}
            for node in tree:
                way, at = [], node
                while at not in counts:
                    way.append(at)
                    at = tree[at][0]
                for hops, passed in enumerate(reversed(way), start=counts[at] + 1):
                    counts[passed] = hops
            self._hop_counts[a] = counts
        return counts

    def connected(self) -> bool:
        return self.complete or all(self.path(0, other) is not None for other in range(self.size))

    def _tree(self, root: int, cut: frozenset[Link]) -> Tree:
        tree = self._trees.get((root, cut))
        if tree is None:
            tree = self._trees[root, cut] = self._shortest_tree(root, cut)
        return tree

    def _shortest_tree(self, root: int, cut: frozenset[Link]) -> Tree:
        last, best = {root: (root, root)}, [inf] * self.size
        best[root] = 0.0
        queue, down, links_from = [(0.0, root)], self._down, self._links_from
        while queue:
            length, node = heappop(queue)
            if length > best[node] or (node in down and node != root):
                continue
            near = links_from.get(node)
            if near is None:
                near = links_from[node] = [(o, self._length(node, o), (node, o)) for o in self._neighbours[node]]
            for other, far, hop in near:
                through = length + far
                if through < best[other] and not (cut and hop in cut):
                    best[other], last[other] = through, hop
                    heappush(queue, (through, other))
        return last

    def _length(self, a: int, b: int) -> float:
        return dist(self.places[a], self.places[b]) if self.places else 1.0


def build(config: TopologyConfig, size: int, rng: Stream) -> Topology:
    """Return the graph that a configuration describes."""
    match config.shape:
        case "complete":
            return Topology(size, None)
        case "ring":
            return Topology(size, [(i, (i + 1) % size) for i in range(size)] if size > 2 else _line(size))
        case "bus":
            return Topology(size, _line(size))
        case "star":
            return Topology(size, [(0, i) for i in range(1, size)])
        case "tree":
            return Topology(size, [((i - 1) // config.arity, i) for i in range(1, size)])
        case "torus" | "grid":
            return _grid(size, config.reach_m, wrap=config.shape == "torus")
        case "geometric":
            return _drawn(size, config, lambda side: [(rng.random() * side, rng.random() * side) for _ in range(size)])
        case "clusters":
            return _drawn(size, config, lambda side: _clusters(size, config, side, rng))
        case "edges":
            return Topology(size, config.edges)


def _line(size: int) -> list[Link]:
    return [(i, i + 1) for i in range(size - 1)]


def _grid(size: int, reach_m: float, *, wrap: bool) -> Topology:
    """Return a grid as square as it gets: rows × columns with rows the largest divisor of N up to its root."""
    rows = next(r for r in range(isqrt(size), 0, -1) if size % r == 0)
    columns = size // rows
    links = []
    for row in range(rows):
        for column in range(columns):
            here = row * columns + column
            if column + 1 < columns or (wrap and columns > 2):
                links.append((here, row * columns + (column + 1) % columns))
            if row + 1 < rows or (wrap and rows > 2):
                links.append((here, (row + 1) % rows * columns + column))
    places = [] if wrap else [(2.5 * (i % columns), 2.5 * (i // columns)) for i in range(size)]
    return Topology(size, links, places, reach_m=reach_m)


def _drawn(size: int, config: TopologyConfig, place: Callable[[float], list[Spot]]) -> Topology:
    """Draw places anew until everybody can reach everybody."""
    side = sqrt(size / config.density)
    for _ in range(DRAWS_MAX):
        places = place(side)
        near = [(a, b) for a in range(size) for b in range(a) if dist(places[a], places[b]) <= config.reach_m]
        topology = Topology(size, near, places, reach_m=config.reach_m, by_radio=True)
        if topology.connected():
            return topology
    raise ConfigError(
        f"{config.reach_m} is too short: {DRAWS_MAX} placements of {size} nodes were all disconnected; raise it, or "
        f"density ({config.density}/m²)",
        field="reach_m",
    )


def _clusters(size: int, config: TopologyConfig, side: float, rng: Stream) -> list[Spot]:
    """Draw crowds of growing size around random centres, each as wide as a radio reaches."""
    count = min(config.cluster_count, size)
    weights = [i + 2 for i in range(count)]
    centres = [(rng.random() * side, rng.random() * side) for _ in range(count)]
    places: list[Spot] = []
    for centre, weight in zip(centres, weights, strict=True):
        for _ in range(ceil(size * weight / sum(weights))):
            x = centre[0] + (rng.random() - 0.5) * config.reach_m
            y = centre[1] + (rng.random() - 0.5) * config.reach_m
            places.append((min(max(x, 0.0), side), min(max(y, 0.0), side)))
    return places[:size]
