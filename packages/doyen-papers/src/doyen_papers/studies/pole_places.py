"""Where the servers are: the deployments of [POLE §4], and those of a file.

    three data centres  D1 = {p4, p5}, D2 = {p2, p3}, D3 = {p1}      two  D1 = {p1, p2}, D2 = {p3, p4, p5}

p5 leads first, and crashes.  Round trips are Table 2's; inside a data centre they are 0.
"""

import tomllib
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Annotated, Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.config import Config, Doc, load
from doyen.core.ids import NodeId, node_id
from doyen.core.order import order
from doyen.errors import ConfigError

REQUESTS_PER_S: Final = 1000.0  # λ_T
RTT_MAX_MS: Final = 10_000

#: [POLE Table 2] Mean round trips in ms.
TABLE_2: Final[dict[frozenset[str], float]] = {
    frozenset(("slac", "caltech")): 9.88,
    frozenset(("tud", "cern")): 20.75,
    frozenset(("slac", "fnal")): 53.26,
    frozenset(("caltech", "fnal")): 77.06,
    frozenset(("slac", "cern")): 172.47,
}
#: [POLE Table 3]
TABLE_3: Final = {
    "1": ("caltech", "slac", "fnal"),
    "2": ("slac", "caltech", "fnal"),
    "3": ("slac", "fnal", "caltech"),
}
THREE: Final = (("D1", ("p4", "p5")), ("D2", ("p2", "p3")), ("D3", ("p1",)))
TWO: Final = (("D1", ("p1", "p2")), ("D2", ("p3", "p4", "p5")))


class Deployment(Struct, frozen=True, kw_only=True):
    """Data centres, what lies between them, and who leads first."""

    name: str
    centres: tuple[tuple[str, tuple[NodeId, ...]], ...]
    rtt_ms: dict[tuple[str, str], float]  # Between two data centres, both ways round.
    leader: NodeId
    shared: str  # Whose part of all requests `--share` means.
    shares: tuple[float, ...]  # By data centre.
    outdated: tuple[NodeId, ...] = ()

    @property
    def servers(self) -> tuple[NodeId, ...]:
        return tuple(sorted((server for _, servers in self.centres for server in servers), key=order))

    def centre_of(self, server: NodeId) -> str:
        return next(centre for centre, servers in self.centres if server in servers)

    def between(self, a: NodeId, b: NodeId) -> float:
        x, y = self.centre_of(a), self.centre_of(b)
        return 0.0 if x == y else self.rtt_ms[x, y]

    def matrix(self) -> dict[NodeId, dict[NodeId, float]]:
        return {a: {b: self.between(a, b) for b in self.servers} for a in self.servers}

    def rates(self) -> dict[NodeId, float]:
        """Requests per second by server, evenly over a data centre's."""
        return {
            server: REQUESTS_PER_S * share / len(servers)
            for (_, servers), share in zip(self.centres, self.shares, strict=True)
            for server in servers
        }

    def with_share(self, share: float) -> "Deployment":
        """So much of all requests comes from the data centre in question, the rest evenly from the others."""
        if not 0 <= share <= 1:
            raise ConfigError(f"{share:g} is not a part of all requests: give 0 to 1", field="share")
        rest = (1.0 - share) / max(len(self.centres) - 1, 1)
        return replace(self, shares=tuple(share if name == self.shared else rest for name, _ in self.centres))


def _named(name: str) -> Deployment:
    if name in TABLE_3:
        ends = dict(zip(("D1", "D2", "D3"), TABLE_3[name], strict=True))
        trips = {(a, b): TABLE_2[frozenset((ends[a], ends[b]))] for a, b in combinations(ends, 2)}
        return _deployment(name, THREE, trips, "D2" if name == "3" else "D3")
    if name == "two-dc":
        return _deployment(name, TWO, {("D1", "D2"): TABLE_2[frozenset(("tud", "cern"))]}, "D2")
    # [POLE §4.4] δ1 = D1–D3, δ2 = D1–D2, δ3 = D2–D3; both servers of D2 are outdated.
    trips = {("D1", "D3"): 77.06, ("D1", "D2"): 20.75, ("D2", "D3"): 9.88}
    return replace(_deployment(name, THREE, trips, "D3"), outdated=(NodeId("p2"), NodeId("p3")))


