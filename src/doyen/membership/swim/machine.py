"""SWIM: each member pings one other per period, and gossips what it finds on the pings of all.  [SWIM]

Load and detection time per member do not depend on the size of the group.  A member that does not answer, not even
through helpers, is *suspected*; it may refute by a higher incarnation; else it has *failed*.  A member that is removed
by mistake learns of it from the first member that hears it, and returns by itself; two halves of a group that lost each
other find each other again.

    ALIVE ──silent──▶ SUSPECTED ──overdue──▶ FAILED ──failed_kept──▶ (tombstone) ──▶ forgotten
      ▲  ◀──refuted──────┘                      │
      └──────────── higher incarnation ─────────┘         LEFT, by its own message, likewise

Deviation [SWIM §4.2]: states are totally ordered by (incarnation, alive < suspected < failed < left), so that a member
  that failed can return with a higher incarnation; in the paper "confirm" is forever.
Deviation: a member notifies another that it holds failed or gone of that, whenever it sends to it.
Deviation: a node that is failed, gone or unknown here is not believed when it accuses others.
Deviation: a failure that only another member believes, learnt by anti-entropy, is a suspicion here and not the end:
  when two halves merge, each member has failed to somebody.
Deviation: where an election runs above it, a leader sends heartbeats to a few watchers, and a member that has news
  sends them at once, not only on probes (`beat_interval`, `gossip_interval`; off as published; decision 29).
Extension [Lifeguard]: local health, suspicion by confirmations, buddies; anti-entropy; leave; reaping.
"""

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.commands import LeaveGroup
from doyen.core.deadline import Deadline
from doyen.core.effects import Out
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.kinds import Membership
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkBroken
from doyen.core.machine import Hears, hears
from doyen.core.seeds import OwnAddressChanged, SeedsChanged
from doyen.core.traffic import Exchange
from doyen.core.view import Member, MembershipView, MemberWanted, Status, ViewChanged
from doyen.membership.fading import CountsAreHalved
from doyen.membership.swim.antientropy import AntiEntropy
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.dissemination import PAYLOAD_MAX, Post, repeats
from doyen.membership.swim.health import LocalHealth
from doyen.membership.swim.messages import (
    INCARNATION_MAX,
    NOBODY,
    WORD,
    AbsentAreForgotten,
    Ack,
    Beat,
    BeatIsMissed,
    BeatsAreSent,
    Digest,
    DigestsAreCompared,
    Entries,
    Gossip,
    HelperAck,
    HelpersAreAsked,
    MemberSuspected,
    Message,
    Nack,
    NewsAreSent,
    PeriodBegins,
    Ping,
    PingMe,
    PingRequest,
    RelayFails,
    SuspectIsPinged,
    SuspicionExpires,
    Update,
    Updates,
    VerdictIsDue,
    Word,
    host_and_port,
    update_of,
)
from doyen.membership.swim.news import News
from doyen.membership.swim.probe import Prober, RoundRobin, Targets
from doyen.membership.swim.roster import Acquaintances, Roster, is_dead
from doyen.membership.swim.seeds import Seeds
from doyen.membership.swim.suspicion import Suspicion, Suspicions
from doyen.membership.swim.watch import Beats, Watched

_ALIVE, _SUSPECTED, _FAILED, _LEFT = map(int, Word)  # As messages have them.


