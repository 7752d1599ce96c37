"""From a configuration to machines: who is here, who ought to lead, who leads.

    membership ──ViewChanged──▶ missing ──MissingEstimated──▶ election
               └─ViewChanged──▶ links ───LinkChanged────────▶ election      (spanning)
               └─ViewChanged────────────────────────────────▶ election      (churn-tolerant, local)
                                                              election/NAME (further ones)

A `Place` is where the machines go: a driver on real sockets, or a node of the simulator.  Nothing here knows which.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from msgspec import Struct

from doyen.agent.config import ANNOUNCING, CHURN_TOLERANT, NodeConfig, hops_of
from doyen.agent.reign import Reign
from doyen.core.clock import Instant
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.view import Member, MembershipView, Status, ViewChanged
from doyen.errors import ConfigError

MEMBERSHIP: Final = "membership"
MISSING: Final = "missing"
LINKS: Final = "links"
ELECTION: Final = "election"


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


class Stack:
    """One node's machines, and what they have told so far."""

    def __init__(self, config: NodeConfig, place: Place) -> None:
        self.config, self.place = config, place
        self.view: MembershipView | None = None
        self.machines: dict[str, Any] = {}  # By channel.
        self.reigns: dict[str, Reign] = {}  # By the election's name; the group's own is "".
        self._by_channel: dict[str, Reign] = {}
        self._add_membership()
        for name in ("", *config.elections) if config.election != "none" else config.elections:
            self.add_election(name)

    # Queries.

    @property
    def membership(self) -> Any:
        """The machine that keeps the list, or None."""
        return self.machines.get(MEMBERSHIP)

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

    def _suspicions(self) -> dict[NodeId, Any]:
        swim = getattr(self.membership, "swim", self.membership)  # Medley has one.
        suspicions = getattr(swim, "_suspicions", None)
        return {} if suspicions is None else suspicions.by_node

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
                from doyen.membership.medley import Medley

                hops = hops_of(config.hops)
                distance = lambda node: hops.get(node, 1.0)  # noqa: E731
                self._add(
                    MEMBERSHIP,
                    lambda port: Medley(place.node, config.medley, port, rng, distance=distance, **common),
                )
            case "heartbeat":
                from doyen.membership.heartbeat import Heartbeat

                self._add(MEMBERSHIP, lambda port: Heartbeat(place.node, config.heartbeat, port, rng, **common))

    def add_election(self, name: str) -> Reign:
        """One more election of this node; the group's own has the name ""."""
        if name in self.reigns:
            raise ConfigError(f"this node takes part in an election {name!r} already: give another name")
        channel = f"{ELECTION}/{name}" if name else ELECTION
        kind = self.config.election if self.config.election != "none" else "hybrid"
        if kind in ANNOUNCING:
            build = self._announce(channel)
        elif kind in CHURN_TOLERANT:
            build = self._churn_tolerant(channel)
        elif kind == "local":
            build = self._local(channel)
        else:
            build = self._spanning(channel)
        # First the reign, then the machine: a machine that is added late starts, and tells, at once.
        self.reigns[name] = self._by_channel[channel] = reign = Reign(name, channel, self.place.node)
        self._add(channel, build)
        reign.machine = self.machines[channel]
        return reign

    def _announce(self, channel: str) -> Callable[[Any], Any]:
        from doyen.election.announce import Announce

        config, place = self.config, self.place
        restored = (place.restored(channel, Announce.RECORD) or 0) if place.durable else None
        return lambda port: Announce(
            place.node,
            config.announce_config(),
            port,
            place.rng(channel),
            standing=config.standing if config.eligible else None,
            restored=restored,
        )

    def _churn_tolerant(self, channel: str) -> Callable[[Any], Any]:
        from doyen.election.ctolerant import CTolerant, Memory
        from doyen.membership.missing import MissingConfig, MissingEstimator

        config, place = self.config, self.place
        if MISSING not in self.machines and config.ctolerant.missing_max == "auto":
            self._add(MISSING, lambda port: MissingEstimator(place.node, MissingConfig(), port, place.rng(MISSING)))
        restored = place.restored(channel, Memory) if place.durable else None
        return lambda port: CTolerant(
            place.node,
            place.incarnation,
            config.ctolerant_config(),
            port,
            place.rng(channel),
            restored=restored,
            durable=place.durable,
        )

    def _local(self, channel: str) -> Callable[[Any], Any]:
        from doyen.election.ctolerant import Local

        return lambda port: Local(self.place.node, port)

    def _spanning(self, channel: str) -> Callable[[Any], Any]:
        from doyen.election.spanning import Spanning
        from doyen.membership.neighbours import Neighbours

        config, place = self.config, self.place
        if LINKS not in self.machines:
            self._add(LINKS, lambda port: Neighbours(place.node, port, each_side=config.links_each_side))
        return lambda port: Spanning(
            place.node,
            config.spanning,
            port,
            standing=config.standing,
            life=place.incarnation,
            returning=True,
        )


def status_word(member: Member) -> str:
    return "suspected" if member.status is Status.SUSPECTED else member.status.value
