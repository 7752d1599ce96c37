"""Builds machines from a configuration: membership, scores and elections.

    membership ──ViewChanged──▶ notes      (scores, and what members say of themselves)
               └─ViewChanged──▶ missing ──MissingEstimated──▶ election
               └─ViewChanged──▶ links ───LinkChanged────────▶ election      (spanning)
               └─ViewChanged────────────────────────────────▶ election      (churn-tolerant, local)
                                                              election/NAME (further ones)
    election ──LeaderElected──▶ leader     (what the leader says of itself; leader/NAME of the further ones)

A `Site` is where the machines go: a driver on real sockets, or a node of the simulator.  Nothing here knows which.
"""

import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from msgspec import Struct

from doyen import __version__
from doyen.core.clock import Duration, Instant, ms, seconds
from doyen.core.codec import payload_max
from doyen.core.commands import ChangeNote, DescribeLeader
from doyen.core.effects import Out
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.kinds import ElectionKind, Membership, Place, Table
from doyen.core.leadership import LeaderElected
from doyen.core.link import LinkChanged
from doyen.core.rank import STANDING_MAX
from doyen.core.reasons import Remark
from doyen.core.view import Member, MembershipView, Status, ViewChanged
from doyen.errors import ConfigError
from doyen.membership.leadernote import Description, LeaderNote
from doyen.membership.notes import ByScore, Note, Notes
from doyen.node.config import NodeConfig, hops_of, meta_of
from doyen.node.events import LeaderInfo
from doyen.node.reign import Reign

MEMBERSHIP: Final = "membership"
NOTES: Final = "notes"
ORACLE: Final = "oracle"
LINKS: Final = "links"
LEADER: Final = "leader"
ELECTION: Final = "election"
OCCASIONS: Final = "occasions"

QUANTUM_MS: Final = 1.0  # Of round trips on real networks: differences below it are noise.
LED_PINGS: Final = seconds(60)  # A leader's cool-down: it would not hand over sooner, whatever was measured.
INELIGIBLE_RANK: Final = float(2 * STANDING_MAX)


def channel_of(election: str) -> str:
    """Return the channel of the election of that name; the group's own has the name ""."""
    return f"{ELECTION}/{election}" if election else ELECTION


class Site(Struct, frozen=True, kw_only=True):
    """The place of a stack: a driver on real sockets, or a node of the simulator."""

    node: NodeId
    incarnation: Incarnation
    address: Address | None
    seeds: tuple[Address, ...]
    add: Callable[..., Any]  # (channel, build, follows=…) → the machine or its port
    rng: Callable[[str], Random]  # By channel.
    restored: Callable[[str, Any], Any]  # (channel, type) → what was kept, or None.
    durable: bool  # Whether there is a disk.
    tell: Callable[..., None]  # (fact, channel=…): to a machine that came late, or what only the world knows.
    reach: Callable[[NodeId], Address | None] = lambda node: None  # Where a member was last heard.
    wall: Callable[[], float] = time.time


