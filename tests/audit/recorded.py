"""Recordings of groups in made-up time: real nodes, real recorders, and faults by seed."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import doyen
from doyen.core.clock import ms
from doyen.core.ids import NodeId
from doyen.testing import Cluster

FAULTS = ("partition", "cut", "crash", "lost disk", "pause", "slow node", "resign")
NAMES = ("n0", "n1", "n2")


class Recorded:
    """A group whose every process writes a recording of its own."""

    def __init__(self, folder: Path, seed: int, *, names: tuple[str, ...] = NAMES, **fields: Any) -> None:
        self.folder, self.names, self.rng = folder, names, Random(seed)
        self._voters = fields.pop("voters", names)
        self._starts: Counter[str] = Counter()
        self._one_file = "record_max" in fields  # Of all processes of a node: the first of them are overwritten.
        network = {key: fields.pop(key) for key in ("loss", "jitter", "duplicates", "disk_delay") if key in fields}
        self._fields = fields
        disk_delay = network.pop("disk_delay", 0)
        self.cluster = Cluster(names, seed=seed, main=self._main, wall_clock="made-up", **network)
        self.cluster.sim.disk_delay = disk_delay

    async def _main(self, name: str) -> None:
        self._starts[name] += 1
        first = self._starts[name] == 1
        joined = doyen.join(
            "audited",
            name=name,
            election="pole",
            preset="local",
            voters=self._voters,
            state="disk/x",
            newcomer=first,
            record=str(self.folder / (f"{name}.rec" if self._one_file else f"{name}-{self._starts[name]}.rec")),
            seeds=[other for other in self.names if other != name],
            **self._fields,
        )
        async with joined as node:
            await node.ended.wait()

    @property
    def paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.rec"))

    def storm(self, rounds: int = 6, faults: tuple[str, ...] = FAULTS) -> None:
        """Let that many faults happen, each undone after a while."""
        cluster, rng = self.cluster, self.rng
        cluster.run_for(1)
        for _ in range(rounds):
            up = cluster.up()
            fault = rng.choice(faults)
            if fault == "lost disk":  # Two such voters, and there may be no majority any more.
                faults = tuple(other for other in faults if other != fault)
            leaders = sorted(name for name in cluster.acting() if cluster.sim.by_name[NodeId(name)].state != "paused")
            name = leaders[0] if leaders and rng.random() < 0.6 else rng.choice(up)
            match fault:
                case "partition":
                    cluster.partition({name}, rest=True)
                case "cut":
                    cluster.cut(name, rng.choice([other for other in self.names if other != name]))
                case "crash":
                    cluster.crash(name)
                case "lost disk":
                    cluster.crash(name, disk="lost")
                case "pause":
                    cluster.pause(name)
                case "slow node":
                    cluster.slow_down(name, rng.choice(("20ms", "100ms")))
                case "resign" if leaders:
                    cluster.run(leaders[0], cluster.node(leaders[0]).resign())
            cluster.run_for(rng.choice((0.05, 0.3, 1.0, 3.0)))
            if rng.random() < 0.7:
                self.mend()
                cluster.run_for(rng.choice((0.1, 1.0, 2.0)))
        self.mend()
        cluster.run_for(4)
        self.end()

    def end(self) -> None:
        """End the run; what crashed processes still do as they are unwound is no part of their recordings."""
        kept = {path: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        self.cluster.close()
        for path, data in kept.items():
            path.write_bytes(data)

    def mend(self) -> None:
        cluster = self.cluster
        cluster.heal()
        for name in self.names:
            if name not in cluster.up():
                cluster.restart(name)
            cluster.resume(name)
            cluster.slow_down(name, 0)


def slow_disk(rng: Random) -> int:
    return int(rng.choice((0, 0, ms(5), ms(40))))
