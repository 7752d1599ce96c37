"""Takeovers of a group that runs, simulated with its own settings: what `doyen drill` predicts."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import seconds
from doyen.core.ids import NodeId
from doyen.core.link import LinkBroken
from doyen.net.leaderlink import LOOKS_S
from doyen.node.config import NodeConfig
from doyen.sim.world import DISK
from doyen.testing.cluster import Cluster

How = Literal["resign", "kill", "freeze"]

SETTLED_S = 20.0  # Time after the first election, in which the group comes to rest,
SPREAD_S = 6.0  # and more of it at random, so that leaders are lost at any phase of heartbeats.
LOOK_S = 0.0005  # How finely a takeover is timed,
LATEST_S = 600.0  # and how long it may take.
# A process that is killed closes its sockets one by one, and members look several times whether it is gone.
GONE_S = tuple(accumulate(LOOKS_S))[:3]


class Machine(Struct, frozen=True, kw_only=True):
    """Measurements of the machines and the network that a group runs on, in seconds."""

    delay_s: float  # Of a message.
    step_s: float = 0.0  # What a process takes for a message, in the mean: it is woken, and works.
    disk_s: float = 0.0  # The longest of the last writes.


def rehearse(
    config: NodeConfig, members: Sequence[str], how: How, *, kind: str, on: Machine, count: int
) -> Iterator[float]:
    """Yield how long each simulated takeover took, in seconds, until another member acted as leader.

    `config` is a running node's; `kind` is the election that is rehearsed.
    """
    plain = replace(config, election=kind, elections=(), seeds=(), expect=0, state=DISK if config.state else "")
    for seed in range(1, count + 1):
        yield _takeover(plain, members, how, on, seed)


def _takeover(config: NodeConfig, members: Sequence[str], how: How, on: Machine, seed: int) -> float:
    cluster = Cluster(members, delay=on.delay_s, jitter=on.step_s, seed=seed, like=config)
    cluster.run_until_leader(within="10min")
    cluster.run_for(SETTLED_S + SPREAD_S * Random(seed).random())
    lost = cluster.run_until_leader(within="10min")
    # One that resigned may be elected again, where the others' disks are slow.
    rest = [name for name in cluster.names if name != lost or how == "resign"]
    cluster.sim.disk_delay = seconds(Random(f"disk {seed}").uniform(on.disk_s / 2, on.disk_s))
    began = cluster.now_s
    match how:
        case "resign":
            cluster.resign(lost)
        case "freeze":
            cluster.pause(lost)
        case "kill":
            _kill(cluster, lost, Random(f"gone {seed}").choice(GONE_S) if config.link else None)
    while not any(map(cluster.is_leader, rest)):
        assert cluster.now_s < began + LATEST_S, f"nobody follows {lost}: {cluster!r}"
        cluster.run_for(LOOK_S)
    return cluster.now_s - began


def _kill(cluster: Cluster, lost: str, gone_s: float | None) -> None:
    """End a process; the kernel closes its connections at once, and `gone_s` later nodes find that it is gone."""
    incarnation = cluster.sim.by_name[NodeId(lost)].incarnation
    cluster.crash(lost)
    if gone_s is None:
        return
    for gone in (False, True):
        for name in cluster.up():
            cluster.sim.tell(cluster.sim.by_name[NodeId(name)], LinkBroken(NodeId(lost), incarnation, gone=gone))
        cluster.run_for(0.0 if gone else gone_s)