class Stack:
    """One node's machines, and what they have told so far."""

    def __init__(self, config: NodeConfig, site: Site) -> None:
        self.config, self.site = config, site
        self.view: MembershipView | None = None
        self.machines: dict[str, Any] = {}  # By channel.
        self.since: dict[NodeId, tuple[Status, Instant]] = {}  # The state of each member, and since when it has it.
        self.reigns: dict[str, Reign] = {}  # By the election's name; the group's own is "".
        self._by_channel: dict[str, Reign] = {}
        self._words, self._words_version = meta_of(config.meta), 0  # What this node says of itself.
        self.membership: Membership | None = None  # The machine that keeps the list of members.
        membership = config.membership_kind()
        if membership is not None:
            self._add(MEMBERSHIP, membership.build(self._place(MEMBERSHIP, "", membership.table)))
            self.membership = self.machines[MEMBERSHIP]
            self._add_notes()
        for name, kind in config.election_kinds().items():
            self.add_election(name, kind)

    # Queries.

    def reign_on(self, channel: str) -> Reign | None:
        return self._by_channel.get(channel)

    def members(self) -> list[Member]:
        """Return the members of the view; without one, this node, the leaders that its elections name, and voters."""
        if self.view is not None:
            return sorted(self.view.members.values(), key=lambda member: member.node)
        site = self.site
        names = {site.node: Member(node=site.node, incarnation=site.incarnation, address=site.address)}
        for reign in self.reigns.values():
            if reign.term is not None and reign.term.leader not in names:
                leader = reign.term.leader
                address = self._leader_address(leader, self._told(reign.name, leader))
                names[leader] = Member(node=leader, address=address)
        votes = any(reign.kind.needs.voters for reign in self.reigns.values())
        for voter in map(NodeId, self.config.voters if votes else ()):
            names.setdefault(voter, Member(node=voter, status=Status.UNKNOWN))
        return sorted(names.values(), key=lambda member: member.node)

    def leader_info(self, reign: Reign) -> LeaderInfo | None:
        """Return whom that election names, and what is known of it here; what the leader itself says wins."""
        term, since = reign.term, reign.since_wall
        if term is None:
            return None
        name, told, note = term.leader, self._told(reign.name, term.leader), self.note(term.leader)
        words = self._words if name == self.site.node else {}
        if note is not None and (told is None or (note.incarnation, note.version) > (told.incarnation, told.version)):
            words = note.words  # It has changed them, and a membership was quicker.
        elif told is not None:
            words = told.words
        address = self._leader_address(name, told)
        return LeaderInfo(
            name=name,
            address=None if address is None else str(address),
            meta=words,
            term=term.number,
            since=since if told is None else told.since,
        )

    def _told(self, election: str, leader: NodeId) -> Description | None:
        found: Description | None = self.machines[_leader_channel(election)].of(leader)
        return found

    def _leader_address(self, leader: NodeId, told: Description | None) -> Address | None:
        """Return where a leader is reached: as it says itself, as a view has it, or where it was last heard."""
        if leader == self.site.node:
            return self.site.address
        member = None if self.view is None else self.view.members.get(leader)
        said = None if told is None else told.address
        return said or (None if member is None else member.address) or self.site.reach(leader)

    def is_described(self, reign: Reign) -> bool:
        """Return whether the leader that the election names has said of itself what it is."""
        return reign.leader is not None and self._told(reign.name, reign.leader) is not None

    def accusers(self, node: NodeId) -> tuple[NodeId, ...]:
        """Return who suspects that member, as far as this node has heard."""
        return () if self.membership is None else self.membership.accusers(node)

    def refute_by(self, node: NodeId) -> Instant | None:
        """Return until when a suspect may still refute, by this node's clock."""
        return None if self.membership is None else self.membership.refute_by(node)

    def round_trip(self, node: NodeId) -> Duration | None:
        """Return the round trip between this node and that one, where membership, oracle or election measure it."""
        known = None if self.membership is None else self.membership.round_trip(node)
        if known is None and ORACLE in self.machines:
            took = self.machines[ORACLE].vectors.rtt.get(node)
            known = None if took is None else ms(took)
        if known is None:
            machines = (reign.machine for reign in self.reigns.values())
            trips = (machine.round_trip(node) for machine in machines if machine is not None)
            known = next((trip for trip in trips if trip is not None), None)
        return known

    def note(self, node: NodeId) -> Note | None:
        """Return what that member says of itself, as far as it has come here."""
        notes = self.machines.get(NOTES)
        return None if notes is None else notes.notes.get(node)

    # Facts.

    def described_on(self, channel: str) -> Reign | None:
        """Return the election whose leader is described on that channel, if that is what the channel is for."""
        return next((reign for name, reign in self.reigns.items() if _leader_channel(name) == channel), None)

    def observe(self, channel: str, fact: Any, now: Instant) -> Remark | None:
        """Follow a fact of the node's machines, before anybody else does; return what it is worth saying of it."""
        if isinstance(fact, ViewChanged):
            self.view = fact.view
        reign = self._by_channel.get(channel)
        if reign is None:
            return None
        remark = reign.note(fact, now)
        if isinstance(fact, LeaderElected) and fact.term.leader == self.site.node:
            self.site.tell(DescribeLeader(since=reign.since_wall), channel=_leader_channel(reign.name))
        return remark

    def describe(self, words: dict[str, str]) -> None:
        """Let the others know these words of this node from now on: its note, and what it says as a leader."""
        self._words, self._words_version = words, self._words_version + 1
        if NOTES in self.machines:
            self.site.tell(ChangeNote(words=words), channel=NOTES)
            self._words_version = self.machines[NOTES].own.version
        for name in self.reigns:
            self.site.tell(DescribeLeader(words=words, version=self._words_version), channel=_leader_channel(name))

    # Machines.

    def _add(self, channel: str, build: Callable[[Any], Any], **follows: tuple[str, ...]) -> None:
        def build_and_keep(port: Any) -> Any:
            self.machines[channel] = machine = build(port)
            return machine

        self.site.add(channel, build_and_keep, **follows)

    def _companion(self, channel: str, build: Callable[[Out], Any]) -> Any:
        """Return the machine that stands beside others on that channel; the first who asks has it made."""
        if channel not in self.machines:
            self._add(channel, build)
        return self.machines[channel]

    def _place(self, channel: str, name: str, table: Table) -> Place:
        """Return all that a kind may ask for when it builds its machine for that channel."""
        config, site = self.config, self.site
        return Place(
            node=site.node,
            incarnation=site.incarnation,
            address=site.address,
            seeds=site.seeds,
            group=config.group,
            name=name,
            channel=channel,
            config=config.table(table),
            standing=config.standing,
            eligible=config.eligible,
            voters=frozenset(NodeId(voter) for voter in config.voters),
            newcomer=config.newcomer,
            durable=site.durable,
            links_each_side=config.links_each_side,
            hops=hops_of(config.hops),
            payload_max=payload_max(config.group, site.node, channel),
            rng=site.rng,
            restore=partial(site.restored, channel),
            companion=self._companion,
            rank=self._rank(),
            scorer=self._scorer,
        )

    def _add_notes(self) -> None:
        config, site = self.config, self.site
        own = Note(
            site.node,
            site.incarnation,
            0,
            config.standing or None,
            config.eligible,
            __version__,
            meta_of(config.meta),
        )
        self._add(NOTES, lambda port: Notes(own, port, site.rng(NOTES)))

    def _add_leader_note(self, name: str, follows: str) -> None:
        site, words, version = self.site, self._words, self._words_version
        channel = _leader_channel(name)
        self._add(
            channel,
            lambda port: LeaderNote(
                site.node, site.incarnation, site.address, words, port, site.rng(channel), version=version
            ),
            follows=(follows,),
        )

    def _rank(self) -> ByScore | None:
        """Return the rank by the members' scores, where that is wanted and somebody carries them."""
        if self.config.rank != "score" or NOTES not in self.machines:
            return None
        return ByScore(self.machines[NOTES], ineligible=INELIGIBLE_RANK)

    def add_election(self, name: str, kind: ElectionKind) -> Reign:
        """Take part in one more election; the group's own has the name "".  One that comes late starts at once."""
        self.config.check_election(kind, self.config.membership_kind(), field="election")
        if name in self.reigns:
            raise ConfigError(f"this node takes part in an election {name!r} already: give another name")
        channel = channel_of(name)
        build = kind.build(self._place(channel, name, kind.table))
        # First the reign, then the machine: a machine that is added late starts, and emits, at once.
        reign = Reign(name, channel, kind, self.site.node, self.site.wall)
        self.reigns[name] = self._by_channel[channel] = reign
        self._add_leader_note(name, channel)
        self._add(channel, build)
        reign.machine = self.machines[channel]
        if self.view is not None:  # It came late: it hears what the others have heard.
            self.site.tell(ViewChanged(self.view, tuple(self.view.members)), channel=channel)
            links = self.machines.get(LINKS)
            for peer in sorted(links.links) if links is not None else ():
                self.site.tell(LinkChanged(peer, True), channel=channel)
        return reign

    def add_occasions(self, key: str, epoch: int) -> None:
        """Keep which occasions were done; `key` is the one that this node is here for (`doyen run --once`)."""
        from doyen.membership.occasions import Memory, Occasions  # Few nodes have one.

        site, group = self.site, self.config.group
        restored = site.restored(OCCASIONS, Memory)
        self._add(
            OCCASIONS,
            lambda port: Occasions(site.node, group, key, port, epoch=epoch, restored=restored),
        )
        if self.view is not None:
            site.tell(ViewChanged(self.view, tuple(self.view.members)), channel=OCCASIONS)

    def _scorer(self) -> Any:
        """Return one of [POLE]'s oracles, or None; those that compare round trips have them measured between voters."""
        config, site = self.config, self.site
        if config.oracle in ("score", "quality"):  # The world is asked.
            return None
        from doyen.score.oracles import MEASURED, ORACLES, quantised
        from doyen.score.pingpong import PingPong, PingPongConfig
        from doyen.score.vectors import Fixed, Scorer

        voters = frozenset(NodeId(voter) for voter in config.voters)
        rate = Fixed(config.request_rate)
        if config.oracle in MEASURED and ORACLE not in self.machines:
            rng, pings = site.rng(ORACLE), PingPongConfig(led_interval=LED_PINGS)
            self._add(
                ORACLE,
                lambda port: PingPong(site.node, pings, port, rng, voters=voters, rate=rate),
            )
        measured = self.machines.get(ORACLE)
        return Scorer(
            quantised(ORACLES[config.oracle], QUANTUM_MS),
            site.node,
            sorted(voters),
            vectors=None if measured is None else measured.vectors,
            rate=rate,
        )


def _leader_channel(election: str) -> str:
    return f"{LEADER}/{election}" if election else LEADER
