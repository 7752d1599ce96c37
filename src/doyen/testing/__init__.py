"""Tests machines and programs, ours and yours, without network, clock, mock or sleeping.

`RecordingOut` is for one machine; `Cluster`, and the pytest fixture `doyen_cluster`, for a whole group, and for a
program of yours on it.
"""

from typing import TYPE_CHECKING, Any, Protocol

from doyen.testing.recording import RecordingOut as RecordingOut

if TYPE_CHECKING:
    from doyen.testing.cluster import Cluster as Cluster
    from doyen.testing.cluster import Seen as Seen
    from doyen.testing.madeup.refusal import EscapedMadeUpTime as EscapedMadeUpTime

__all__ = ["Cluster", "EscapedMadeUpTime", "MakeCluster", "RecordingOut", "Seen"]


class MakeCluster(Protocol):
    """The type of the fixture `doyen_cluster`: it takes what `Cluster` takes."""

    def __call__(self, nodes: Any, **fields: Any) -> "Cluster": ...


def __getattr__(name: str) -> Any:
    if name in ("Cluster", "Seen"):
        from doyen.testing import cluster

        return getattr(cluster, name)
    if name == "EscapedMadeUpTime":
        from doyen.testing.madeup import refusal

        return refusal.EscapedMadeUpTime
    raise AttributeError(f"module 'doyen.testing' has no attribute {name!r}")
