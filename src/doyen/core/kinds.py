"""The contract of elections and memberships with the node that runs them: one value per kind, in its own folder.

A kind knows its names, its configuration, what it needs, what each network makes of its timers, how its machine is
built, what it promises, what its worst case is, and how it accounts for its choice.  Nobody else asks for a kind by
its name: the node, the command line, the simulator and the proving ground all ask the kind itself.

    [project.entry-points."doyen.elections"]        a further election: one folder, and one line
    bully = "bully.kind:BULLY"

A kind's module is light: it imports the machine only when it builds one (decision 102).
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, StructMeta

from doyen.core.clock import FOREVER, Duration, Instant, ms
from doyen.core.config import Discreet, nearest
from doyen.core.effects import Out
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import Electors
from doyen.core.outside import OtherHalf
from doyen.core.reasons import Account
from doyen.core.traffic import Measured
from doyen.errors import LocalProtocolError

Network: TypeAlias = Literal["local", "lan", "wan", "iot"]
DELAYS: Final[dict[Network, Duration]] = {"local": ms(1), "lan": ms(1), "wan": ms(150), "iot": ms(200)}  # One way.
LOSSES: Final[dict[Network, float]] = {"local": 0.0, "lan": 0.001, "wan": 0.03, "iot": 0.05}  # Shares of messages.

# ── What a Python user passes ───────────────────────────────────────────────────────────────────────────────

Time: TypeAlias = str | float  # "200ms", "1.5s", "inf"; a bare number means seconds.
PRESET: Any = msgspec.UNSET  # What is not given is as the preset has it.
OF_THE_NODE: Final = "; voters, seeds, keys and state are arguments of join itself"


class _KnowsItsFields(StructMeta):
    """Makes choices, and says what a misspelt field will have been meant to be."""

    if not TYPE_CHECKING:  # Type checkers know the fields anyway.

        def __call__(cls, *values: Any, **given: Any) -> Any:
            for name in given.keys() - {*cls.__struct_fields__}:
                near = nearest(name, cls.__struct_fields__)
                advice = f"do you mean {near}?" if near else f"one of {', '.join(cls.__struct_fields__)}{OF_THE_NODE}"
                raise TypeError(f"{cls.__name__} has no field {name!r}: {advice}")
            return super().__call__(*values, **given)


class Choice(Discreet, frozen=True, kw_only=True, metaclass=_KnowsItsFields):
    """A protocol, and what is said about it: `Hybrid(missing_max=3)`.  What is not given comes from the preset."""

    kind: ClassVar[str]
    on_node: ClassVar[Mapping[str, str]] = {}  # Fields that are the node's, by the name that they have there.

    def given(self) -> dict[str, Any]:
        """Return the fields that were given."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if value is not PRESET}


class ElectionChoice(Choice, frozen=True, kw_only=True):
    """The choice of the election that decides who leads."""


class MembershipChoice(Choice, frozen=True, kw_only=True):
    """The choice of the membership that knows who is here."""


# ── What is said of a kind ──────────────────────────────────────────────────────────────────────────────────


class Table(Struct, frozen=True, kw_only=True):
    """One protocol's table in a node's configuration: its Struct, and what each network makes of it."""

    name: str
    about: str  # The heading of its flags.
    config: type[Struct]
    preset: Callable[[Network, int], Any]  # (network, group size) → config
    hidden: tuple[str, ...] = ()  # Fields that something else says: they have no flag.


def presets(
    config: Any, *, local: Callable[[int], Struct], iot: Callable[[int], Struct]
) -> Callable[[Network, int], Any]:
    """Return what each network makes of a table: the `lan` and `wan` of its Struct, and these two."""
    made = {"local": local, "lan": config.lan, "wan": config.wan, "iot": iot}
    return lambda network, group_size: made[network](group_size)


class Needs(Struct, frozen=True, kw_only=True):
    """The needs of an election, checked before anything starts."""

    members: bool = False  # A list of members.
    only: tuple[str, ...] = ()  # Memberships that will do; none: any.
    why: str = ""  # Why it needs a membership, and what to give: the end of a sentence.
    voters: bool = False  # The names of all voters.
    disk: bool = False  # A state directory, where promises survive a restart.
    shared: bool = False  # A directory that all members reach.


class Promise(Struct, frozen=True, kw_only=True):
    """The guarantees of an election, in words and as data.

    weak: one leader per region.  timed: never two named at once while time keeps to bounds that nothing enforces.
    quorum: never two acting at once, by a lease on the leader's own clock.
    """

    sort: Literal["weak", "timed", "quorum"] = "weak"
    in_short: str
    because: str  # Why the leader leads, as the end of a sentence.

    @property
    def strong(self) -> bool:
        """Return whether a leader is stopped in time by its clock alone."""
        return self.sort == "quorum"


