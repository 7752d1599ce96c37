"""What the spanning election is compared with elects the same, and costs what it should."""

from random import Random

import pytest

from doyen.core.ids import NodeId
from doyen_papers.studies.graphs import leaf_count, random_edges, random_quality
from doyen_papers.studies.spanning import graph
from doyen_papers.studies.spanning_compared import compare
from doyen_papers.studies.spanning_counts import message_count


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_all_elect_the_best_and_vkt_needs_fewer_messages(seed: int, random: bool) -> None:
    rng = Random(seed)
    size = rng.randint(2, 30)
    found = graph(random_edges(rng, size), random_quality(rng, size))
    links, initiator = len(found.edges), NodeId(str(rng.randrange(size)))
    ours = compare("spanning", found, initiator, seed, random=random)
    vkt = compare("vkt", found, initiator, seed, random=random)
    flooded = compare("flooding", found, initiator, seed, random=random)  # Raises if it elects another.
    assert ours.messages == message_count(links, size, leaf_count(found, initiator))
    assert vkt.messages == 6 * links - 3 * size + 3
    assert flooded.messages >= size - 1
    assert flooded.declared_at is None


@pytest.mark.parametrize("seed", range(10))
def test_every_conductor_fails_but_the_highest_and_survivors_still_get_their_best(seed: int) -> None:
    rng = Random(seed)
    size = rng.randint(4, 14)
    found = graph(random_edges(rng, size, 2 * size), random_quality(rng, size))
    quiet, worst = (
        [compare(algorithm, found, found.nodes[0], seed, unstable=unstable) for algorithm in ("flooding", "vkt")]
        for unstable in (False, True)
    )
    assert all(bad.told_at > good.told_at for good, bad in zip(quiet, worst, strict=True))  # And it checks the leaders.
