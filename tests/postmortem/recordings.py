"""Recordings made in made-up time: real nodes with real recorders, on clocks whose offsets and drifts are known."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import doyen
from doyen.sim.node import Clock
from doyen.testing import Cluster

NAMES = ("ant", "bee", "cat")
CLOCKS = {"ant": Clock(0), "bee": Clock(7_300_000_000_000, 40e-6), "cat": Clock(86_400_000_000_000, -50e-6)}


class Recorded:
    """A run, and the truth about it: who could act after every event, in true seconds."""

    def __init__(
        self, folder: Path, *, election: str = "quorum", names: tuple[str, ...] = NAMES, **fields: Any
    ) -> None:
        self.folder, self.names = folder, names
        given: dict[str, Any] = {"election": election, "preset": "local", **fields}
        if election == "quorum":
            given |= {"voters": names, "newcomer": True}
        incarnations = dict.fromkeys(names, 0)

        async def main(name: str) -> None:
            incarnations[name] += 1
            path = folder / f"{name}.{incarnations[name]}.rec"
            own = given | ({"state": f"/state/{name}"} if election == "quorum" else {})
            own |= {"newcomer": True} if election == "quorum" and incarnations[name] == 1 else {"newcomer": False}
            others = [other for other in names if other != name]
            async with doyen.join("orders", name=name, seeds=others, record=str(path), **own) as node:
                while True:
                    try:
                        async with node.lead() as term:
                            while True:
                                term.check()
                                await asyncio.sleep(0.02)
                    except doyen.LeadershipLost:
                        pass

        self.cluster = Cluster(names, main=main, wall_clock="made-up", election=election, preset="local")
        for node in self.cluster.sim.nodes:
            node.clock = CLOCKS.get(node.name, Clock(node.index * 1_000_000_000, node.index * 5e-6))
        self._acting: set[str] = set()
        self._since = 0.0
        self.together_s = 0.0
        self.began: dict[str, list[float]] = {name: [] for name in names}  # When each began to act.
        self.cluster.sim.checks.append(self._on_event)

    def _on_event(self, now: int) -> None:
        up = [node for node in self.cluster.sim.up() if node.state != "paused"]
        acting = {str(node.name) for node in up if self.cluster.world.acts(node)}
        at = now / 1e9
        if len(self._acting) > 1:
            self.together_s += at - self._since
        for name in acting - self._acting:
            self.began[name].append(at)
        self._acting, self._since = acting, at

    def run(self, play: Callable[[Cluster], object]) -> "Recorded":
        kept = self.folder / "kept"
        try:
            play(self.cluster)
            kept.mkdir()
            for path in self.folder.glob("*.rec*"):
                shutil.copy(path, kept)  # Closing runs what is left of killed processes, too.
        finally:
            self.cluster.close()
        return self

    @property
    def paths(self) -> list[Path]:
        return sorted(path for path in (self.folder / "kept").glob("*.rec") if path.stat().st_size)

    def true(self, name: str, local: int) -> int:
        """Return the true instant at which a node's clock shows that."""
        return CLOCKS[name].true(local)
