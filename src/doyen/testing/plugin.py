"""The pytest fixture `doyen_cluster`: a factory of groups in made-up time.  Loaded by pytest's entry point."""

from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from doyen.testing.cluster import Cluster


class MakeCluster(Protocol):
    def __call__(self, nodes: Any, **fields: Any) -> "Cluster": ...


@pytest.fixture
def doyen_cluster(request: pytest.FixtureRequest) -> MakeCluster:
    """`doyen_cluster(5, loss=0.2, seed=7)`; a failing test's report says how to make the same clusters again."""
    from doyen.testing.cluster import Cluster

    made: list[Cluster] = []

    def make(nodes: Any, **fields: Any) -> Cluster:
        cluster = Cluster(nodes, **fields)
        made.append(cluster)
        request.node.add_report_section("setup", "doyen", repr(cluster))
        return cluster

    return make
