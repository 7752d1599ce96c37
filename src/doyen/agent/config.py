"""What one node is: its group, how it hears others, who is here, who leads.  One Struct for all ways to say it."""

from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from doyen.agent.presets import Preset
from doyen.core.ids import NAME_MAX, Address, node_id, parse_address
from doyen.election.announce import STANDING_MAX, AnnounceConfig
from doyen.election.ctolerant import CTolerantConfig
from doyen.election.spanning import SpanningConfig
from doyen.errors import ConfigError
from doyen.membership.heartbeat import HeartbeatConfig
from doyen.membership.medley import MedleyConfig
from doyen.membership.swim import SwimConfig

MembershipKind = Literal["auto", "none", "swim", "medley", "heartbeat"]
ElectionKind = Literal[
    "announce", "le-a", "le-s", "le-m", "base", "optimistic", "preferred", "hybrid", "local", "spanning", "none"
]

ANNOUNCING: Final = ("announce", "le-a", "le-s", "le-m")
CHURN_TOLERANT: Final = ("base", "optimistic", "preferred", "hybrid")
ELECTIONS_MAX: Final = 64


class NodeConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process of a group.  The tables below it are the protocols' own; the presets fill them."""

    group: str = ""  #: The group's name; processes of other groups are not heard.
    name: str = ""  #: This process's name in the group; by default the host's name and the process id.
    preset: Preset = "lan"  #: Timers for one machine, a local network, the internet, or lossy radio.
    group_size: int = 10  #: How many members are expected; shapes timers, and nothing else.
    bind: str = "127.0.0.1:0"  #: Where to listen, host:port; port 0: any free one.
    advertise: str = ""  #: Where others reach this process, host:port; by default where it listens.
    multicast: str = ""  #: The group's multicast address, host:port.
    interface: str = ""  #: The interface for multicast; by default the one of --bind.
    ttl: int = 1  #: How many routers a multicast may cross.
    seeds: tuple[str, ...] = ()  #: Other members' host:port, where there is no multicast.
    state: str = ""  #: A directory: terms and promises survive restarts.
    key_file: str = ""  #: The group's keys (doyen keys new): packets are sealed; without, anybody can speak in it.
    link: bool = True  #: Hold an idle TCP connection to the leader, so that its death is known at once.
    membership: MembershipKind = "auto"  #: Who is here?  auto: what the election needs.
    election: ElectionKind = "announce"  #: Who leads?
    elections: tuple[str, ...] = ()  #: Further elections of this group, each with a name of its own.
    standing: float = 0.0  #: The greatest leads, where the election asks for it; ties by the greatest name.
    eligible: bool = True  #: Whether this process may lead at all.
    meta: tuple[str, ...] = ()  #: What others should know of this process, as key=value; at most 512 bytes.
    hops: tuple[str, ...] = ()  #: Medley: how far members are, as name=hops; the others are 1 hop away.
    links_each_side: int = 3  #: Spanning: neighbours on either side, on the ring of names; few: long ways.
    announce: AnnounceConfig = AnnounceConfig()
    swim: SwimConfig = SwimConfig()
    medley: MedleyConfig = MedleyConfig()
    heartbeat: HeartbeatConfig = HeartbeatConfig()
    ctolerant: CTolerantConfig = CTolerantConfig()
    spanning: SpanningConfig = SpanningConfig()

    def __post_init__(self) -> None:
        def need(holds: bool, field: str, wanted: str) -> None:
            if not holds:
                raise ConfigError(wanted, field=field)

        size = len(self.group.encode())
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
        need(1 <= self.links_each_side <= 64, "links_each_side", "must be 1 to 64")
        need(len(self.elections) < ELECTIONS_MAX, "elections", f"are too many: at most {ELECTIONS_MAX}")
        need(len({*self.elections}) == len(self.elections), "elections", "must have names that differ")
        for name in self.elections:
            need(0 < len(name.encode()) <= 32 and name.isprintable(), "elections", f"{name!r} must have 1 to 32 bytes")
        check_combination(self.membership, self.election, self.announce)
        meta_of(self.meta)
        hops_of(self.hops)

    def membership_kind(self) -> Literal["none", "swim", "medley", "heartbeat"]:
        """What `auto` comes to."""
        if self.membership != "auto":
            return self.membership
        return "none" if self.election in ANNOUNCING else "swim"

    def announce_config(self) -> AnnounceConfig:
        """The table, and what the election's name says about it."""
        wanted: dict[str, Any] = {}
        if self.election == "le-a":
            wanted = {"suppress_interval": 0, "leader_is": "best"}
        elif self.election == "le-s":
            wanted = {"leader_is": "best"}
        elif self.election == "le-m":
            wanted = {"leader_is": "earliest", "rank_map": "none"}
        return msgspec.structs.replace(self.announce, **wanted)

    def ctolerant_config(self) -> CTolerantConfig:
        if self.election not in CHURN_TOLERANT:
            return self.ctolerant
        return msgspec.structs.replace(self.ctolerant, variant=self.election)

    def seed_addresses(self, default_port: int | None = None) -> tuple[Address, ...]:
        return tuple(parse_address(seed, default_port=default_port) for seed in self.seeds)


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
