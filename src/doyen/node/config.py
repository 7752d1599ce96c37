"""What one node is: its group, how it hears others, who is here, who leads.  One Struct for all ways to say it."""

from ipaddress import ip_address
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

from doyen.core.ids import NAME_MAX, Address, node_id, parse_address
from doyen.election.announce import STANDING_MAX, AnnounceConfig
from doyen.election.ctolerant.config import CTolerantConfig
from doyen.election.pole.config import PoleConfig
from doyen.election.spanning.config import SpanningConfig
from doyen.errors import ConfigError
from doyen.membership.arbitration.config import ArbitrationConfig
from doyen.membership.heartbeat import HeartbeatConfig
from doyen.membership.medley import MedleyConfig
from doyen.membership.notes import check_words
from doyen.membership.swim.config import SwimConfig
from doyen.node.presets import Preset

MembershipKind = Literal["auto", "none", "swim", "medley", "heartbeat", "ring"]
RankKind = Literal["hash", "score"]
OracleKind = Literal["score", "consensus", "latency", "worst-case", "request", "rotating", "quality"]
ElectionKind = Literal[
    "announce",
    "le-a",
    "le-s",
    "le-m",
    "base",
    "optimistic",
    "preferred",
    "hybrid",
    "local",
    "spanning",
    "pole",
    "by-key",
    "none",
]

ANNOUNCING: Final = ("announce", "le-a", "le-s", "le-m")
CHURN_TOLERANT: Final = ("base", "optimistic", "preferred", "hybrid")
ELECTIONS_MAX: Final = 64
DEFAULT_PORT: Final = 7600


class NodeConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process of a group.  The tables below it are the protocols' own; the presets fill them."""

    group: str = ""  #: The group's name; processes of other groups are not heard.
    name: str = ""  #: This process's name in the group; by default the host's name and the process id.
    preset: Preset = "lan"  #: Timers for one machine, a local network, the internet, or lossy radio.
    group_size: int = 10  #: How many members are expected; shapes timers, and nothing else.
    bind: str = ""  #: Where to listen, host:port; port 0: any free one.  By default loopback, or port 7600 with seeds.
    advertise: str = ""  #: Where others reach this process, host:port; by default where it listens.
    multicast: str = ""  #: The group's multicast address, host:port.
    interface: str = ""  #: The interface for multicast; by default the one of --bind.
    ttl: int = 1  #: How many routers a multicast may cross.
    seeds: tuple[str, ...] = ()  #: Other members' host:port (7600 if not said), where there is no multicast.
    state: str = ""  #: A directory: terms and promises survive restarts.
    key_file: str = ""  #: The group's keys (doyen keys new): packets are sealed; without, anybody can speak in it.
    seeds_file: str = ""  #: A file of further seeds, one a line; read again when it changes.
    http: str = ""  #: Serve /leader, /members, /health, /events, /metrics at host:port or unix:PATH.
    http_token: str = ""  #: Wanted of every HTTP request; needed where http is not on loopback.
    record: str = ""  #: Record all that comes in to this file, for `doyen replay`.
    record_max: int = 16777216  #: Bytes that the recording takes at most, in two segments.
    link: bool = True  #: Hold an idle TCP connection to the leader, so that its death is known at once.
    membership: MembershipKind = "auto"  #: Who is here?  auto: what the election needs.
    election: ElectionKind = "announce"  #: Who leads?
    elections: tuple[str, ...] = ()  #: Further elections of this group, each NAME or NAME=KIND.
    rank: RankKind = "hash"  #: Churn-tolerant elections: the lowest hash leads, or the greatest standing; alike on all.
    standing: float = 0.0  #: The greatest leads, where the election asks for it; ties by the greatest name.
    eligible: bool = True  #: Whether this process may lead at all.
    meta: tuple[str, ...] = ()  #: What others should know of this process, as key=value; at most 512 bytes.
    hops: tuple[str, ...] = ()  #: Medley: how far members are, as name=hops; the others are 1 hop away.
    voters: tuple[str, ...] = ()  #: Pole: the names of all voters, the same on every member.
    oracle: OracleKind = "score"  #: Pole: who ought to lead; the standing, or what is measured of and between voters.
    attributes: tuple[str, ...] = ()  #: Quality: name:min:max:weight, or …:cost where less is better; alike on all.
    measures: tuple[str, ...] = ()  #: Quality: what only a person knows of this process, as name=number.
    request_rate: float = 0.0  #: Pole: requests per second from this process's clients, for oracles that weigh them.
    newcomer: bool = False  #: Pole: the operator's word that nobody of this name has ever voted in this group.
    volatile: bool = False  #: Pole: promises in memory only; a restart under the same name may break one.  For tests.
    links_each_side: int = 3  #: Spanning: neighbours on either side, on the ring of names; few: long ways.
    announce: AnnounceConfig = AnnounceConfig()
    swim: SwimConfig = SwimConfig()
    medley: MedleyConfig = MedleyConfig()
    heartbeat: HeartbeatConfig = HeartbeatConfig()
    ctolerant: CTolerantConfig = CTolerantConfig()
    spanning: SpanningConfig = SpanningConfig()
    pole: PoleConfig = PoleConfig()
    ring: ArbitrationConfig = ArbitrationConfig()

    def __post_init__(self) -> None:
        def need(holds: bool, field: str, wanted: str) -> None:
            if not holds:
                raise ConfigError(wanted, field=field)

        size = len(self.group.encode())
        need(size > 0, "group", "is missing: give the group's name, the same on every member")
        need(0 < size <= NAME_MAX, "group", f"{self.group!r} must have 1 to {NAME_MAX} bytes")
        if self.name:
            try:
                node_id(self.name)
            except ConfigError as error:
                raise ConfigError(str(error), field="name") from None
        need(1 <= self.group_size <= 100_000, "group_size", f"{self.group_size} is out of range: give 1 to 100000")
        need(
            -STANDING_MAX <= self.standing <= STANDING_MAX,  # Also false for nan.
            "standing",
            f"{self.standing} is not a standing: give a finite number",
        )
        need(0 <= self.request_rate <= 1e12, "request_rate", f"{self.request_rate} must be 0 or more, and finite")
        for field in ("bind", "advertise", "multicast"):
            _check_address(field, getattr(self, field))
        for seed in self.seeds:
            _check_address("seeds", seed)
        if not self.http.startswith("unix:"):
            _check_address("http", self.http)
        need(1 <= self.links_each_side <= 64, "links_each_side", "must be 1 to 64")
        need(len(self.elections) < ELECTIONS_MAX, "elections", f"are too many: at most {ELECTIONS_MAX}")
        named = self.named_elections()
        need(len(named) == len(self.elections), "elections", "must have names that differ")
        for name, kind in named.items():
            need(0 < len(name.encode()) <= 32 and name.isprintable(), "elections", f"{name!r} must have 1 to 32 bytes")
            need(kind in get_args(ElectionKind) and kind != "none", "elections", f"{kind!r} is no election")
            check_combination(self.membership_kind(), kind, self.announce)
        check_combination(self.membership, self.election, self.announce)
        if "pole" in {self.election, *named.values()}:
            need(
                bool(self.voters),
                "voters",
                "must name all members that vote: --election pole counts a majority of them, so it must know them",
            )
            need(
                bool(self.state) or self.volatile,
                "state",
                "must name a directory: --election pole promises on the disk, or a restarted voter could vote twice",
            )
            for voter in self.voters:
                node_id(voter)
        blind = {"local", "by-key"} if self.oracle == "score" else {"local", "by-key", "pole"}
        for kind in sorted(blind & {self.election, *named.values()}) if not self.eligible else ():
            by = f"the oracle {self.oracle}" if kind == "pole" else "names alone"
            need(False, "eligible", f"cannot be false: --election {kind} goes by {by}, and would elect it all the same")
        if self.oracle == "quality" or self.attributes or self.measures:
            from doyen.node.quality import rating_of  # Few rate themselves.

            rating_of(self.attributes, self.measures)
        check_words(meta_of(self.meta))
        hops_of(self.hops)

    def membership_kind(self) -> Literal["none", "swim", "medley", "heartbeat", "ring"]:
        """What `auto` comes to."""
        if self.membership != "auto":
            return self.membership
        kinds = {self.election, *self.named_elections().values()}
        if "by-key" in kinds:
            return "ring"
        return "none" if kinds <= {*ANNOUNCING, "pole"} else "swim"

    def named_elections(self) -> dict[str, str]:
        """`mail=le-s` → {"mail": "le-s"}; without a kind, the group's own."""
        own = "hybrid" if self.election == "none" else self.election
        return {name: kind or own for name, _, kind in (text.partition("=") for text in self.elections)}

    def announce_config(self, kind: str) -> AnnounceConfig:
        """The table, and what the election's name says about it."""
        wanted: dict[str, Any] = {}
        if kind == "le-a":
            wanted = {"suppress_interval": 0, "leader_is": "best"}
        elif kind == "le-s":
            wanted = {"leader_is": "best"}
        elif kind == "le-m":
            wanted = {"leader_is": "earliest", "rank_map": "none"}
        return msgspec.structs.replace(self.announce, **wanted)

    def ctolerant_config(self, kind: str) -> CTolerantConfig:
        return msgspec.structs.replace(self.ctolerant, variant=kind)

    def seed_addresses(self) -> tuple[Address, ...]:
        return tuple(parse_address(seed, default_port=DEFAULT_PORT) for seed in self.seeds)

    def numeric_seeds(self) -> tuple[Address, ...]:
        """Those that need no looking up."""
        return tuple(seed for seed in self.seed_addresses() if is_numeric(seed.host))

    def looks_for_others(self) -> bool:
        """Otherwise it is alone, unless others have it as a seed."""
        return bool(self.seeds or self.seeds_file or self.multicast)

    def bind_address(self) -> Address:
        """As given; else loopback, unless there are seeds elsewhere: then every interface, at the usual port."""
        if self.bind:
            return parse_address(self.bind)
        seeds = self.seed_addresses()
        if not seeds or all(seed.host.startswith("127.") or seed.host == "::1" for seed in seeds):
            return Address("::1" if any(":" in seed.host for seed in seeds) else "127.0.0.1", 0)
        return Address("::" if ":" in seeds[0].host else "0.0.0.0", DEFAULT_PORT)


