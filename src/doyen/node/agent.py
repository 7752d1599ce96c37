"""One process of a group: a stack of machines on a driver, and what it tells the outside."""

import asyncio
import ipaddress
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from doyen.core.clock import Duration, Instant, ms
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId, node_id, parse_address
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.rank import ScoreGiven, ScoreWanted
from doyen.core.view import ViewChanged
from doyen.election.announce import STANDING_MAX
from doyen.errors import TransportError
from doyen.membership.swim.messages import MemberSuspected
from doyen.net.driver import Driver
from doyen.net.storage import Storage
from doyen.net.udp import UdpConfig, UdpTransport
from doyen.node.attachments import Attachments, attach, check, grown, recorder_of, seal_of
from doyen.node.chronicle import Chronicle
from doyen.node.config import NodeConfig
from doyen.node.reasons import lost_words
from doyen.node.reign import Reign
from doyen.node.stack import MEMBERSHIP, Place, Stack
from doyen.node.told import Told as Told
from doyen.node.told import encode_told as encode_told

if TYPE_CHECKING:
    from doyen.net.recording.recorder import Recorder
    from doyen.node.quality import SelfRating

log = logging.getLogger("doyen")

Observer = Callable[[str, Any, Instant], None]  # (channel, fact, now)

DISK_PATIENCE: Final[Duration] = ms(500)  # A farewell that tells of a record leaves once the record is durable.


