"""From a configuration to machines: who is here, who ought to lead, who leads.

    membership ──ViewChanged──▶ notes      (scores, and what members say of themselves)
               └─ViewChanged──▶ missing ──MissingEstimated──▶ election
               └─ViewChanged──▶ links ───LinkChanged────────▶ election      (spanning)
               └─ViewChanged────────────────────────────────▶ election      (churn-tolerant, local)
                                                              election/NAME (further ones)

A `Place` is where the machines go: a driver on real sockets, or a node of the simulator.  Nothing here knows which.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from msgspec import Struct

from doyen import __version__
from doyen.agent.config import ANNOUNCING, CHURN_TOLERANT, NodeConfig, check_combination, hops_of, meta_of
from doyen.agent.reign import Reign
from doyen.core.clock import Duration, Instant, ms
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkChanged
from doyen.core.rank import shortest
from doyen.core.view import Member, MembershipView, Status, ViewChanged
from doyen.election.announce import STANDING_MAX
from doyen.errors import ConfigError
from doyen.membership.notes import ByScore, Note, Notes, NotesConfig

MEMBERSHIP: Final = "membership"
MISSING: Final = "missing"
LINKS: Final = "links"
NOTES: Final = "notes"
ORACLE: Final = "oracle"
ELECTION: Final = "election"

QUANTUM_MS: Final = 1.0  # Of round trips on real networks: differences below it are noise.
UNKNOWN_RANK: Final = float(2 * STANDING_MAX)
INELIGIBLE_RANK: Final = 2 * UNKNOWN_RANK
ROUND_TRIPS_MAX: Final = 4096  # Members whose own round trip is remembered.


class Place(Struct, frozen=True, kw_only=True):
    """What machines need of where they run."""

    node: NodeId
    incarnation: Incarnation
    address: Address | None
    seeds: tuple[Address, ...]
    add: Callable[..., Any]  # (channel, build, follows=…) → the machine or its port
    rng: Callable[[str], Random]  # By channel.
    restored: Callable[[str, Any], Any]  # (channel, kind) → what was kept, or None.
    durable: bool  # Whether there is a disk.
    tell: Callable[..., None]  # (fact, channel=…): to a machine that came late.


class Stack:
    """One node's machines, and what they have told so far."""

    def __init__(self, config: NodeConfig, place: Place) -> None:
        self.config, self.place = config, place
        self.view: MembershipView | None = None
        self.machines: dict[str, Any] = {}  # By channel.
        self.reigns: dict[str, Reign] = {}  # By the election's name; the group's own is "".
        self._by_channel: dict[str, Reign] = {}
        self._add_membership()
        if self.membership is not None:
            self._add_notes()
        if hasattr(self._swim, "round_trips"):
            self._swim.round_trips.members_max = ROUND_TRIPS_MAX
        if config.election != "none":
            self.add_election("", config.election)
        for name, kind in config.named_elections().items():
            self.add_election(name, kind)

    # Queries.

    @property
    def membership(self) -> Any:
        """The machine that keeps the list, or None."""
        return self.machines.get(MEMBERSHIP)

    def reign_on(self, channel: str) -> Reign | None:
        return self._by_channel.get(channel)

    def members(self) -> list[Member]:
        """The view; without a membership those that this node knows of by the election: itself and the leader."""
        if self.view is not None:
            return sorted(self.view.members.values(), key=lambda member: member.node)
        place = self.place
        names = {place.node: Member(node=place.node, incarnation=place.incarnation, address=place.address)}
        for reign in self.reigns.values():
            if reign.term is not None and reign.term.leader not in names:
                names[reign.term.leader] = Member(node=reign.term.leader)
        return sorted(names.values(), key=lambda member: member.node)

    def accusers(self, node: NodeId) -> tuple[NodeId, ...]:
        """Who suspects it, as far as this node has heard."""
        found = self._suspicions().get(node)
        return () if found is None else tuple(sorted(found.accusers - {""}))

    def refute_by(self, node: NodeId) -> Instant | None:
        """Until when a suspect may still refute, by this node's clock."""
        found = self._suspicions().get(node)
        return None if found is None else int(found.deadline)

    def round_trip(self, node: NodeId) -> Duration | None:
        """Between here and there, where something pings it: SWIM and Medley, the ring's neighbours, an oracle."""
        trips = getattr(self._swim, "round_trips", None)
        if trips is not None:
            mean = trips.by_member.get(node)
            return None if mean is None else int(mean)
        for pair in getattr(self.membership, "pairs", {}).values():
            if pair.seat.node == node and pair.round_trip is not None:
                return int(pair.round_trip)
        measured = getattr(self.machines.get(ORACLE), "vectors", None)
        took = None if measured is None else measured.rtt.get(node)
        return None if took is None else ms(took)

    @property
    def _swim(self) -> Any:
        return getattr(self.membership, "swim", self.membership)  # Medley has one.

    def _suspicions(self) -> Mapping[NodeId, Any]:
        return getattr(self._swim, "suspicions", None) or {}

    # What is told.

    def observe(self, channel: str, fact: Any, now: Instant) -> None:
        """Every fact of the node's machines goes through here, first of all."""
        if isinstance(fact, ViewChanged):
            self.view = fact.view
        elif isinstance(fact, LeaderElected | LeaderLost):
            reign = self._by_channel.get(channel)
            if reign is not None:
                reign.note(fact, now)

    # Machines.

    def _add(self, channel: str, build: Callable[[Any], Any]) -> None:
        def build_and_keep(port: Any) -> Any:
            self.machines[channel] = machine = build(port)
            return machine

        self.place.add(channel, build_and_keep)

    def _add_membership(self) -> None:
        config, place = self.config, self.place
        kind = config.membership_kind()
        if kind == "none":
            return
        from doyen.membership.swim import payload_max

        common: dict[str, Any] = {
            "incarnation": place.incarnation,
            "address": place.address,
            "seeds": place.seeds,
            "payload_max": payload_max(config.group, place.node, MEMBERSHIP),
        }
        rng = place.rng(MEMBERSHIP)
        match kind:
            case "swim":
                from doyen.membership.swim import Swim

                self._add(MEMBERSHIP, lambda port: Swim(place.node, config.swim, port, rng, **common))
            case "medley":
                from doyen.membership.medley import Hops, Medley

                distance = Hops(hops_of(config.hops))
                self._add(
                    MEMBERSHIP,
                    lambda port: Medley(place.node, config.medley, port, rng, distance=distance, **common),
                )
            case "ring":
                self._add_ring()
            case "heartbeat":
                from doyen.membership.heartbeat import Heartbeat

                self._add(MEMBERSHIP, lambda port: Heartbeat(place.node, config.heartbeat, port, rng, **common))

    def _add_ring(self) -> None:
        """Who knows of nobody founds the ring; everybody else joins it."""
        from doyen.membership.arbitration import Arbitration, founding
        from doyen.membership.ring import seat

        place, ring = self.place, self.config.ring
        mine = seat(place.node, place.incarnation, str(place.address or ""))
        begun = None if place.seeds else founding([mine], ring.neighbours)
        rng = place.rng(MEMBERSHIP)
        self._add(MEMBERSHIP, lambda port: Arbitration(mine, ring, port, rng, founding=begun, contacts=place.seeds))

    def _add_notes(self) -> None:
        config, place = self.config, self.place
        own = Note(
            place.node,
            place.incarnation,
            0,
            config.standing if config.standing or config.rank == "score" else None,
            config.eligible,
            __version__,
            meta_of(config.meta),
        )
        self._add(NOTES, lambda port: Notes(own, NotesConfig(), port, place.rng(NOTES)))

    def add_election(self, name: str, kind: str) -> Reign:
        """One more election of this node; the group's own has the name ""."""
        check_combination(self.config.membership_kind(), kind, self.config.announce)
        if name in self.reigns:
            raise ConfigError(f"this node takes part in an election {name!r} already: give another name")
        channel = f"{ELECTION}/{name}" if name else ELECTION
        if kind in ANNOUNCING:
            build = self._announce(channel, kind)
        elif kind in CHURN_TOLERANT:
            build = self._churn_tolerant(channel, kind)
        elif kind == "local":
            build = self._local(channel)
        elif kind == "pole":
            build = self._pole(channel)
        elif kind == "by-key":
            build = self._by_key(name)
        else:
            build = self._spanning(channel)
        # First the reign, then the machine: a machine that is added late starts, and tells, at once.
        self.reigns[name] = self._by_channel[channel] = reign = Reign(name, channel, kind, self.place.node)
        self._add(channel, build)
        reign.machine = self.machines[channel]
        if self.view is not None:  # It came late: it hears what the others have heard.
            self.place.tell(ViewChanged(self.view, tuple(self.view.members)), channel=channel)
            for peer in sorted(getattr(self.machines.get(LINKS), "links", ())):
                self.place.tell(LinkChanged(peer, True), channel=channel)
        return reign

    def _announce(self, channel: str, kind: str) -> Callable[[Any], Any]:
        from doyen.election.announce import Announce

        config, place = self.config, self.place
        restored = (place.restored(channel, Announce.RECORD) or 0) if place.durable else None
        return lambda port: Announce(
            place.node,
            config.announce_config(kind),
            port,
            place.rng(channel),
            standing=shortest(config.standing) if config.eligible else None,
            restored=restored,
        )

    def _churn_tolerant(self, channel: str, kind: str) -> Callable[[Any], Any]:
        from doyen.election.ctolerant import CTolerant, Memory
        from doyen.membership.missing import MissingConfig, MissingEstimator

        config, place = self.config, self.place
        if MISSING not in self.machines and config.ctolerant.missing_max == "auto":
            self._add(MISSING, lambda port: MissingEstimator(place.node, MissingConfig(), port, place.rng(MISSING)))
        restored = place.restored(channel, Memory) if place.durable else None
        by_score: dict[str, Any] = {}
        if config.rank == "score":
            rank = ByScore(self.machines[NOTES], unknown=UNKNOWN_RANK, ineligible=INELIGIBLE_RANK)
            by_score = {"rank": rank, "ranks_differ": True}

        def build(port: Any) -> CTolerant:
            machine = CTolerant(
                place.node,
                place.incarnation,
                config.ctolerant_config(kind),
                port,
                place.rng(channel),
                restored=restored,
                durable=place.durable,
                **by_score,
            )
            machine.point.eligible = config.eligible
            return machine

        return build

    def note(self, node: NodeId) -> Note | None:
        """What that member says of itself, as far as it has come here."""
        notes = self.machines.get(NOTES)
        return None if notes is None else notes.notes.get(node)

    def _pole(self, channel: str) -> Callable[[Any], Any]:
        from doyen.election.pole import Pole, Promise

        config, place = self.config, self.place
        restored = place.restored(channel, Promise) if place.durable else None
        voters = frozenset(NodeId(name) for name in config.voters)
        score = None if config.oracle == "score" else self._scorer(voters)
        return lambda port: Pole(
            place.node,
            config.pole,
            port,
            place.rng(channel),
            voters=voters,
            score=score,
            restored=restored,
            newcomer=restored is None and place.node in voters and (config.newcomer or not place.durable),
            durable=place.durable,
        )

    def _scorer(self, voters: frozenset[NodeId]) -> Any:
        """One of [POLE]'s oracles; those that compare round trips have them measured between all voters."""
        from doyen.score.oracles import MEASURED, ORACLES, Oracle, quality_oracle, quantised
        from doyen.score.pingpong import PingPong, PingPongConfig
        from doyen.score.vectors import Fixed, Scorer

        config, place = self.config, self.place
        rate = Fixed(config.request_rate)
        if config.oracle in MEASURED and ORACLE not in self.machines:
            rng = place.rng(ORACLE)
            self._add(
                ORACLE,
                lambda port: PingPong(place.node, PingPongConfig(), port, rng, voters=voters, rate=rate),
            )
        measured = self.machines.get(ORACLE)
        oracle: Oracle
        if config.oracle == "quality":
            from doyen.agent.quality import QUANTUM, rating_of

            rating = rating_of(config.attributes, config.measures)
            oracle = quantised(quality_oracle(rating.attributes, lambda: rating.measure()[0]), QUANTUM)
        else:
            oracle = quantised(ORACLES[config.oracle], QUANTUM_MS)
        return Scorer(
            oracle,
            place.node,
            sorted(voters),
            vectors=None if measured is None else measured.vectors,
            rate=rate,
        )

    def _by_key(self, name: str) -> Callable[[Any], Any]:
        from doyen.election.by_key import ByKeyConfig, LeaderByKey

        config = ByKeyConfig(key=f"{self.config.group}/{name}", lease=self.config.ring.lease)
        return lambda port: LeaderByKey(self.place.node, config, port)

    def _local(self, channel: str) -> Callable[[Any], Any]:
        from doyen.election.ctolerant import Local

        return lambda port: Local(self.place.node, port)

    def _spanning(self, channel: str) -> Callable[[Any], Any]:
        from doyen.election.spanning import Spanning
        from doyen.membership.neighbours import Neighbours

        config, place = self.config, self.place
        if LINKS not in self.machines:
            self._add(LINKS, lambda port: Neighbours(place.node, port, each_side=config.links_each_side))
        restored = (place.restored(channel, Spanning.RECORD) or 0) if place.durable else None
        return lambda port: Spanning(
            place.node,
            config.spanning,
            port,
            standing=config.standing if config.eligible else -STANDING_MAX,
            incarnation=place.incarnation,
            returning=True,
            restored=restored,
        )


def status_word(member: Member) -> str:
    return "suspected" if member.status is Status.SUSPECTED else member.status.value
