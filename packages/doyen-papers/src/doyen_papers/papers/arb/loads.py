"""Computes the load of the busiest node of Figure 9 from rings and groups alone: no protocol takes part.  [ARB Fig. 9]

A node fails, its k monitors on either side each ask the group of the pair, and each member of a group gets one request,
the asker and the failed node among them.  Who fails is drawn anew for every failure, from those that are left.
Decision 181 says which band follows.
"""

from collections import Counter
from random import Random


def requests_around(neighbours: int) -> Counter[int]:
    """Return how many requests a node gets when one fails, by its place beside the one that fails."""
    found: Counter[int] = Counter()
    for apart in range(1, neighbours + 1):
        found.update(range(-neighbours, apart + neighbours + 1))  # The group of the pair: both, and k beside each.
        found.update(range(-apart - neighbours, neighbours + 1))
    return found


def busiest(rng: Random, nodes: int = 1000, failures: int = 100, neighbours: int = 3) -> int:
    """Return the requests of the busiest node after failures one after another, the ring closing after each."""
    around, ring = requests_around(neighbours), list(range(nodes))
    counts = [0] * nodes
    for _ in range(failures):
        place = rng.randrange(len(ring))
        for offset, asked in around.items():
            counts[ring[(place + offset) % len(ring)]] += asked
        ring.pop(place)
    return max(counts)


def drawn(count: int, seed: int = 1) -> list[int]:
    """Return the requests of the busiest node of each of that many rings."""
    rng = Random(seed)
    return [busiest(rng) for _ in range(count)]


def apart(values: list[int], share: float) -> int:
    """Return the least distance that such a share of pairs of independent draws keeps."""
    counts = Counter(values)
    near = 0.0
    for distance in range(max(values) - min(values) + 1):
        pairs = sum(n * counts[x + d] for x, n in counts.items() for d in {distance, -distance})
        near += pairs / len(values) ** 2
        if near >= share:
            return distance
    return max(values) - min(values)
