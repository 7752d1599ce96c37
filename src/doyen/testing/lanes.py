"""The lane picture of a cluster: who led, who was paused or down, what was cut, and what the test marked."""

from typing import TYPE_CHECKING

from doyen.sim.lanes import Kind, Picture
from doyen.sim.node import SimNode

if TYPE_CHECKING:
    from doyen.testing.cluster import Cluster

BEGINS: dict[str, Kind] = {"crash": "down", "pause": "paused"}
ENDS: dict[str, Kind] = {"start": "down", "resume": "paused"}


class Lanes:
    """Notes what is done to the nodes of a cluster, and draws it with what they said."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._deeds: list[tuple[float, str, str]] = []
        self._cut: list[tuple[float, str]] = []
        cluster.sim.deed_watchers.append(self._on_deed)
        cluster.sim.network_watchers.append(self._on_network)

    def _on_deed(self, deed: str, node: SimNode) -> None:
        self._deeds.append((self._cluster.now_s, str(node.name), deed))

    def _on_network(self) -> None:
        cut = ", ".join(self._cluster.cuts)
        self._cut.append((self._cluster.now_s, f"cut: {cut}" if cut else "healed"))

    def svg(self) -> str:
        cluster, end_s = self._cluster, self._cluster.now_s
        picture = Picture(repr(cluster), [*cluster.names])
        since: dict[tuple[str, Kind], float] = {}
        for at_s, name, deed in self._deeds:
            if deed in BEGINS:
                since.setdefault((name, BEGINS[deed]), at_s)
            elif deed in ENDS and (began_s := since.pop((name, ENDS[deed]), None)) is not None:
                picture.span(name, began_s, at_s, ENDS[deed], f"{name} is {ENDS[deed]}")
        for (name, kind), began_s in since.items():
            picture.span(name, began_s, end_s, kind, f"{name} is {kind}")
        led: dict[str, tuple[float, int]] = {}
        crashed = [(at_s, name, "") for at_s, name, deed in self._deeds if deed == "crash"]
        said = [(seen.at_s, seen.node, seen.kind) for seen in cluster.history if seen.node == seen.leader]
        terms = {(seen.at_s, seen.node): seen.term for seen in cluster.history}
        for at_s, name, word in sorted([*crashed, *said]):
            if name in led:
                began_s, term = led.pop(name)
                picture.span(name, began_s, at_s, "leads", f"{name} is elected, term {term}")
            if word == "elected":
                led[name] = (at_s, terms[at_s, name])
        for name, (began_s, term) in led.items():
            picture.span(name, began_s, end_s, "leads", f"{name} is elected, term {term}")
        for at_s, text in self._cut:
            picture.mark("", at_s, text)
        for at_s, name, text in cluster.marks:
            picture.mark(name, at_s, text)
        return picture.svg(0.0, max(end_s, 1e-3))