def _deployment(
    name: str, centres: tuple[tuple[str, tuple[str, ...]], ...], trips: Mapping[tuple[str, str], float], shared: str
) -> Deployment:
    return Deployment(
        name=name,
        centres=tuple((centre, tuple(NodeId(server) for server in servers)) for centre, servers in centres),
        rtt_ms={pair: value for (a, b), value in trips.items() for pair in ((a, b), (b, a))},
        leader=NodeId("p5"),
        shared=shared,
        shares=tuple(1.0 / len(centres) for _ in centres),
    )


NAMES: Final = ("1", "2", "3", "two-dc", "recovery")


class _Centre(Config, frozen=True, kw_only=True):
    name: Annotated[str, Doc("of the data centre")]
    servers: Annotated[tuple[str, ...], Doc("its servers")]
    share: Annotated[float | None, Doc("its part of all requests; all or none have one")] = None


class _Link(Config, frozen=True, kw_only=True):
    between: Annotated[tuple[str, str], Doc("two data centres")]
    rtt_ms: Annotated[float, Doc("round trip in ms")]


class _File(Config, frozen=True, kw_only=True):
    leader: Annotated[str, Doc("who leads first, and crashes")]
    centre: Annotated[tuple[_Centre, ...], Doc("one [[centre]] each")]
    link: Annotated[tuple[_Link, ...], Doc("one [[link]] per pair of data centres")] = ()
    shared: Annotated[str, Doc("whose part `--share` means; the last one's by default")] = ""
    outdated: Annotated[tuple[str, ...], Doc("servers without the history")] = ()


def deployment(name: str) -> Deployment:
    """One of the paper's, or a TOML file's."""
    if name in NAMES:
        return _named(name)
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f"{name!r} is no file, and none of {', '.join(NAMES)}", field="deployment")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", field="deployment") from None
    return _from_file(load(_File, data, str(path)), str(path))


def _from_file(file: _File, where: str) -> Deployment:
    def need(holds: bool, what: str) -> None:
        if not holds:
            raise ConfigError(f"{where}: {what}")

    names = [centre.name for centre in file.centre]
    servers = [node_id(server) for centre in file.centre for server in centre.servers]
    need(len(set(names)) == len(names) > 0, "needs [[centre]]s with different names")
    need(len(set(servers)) == len(servers) > 0, "every server must be in one data centre only")
    need(all(centre.servers for centre in file.centre), "every data centre needs servers")
    for server in (file.leader, *file.outdated):
        need(server in servers, f"{server} is in no data centre")
    trips: dict[tuple[str, str], float] = {}
    for link in file.link:
        a, b = link.between
        need(a in names and b in names and a != b, f"[[link]] between {a} and {b}: no two data centres")
        need(0 <= link.rtt_ms <= RTT_MAX_MS, f"[[link]] {a}–{b}: rtt_ms must be 0 to {RTT_MAX_MS}")
        trips[a, b] = trips[b, a] = link.rtt_ms
    for a, b in combinations(names, 2):
        need((a, b) in trips, f"has no [[link]] between {a} and {b}")
    given = [centre.share for centre in file.centre]
    shares = tuple(1.0 / len(names) if share is None else share for share in given)
    need(all(share is None for share in given) or None not in given, "give every [[centre]] a share, or none")
    need(all(0 <= share <= 1 for share in shares) and abs(sum(shares) - 1) < 1e-6, "shares must add up to 1")
    need(file.shared in ("", *names), f"shared = {file.shared!r} is no data centre")
    return Deployment(
        name=where,
        centres=tuple((centre.name, tuple(node_id(s) for s in centre.servers)) for centre in file.centre),
        rtt_ms=trips,
        leader=NodeId(file.leader),
        shared=file.shared or names[-1],
        shares=shares,
        outdated=tuple(NodeId(server) for server in file.outdated),
    )