WEAK: Final = (
    "one leader per connected region, once it has settled; two may lead across a partition until it heals, "
    "and for a moment around starts and failures."
)
ADVICE: Final = 'For "never two at once": the election quorum (pole).'


def weak(because: str) -> Promise:
    """Return the promise of a weak election."""
    return Promise(in_short=f"{WEAK} {ADVICE}", because=because)


class Detection(Struct, frozen=True):
    """The longest times that a membership takes, with nothing lost and nobody slow."""

    duration: Duration  # Until everybody knows of a death.
    because: str
    merging: Duration = 0  # Until two parts that were cut apart know of each other again.
    joining: Duration = 0  # Until all are in that begin at once.
    of_leader: Duration | None = None  # Until somebody knows of a leader's death; None: as of any other member's.
    of_leader_because: str = ""
    spreading: Duration = 0  # From then until everybody knows of it.

    def of_leader_by_all(self) -> tuple[Duration, str]:
        """Return the time until everybody knows of a leader's death, and what it consists of."""
        if self.of_leader is None:
            return self.duration, self.because
        return self.of_leader + self.spreading, self.of_leader_because


class Around(Struct, frozen=True, kw_only=True):
    """The surroundings that a worst case depends on, besides the election's own timers."""

    delay: Duration  # One way.
    group_size: int
    detection: Detection  # The membership's; 0 where there is none.
    disk: Duration = 0  # How long a record takes to become durable.


class WorstCase(Struct, frozen=True, kw_only=True):
    """Times from a leader's silent death on, with nothing lost and nobody slow."""

    detection: Duration  # Until somebody gives it up.
    failover: Duration  # Until everybody names the next.
    because: str  # The sum, in the protocol's own words.
    settling: Duration  # From the end of all faults, or a start, until one leader is left.


# ── Where a machine is built ────────────────────────────────────────────────────────────────────────────────


class Place(Struct, frozen=True, kw_only=True):
    """Everything that a kind may ask for when it builds its machine."""

    node: NodeId
    incarnation: Incarnation
    address: Address | None
    seeds: tuple[Address, ...]
    group: str
    name: str  # The election's; the group's own is "".
    channel: str
    config: Any  # The kind's table.
    standing: float
    eligible: bool
    voters: frozenset[NodeId]
    newcomer: bool  # The operator's word that nobody of this name has ever voted.
    durable: bool  # Whether there is a disk.
    links_each_side: int
    hops: Mapping[str, float]  # How far members are.
    payload_max: int  # Bytes of a message that fit a datagram.
    rng: Callable[[str], Random]  # By channel.
    restore: Callable[[Any], Any]  # By the record's type: what this channel kept, or None.
    companion: Callable[[str, Callable[[Out], Any]], Any]  # (channel, build): a machine beside it, made once.
    rank: Callable[[NodeId], int | float] | None  # By the members' scores; None: the kind's own.
    scorer: Callable[[], Any]  # What measures scores between voters, or None: the standing counts.


Build: TypeAlias = Callable[[Place], Callable[[Out], Any]]


class Election:
    """The questions that a node may ask of an election's machine, and the answers of one without lease and voters.

    A machine gives `me` and `named`, and its own answer wherever it has another.
    """

    __slots__ = ()

    MEASURED: ClassVar[tuple[Measured, ...]] = ()  # Those of its messages that show how the network behaves.

    me: NodeId

    @property
    def named(self) -> NodeId | None:
        """Return the leader that this machine names; a node waits for the fact that says so before it acts."""
        raise NotImplementedError

    @property
    def stage(self) -> str:
        """The machine's own word for where it stands; "": leading, following and waiting are all there is."""
        return ""

    @property
    def leader_count(self) -> int:
        """Return how many may lead at once by configuration."""
        return 1

    def leads(self, now: Instant) -> bool:
        """Return whether this node may act as leader at this instant, by its lease if it has one."""
        return self.named == self.me

    @property
    def final(self) -> bool:
        """Return whether the leader that is named cannot be replaced within the same election."""
        return True

    @property
    def waits_for(self) -> str:
        """Return what this node waits for before it acts, while it names itself leader; "": nothing."""
        return ""

    def lease_until(self) -> Instant | None:
        """Return until when this node may act without hearing anything further; None: there is no lease."""
        return None

    def check_heir(self, to: NodeId | None) -> None:
        """Raise `LocalProtocolError` if leadership cannot be handed to that member."""

    @property
    def heir(self) -> NodeId | None:
        """Return who would be the next leader, as the present one says; None: nobody knows."""
        return None

    @property
    def baton(self) -> bytes | None:
        """Return what the last leader handed on, and this one since; None: this election keeps nothing."""
        return None

    def check_baton(self, baton: bytes) -> None:
        """Raise `LocalProtocolError` if that cannot be handed to the next leader."""
        raise LocalProtocolError("this election hands nothing on: only a quorum's does (election='quorum')")

    def electors(self, now: Instant) -> Electors | None:
        """Return the voters that count; None: there are no voters."""
        return None

    def check_voters(self, voters: frozenset[NodeId]) -> None:
        """Raise `LocalProtocolError` if the voters cannot be replaced by these."""
        raise LocalProtocolError("this election has no voters: only a quorum's has (election='quorum')")

    @property
    def voters(self) -> frozenset[NodeId]:
        """Return the members whose votes count; none where nobody votes."""
        return frozenset()

    def round_trip(self, node: NodeId) -> Duration | None:
        """Return the smoothed round trip between this node and that one, where the election's own messages tell it."""
        return None

    def will(self) -> Any:
        """Return the message that ends the term led now, for when this process is known to be dead; None: none."""
        return None

    @property
    def will_goes_to(self) -> frozenset[NodeId]:
        """Return the members that a will is sent to."""
        return self.voters


