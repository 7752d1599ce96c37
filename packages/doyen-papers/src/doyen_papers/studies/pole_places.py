"""Places of servers: the deployments of [POLE §4], and those of a file.

    three data centres  D1 = {p4, p5}, D2 = {p2, p3}, D3 = {p1}      two  D1 = {p1, p2}, D2 = {p3, p4, p5}

p5 leads first, and crashes.  Round trips are Table 2's; inside a data centre they are 0.
"""

import tomllib
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.config import Config, Doc, load, need
from doyen.core.ids import NodeId, node_id
from doyen.core.order import order
from doyen.errors import ConfigError

REQUESTS_PER_S: Final = 1000.0  # λ_T
RTT_MAX_MS: Final = 10_000

#: [POLE Table 2] Mean round trips in ms, between SLAC, Caltech, TUD, CERN and FNAL.
TABLE_2: Final = (9.88, 20.75, 53.26, 77.06, 172.47)
NAMES: Final = ("1", "2", "3", "two-dc", "recovery")  #: One file each in `deployments`.


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
        """Return the requests per second by server, evenly over those of a data centre."""
        return {
            server: REQUESTS_PER_S * share / len(servers)
            for (_, servers), share in zip(self.centres, self.shares, strict=True)
            for server in servers
        }

    def with_share(self, share: float) -> "Deployment":
        """Return this deployment with a share of all requests from `shared`, and the rest evenly from the others."""
        need(0 <= share <= 1, "share", f"{share:g} is not a part of all requests: give 0 to 1")
        rest = (1.0 - share) / max(len(self.centres) - 1, 1)
        return replace(self, shares=tuple(share if name == self.shared else rest for name, _ in self.centres))


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
    """Return one of the paper's deployments, or a TOML file's."""
    return _of_the_paper(name) if name in NAMES else _read(Path(name), name)


@cache
def _of_the_paper(name: str) -> Deployment:
    return _read(Path(__file__).with_name("deployments") / f"{name}.toml", name)


def _read(path: Path, name: str) -> Deployment:
    need(path.is_file(), "deployment", f"{name!r} is no file, and none of {', '.join(NAMES)}")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", field="deployment") from None
    return _from_file(load(_File, data, str(path)), name)


def _from_file(file: _File, where: str) -> Deployment:
    def hold(holds: bool, what: str) -> None:
        if not holds:
            raise ConfigError(f"{where}: {what}")

    names = [centre.name for centre in file.centre]
    servers = [node_id(server) for centre in file.centre for server in centre.servers]
    hold(len(set(names)) == len(names) > 0, "needs [[centre]]s with different names")
    hold(len(set(servers)) == len(servers) > 0, "every server must be in one data centre only")
    hold(all(centre.servers for centre in file.centre), "every data centre needs servers")
    for server in (file.leader, *file.outdated):
        hold(server in servers, f"{server} is in no data centre")
    trips: dict[tuple[str, str], float] = {}
    for link in file.link:
        a, b = link.between
        hold(a in names and b in names and a != b, f"[[link]] between {a} and {b}: no two data centres")
        hold(0 <= link.rtt_ms <= RTT_MAX_MS, f"[[link]] {a}–{b}: rtt_ms must be 0 to {RTT_MAX_MS}")
        trips[a, b] = trips[b, a] = link.rtt_ms
    for a, b in combinations(names, 2):
        hold((a, b) in trips, f"has no [[link]] between {a} and {b}")
    given = [centre.share for centre in file.centre]
    shares = tuple(1.0 / len(names) if share is None else share for share in given)
    hold(all(share is None for share in given) or None not in given, "give every [[centre]] a share, or none")
    hold(all(0 <= share <= 1 for share in shares) and abs(sum(shares) - 1) < 1e-6, "shares must add up to 1")
    hold(file.shared in ("", *names), f"shared = {file.shared!r} is no data centre")
    return Deployment(
        name=where,
        centres=tuple((centre.name, tuple(node_id(s) for s in centre.servers)) for centre in file.centre),
        rtt_ms=trips,
        leader=NodeId(file.leader),
        shared=file.shared or names[-1],
        shares=shares,
        outdated=tuple(NodeId(server) for server in file.outdated),
    )
