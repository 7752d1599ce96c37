"""A node's gate in made-up time: what it counts in a second is counted on the node's own clock."""

import pytest

import doyen
from doyen.net import gate
from doyen.testing import Cluster

NAMES = ("ant", "bee", "cat")


def test_a_node_that_was_paused_goes_on_to_hear_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "HEARD_PER_S", 100)  # More than a member sends in a second, and less than in all.

    async def main(name: str) -> None:
        seeds = [other for other in NAMES if other != name]
        quorum = {"voters": NAMES, "newcomer": True, "state": f"/state/{name}"}
        async with doyen.join("orders", name=name, seeds=seeds, preset="local", election="quorum", **quorum) as node:
            async for _ in node.terms():
                pass

    with Cluster(NAMES, main=main) as cluster:
        first = cluster.run_until_leader()
        cluster.pause(first)
        cluster.run_for("3s")
        cluster.resume(first)  # What came meanwhile is read now, outside of made-up time.
        cluster.run_for("5s")
        seen = len(cluster.history)
        cluster.run_for("30s")
        assert len(cluster.history) == seen, "nobody is lost, and nobody named anew"
