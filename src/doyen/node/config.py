"""The configuration of a node: one Struct for Python, TOML, the environment and flags."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias
from zlib import crc32

from msgspec import Meta
from msgspec.structs import force_setattr, replace

from doyen.core.clock import Duration, seconds
from doyen.core.config import Config, Doc, Secret, Several, Wait, need
from doyen.core.ids import NAME_MAX, Address, has_port, node_id, parse_address
from doyen.core.kinds import DELAYS, Around, Detection, ElectionKind, MembershipKind, Network, Promise, Table, WorstCase
from doyen.core.rank import SALTING, STANDING_MAX
from doyen.errors import ConfigError
from doyen.membership.notes import check_words
from doyen.node.registry import find_election, find_membership

RankKind = Literal["hash", "score"]
OracleKind = Literal["score", "consensus", "latency", "worst-case", "request", "rotating", "quality"]

Texts: TypeAlias = tuple[str, ...]
Expected: TypeAlias = Annotated[int, Meta(ge=0, le=100_000)]
GroupSize: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
Rate: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]

ELECTIONS_MAX: Final = 64
DEFAULT_PORT: Final = 7600
GROUP_PORTS: Final = range(17600, 27600)
ALONE_AFTER: Final = {"local": seconds(3), "lan": seconds(10), "wan": seconds(30), "iot": seconds(60)}  # By preset.
ANSWERS_WITHIN: Final = {"local": seconds(3), "lan": seconds(3), "wan": seconds(10), "iot": seconds(30)}  # By preset.
DEFAULT_ELECTION: Final = "hybrid"  # One seed is enough for it, and it keeps a list of members.
DEFAULT_MEMBERSHIP: Final = "swim"  # What `auto` comes to where an election needs a list of members.


class NodeConfig(Config, frozen=True, kw_only=True):
    """One process of a group.  The tables below it are the protocols' own; the presets fill them."""

    group: Annotated[
        str, Doc("The group's name, the same on every member. Messages of other groups are not heard.")
    ] = ""
    name: Annotated[str, Doc("This process's name in the group; by default the host's name and the process id.")] = ""
    preset: Annotated[Network, Doc("The timers: for one machine, a local network, the internet, or lossy radio.")] = (
        "lan"
    )
    group_size: Annotated[GroupSize, Doc("How many members are expected. It shapes timers, and nothing else.")] = 10
    bind: Annotated[
        str,
        Doc("Where to listen, host:port (0: any free); by default loopback, or everywhere if others are elsewhere."),
    ] = ""
    advertise: Annotated[str, Doc("Where others reach this process, host:port; by default where it listens.")] = ""
    multicast: Annotated[str, Doc("The group's multicast address, as host:port.")] = ""
    interface: Annotated[str, Doc("The interface for multicast; by default the one that bind names.")] = ""
    ttl: Annotated[int, Doc("How many routers a multicast may cross.")] = 1
    seeds: Annotated[
        Texts, Doc("Other members as host:port (port 7600 if none is given). One that answers is enough.")
    ] = ()
    state: Annotated[str, Doc("A directory in which terms and promises survive restarts.")] = ""
    key_file: Annotated[
        str, Doc("The group's key file (doyen keys new). Without it anybody can send to the group.")
    ] = ""
    find_local: Annotated[bool, Doc("Whether to find this user's other processes of the group on this machine.")] = True
    alone_after: Annotated[
        Wait, Doc("How long a first leader waits for silent seeds before it acts alone; inf: forever.")
    ] = seconds(10)
    expect: Annotated[
        Expected, Doc("Before its first act it waits until this many members answer at once. It is no quorum.")
    ] = 0
    seeds_file: Annotated[str, Doc("A file of further seeds, one per line. It is read again when it changes.")] = ""
    http: Annotated[
        str, Doc("Where to serve /leader, /members, /health, /events, /metrics: host:port or unix:PATH.")
    ] = ""
    http_token: Annotated[
        str, Secret(), Doc("The token that every HTTP request must have; needed if http is not on loopback.")
    ] = ""
    http_open: Annotated[bool, Doc("Whether to answer /livez and /readyz to everybody, without the token.")] = False
    record: Annotated[str, Doc("A file that records all that comes in, for `doyen replay`.")] = ""
    record_max: Annotated[int, Doc("How many bytes the recording takes at most, in two segments.")] = 16777216
    control_group: Annotated[
        str, Doc("A unix group that may ask this node, and make it resign or leave, as its user may.")
    ] = ""
    link: Annotated[
        bool, Doc("Whether to hold an idle TCP connection to the leader, so that its death is known at once.")
    ] = True
    membership: Annotated[str, Doc("How the list of members is kept; auto is what the election needs.")] = "auto"
    election: Annotated[str, Doc("How the leader is chosen: gossip, fast, quorum, or another kind.")] = DEFAULT_ELECTION
    elections: Annotated[Texts, Doc("Further elections of this group, each as NAME or NAME=KIND.")] = ()
    rank: Annotated[
        RankKind,
        Doc("For churn-tolerant elections: the greatest score leads, of equals the lowest hash; or hashes alone."),
    ] = "score"
    standing: Annotated[float, Doc("This process's score: the greatest leads, where the election goes by scores.")] = (
        0.0
    )
    eligible: Annotated[bool, Doc("Whether this process may lead at all.")] = True
    meta: Annotated[Texts, Doc("What others should know of this process, as key=value; at most 512 bytes.")] = ()
    hops: Annotated[Texts, Doc("For medley: how far members are, as name=hops; the others are 1 hop away.")] = ()
    voters: Annotated[Texts, Doc("For quorum (pole): the names of all voters, the same on every member.")] = ()
    oracle: Annotated[OracleKind, Doc("For quorum (pole): whether scores are given, or are what voters measure.")] = (
        "score"
    )
    attributes: Annotated[Texts, Doc("For oracle=quality: name:min:max:weight, then :cost if less is better.")] = ()
    measures: Annotated[
        Texts, Doc("For oracle=quality: what only a person knows of this process, as name=number.")
    ] = ()
    request_rate: Annotated[
        Rate, Doc("For quorum (pole): this process's requests per second, which some oracles weigh.")
    ] = 0.0
    newcomer: Annotated[
        bool, Doc("For quorum (pole): the operator's assurance that this name has never voted here.")
    ] = False
    volatile: Annotated[
        bool, Doc("For quorum (pole), in tests: promises stay in memory, so a restart may break one.")
    ] = False
    shared: Annotated[
        str,
        Doc("For directory: a directory that all members reach and nobody caches. For engine: the address of a store."),
    ] = ""
    links_each_side: Annotated[
        Several, Doc("For spanning: how many neighbours a node has on each side of the ring of names.")
    ] = 3
    tables: dict[str, Any] = {}  # The protocols' own Structs, by the name of their table; the presets fill them.

    def check(self) -> None:
        size = len(self.group.encode())
        need(size > 0, "group", "is missing: give the group's name, the same on every member")
        need(0 < size <= NAME_MAX, "group", f"{self.group!r} must have 1 to {NAME_MAX} bytes")
        if self.name:
            try:
                node_id(self.name)
            except ConfigError as error:
                raise ConfigError(str(error), field="name") from None
        sound = -STANDING_MAX <= self.standing <= STANDING_MAX  # Also false for nan.
        need(sound, "standing", f"{self.standing} is not a standing: give a finite number")
        for field in ("bind", "advertise", "multicast"):
            _check_address(field, getattr(self, field))
        for seed in self.seeds:
            _check_address("seeds", seed)
        if not self.http.startswith("unix:"):
            _check_address("http", self.http)
        need(len(self.elections) < ELECTIONS_MAX, "elections", f"are too many: at most {ELECTIONS_MAX}")
        named = self.named_elections()
        need(len(named) == len(self.elections), "elections", "must have names that differ")
        for name, kind in named.items():
            need(0 < len(name.encode()) <= 32 and name.isprintable(), "elections", f"{name!r} must have 1 to 32 bytes")
            need(kind != "none", "elections", f"{kind!r} is no election")
        self._check_kinds()
        if self.oracle == "quality" or self.attributes or self.measures:
            from doyen.score.rating import rating_of  # Few rate themselves.

            rating_of(self.attributes, self.measures)
        check_words(meta_of(self.meta))
        hops_of(self.hops)

    def _check_kinds(self) -> None:
        """Refuse what one of the elections cannot run with, and say why."""
        if self.election != "none":
            force_setattr(self, "election", find_election(self.election).name)  # An alias is spelt out.
        if self.election == "none" and self.membership == "none":
            raise ConfigError("none leaves nothing to do: give a membership that keeps a list", field="election")
        membership = self.membership_kind()
        for name, kind in self.election_kinds().items():
            self.check_election(kind, membership, field="elections" if name else "election")

    def unused_score(self) -> str:
        """Return why no election of this node would ever look at its score; "": one does, or there is none."""
        kinds = [*self.election_kinds().values()]
        by_oracle = [kind for kind in kinds if kind.asks_oracle and self.oracle != "score"]
        asked = [kind for kind in kinds if kind not in by_oracle]
        if not kinds or any(kind.heeds_score(self.table(kind.table), self.rank) for kind in asked):
            return ""
        by = f"the oracle {self.oracle}" if by_oracle else "hashes alone" if self.rank == "hash" else "other things"
        names = " and ".join(kind.title for kind in kinds)
        return f"the score counts for nothing: the election {names} goes by {by}; gossip, fast and quorum go by scores"

    def unused_voters(self) -> str:
        """Return why the voters that are named would never vote; "": they do, or none are named."""
        kinds = [*self.election_kinds().values()]
        if not self.voters or any(kind.needs.voters for kind in kinds):
            return ""
        names = " and ".join(kind.title for kind in kinds) or "none"
        return f"voters count for nothing: the election {names} has no votes; quorum has (election = quorum)"

    def unused_shared(self) -> str:
        """Return why the store or directory that is named decides nothing; "": it does, or none is named."""
        kinds = [*self.election_kinds().values()]
        if not self.shared or any(kind.needs.shared for kind in kinds):
            return ""
        names = " and ".join(kind.title for kind in kinds) or "none"
        wanted = "engine" if "://" in self.shared else "directory"
        return f"shared counts for nothing: the election {names} asks no store; give election = {wanted}"

    def check_election(self, kind: ElectionKind, membership: MembershipKind | None, *, field: str) -> None:
        """Raise `ConfigError` where this node lacks what the election needs."""
        needs, given = kind.needs, "none" if membership is None else membership.name
        if (needs.members and membership is None) or (needs.only and given not in needs.only):
            raise ConfigError(f"{given} cannot carry the election {kind.title}: {needs.why}", field="membership")
        if needs.voters and not self.voters:
            raise ConfigError(
                f"must name all members that vote: the election {kind.title} counts a majority of them, so it must "
                f"know them. {self._voting(kind)}",
                field="voters",
            )
        if needs.disk and not (self.state or self.volatile):
            raise ConfigError(
                f"must name a directory: the election {kind.title} promises on the disk, or a restarted voter could "
                f"vote twice. {self._voting(kind)}",
                field="state",
            )
        if kind.store is not None:
            kind.store(self.shared)
        elif needs.shared and not self.shared:
            raise ConfigError(
                f"must name a directory that all members reach: the election {kind.title} claims terms in it",
                field="shared",
            )
        elif needs.shared and "://" in self.shared:
            raise ConfigError(f"is the address of a store: the election {kind.title} needs a directory", field="shared")
        for voter in self.voters if needs.voters else ():
            node_id(voter)
            if self.voters.count(voter) > 1:
                raise ConfigError(f"has {voter} twice: a majority is counted of different voters", field="voters")
        if not (self.eligible or kind.heeds_eligible):
            raise ConfigError(
                f"cannot be false: the election {kind.title} goes by names alone, and would elect it all the same",
                field="eligible",
            )
        kind.check(self.table(kind.table))

    def _voting(self, kind: ElectionKind) -> str:
        """Return all that a voter must be given, as one command and as one call that work."""
        voters = self.voters or ("ant", "bee", "cat")
        name = self.name if self.name in voters else voters[0]
        group, state = self.group or "NAME", self.state or "DIRECTORY"
        election = next(iter(kind.aliases), kind.name)
        flags = f"--election {election} --voters {','.join(voters)} --name {name} --state {state}"
        words = f"election={election!r}, voters={list(voters)}, name={name!r}, state={state!r}"
        return (
            f"A voter needs voters, name, state, and at its first start newcomer: doyen run --group {group} {flags} "
            f"--newcomer -- COMMAND; in Python doyen.join({group!r}, {words}, newcomer=True)"
        )

    # What was chosen.

    def election_kind(self) -> ElectionKind | None:
        """Return the group's own election, if it has one."""
        return None if self.election == "none" else find_election(self.election)

    def election_kinds(self) -> dict[str, ElectionKind]:
        """Return every election of this node, by name; the group's own is ""."""
        own = {} if self.election == "none" else {"": find_election(self.election)}
        try:
            return own | {name: find_election(kind) for name, kind in self.named_elections().items()}
        except ConfigError as error:
            raise ConfigError(error.complaint, field="elections") from None

    def has_lease(self) -> bool:
        """Return whether some election of this node gives its leader a lease."""
        return any(kind.lease(self.table(kind.table)) is not None for kind in self.election_kinds().values())

    def named_elections(self) -> dict[str, str]:
        """Return the kinds of named elections: `mail=le-s` → {"mail": "le-s"}; without a kind, the group's own."""
        own = DEFAULT_ELECTION if self.election == "none" else self.election
        return {name: kind or own for name, _, kind in (text.partition("=") for text in self.elections)}

    def membership_kind(self) -> MembershipKind | None:
        """Return the membership; `auto` is what the elections need, and None is none."""
        if self.membership != "auto":
            return None if self.membership == "none" else find_membership(self.membership)
        needs = [kind.needs for kind in self.election_kinds().values()]
        only = [need.only[0] for need in needs if need.only]
        if only or not needs or any(need.members for need in needs):
            return find_membership(only[0] if only else DEFAULT_MEMBERSHIP)
        return None

    def membership_name(self) -> str:
        found = self.membership_kind()
        return "none" if found is None else found.name

    def table(self, table: Table) -> Any:
        """Return a protocol's own configuration."""
        found = self.tables.get(table.name)
        return table.config() if found is None else found

    def promise(self, kind: ElectionKind) -> Promise:
        """Return what that election guarantees on this node."""
        promise = kind.promise(self.table(kind.table), self.rank)
        if kind.store is None:
            return promise
        return replace(promise, in_short=f"{promise.in_short} {kind.store(self.shared)}.")

    def must_be_alike(self, kind: ElectionKind | None) -> dict[str, str]:
        """Return what must be the same on all members that take part in this election, in words."""
        election = "none" if kind is None else kind.name
        found = {"election": election, "membership": self.membership_name(), "salt": SALTING}
        if kind is not None:
            by_hash, by_score = (kind.heeds_score(self.table(kind.table), rank) for rank in ("hash", "score"))
            if by_hash != by_score:  # It goes by ranks.
                found["rank"] = self.rank
        return found

    def worst_case(self, kind: ElectionKind, disk: Duration = 0) -> WorstCase:
        """Return the worst case of that election, by this node's own timers, its preset's delay, and disks that take so
        long to write a record."""
        around = Around(delay=DELAYS[self.preset], group_size=self.group_size, detection=self.detection(), disk=disk)
        return kind.worst_case(self.table(kind.table), around)

    def settle(self, kind: ElectionKind) -> Duration:
        """Return how long a first leader waits for a rival election to end: twice what one takes by these timers."""
        worst = self.worst_case(kind)
        return 2 * max(worst.failover - worst.detection, 2 * DELAYS[self.preset])

    def detection(self) -> Detection:
        """Return the worst case of the membership, by this node's own timers."""
        found = self.membership_kind()
        return Detection(0, "") if found is None else found.detection(self.table(found.table), self.group_size)

    # Where it is.

    def seed_addresses(self) -> tuple[Address, ...]:
        return tuple(parse_address(seed, default_port=DEFAULT_PORT) for seed in self.seeds)

    def numeric_seeds(self) -> tuple[Address, ...]:
        """Return the seeds that need no looking up."""
        return tuple(seed for seed in self.seed_addresses() if seed.is_numeric)

    def group_port(self) -> int:
        """Return the port of this group on hosts where another group has the usual one; 0: all ports were given."""
        if not self.seeds_file and all(has_port(seed) for seed in self.seeds):
            return 0
        return GROUP_PORTS[crc32(self.group.encode()) % len(GROUP_PORTS)]

    def looks_for_others(self) -> bool:
        """Return whether this node looks for others on other machines; if not, they must have it as a seed."""
        return bool(self.seeds or self.seeds_file or self.multicast)

    def bind_address(self, listed: Sequence[Address] = ()) -> Address:
        """Return the address given; else loopback, or every interface if others are elsewhere.

        `listed` are the seeds that the seeds file names now.  The port is the usual one where others must know it.
        """
        if self.bind:
            return parse_address(self.bind)
        seeds = (*self.seed_addresses(), *listed)
        if not seeds and self.multicast and not self.seeds_file:
            return Address("::" if ":" in parse_address(self.multicast).host else "0.0.0.0", 0)
        here = all(is_loopback(seed.host) for seed in seeds)
        if here and (seeds or not self.seeds_file):
            port = DEFAULT_PORT if any(seed.port == DEFAULT_PORT for seed in seeds) else 0
            return Address("::1" if any(":" in seed.host for seed in seeds) else "127.0.0.1", port)
        return Address("::" if seeds and ":" in seeds[0].host else "0.0.0.0", DEFAULT_PORT)


def is_loopback(host: str) -> bool:
    """Return whether that host is this machine itself, whatever machine asks."""
    return host.startswith("127.") or host in ("::1", "localhost") or host.endswith(".localhost")


def _check_address(field: str, text: str) -> None:
    if text or field == "seeds":  # The other fields may be left empty.
        try:
            parse_address(text, default_port=DEFAULT_PORT if field in ("seeds", "advertise") else None)
        except ConfigError as error:
            raise ConfigError(str(error), field=field) from None


def meta_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return pairs as a mapping: `zone=eu` → {"zone": "eu"}."""
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
