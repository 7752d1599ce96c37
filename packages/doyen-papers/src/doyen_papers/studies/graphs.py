"""Graphs for spanning elections: random ones, regular ones, and one that shows where time goes."""

from random import Random

from doyen.core.ids import NodeId
from doyen.sim.topology import TopologyConfig, build
from doyen_papers.studies.spanning import Edge, Failure, Graph, SpanningSetting, graph


def random_edges(rng: Random, size: int, links: int | None = None) -> list[Edge]:
    """Draw a random tree, and further links until there are `links` (a random number, if None): always connected."""
    if links is None:
        links = size - 1 + int(rng.random() * size)
    links = max(size - 1, min(links, size * (size - 1) // 2))
    places = list(range(size))
    rng.shuffle(places)
    edges = {tuple(sorted((places[i], places[rng.randrange(i)]))) for i in range(1, size)}
    while len(edges) < links:
        a, b = rng.randrange(size), rng.randrange(size)
        if a != b:
            edges.add((min(a, b), max(a, b)))
    return [(str(a), str(b)) for a, b in sorted(edges)]


def random_quality(rng: Random, size: int) -> dict[str, float]:
    """Draw qualities with ties: one in two graphs has only a few different values."""
    steps = 3 if rng.random() < 0.5 else 1_000_000
    return {str(i): rng.randrange(steps) / steps for i in range(size)}


def random_failures(rng: Random, found: Graph, count: int, until: float) -> tuple[Failure, ...]:
    """Draw failures of links and nodes, and some returns; one node never fails, so that somebody is left."""
    failures: list[Failure] = []
    for _ in range(count):
        at = rng.random() * until
        if rng.random() < 0.5:
            edge = rng.choice(found.edges)
            failures.append(Failure("fail-link", edge, at))
            if rng.random() < 0.5:
                failures.append(Failure("heal-link", edge, at + rng.random() * until))
        else:
            node = rng.choice(found.nodes[1:])
            failures.append(Failure("fail-node", (node,), at))
            if rng.random() < 0.5:
                failures.append(Failure("recover", (node,), at + rng.random() * until))
    return tuple(failures)


def random_setting(rng: Random, *, size_max: int = 60, failing: bool = False) -> SpanningSetting:
    """Draw any setting: 2 to `size_max` nodes, 1 to 4 initiators, unit or random delays, ties."""
    silent = failing and rng.random() < 0.2
    size = rng.randint(2, min(size_max, 12) if silent else size_max)
    found = graph(random_edges(rng, size), random_quality(rng, size))
    initiators = rng.sample(found.nodes, min(size, rng.randint(1, 4)))
    failures = random_failures(rng, found, rng.randint(1, 6), 3.0 * size**0.5 + 10) if failing else ()
    return SpanningSetting(
        graph=found,
        initiators=tuple(initiators),
        delay="random" if rng.random() < 0.8 else "unit",
        failures=failures,
        silent=silent,
        pulse_units=6.0 if silent else 0.0,  # Nobody tells of a link that came up: only a pulse can find it.
    )


def regular(shape: str, size: int, arity: int = 2) -> list[Edge]:
    """Return the edges of a ring, bus, complete graph, torus, star or tree: those of Table 6.1."""
    config = TopologyConfig(shape=shape, arity=arity)  # type: ignore[arg-type]
    topology = build(config, size, None)  # type: ignore[arg-type]
    return [(str(a), str(b)) for a, b in topology.links()]


def chained(count: int) -> list[Edge]:
    """Return 0–a, a–(k+a), (k+a)–(a+1) for a = 1…k: diameter at most 4, but co-parents in one chain of 2k."""
    k = count
    edges = [edge for a in range(1, k + 1) for edge in ((0, a), (a, k + a), (k + a, a + 1))]
    return [(str(a), str(b)) for a, b in edges]


def leaf_count(found: Graph, initiator: NodeId) -> int:
    return sum(1 for node, others in found.neighbours().items() if len(others) == 1 and node != initiator)