class Swim(Membership):
    """One member.  It joins what its parts learn: roster, prober, suspicions, rumours and anti-entropy."""

    MESSAGES: ClassVar[Any] = Message
    MEASURED: ClassVar = (
        Exchange(
            question=Ping,
            answer=Ack,
            number=lambda message: message.ping_no,
            targets=lambda machine, ping: (ping.target,),
        ),
    )

    def __init__(
        self,
        node: NodeId,
        config: SwimConfig,
        out: Out,
        rng: Random,
        *,
        incarnation: int = 1,  # Greater than any earlier one of this name, as far as the node knows.
        address: Address | None = None,  # Where others reach this node; None: the transport knows.
        seeds: Sequence[Address] = (),
        known: Acquaintances | None = None,  # Members from the start.
        payload_max: int = PAYLOAD_MAX,  # Bytes of a message; `dissemination.payload_max` knows how many.
        round_trips_max: int = 0,  # Members whose own round trip is remembered.
        targets: Targets | None = None,  # None: members take turns.
        post: type[Post] = Post,  # What carries messages, with gossip on them.
    ) -> None:
        self.node, self.config, self.incarnation = node, config, Incarnation(incarnation)
        self.misdirected_count = 0  # Pings for others that came here: two members share an address.
        self._out, self._rng = out, rng
        me = Member(node=node, incarnation=self.incarnation, address=address)
        self._roster = roster = Roster(me, config, known)
        self._targets = targets or RoundRobin([n for n in roster.view.members if n != node], rng)
        self.health = LocalHealth(config)
        self._post = post(
            config,
            out,
            payload_max,
            about=self._about,
            where=self._where,
            digests=roster.digests,
        )
        self._prober = Prober(config, roster, self._targets, self.health, self._post, out, rng, self._on_silent)
        self._prober.trips.members_max = round_trips_max
        self._beats, self._watched = Beats(config, roster, self._post, out, rng), Watched(out)
        self._suspicions = Suspicions(config)
        self._seeds = Seeds(roster, node, seeds)
        self._sync = AntiEntropy(config, roster, self._post, out, rng, self._seeds.addresses, self._seeds.in_reach)
        self._news = News(config, roster, self._post, out, rng)
        self._changed: list[NodeId] = []  # By the present step.
        self._greeted_at: Instant = -FOREVER
        self._reaps = Deadline()  # When the next absent member is forgotten.
        self._left = False

    # Inputs.

    def start(self, now: Instant) -> None:
        self._tell_of_myself()
        self._changed.extend(self._roster.view.members)
        self._prober.start(now)
        self._sync.start(now)
        self._report(now)

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        if message.updates:
            self._hear(sender, message.updates, now, message.__class__ is Entries)
        kind = message.__class__
        if self._left and self.node not in self._post.rumours:
            self._tell_of_myself()  # The sender has not heard that this node left.
        if kind is Ping:
            if message.target != self.node:
                self.misdirected_count += 1
            elif not (waited_ms := self._targets.on_pinged(now)):
                self._post.reply(sender, Ack, message.ping_no)
            else:
                self._post.ack(sender, message.ping_no, waited_ms)
        elif kind is Ack:
            if message.waited_ms:
                self._targets.on_waited(sender, message.waited_ms)
            self._prober.on_ack(sender, message, now)
        elif self._left:
            pass
        elif kind is PingRequest:
            self._prober.on_request(sender, message, now)
        elif kind is HelperAck:
            self._prober.on_helper_ack(sender, message)
        elif kind is Nack:
            self._prober.on_nack(sender, message)
        elif kind is Beat:
            if sender != self.node and self._is_present(sender):
                self._watched.on_beat(sender, message, now)
        elif kind is PingMe:
            self._targets.hurry(sender)
        elif kind is Digest:
            self._sync.on_digest(sender, message)
        elif kind is Entries:
            self._sync.on_entries(sender, message)
        if sender not in self._roster.members:
            self._greet(sender, now)
        if self._changed:
            self._report(now)

    def on_timer(self, timer: Any, now: Instant) -> None:
        kind = timer.__class__
        if self._left:
            return
        if kind is SuspicionExpires:
            if self._suspicions.is_overdue(timer.node, timer.incarnation, now):
                self._on_suspicion_expires(timer, now)
        elif kind is PeriodBegins:
            self._on_period(timer, now)
        elif kind is HelpersAreAsked:
            self._prober.ask_helpers(timer, now)
        elif kind is RelayFails:
            self._prober.on_relay_fails(timer)
        elif kind is VerdictIsDue:
            self._prober.on_verdict(timer, now)
        elif kind is SuspectIsPinged:
            self._recheck(timer, now)
        elif kind is NewsAreSent:
            self._news.on_due(now)
        elif kind is BeatsAreSent:
            self._beats.on_due(now)
        elif kind is BeatIsMissed:
            if self._watched.is_missed(timer, now) and self._is_present(timer.leader):
                self._prober.probe(timer.leader, self.config.watch_patience, now)
        elif kind is DigestsAreCompared:
            self._sync.on_due(now)
        elif kind is AbsentAreForgotten:
            self._reap(now)
        elif kind is CountsAreHalved:
            self._changed += self._roster.fading.halve(now, self._out)
        if self._changed:
            self._report(now)

    def _on_period(self, timer: PeriodBegins, now: Instant) -> None:
        self._prober.on_period(timer, now)

    def on_link_broken(self, fact: LinkBroken, now: Instant) -> None:
        """Treat it as a probe without an answer; the suspect is pinged at once, so that it can refute at once.

        Where nobody was found at its address either, it has no longer than one ack may take (decision 25).
        """
        if not self._left and self._is_present(fact.member):
            self._on_silent(fact.member, now)
            if fact.gone:
                hastened = self._suspicions.hasten(fact.member, fact.incarnation, now + self.config.ack_timeout)
                if hastened is not None:
                    self._out.set_timer(hastened, now + self.config.ack_timeout)
            self._prober.ping(fact.member)
            if self._changed:
                self._report(now)

    def on_seeds_changed(self, fact: SeedsChanged, now: Instant) -> None:
        """Try these seeds from now on, and at once if this node is alone."""
        self._seeds.use(fact.seeds)
        self._sync.use_seeds(self._seeds.addresses, at_once=not self._left)

    def on_own_address_changed(self, fact: OwnAddressChanged, now: Instant) -> None:
        """Gossip the new address, as a new incarnation: an update of the old one outranks nothing."""
        if not self._left and fact.address != self._roster.view[self.node].address:
            self.incarnation = Incarnation(self.incarnation + 1)
            self._put(Update(self.node, self.incarnation, _ALIVE, NOBODY, *host_and_port(fact.address)), now)
            self._report(now)

    def on_leader_elected(self, fact: LeaderElected, now: Instant) -> None:
        self._beats.on_elected(fact.term, now)

    def on_leader_lost(self, fact: LeaderLost, now: Instant) -> None:
        self._beats.on_lost(fact.term)

    def on_member_wanted(self, fact: MemberWanted, now: Instant) -> None:
        """Compare lists with a node that leads and is not present here, and with a member, who may know it."""
        if not self._is_present(fact.node) and self._greet(fact.node, now):
            for member in self._roster.random_present(self._rng, 1, frozenset()):
                self._sync.offer(member)

    def leave(self, now: Instant) -> None:
        """Notify as many members as an update is repeated to; from then on only answer those that have not heard."""
        if self._left:
            return
        self._left = True
        self._put(Update(self.node, self.incarnation, _LEFT), now)
        count = repeats(self.config, self._roster.present_count)
        for member in self._roster.random_present(self._rng, count, frozenset()):
            self._post.send(member, Gossip)
        self._report(now)

    HEARS: ClassVar[Hears] = (
        hears(LinkBroken, on_link_broken)
        | hears(LeaderElected, on_leader_elected)
        | hears(LeaderLost, on_leader_lost)
        | hears(MemberWanted, on_member_wanted)
        | hears(SeedsChanged, on_seeds_changed)
        | hears(OwnAddressChanged, on_own_address_changed)
        | hears(LeaveGroup, lambda self, command, now: self.leave(now))
    )

    # Queries.

    @property
    def view(self) -> MembershipView:
        return self._roster.view

    @property
    def suspicions(self) -> Mapping[NodeId, Suspicion]:
        """Return who is suspected, by whom, and until when the suspect may refute."""
        return self._suspicions.by_node

    def accusers(self, node: NodeId) -> tuple[NodeId, ...]:
        found = self._suspicions.by_node.get(node)
        return () if found is None else tuple(sorted(found.accusers - {NodeId("")}))

    def refute_by(self, node: NodeId) -> Instant | None:
        found = self._suspicions.by_node.get(node)
        return None if found is None else int(found.deadline)

    def round_trip(self, node: NodeId) -> Duration | None:
        mean = self._prober.trips.by_member.get(node)
        return None if mean is None else int(mean)

    # What is heard.

    def _hear(self, sender: NodeId, updates: Updates, now: Instant, by_sync: bool) -> None:
        me, rumour, find = self.node, not (by_sync and self._sync.newcomer), self._roster.members.get
        known = find(sender)
        believed = known is not None and known.present
        if not believed:
            for update in updates:
                if update.node == sender:
                    self._learn(update, now)
            believed = self._is_present(sender)
        accusers_count = believed and self.config.confirmation_count > 0
        for update in updates:
            node, word = update.node, update.word
            if node == me:
                self._hear_of_myself(update, now)
                continue
            known = find(node)
            old = False
            if known is not None:  # `outranks`, written out: most updates are old.
                ahead = update.incarnation - known.incarnation
                old = ahead < 0 or (ahead == 0 and word <= WORD[known.status])
                if old and (word != _SUSPECTED or not accusers_count):
                    continue
            if word != _ALIVE and update.incarnation + 1 >= INCARNATION_MAX:
                pass  # Its subject could not refute it.
            elif not believed and word in (_SUSPECTED, _FAILED):
                pass  # The sender is dead here: it may be the one that hears nobody.
            elif word == _FAILED and by_sync:
                self._learn(Update(node, update.incarnation, _SUSPECTED, sender), now, vouched=False)
            elif known is None or old:
                self._learn(update, now, rumour=rumour)
            else:
                self._put(update, now, rumour=rumour)  # As `_learn` would.

    def _learn(self, update: Update, now: Instant, *, vouched: bool = True, rumour: bool = True) -> None:
        """[SWIM §4.2] Believe an update that outranks what is known, and pass it on; the rest is old."""
        word, record = update.word, self._roster.record(update.node)
        if record is None:
            if is_dead(word) or not vouched:
                return  # A member that was never known is not removed, and none comes back by news of its death.
            if self._roster.present_count >= self.config.present_max:
                return  # Anybody can make up names.
        elif not update.outranks(*record):
            if word == _SUSPECTED and record == (update.incarnation, _SUSPECTED):
                self._confirm(update, now)
            return
        elif not vouched and is_dead(record[1]) and word == _SUSPECTED:
            return  # Dead here already, and said to be dead there.
        self._put(update, now, rumour=rumour)

    def _hear_of_myself(self, update: Update, now: Instant) -> None:
        """[SWIM §4.2] Only the suspect itself may raise its incarnation."""
        if self._left:
            return
        if not update.outranks(self.incarnation, _ALIVE):
            if update.incarnation < self.incarnation and self.node not in self._post.rumours:
                self._tell_of_myself()  # Some member is behind.
            return
        # A greater incarnation that says alive is an earlier one whose count was lost.
        if update.incarnation + 1 >= INCARNATION_MAX:
            return
        if update.word != _ALIVE:
            self.health.worsen()
        self.incarnation = Incarnation(update.incarnation + 1)
        self._put(Update(self.node, self.incarnation, _ALIVE), now)

    def _is_present(self, node: NodeId) -> bool:
        known = self._roster.members.get(node)
        return known is not None and known.present

    def _tell_of_myself(self) -> None:
        own = self._roster.update(self.node)
        assert own is not None
        self._post.rumours.put(own)

    def _greet(self, stranger: NodeId, now: Instant) -> bool:
        """Compare lists with an unknown sender, but not with many at once; return whether it was time to."""
        if self._left or now - self._greeted_at < self.config.ack_timeout:
            return False
        self._greeted_at = now
        self._sync.offer(stranger)
        return True

    # What is found out.

    def _on_silent(self, node: NodeId, now: Instant, helpers: Collection[NodeId] = ()) -> None:
        """Suspect a member that has answered neither this node nor those helpers."""
        record = self._roster.record(node)
        if record is None or is_dead(record[1]):
            return
        accusation = Update(node, Incarnation(record[0]), _SUSPECTED, self.node)
        self._learn(accusation, now)
        for helper in helpers:
            deadline = self._suspicions.confirm(node, record[0], helper, now)
            if deadline is not None:
                self._out.set_timer(SuspicionExpires(node, record[0]), deadline)
        found = self._suspicions.by_node.get(node)
        if self.config.recheck_interval and found is not None and not found.rechecked:
            found.rechecked = True
            self._recheck(SuspectIsPinged(node, found.incarnation, self.config.recheck_interval), now)

    def _recheck(self, timer: SuspectIsPinged, now: Instant) -> None:
        """Ping a suspect again, so that it hears of the suspicion and can refute it."""
        found = self._suspicions.by_node.get(timer.node)
        if found is not None and found.incarnation == timer.incarnation:
            self._prober.ping(timer.node)
            self._out.set_timer(SuspectIsPinged(timer.node, timer.incarnation, 2 * timer.wait), now + timer.wait)

    def _confirm(self, update: Update, now: Instant) -> None:
        deadline = self._suspicions.confirm(update.node, update.incarnation, update.by, now)
        if deadline is not None:
            self._out.set_timer(SuspicionExpires(update.node, update.incarnation), deadline)
            told = self._roster.members[update.node]
            self._post.rumours.put(update_of(told, update.by))  # Others count accusers, too.
            self._out.emit(MemberSuspected(update.node, update.by))

    def _on_suspicion_expires(self, timer: SuspicionExpires, now: Instant) -> None:
        late: Duration = now - self._suspicions.by_node[timer.node].deadline
        if (
            self.config.lifeguard and late > self.config.ack_timeout
        ):  # This node slept: a refutation may be in its socket.
            self.health.note_lateness(late)
            self._out.set_timer(timer, self._suspicions.postpone(timer.node, late))
            return
        self._put(Update(timer.node, Incarnation(timer.incarnation), _FAILED), now)

    def _put(self, update: Update, now: Instant, *, rumour: bool = True) -> None:
        """Change the state of a member, here alone: view, probing order, suspicion, rumour."""
        node, word, roster = update.node, update.word, self._roster
        before, present = roster.members.get(node), word <= _SUSPECTED
        member = roster.put(update, now)
        if present != (before is not None and before.present) and node != self.node:
            (self._targets.add if present else self._targets.remove)(node)
        if before is not None and before.status is Status.SUSPECTED:
            self._suspicions.end(node)
        if word == _SUSPECTED:
            deadline = self._suspicions.begin(node, update.incarnation, update.by, roster.present_count, now)
            self._out.set_timer(SuspicionExpires(node, update.incarnation), deadline)
            roster.fading.begin(now, self._out)
            self._out.emit(MemberSuspected(node, update.by))
        elif not present:
            self._reap_soon(now)
        if self._seeds.member_at:
            self._seeds.note(member)
        if rumour:  # With the address that is known, if it says none.
            self._post.rumours.put(update if update.host else update_of(member, update.by))
            if word == _FAILED and self.config.tell_death_count:
                # A death is rare and urgent: it does not wait for probes to carry it (decision 27).
                for other in roster.random_present(self._rng, self.config.tell_death_count, frozenset()):
                    self._post.send(other, Gossip)
        self._changed.append(node)

    def _report(self, now: Instant) -> None:
        changed = tuple(dict.fromkeys(self._changed))
        self._changed.clear()
        self._out.emit(ViewChanged(self._roster.view, changed))
        if self.config.gossip_interval and not self._left:
            self._news.send(now)

    # Housekeeping.

    def _reap_soon(self, now: Instant) -> None:
        if self._roster.absent_count > self.config.absent_max:
            self._reap(now)
        else:
            self._reaps.move(self._roster.reap_at(), AbsentAreForgotten(), self._out)

    def _reap(self, now: Instant) -> None:
        self._reaps.fired()
        self._changed += self._roster.reap(now)
        self._reaps.move(self._roster.reap_at(), AbsentAreForgotten(), self._out)

    # For the post.

    def _about(self, to: NodeId) -> Update | None:
        """Return what the addressee must hear first."""
        member = self._roster.members.get(to)
        if member is None:
            return self._roster.update(to)  # A tombstone, if any.
        if member.status is Status.ALIVE or (member.status is Status.SUSPECTED and not self.config.tell_suspect):
            return None
        return self._roster.update(to, self.node)

    def _where(self, to: NodeId) -> NodeId | Address:
        member = self._roster.members.get(to)
        return to if member is None or member.address is None else member.address
