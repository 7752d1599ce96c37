"""Rates a node's place in the graph, within the region that it can reach.  [MADM §6.3]"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from doyen.core.order import order

N = TypeVar("N")
Graph: TypeAlias = Mapping[str, Iterable[str]]  # Neighbours by node; a node that is not a key has none of its own.


def distances(graph: Mapping[N, Iterable[N]], node: N) -> dict[N, int]:
    """Return the hops from a node to every node of its region, itself included."""
    found, edge = {node: 0}, [node]
    while edge:
        further = []
        for at in edge:
            for other in graph.get(at, ()):
                if other not in found:
                    found[other] = found[at] + 1
                    further.append(other)
        edge = further
    return found


def regions(graph: Graph) -> list[list[str]]:
    """Return the regions of nodes that can reach each other, in order, that of the lowest name first."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for node in sorted(graph, key=order):
        if node not in seen:
            found.append(sorted(distances(graph, node), key=order))
            seen.update(found[-1])
    return found


def degree(graph: Graph, node: str) -> int:
    """Return how many neighbours a node has."""
    return len(set(graph.get(node, ())))


def closeness(graph: Graph, node: str) -> float:
    """Return (N − 1)/Σ hop distances within the region; a node alone is as close to everybody as can be: 1."""
    hops = distances(graph, node)
    return (len(hops) - 1) / sum(hops.values()) if len(hops) > 1 else 1.0


def eccentricity(graph: Graph, node: str) -> int:
    """Return the hops from a node to the farthest one of its region."""
    return max(distances(graph, node).values())


def modification_time(graph: Graph, leader: str, hop: float = 1.0) -> float:
    """Return how long a change takes: lock, response, modify, completion, unlock are five sweeps.  [MADM §6.3]"""
    return 5 * eccentricity(graph, leader) * hop