NoLease = Election  # As elections of other packages know it.


class Membership:
    """The questions that a node may ask of any membership's machine, and the answers of one without suspects."""

    __slots__ = ()

    MEASURED: ClassVar[tuple[Measured, ...]] = ()  # Those of its messages that show how the network behaves.

    def accusers(self, node: NodeId) -> tuple[NodeId, ...]:
        """Return who suspects that member, as far as this node has heard."""
        return ()

    def refute_by(self, node: NodeId) -> Instant | None:
        """Return until when a suspect may still refute, by this node's clock."""
        return None

    def round_trip(self, node: NodeId) -> Duration | None:
        """Return the smoothed round trip between this node and that member, where something pings it."""
        return None


# ── The kinds ───────────────────────────────────────────────────────────────────────────────────────────────


class ElectionKind(Struct, frozen=True, kw_only=True):
    """One election."""

    name: str
    about: str  # One line of help.
    table: Table
    build: Build
    promise: Callable[[Any, str], Promise]  # (config, rank: hash or score)
    worst_case: Callable[[Any, Around], WorstCase]
    needs: Needs = Needs()
    aliases: tuple[str, ...] = ()  # Names that people can guess, the usual one first.
    choice: type[ElectionChoice] | None = None
    check: Callable[[Any], None] = lambda config: None  # Raises `ConfigError` for a table that it cannot run with.
    account: Callable[[], Account] = Account
    lease: Callable[[Any], Duration | None] = lambda config: None  # How long a leader acts on one renewal.
    stay_put: Callable[[Any], Any] = lambda config: config  # The same table, but a leader never hands over by itself.
    keeps_cool_down: bool = False  # The machine itself passes over a member that resigned, for as long as it was told.
    resigns: bool = True  # Whether its machine hears `Resign`.
    stands_again: bool = False  # Whether its machine hears `Stand` once a cool-down is over.
    heeds_eligible: bool = True  # Whether a member that may not lead is passed over.
    heeds_score: Callable[[Any, str], bool] = lambda config, rank: True  # Whether a member's score counts.
    compares_every: Callable[[Any], Duration] = lambda config: FOREVER  # How often a leader compares scores.
    first_record: Callable[[], Any] = lambda: None  # What a voter that has never voted keeps; None: it keeps nothing.
    asks_oracle: bool = False  # Whether an oracle's scores decide, where one is chosen.
    other_half: Callable[[], OtherHalf] | None = None  # Makes what does its machine's requests (`core.outside`).
    store: Callable[[str], str] | None = None  # What a store of that address guarantees; raises `ConfigError` for none.

    @property
    def title(self) -> str:
        """Return the name as people read it, the alias first: `gossip (hybrid)`."""
        return f"{self.aliases[0]} ({self.name})" if self.aliases else self.name


ALIASES: Final = {"fast": "announce", "gossip": "hybrid", "quorum": "pole"}  # As the kinds have them; a test compares.


def title_of(name: str) -> str:
    """Return the name of an election as people read it, where its kind is not loaded."""
    return next((f"{alias} ({name})" for alias, full in ALIASES.items() if full == name), name)


class MembershipKind(Struct, frozen=True, kw_only=True):
    """One membership."""

    name: str
    about: str
    table: Table
    build: Build
    detection: Callable[[Any, int], Detection]  # (config, group size)
    choice: type[MembershipChoice] | None = None
