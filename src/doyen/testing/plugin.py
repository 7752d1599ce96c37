"""The pytest fixture `doyen_cluster`: a factory of groups in made-up time.  Loaded by pytest's entry point."""

from typing import Any

import pytest

from doyen.testing import MakeCluster


@pytest.fixture
def doyen_cluster(request: pytest.FixtureRequest) -> MakeCluster:
    """Make clusters: `doyen_cluster(5, loss=0.2, seed=7)`; the report of a failing test says how to make them again."""
    from doyen.testing.cluster import Cluster

    made: list[Cluster] = []

    def make(nodes: Any, **fields: Any) -> Cluster:
        cluster = Cluster(nodes, **fields)
        made.append(cluster)
        request.node.add_report_section("setup", "doyen", repr(cluster))
        return cluster

    return make
