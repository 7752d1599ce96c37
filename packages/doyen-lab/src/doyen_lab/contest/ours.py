"""Our own system: `doyen agent`s, on a bridge, on a mesh or on loopback."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant, format_duration, ms
from doyen.net.keys import key_text, new_key
from doyen.node.agent_line import AgentLine
from doyen_lab.contest.entrant import Entrant
from doyen_lab.mesh import Guests, Mesh
from doyen_lab.netns import Namespaces, Network

PORT = 7600
MULTICAST = "239.192.0.1:7600"  # Nobody else is on the bridge.
HTTP = "127.0.0.1:7680"
MISSING_MAX = {0.0: 2, 0.05: 2, 0.1: 3, 0.15: 5, 0.2: 7}  # [CTOL §VII-B] c of the 16 nodes, by drop.
_TOLD = msgspec.json.Decoder(AgentLine)


class Ours(Entrant):
    """Agents with the same flags for all, and further flags for each, by its number."""

    prefix = "n"

    def __init__(
        self,
        label: str,
        network: Network,
        folder: Path,
        flags: Sequence[str],
        own_flags: Callable[[int], list[str]] = lambda i: [],
        *,
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(label, network, folder, names=names)
        self._flags, self._own_flags = list(flags), own_flags

    def command(self, name: str) -> list[str]:
        own = self._own_flags(self.names.index(name))
        return [sys.executable, "-m", "doyen", "agent", "--name", name, *self._flags, *own]

    def hear(self, name: str, line: str, at: Instant) -> None:
        told = _TOLD.decode(line)
        if told.event in ("elected", "lost"):
            self.ledger.say(name, told.leader if told.event == "elected" else None, told.clock)
        elif told.event == "member" and told.member is not None and told.member_status in ("alive", "failed"):
            self.roster.say(name, told.member, told.clock, present=told.member_status == "alive")


def on_bridge(system: str, way: str, size: int, folder: Path, *, key: bool) -> Ours:
    """Return agents at their defaults; `way` says which election they run, and how they reach each other.

    gossip: the default, with one seed.  quorum: all are voters, with one seed.  quorum-multicast: the same by one
    multicast.  will, will-multicast: the same as programs that join with a will.  voters: a quorum in which each knows
    where all others are.  multicast: the fast election, by one multicast.  unicast: the fast election, with every
    other member as a seed.  spanning: over a graph, likewise.
    """
    if way.startswith("will"):
        return _with_wills(system, way, size, folder, key=key)
    network = Namespaces(size)
    common = ["--group", "contest", "--group-size", str(size), "--status-every", "600"]
    quorum = ["--election", "pole", "--newcomer", "--voters", ",".join(f"{Ours.prefix}{i:02}" for i in range(size))]
    common += {
        "gossip": [],
        "quorum": quorum,
        "quorum-multicast": [*quorum, "--multicast", MULTICAST],
        "voters": quorum,
        "multicast": ["--election", "announce", "--multicast", MULTICAST],
        "unicast": ["--election", "announce"],
        "spanning": ["--election", "spanning"],
    }[way]
    common += ["--key-file", str(new_key_file(folder, f"{system}-{size}")), "--http", HTTP] if key else []
    seeds = {"gossip": range(1), "quorum": range(1)}.get(way, range(0 if way.endswith("multicast") else size))

    def own_flags(i: int) -> list[str]:
        state = ["--state", str(folder / f"{system}-{size}-{i}")] if "--voters" in common else []
        return [*reach(network, i, seeds), *state]

    return Ours(system, network, folder, common, own_flags)


class Wills(Ours):
    """Programs that join with a will."""

    def __init__(self, system: str, network: Network, folder: Path, arguments: Callable[[int], dict[str, Any]]) -> None:
        super().__init__(system, network, folder, ())
        self._arguments = arguments

    def command(self, name: str) -> list[str]:
        given = {"group": "contest", "name": name} | self._arguments(self.names.index(name))
        return [sys.executable, "-m", "doyen_lab.contest.will_member", msgspec.json.encode(given).decode()]


def _with_wills(system: str, way: str, size: int, folder: Path, *, key: bool) -> Ours:
    network = Namespaces(size)
    common: dict[str, Any] = {"election": "pole", "voters": [f"{Ours.prefix}{i:02}" for i in range(size)]}
    common |= {"newcomer": True, "group_size": size, "preset": "lan"}
    common |= {"key": str(new_key_file(folder, f"{system}-{size}"))} if key else {}
    seed = f"{network.nodes[0].ipv4}:{PORT}"

    def arguments(i: int) -> dict[str, Any]:
        reach = {"multicast": MULTICAST} if way.endswith("multicast") else {"seeds": [seed] if i else []}
        own = {"bind": f"{network.nodes[i].ipv4}:{PORT}", "state": str(folder / f"{system}-{size}-{i}")}
        return common | own | reach

    return Wills(system, network, folder, arguments)


class MeshTimers(Struct, frozen=True, kw_only=True):
    """The timers of every agent of a group on the mesh."""

    membership: str = "medley"
    election: str = "hybrid"
    missing_max: int = 2
    period: Duration = ms(2500)
    ack_timeout: Duration = ms(500)
    suspicion_timeout: Duration = ms(3000)
    response_timeout: Duration = ms(200)
    flags: tuple[str, ...] = ()

    def as_flags(self) -> list[str]:
        found = ["--membership", self.membership, "--election", self.election]
        for name in ("period", "ack_timeout", "suspicion_timeout"):
            found += [f"--{self.membership}-{name.replace('_', '-')}", format_duration(getattr(self, name))]
        found += ["--ctolerant-missing-max", str(self.missing_max)]
        found += ["--ctolerant-response-timeout", format_duration(self.response_timeout)]
        return [*found, *self.flags]


def on_mesh(mesh: Mesh, tenant: str, timers: MeshTimers, folder: Path, *flags: str) -> Ours:
    """Return one agent per guest, with two seeds in opposite corners; Medley gets the number of hops to the others."""
    guests = Guests(mesh, tenant)
    common = ["--group", tenant, "--group-size", str(mesh.size), "--status-every", "600", *timers.as_flags(), *flags]

    def own_flags(i: int) -> list[str]:
        hops = [f"n{j:02}={mesh.hop_count(i, j)}" for j in range(mesh.size) if j != i]
        shown = [flag for text in hops for flag in ("--hops", text)] if timers.membership == "medley" else []
        return [*reach(guests, i, {0, mesh.size - 1}), *shown]

    return Ours(tenant, guests, folder, common, own_flags)


def reach(network: Network, i: int, seeds: Sequence[int] | set[int]) -> list[str]:
    """Return the flags that say where the i-th listens, and who are its seeds, by their numbers."""
    there = [f"{network.nodes[j].ipv4}:{PORT}" for j in seeds if j != i]
    return ["--bind", f"{network.nodes[i].ipv4}:{PORT}", *(flag for seed in there for flag in ("--seed", seed))]


def paper_missing_max(drop: float, size: int) -> int:
    """Return the paper's c for the nearest drop, but at most as many as can answer."""
    return min(MISSING_MAX[min(MISSING_MAX, key=lambda known: abs(known - drop))], max(0, size - 2))


def new_key_file(folder: Path, name: str = "group") -> Path:
    path = folder / f"{name}.keys"
    path.touch(mode=0o600)
    path.write_text(f"primary {key_text(new_key())}\n")
    return path
