"""One process of a group: a stack of machines on a driver, and what it tells the outside."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from doyen.core.clock import Duration, Instant, ms, to_seconds
from doyen.core.codec import Codec
from doyen.core.commands import LeaveGroup
from doyen.core.ids import Address, Incarnation, NodeId, node_id, parse_address
from doyen.core.kinds import ElectionKind
from doyen.core.leadership import (
    BatonPassed,
    ChangeEnded,
    HandOverDue,
    HeirNamed,
    LeaderElected,
    LeaderLost,
    VotersChanged,
)
from doyen.core.outside import Request
from doyen.core.rank import STANDING_MAX, ScoreGiven, ScoreWanted
from doyen.core.reasons import lost_words
from doyen.core.view import Member, Status, ViewChanged
from doyen.membership.leadernote import LeaderDescribed
from doyen.membership.notes import NotesChanged
from doyen.membership.swim.messages import MemberSuspected
from doyen.membership.swim.roundtrip import RoundTripEstimated
from doyen.net.alike import MemberDiffers
from doyen.net.driver import Driver
from doyen.net.keys import key_ids
from doyen.net.own_address import is_wildcard
from doyen.net.udp import UdpConfig
from doyen.node.attachments import Attachments, attach, check, grown, recorder_of, seal_of
from doyen.node.config import NodeConfig, is_loopback
from doyen.node.events import Event
from doyen.node.gate import Gate
from doyen.node.gatekeeper import Gatekeeper
from doyen.node.premises import HERE, Premises
from doyen.node.registration import Registration, runtime_dirs
from doyen.node.reign import Reign
from doyen.node.sight import Sight, is_usable
from doyen.node.stack import MEMBERSHIP, Site, Stack
from doyen.node.whereabouts import follow_own_address, listed_seeds, own_address_of

if TYPE_CHECKING:
    from doyen.net.recording.format import Reigning
    from doyen.net.recording.recorder import Recorder
    from doyen.node.measured import Inquiry
    from doyen.node.outside import Worker
    from doyen.node.quality import SelfRating
    from doyen.node.views import Views

log = logging.getLogger("doyen")

DISK_PATIENCE: Final[Duration] = ms(500)  # A farewell that tells of a record leaves once the record is durable.

VIEWS: Final = "views"  # The channel on which members ask each other what they see,
TALLIES: Final = "tallies"  # and what they have counted.


class Agent:
    """A running node: its driver, its machines, and what is attached to them.  `listeners` get every event."""

    def __init__(
        self,
        config: NodeConfig,
        listen: Callable[[Event], None] | None = None,
        *,
        on_failure: Callable[[BaseException], None] | None = None,
        occasion: str | None = None,
        premises: Premises = HERE,
    ) -> None:
        self.config, self._occasion, self._premises = config, occasion, premises
        self.listeners: list[Callable[[Event], None]] = [] if listen is None else [listen]
        self.name = node_id(config.name or premises.name())
        self.udp = udp_config(config)
        self.address: Address | None = None  # Where others reach this process, once it listens.
        self.seeds = config.numeric_seeds()  # Names are looked up, and the group's own port tried, once it runs.
        for seed in self.seeds:
            self.udp.check_peer(seed)
        check(config)
        self.attached = Attachments()
        # Asked for a score, by channel and number; None: the configured standing is the answer.
        self.ask_score: Callable[[str, int], None] | None = None
        self.hand_over: Callable[[str, HandOverDue], None] = lambda election, due: None  # By the election's name.
        self.on_charter: Callable[[str, Any], None] = lambda election, fact: None  # By the election's name.
        self.round_trip_s: float | None = None  # The mean of the membership's pings.
        self._rating: SelfRating | None = None
        self._workers: dict[str, Worker] = {}  # The other halves of elections that have one, by channel.
        self.recorder: Recorder | None = None
        self.registration: Registration | None = None  # This node in the runtime directory.
        self.on_may_act: Callable[[str], None] | None = None  # Called with an election in which this node may act now.
        self._views: Views | None = None
        self._inquiry: Inquiry | None = None
        seal = seal_of(config)  # Before the state directory is taken: it may refuse.
        storage = premises.storage(Path(config.state) / self.name) if config.state else None
        least = Incarnation(time.time_ns() // 1000)  # Grows from start to start, unless the wall clock is set back.
        self.driver = Driver(
            self.name,
            least if storage is None else storage.begin_incarnation(least),
            Codec(config.group),
            premises.transport(self.udp),
            peers=self.seeds,
            storage=storage,
            seal=seal,
            asks_for_echoes=True,
            observer=self._on_fact,
            on_failure=on_failure,
            clock=premises.clock,
        )
        self.driver.may_act = self._may_act
        self.sight = Sight(self)
        self._gates = Gatekeeper(
            self.driver,
            config,
            self.sight.seen,
            on_open=self.on_open,
            on_wait=self._on_wait,
            on_long_wait=self._on_long_wait,
        )
        self.stack: Stack

    async def start(self) -> None:
        driver = self.driver
        try:
            await driver.open()
            self.address = await own_address_of(self)
            self._register()
            seeds = tuple(dict.fromkeys((*self.seeds, *self._neighbours(earlier=True))))
            driver.addresses.seeds, driver.addresses.given = seeds, frozenset(seeds)
            self.recorder = recorder = recorder_of(driver, self.config, self.address, seeds)
            self.stack = Stack(
                self.config,
                Site(
                    node=self.name,
                    incarnation=driver.incarnation,
                    address=self.address,
                    seeds=seeds,
                    add=driver.add,
                    rng=self._premises.rng if recorder is None else recorder.rng,
                    restored=driver.restored if recorder is None else recorder.restored,
                    durable=driver.storage is not None,
                    tell=driver.tell,
                    reach=driver.addresses.reach,
                ),
            )
            driver.declare("", self.config.must_be_alike(self.config.election_kind()))
            for name, kind in self.config.election_kinds().items():
                driver.declare(name, self.config.must_be_alike(kind))
            if recorder is not None:
                recorder.begin(lambda: self.stack.view, self._reigning)
            if self.config.oracle == "quality":
                from doyen.node.quality import SelfRating  # Few rate themselves.

                self._rating = SelfRating(driver, self.config, lambda: filter(self.is_rated, self.stack.machines))
            await driver.start()
            if self._occasion is not None:  # Nothing was received yet: starting does not pause.
                self._add_occasions(self._occasion)
            if self._rating is not None:
                self._rating.start()
            local = self._neighbours if self.config.find_local and self.registration is not None else None
            driver.answer(VIEWS, self._on_question)
            driver.answer(TALLIES, lambda sender, data, now: self.inquiry.on_message(sender, data, now))
            self.attached = await attach(driver, self.stack, self.config, self.address, recorder, local)
            follow_own_address(self)
            if any(kind.needs.voters for kind in self.config.election_kinds().values()):
                from doyen.node.majority import MajorityWatch  # Few elections have voters.

                MajorityWatch(driver, self.config, self.stack, self._on_silence).begin()
        except BaseException:
            driver.close()
            raise

    def _register(self) -> None:
        """Note in the runtime directory where this node is: commands find it there, and others of this machine."""
        here = self.driver.transport.address
        if is_wildcard(here.host):
            here = Address("::1" if ":" in here.host else "127.0.0.1", here.port)
        address = str(here) if self.config.find_local else ""
        ring = None if self.driver.seal is None else self.driver.seal.keyring
        try:
            registration = self._premises.register(
                self.config.group, self.name, address, map(str, self.seeds), key_ids(ring)
            )
        except OSError as error:
            self.driver.complain(
                "registration", f"no control socket, and others on this machine cannot find it: {error.strerror}"
            )
            return
        self.registration = registration
        self.driver.on_close(registration.close)
        if ring is not None:
            ring.on_change.append(lambda: registration.tell_keys(key_ids(ring)))

    def _neighbours(self, *, earlier: bool = False) -> list[Address]:
        """Return where other nodes of this group and user listen on this machine."""
        if self.registration is None or not self.config.find_local:
            return []
        found = self.registration.earlier() if earlier else self.registration.others(anew=False)
        return [parse_address(entry.address) for entry in found if is_usable(entry.address, self.udp.bind)]

    def _add_occasions(self, key: str) -> None:
        epoch = time.time_ns() - self.driver.clock()
        grown(self.recorder, {"occasion": key, "epoch": str(epoch)}, lambda: self.stack.add_occasions(key, epoch))

    @property
    def reign(self) -> Reign | None:
        """Return the group's own election, if it has one."""
        return self.stack.reigns.get("")

    def add_election(self, name: str, kind: ElectionKind) -> Reign:
        """Begin one more election on the running node."""
        begun = {"election": name, "kind": kind.name}
        self.driver.declare(name, self.config.must_be_alike(kind))
        return grown(self.recorder, begun, lambda: self.stack.add_election(name, kind))

    def is_rated(self, channel: str) -> bool:
        """Return whether the election on that channel goes by this machine's measured quality, not by a given score."""
        reign = self.stack.reign_on(channel)
        return self._rating is not None and reign is not None and reign.kind.asks_oracle

    def give_score(self, channel: str, number: int, value: float) -> None:
        """Give an election the application's own score, unless it goes by measured quality."""
        if self.driver.running and not self.is_rated(channel):
            self.driver.tell(ScoreGiven(number, value), channel=channel)

    async def leave(self) -> None:
        """Leave in order: first the elections, then the membership; records on their way to the disk get time."""
        driver = self.driver
        try:
            if driver.running:
                for channel, port in driver.host.ports.items():
                    if channel != MEMBERSHIP and LeaveGroup in port.machine.HEARS:
                        driver.tell(LeaveGroup(), channel=channel)
                if self.stack.membership is not None:
                    driver.tell(LeaveGroup(), channel=MEMBERSHIP)
                deadline = driver.clock() + DISK_PATIENCE
                # Also what is to be said right after that step: a ring's member says farewell once its own node knows.
                while driver.running and self._is_busy() and driver.clock() < deadline:
                    await asyncio.sleep(0.002)
        finally:
            driver.close()

    def _is_busy(self) -> bool:
        driver = self.driver
        return driver.host.is_writing or driver.is_behind or any(worker.busy for worker in self._workers.values())

    # What happens.

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        """Follow a fact, once: the election's state first, then everybody who listens."""
        self._gates.before(self.stack, channel, fact, now)
        remark = self.stack.observe(channel, fact, now)
        reign = self.stack.reign_on(channel)
        match fact:
            case LeaderElected(term) if reign is not None:
                log.info("%s: %s leads, term %d: %s", self.name, term.leader, term.number, reign.why)
                why = reign.why
                named: dict[str, Any] = {"leader": term.leader, "term": term.number, "compared": why.compared}
                self._gates.look(self.stack, now)
                self._tell("elected", now, election=reign.name, reason=str(why), **named)
            case LeaderLost(term, reason) if reign is not None:
                log.info("%s: %s no longer leads, term %d: %s", self.name, term.leader, term.number, lost_words(fact))
                self._tell("lost", now, election=reign.name, leader=term.leader, term=term.number, reason=reason)
            case HandOverDue() if reign is not None:
                self.hand_over(reign.name, fact)
            case BatonPassed() | ChangeEnded() | HeirNamed() if reign is not None:
                self.on_charter(reign.name, fact)
            case VotersChanged(number, voters, earlier) if reign is not None:
                log.info("%s: voters %d: %s%s", self.name, number, ", ".join(voters), " and before" if earlier else "")
            case ViewChanged(view, changed):
                for node in changed:
                    self._on_member(view.members.get(node), node, now)
            case MemberSuspected(member, by):
                self._tell("accused", now, member=member, by=(by,))
            case NotesChanged(changed):
                for node in changed:
                    self._tell("changed", now, member=node)
            case LeaderDescribed(leader):
                self._on_described(leader, self.stack.described_on(channel), now)
            case RoundTripEstimated(mean, _):
                self.round_trip_s = to_seconds(mean)
            case ScoreWanted(number):
                self._answer(channel, number)
            case Request() if reign is not None:
                self._worker(reign).ask(fact)
            case MemberDiffers(member, election):
                log.warning("%s: %s", self.name, fact)
                self._gates.look(self.stack, now)
                self._tell("differs", now, member=member, election=election, reason=str(fact))
            case _ if reign is not None and reign.mine is not None and self.on_may_act is not None:
                self.on_may_act(reign.name)  # A tentative leader may have become final.
        if remark is not None and remark.kind == "shortage":
            self._tell("shortage", now, election="" if reign is None else reign.name, reason=remark.text)
            if remark.needs_a_person:
                self.driver.complain(remark.text, remark.text)  # It may come and go with each try.

    def _reigning(self) -> "dict[str, Reigning]":
        """Return the elections as a recording keeps them."""
        from doyen.net.recording.format import Reigning  # Few record.

        return {
            name: Reigning(
                leader=reign.leader,
                term=0 if reign.term is None else reign.term.number,
                mine=reign.mine is not None,
                may_act=reign.gate is not None and reign.gate.open,
            )
            for name, reign in self.stack.reigns.items()
        }

    @property
    def views(self) -> "Views":
        """Return what other members see, as far as anybody here has asked them."""
        if self._views is None:
            from doyen.node.views import Views  # Only once somebody looks, here or elsewhere.

            self._views = Views(self.stack)
        return self._views

    @property
    def inquiry(self) -> "Inquiry":
        """Return what asks other members for their tallies, and answers them."""
        if self._inquiry is None:
            from doyen.node.measured import Inquiry  # Only once somebody asks, here or elsewhere.

            self._inquiry = Inquiry(self.driver)
        return self._inquiry

    def _on_question(self, sender: NodeId, message: bytes, now: Instant) -> Sequence[Any]:
        return self.views.on_message(sender, message, now)

    def awaited(self, reign: Reign) -> Gate | None:
        """Return the gate of an election while this node could not act in it; its `why` says for what it waits."""
        return self._gates.awaited(reign, self.driver.clock())

    def _may_act(self, election: str) -> bool:
        """Return whether this node waits for nothing before its first act in that election."""
        reign = self.stack.reigns.get(election)
        return reign is not None and self.awaited(reign) is None

    def _on_wait(self, reign: Reign, why: str, now: Instant) -> None:
        log.info("%s: named leader of %r, but does not act yet: %s", self.name, self.config.group, why)
        self._tell("waiting", now, election=reign.name, reason=why)

    def _on_long_wait(self, reign: Reign, gate: Gate) -> None:
        which = f"{self.config.group!r}" + (f" / {reign.name}" if reign.name else "")
        stands = "named leader of" if reign.mine is not None else "follows in"
        log.warning("%s: %s %s, but does not act yet: %s; %s", self.name, stands, which, gate.why, gate.advice)

    def _on_silence(self, reign: Reign, text: str, now: Instant) -> None:
        log.warning("%s: nobody leads %r: %s", self.name, self.config.group, text)
        self._tell("shortage", now, election=reign.name, reason=text)

    def on_open(self, reign: Reign, gate: Gate, now: Instant) -> None:
        """Say it if this node begins to act alone, and notify the tasks that wait to act."""
        if self.recorder is not None:
            self.recorder.may_act(reign.name, now)
        if gate.alone and reign.mine is not None and not self.driver.differing():  # Those were found, and named.
            text = f"leads {self.config.group!r} alone: {gate.alone}"
            text += "" if gate.knows_why_alone else f". {self._looked_for()}"
            log.warning("%s: %s", self.name, text)
            self._tell("alone", now, election=reign.name, reason=text)
        if self.on_may_act is not None:
            self.on_may_act(reign.name)

    def alone(self, reign: Reign) -> str:
        """Return why this node leads alone, while it does: nobody has answered it, so others may lead elsewhere."""
        return reign.alone if reign.alone and not self.sight.seen(reign.name).met_others else ""

    def _looked_for(self) -> str:
        """Return where this node looks for others, and what to give so that it finds more."""
        config = self.config
        looked = [f"for this user's processes in {', '.join(map(str, runtime_dirs()))}"] if config.find_local else []
        looked += [f"at seed {', '.join(config.seeds)}"] if config.seeds else []
        looked += [f"in {config.seeds_file}"] if config.seeds_file else []
        looked += [f"by multicast {config.multicast}"] if config.multicast else []
        said = f"It looks {' and '.join(looked)}" if looked else "It looks for nobody"
        said += ", and listens on this machine only" if is_loopback(self.udp.bind.host) else ""
        return f"{said}. If others run elsewhere, give all members the address of one: seeds=['HOST'], --seed HOST"

    def _on_member(self, member: Member | None, node: NodeId, now: Instant) -> None:
        if member is None:
            self.stack.since.pop(node, None)
            self._tell("forgotten", now, member=node, state="forgotten")
            return
        before = self.stack.since.get(node)
        if before is not None and before[0] is member.status:
            kind = "updated"
        else:
            self.stack.since[node] = (member.status, now)
            back = before is None or before[0] in (Status.FAILED, Status.LEFT)
            kind = "joined" if back and member.status is Status.ALIVE else member.status.value
        by = self.stack.accusers(node)
        self._tell(
            kind,
            now,
            member=node,
            state=member.status.value,
            by=by,
            incarnation=member.incarnation,
            address=None if member.address is None else str(member.address),
            reason=f"by {', '.join(by)}" if by and kind == "suspected" else "",
        )

    def _on_described(self, leader: NodeId, reign: Reign | None, now: Instant) -> None:
        """Notify readers of what the leader says of itself; it is news to an application where no membership is."""
        info = None if reign is None else self.stack.leader_info(reign)
        if reign is not None and info is not None:
            kind = "changed" if self.stack.view is None else "updated"
            named: dict[str, Any] = {"leader": leader, "term": info.term, "address": info.address}
            self._tell(kind, now, election=reign.name, member=leader, **named)

    def _answer(self, channel: str, number: int) -> None:
        if self._rating is not None and self.is_rated(channel):
            self._rating.answer(channel, number)
        elif self.ask_score is not None:
            self.ask_score(channel, number)
        else:
            standing = self.config.standing if self.config.eligible else -STANDING_MAX
            self.driver.tell(ScoreGiven(number, standing), channel=channel)

    def _worker(self, reign: Reign) -> "Worker":
        """Return what does the requests of that election's machine."""
        if reign.channel not in self._workers:
            from doyen.node.outside import Worker, outside_of  # Most elections have no other half.

            assert reign.kind.other_half is not None
            outside = outside_of(self.config, reign.name, reign.kind, self.name, self.driver.incarnation)
            self._workers[reign.channel] = Worker(self.driver, reign.channel, reign.kind.other_half().work(outside))
        return self._workers[reign.channel]

    def _tell(self, kind: str, now: Instant, **fields: Any) -> None:
        if self.listeners:
            event = Event(kind=kind, at=time.time(), clock=now, **fields)
            for listen in self.listeners:
                listen(event)


def udp_config(config: NodeConfig) -> UdpConfig:
    return UdpConfig(
        bind=config.bind_address(listed_seeds(config)),
        else_any=not config.bind,
        else_port=config.group_port(),
        multicast=parse_address(config.multicast) if config.multicast else None,
        interface=config.interface,
        ttl=config.ttl,
    )