class Agent:
    """A running node.  `tell` gets a `Told` for everything worth knowing; `observers` every fact."""

    def __init__(
        self,
        config: NodeConfig,
        tell: Callable[[Told], None] | None = None,
        *,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.config, self._tell = config, tell
        self.name = node_id(config.name or default_name())
        self.udp = udp_config(config)
        self.seeds = config.numeric_seeds()  # Names are looked up once it runs.
        for seed in self.seeds:
            self.udp.check_peer(seed)
        check(config)
        self.attached = Attachments()
        self.observers: list[Observer] = []
        self._chronicles: dict[str, Chronicle] = {}  # By channel.
        self.answers_scores = True  # With its configured standing; an application may know better.
        self._rating: SelfRating | None = None
        self.recorder: Recorder | None = None
        seal = seal_of(config)  # Before the state directory is taken: it may refuse.
        storage = Storage(Path(config.state) / self.name) if config.state else None
        least = Incarnation(time.time_ns() // 1000)  # Grows from start to start, unless the wall clock is set back.
        self.driver = Driver(
            self.name,
            least if storage is None else storage.begin_incarnation(least),
            Codec(config.group),
            UdpTransport(self.udp),
            peers=self.seeds,
            storage=storage,
            seal=seal,
            observer=self._on_fact,
            on_failure=on_failure,
        )
        self.stack: Stack

    async def start(self) -> None:
        driver = self.driver
        try:
            await driver.open()
            self.recorder = recorder = recorder_of(driver, self.config, self.address, self.seeds)
            self.stack = Stack(
                self.config,
                Place(
                    node=self.name,
                    incarnation=driver.incarnation,
                    address=self.address,
                    seeds=self.seeds,
                    add=driver.add,
                    rng=(lambda channel: Random()) if recorder is None else recorder.rng,
                    restored=driver.restored if recorder is None else recorder.restored,
                    durable=driver.storage is not None,
                    tell=driver.tell,
                ),
            )
            if recorder is not None:
                recorder.begin(lambda: self.stack.view)
            if self.config.oracle == "quality":
                from doyen.node.quality import SelfRating  # Few rate themselves.

                self._rating = SelfRating(driver, self.config, lambda: filter(self.is_rated, self.stack.machines))
            await driver.start()
            if self._rating is not None:
                self._rating.start()
            self.attached = await attach(driver, self.stack, self.config, self.address, recorder)
        except BaseException:
            driver.close()
            raise

    @property
    def address(self) -> Address | None:
        """Where others reach this process, once it listens; None where only they can tell."""
        heard = self.driver.transport.address
        if self.config.advertise:
            given = parse_address(self.config.advertise, default_port=heard.port)
            return Address(given.host, given.port or heard.port)
        if not ipaddress.ip_address(heard.host.partition("%")[0]).is_unspecified:
            return heard
        ours = _address_towards(self.seeds[0]) if self.seeds else None
        return None if ours is None else Address(ours, heard.port)

    @property
    def reign(self) -> Reign | None:
        """The group's own election, if it has one."""
        return self.stack.reigns.get("")

    def add_election(self, name: str, kind: str) -> Reign:
        """Begin one more election on the running node."""
        return grown(self.recorder, {"election": name, "kind": kind}, lambda: self.stack.add_election(name, kind))

    def is_rated(self, channel: str) -> bool:
        """Whether the election on that channel goes by this machine's measured quality, whatever anybody else says."""
        reign = self._reign_of(channel)
        return self._rating is not None and reign is not None and reign.kind == "pole"

    def give_score(self, channel: str, number: int, value: float) -> None:
        """Give an election the application's own score, unless it goes by measured quality."""
        if self.driver.running and not self.is_rated(channel):
            self.driver.tell(ScoreGiven(number, value), channel=channel)

    async def leave(self) -> None:
        """In order: whoever leads says so, then the membership, then silence; what waits for the disk gets its time."""
        driver = self.driver
        try:
            if driver.running:
                for channel, machine in self.stack.machines.items():
                    if channel != MEMBERSHIP and hasattr(machine, "leave"):
                        driver.command(channel, "leave")
                if self.stack.membership is not None:
                    driver.command(MEMBERSHIP, "leave")
                deadline = driver.clock() + DISK_PATIENCE
                # Also what is to be said right after that step: a ring's member says farewell once its own node knows.
                while driver.running and (driver.host.is_writing or driver.is_behind) and driver.clock() < deadline:
                    await asyncio.sleep(0.002)
        finally:
            driver.close()

    # What it tells.

    def status(self) -> None:
        reigns = self.stack.reigns.values()
        for reign in reigns:
            # An announce-listen process names a leader, itself, even while it waits.
            leader = getattr(reign.machine, "leader", None) if hasattr(reign.machine, "leaders") else reign.leader
            self.told("status", reign, leader=leader, term=reign.term_max)
        if not reigns:
            self.told("status", None)

    def told(self, event: str, reign: Reign | None = None, **fields: Any) -> None:
        if self._tell is None:
            return
        reign = reign or self.reign
        self._tell(
            Told(
                event,
                self.name,
                time.time(),
                self.driver.clock(),
                status="" if reign is None else reign.status,
                election="" if reign is None else reign.name,
                sent=self.driver.transport.sent_count,
                received=self.driver.received_count,
                refused=dict(self.driver.refused),
                members=self.member_counts(),
                **fields,
            )
        )

    def member_counts(self) -> dict[str, int]:
        view = self.stack.view
        return {} if view is None else dict(Counter(member.status.value for member in view.members.values()))

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        self.stack.observe(channel, fact, now)
        if self._reign_of(channel) is not None:
            self.chronicle(channel).note(fact, now)
        match fact:
            case LeaderElected(term):
                why = self.chronicle(channel).why
                named: dict[str, Any] = {"leader": term.leader, "term": term.number}
                self.told("elected", self._reign_of(channel), reason=why.text, compared=why.compared, **named)
                log.info("%s: %s leads, term %d: %s", self.name, term.leader, term.number, why)
            case LeaderLost(term, reason):
                self.told("lost", self._reign_of(channel), leader=term.leader, term=term.number, reason=reason)
                log.info("%s: %s leads no more, term %d: %s", self.name, term.leader, term.number, lost_words(fact))
            case ViewChanged(view, changed):
                if self._tell is not None:
                    for node in changed:
                        self._tell_of_member(view.members.get(node), node)
            case MemberSuspected(member, by):
                self.told("suspected", member=member, by=(by,))
            case ScoreWanted(number) if self._rating is not None and self.is_rated(channel):
                self._rating.answer(channel, number)
            case ScoreWanted(number) if self.answers_scores:
                standing = self.config.standing if self.config.eligible else -STANDING_MAX
                self.driver.tell(ScoreGiven(number, standing), channel=channel)
            case _ if type(fact).__name__ in ("CannotElect", "NotVoting"):
                self.told("cannot elect", self._reign_of(channel), reason=str(fact))
                if type(fact).__name__ == "NotVoting":  # Nothing but a person's word can end it.
                    log.warning("%s: %s", self.name, fact)
        for observe in self.observers:
            observe(channel, fact, now)

    def _tell_of_member(self, member: Any, node: NodeId) -> None:
        if member is None:
            self.told("member", member=node, member_status="forgotten")
            return
        self.told(
            "member",
            member=node,
            member_status=member.status.value,
            incarnation=member.incarnation,
            by=self.stack.accusers(node),
            address=None if member.address is None else str(member.address),
        )

    def chronicle(self, channel: str) -> Chronicle:
        """What was heard of that election."""
        if channel not in self._chronicles:
            reign = self._reign_of(channel)
            assert reign is not None, f"{channel} elects nobody"
            self._chronicles[channel] = Chronicle(reign)
        return self._chronicles[channel]

    def _reign_of(self, channel: str) -> Reign | None:
        return self.stack.reign_on(channel)


def udp_config(config: NodeConfig) -> UdpConfig:
    return UdpConfig(
        bind=config.bind_address(),
        multicast=parse_address(config.multicast) if config.multicast else None,
        interface=config.interface,
        ttl=config.ttl,
    )


def default_name() -> str:
    """An identity per process."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}"


def _address_towards(seed: Address) -> str | None:
    """This machine's address on the way to the seed; nothing is sent."""
    family = socket.AF_INET6 if ":" in seed.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((seed.host, seed.port))
        except OSError as error:
            raise TransportError(f"no way to seed {seed}: {error.strerror}: give --advertise HOST:PORT") from None
        host: str = probe.getsockname()[0]
        return host