def _check_address(field: str, text: str) -> None:
    if text:
        try:
            parse_address(text, default_port=DEFAULT_PORT if field in ("seeds", "advertise") else None)
        except ConfigError as error:
            raise ConfigError(str(error), field=field) from None


def check_combination(membership: str, election: str, announce: AnnounceConfig) -> None:
    """Combinations without sense are refused, and why is said."""
    if membership == "none" and election in (*CHURN_TOLERANT, "local"):
        raise ConfigError(
            f"none cannot carry --election {election}: it elects from a list of members, so give one that keeps "
            "a list (swim, medley, heartbeat), or an election that needs none (announce)",
            field="membership",
        )
    if membership == "none" and election == "spanning":
        raise ConfigError(
            "none cannot carry --election spanning: it speaks to its neighbours, and somebody must find them; "
            "give swim, medley or heartbeat",
            field="membership",
        )
    if election == "by-key" and membership not in ("ring", "auto"):
        raise ConfigError(
            f"{membership} cannot carry --election by-key: the owner of a key is known on the ring only; give ring",
            field="membership",
        )
    if election == "none" and membership in ("none", "auto"):
        raise ConfigError("none leaves nothing to do: give a --membership that keeps a list", field="election")
    if election == "le-s" and announce.suppress_interval == 0:
        raise ConfigError("le-s needs a suppress_interval above 0: with 0 it is le-a", field="election")


def meta_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """`zone=eu` → {"zone": "eu"}."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"{pair!r} is not key=value", field="meta")
        found[key] = value
    return found


def hops_of(pairs: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pair in pairs:
        name, _, hops = pair.rpartition("=")
        try:
            found[name] = float(hops)
        except ValueError:
            found[name] = 0.0
        if not name or not 1 <= found[name] <= 1e6:
            raise ConfigError(f"{pair!r} is not name=hops: give e.g. bee=3, from 1 on", field="hops")
    return found


def is_numeric(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
