"""Elects the best node of any connected graph: an election spreads, its tree gathers the best, a flood declares it.
[MADM §6.2.2, Algorithms 11–13]

A node that learns that the leader is lost initiates: EIM goes out, and the node from which EIM is first heard is the
parent.  Neighbours that are neither parent nor child are *co-parents*: they swap what they know, so that the best has
several ways to the initiator.  Children's reports, MQFM, go up the tree; the initiator declares the best of all, LDM.

        initiate, or EIM ─▶ GATHERING ──reported──▶ AWAITING ──LDM──▶ IDLE (a leader is named)
                                ▲  └─ initiator: all reported ─ declares ──────▲
                                └──── EIM of a newer election, LDM overdue: initiate 1 + the highest sequence seen

This is a weak election: each region has a leader, and when a link comes up its ends compare, and the lower id
initiates if they differ.

Deviation [MADM Alg. 12]: a node waits for co-parents for a bounded time only, or two of them may wait for each other
  forever; it notifies them exactly once, when its children have reported, whatever they did (line 41 starves them).
Deviation [MADM §6.2.2]: elections are ordered by (higher sequence, lower initiator); by the initiator alone nobody
  could ever re-initiate after the lowest had died.
Deviation [MADM §6.2.5]: "any single link failure is tolerated" is false as printed.  A node that has lost its parent
  asks its neighbours for another, its own children last; and a node that finds a worse leader declared than itself
  although it took part initiates anew (decision 41).
Deviation: an EIM of the election just declared is still answered by AGM, so that counts do not depend on overtaking.
Extension: a pulse between neighbours (off as published) finds ghosts, lost messages and corrupted state (decision 42).
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from doyen.core.clock import FOREVER, Instant
from doyen.core.commands import Initiate, Resign, Stand
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.kinds import Election
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkChanged
from doyen.core.machine import Hears, hears
from doyen.core.order import order
from doyen.core.rank import ScoreGiven
from doyen.core.view import ViewChanged
from doyen.election.spanning import messages as msg
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.gathering import Gathering
from doyen.election.spanning.links import Links, view_of
from doyen.election.spanning.messages import (
    DEPTH_MAX,
    Candidate,
    ElectionId,
    Phase,
    Progress,
    Status,
    newer,
)
from doyen.election.spanning.patience import Patience
from doyen.election.spanning.quality import Quality
from doyen.election.spanning.returning import Enquiry
from doyen.election.spanning.sequence import Sequence
from doyen.errors import LocalProtocolError


class Spanning(Election):
    """One node, which speaks to its neighbours only; `LinkChanged` says who they are."""

    MESSAGES: ClassVar[Any] = msg.Message
    RECORD: ClassVar[Any] = int  # The highest sequence seen, where it is kept over restarts.

    def __init__(
        self,
        me: NodeId,
        config: SpanningConfig,
        out: Out,
        *,
        standing: float = 0.0,
        measure: Callable[[], float] | None = None,
        neighbours: Iterable[NodeId] = (),
        incarnation: int = 0,
        returning: bool = False,  # Others may be running already: ask them first.
        restored: int | None = None,  # The highest sequence of an earlier incarnation; None: nothing is kept.
    ) -> None:
        self.me, self.config, self.out = me, config, out
        self._incarnation, self._returns = incarnation, returning
        self.quality = Quality(standing, measure)
        self.links = Links(me, neighbours, out)
        self.patience = Patience(config)
        self.enquiry = Enquiry()  # While returning.
        self.gathering: Gathering | None = None  # While electing.
        self.phase = Phase.IDLE
        self.election: ElectionId | None = None  # The newest that this node joined, or whose leader it names.
        self.leader: Candidate | None = None
        self.sequence = Sequence(out, restored)
        self.deadline_at: Instant = 0  # When a pulse gives up the present election, return or reset.

    @property
    def status(self) -> Status:
        if self.leader is None:
            return Status.NULL
        return Status.LEADER if self.leader.node == self.me else Status.NON_LEADER

    @property
    def named(self) -> NodeId | None:
        return None if self.leader is None else self.leader.node

    @property
    def electing(self) -> bool:
        return self.phase in (Phase.GATHERING, Phase.AWAITING)

    def state(self, *, compare: bool = False) -> msg.State:
        """Return what this node says of itself to a neighbour."""
        g = self.gathering
        if self.phase is Phase.RETURNING:
            return msg.State(None, None, "returning", False, 0, compare)
        progress: Progress = "idle" if g is None else "gathering" if self.phase is Phase.GATHERING else "reported"
        anchored = g is not None and (g.parent is not None or g.election.initiator == self.me)
        distance = 0 if self.status is Status.LEADER else min(max(self.links.distance, 0), DEPTH_MAX)
        return msg.State(self.election, self.leader, progress, anchored, distance, compare)

    # Inputs.

    def start(self, now: Instant) -> None:
        if self.config.pulse_interval < FOREVER:
            self.out.set_timer(msg.PulseBegins(), now + self.config.pulse_interval)
        if self._returns:
            self._become_returning(now)

    def initiate(self, now: Instant) -> None:
        """Elect: the leader is lost, or none was ever elected."""
        if self.phase in (Phase.IDLE, Phase.RETURNING):
            self._begin(now)

    def resign(self, command: Resign, now: Instant) -> None:
        """Elect anew, with this node as the last choice until `stand`."""
        self.check_heir(command.to)
        if self.status is Status.LEADER and self.phase is Phase.IDLE and not self.quality.resigned:
            self.quality.resigned = True
            self._begin(now)

    def check_heir(self, to: NodeId | None) -> None:
        """Raise what a resignation would raise."""
        if to is not None:
            raise LocalProtocolError(f"this election is by quality and cannot hand over to {to}: raise its quality")

    def stand(self, now: Instant) -> None:
        """Enter later elections with the true quality again."""
        self.quality.resigned = False

    def on_leader_unreachable(self, fact: msg.LeaderUnreachable, now: Instant) -> None:
        if self.phase is Phase.IDLE and fact.leader == (self.leader and self.leader.node):
            self._begin(now)

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        leader = self.leader.node if self.leader else None
        if self.phase is Phase.IDLE and leader in fact.changed and not fact.view[leader].present:
            self._begin(now)

    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        self.quality.give(fact.value)

    def on_link_changed(self, fact: LinkChanged, now: Instant) -> None:
        if fact.up and fact.peer not in self.links.peers and fact.peer != self.me:
            self._gain(fact.peer, now)
        elif not fact.up and fact.peer in self.links.peers:
            self._lose(fact.peer, now)

    HEARS: ClassVar[Hears] = (
        hears(msg.LeaderUnreachable, on_leader_unreachable)
        | hears(ViewChanged, on_view_changed)
        | hears(ScoreGiven, on_score_given)
        | hears(LinkChanged, on_link_changed)
        | hears(Initiate, lambda self, command, now: self.initiate(now))
        | hears(Resign, resign)
        | hears(Stand, lambda self, command, now: self.stand(now))
    )

    def on_message(self, sender: NodeId, message: msg.Message, now: Instant) -> None:
        if sender not in self.links.peers or self.phase is Phase.RESETTING:
            return
        if isinstance(message, msg.Eim | msg.Ack | msg.Agm | msg.Mqfm | msg.NotYet):
            self.patience.hear(sender, message.election)
        match message:
            case msg.Eim():
                self._on_eim(sender, message, now)
            case msg.Ack() | msg.Agm() | msg.Mqfm() | msg.NotYet():
                g = self.gathering
                if g is not None and message.election == g.election:
                    g.on_message(sender, message)
                    self._evaluate(now)
            case msg.Ldm():
                self._on_ldm(sender, message, now)
            case msg.Request():
                self._on_request(sender, message.election)
            case msg.Enquire():
                self._on_enquire(sender, message.election, now)
            case msg.State():
                self._on_state(sender, message, now)
            case msg.Reset():
                self._become_resetting(now)

    def on_timer(self, timer: msg.Timer, now: Instant) -> None:
        g = self.gathering
        match timer:
            case msg.PulseBegins():
                self._pulse(now)
            case msg.EnquiryEnds():
                if self.phase is Phase.RETURNING and now >= self.deadline_at:
                    self._finish_return(now)
            case msg.ResetEnds():
                self._on_reset_ends(timer.initiate, now)
            case _ if g is None or timer.election != g.election:
                pass  # Of an election that is over.
            case msg.ElectionRepeats():
                self._begin(now)
            case msg.ReportsAreRequested() if self.phase is not Phase.GATHERING:
                pass
            case _:
                if g.on_timer(timer, now):
                    self._evaluate(now)

    # [MADM Alg. 11, 12] Joining an election.

    def _begin(self, now: Instant) -> None:
        if self.sequence.is_used_up:
            self._become_resetting(now)
        else:
            self.patience.initiate(now)
            self._become_gathering(ElectionId(self.sequence.highest + 1, self.me, self._incarnation), None, 0, now)

    def _become_gathering(self, election: ElectionId, parent: NodeId | None, depth: int, now: Instant) -> None:
        """Lose the leader; the quality is frozen from here on."""
        self._forget_leader("election")
        self.patience.join(now)
        self.election = election
        self.links.notified(now)
        self.sequence.note(election.sequence)
        self.phase = Phase.GATHERING
        self.gathering = self._gather(election, parent, depth)
        self.gathering.begin(now)
        self._await_declaration(election, now)

    def _gather(self, election: ElectionId, parent: NodeId | None, depth: int, *, took_part: bool = True) -> Gathering:
        mine = self.quality.candidate(self.me)
        return Gathering(
            election, mine, parent, depth, self.config, self.links, self.patience, self.out, took_part=took_part
        )

    def _await_declaration(self, election: ElectionId, now: Instant) -> None:
        self.deadline_at = now + self.config.declaration_wait
        if election.initiator != self.me:
            self.out.set_timer(msg.ElectionRepeats(election), self.deadline_at)
        self._evaluate(now)

    def _on_eim(self, sender: NodeId, message: msg.Eim, now: Instant) -> None:
        election = message.election
        if newer(election, self.election):
            self._become_gathering(election, sender, min(message.depth + 1, DEPTH_MAX), now)
        elif election == self.election:
            self.out.send(sender, msg.Agm(election))
            if self.gathering is not None:
                self.gathering.on_co_parent(sender)
                self._evaluate(now)
        else:
            self._on_older(sender, election, now)

    def _evaluate(self, now: Instant) -> None:
        """After every input: report, or declare, if all that is waited for is there."""
        g = self.gathering
        if g is not None and self.phase is Phase.GATHERING and g.is_complete(now):
            if g.parent is not None:
                g.report(g.parent)
                self.phase = Phase.AWAITING
            elif g.election.initiator == self.me:
                winner = g.best()
                self.links.send_all(msg.Ldm(g.election, winner))
                self._become_settled(g.election, winner, now)

    def _on_request(self, sender: NodeId, election: ElectionId) -> None:
        """Answer at once, whatever the answer."""
        if election != self.election:
            self.out.send(sender, self.state())
        elif self.gathering is not None:
            self.out.send(sender, self.gathering.answer_to(sender))
        elif self.leader is not None:
            self.out.send(sender, msg.Ldm(election, self.leader))

    # [MADM Alg. 13] Declaration.

    def _on_ldm(self, sender: NodeId, message: msg.Ldm, now: Instant) -> None:
        election, winner, g = message.election, message.leader, self.gathering
        if newer(self.election, election):
            self._on_older(sender, election, now)
        elif election == self.election and g is None:
            pass  # A second copy.
        elif g is not None and election == g.election and g.took_part and g.mine.beats(winner):
            self._begin(now)  # This node took part, and was not counted (decision 41).
        else:
            self.sequence.note(election.sequence)
            self.links.send_all(message, but=sender)
            self._become_settled(election, winner, now)

    def _become_settled(self, election: ElectionId, winner: Candidate, now: Instant) -> None:
        """Name a leader: by a declaration, or because a neighbour says so."""
        self._forget_leader("outranked")
        if election != self.election:
            self.links.notified(now)
        self.election, self.leader, self.gathering = election, winner, None
        self.sequence.note(election.sequence)
        self.phase = Phase.IDLE
        self.links.distance = 0
        self.out.emit(LeaderElected(Term(election.sequence, winner.node)))

    def _forget_leader(self, reason: str) -> None:
        if self.leader is not None and self.election is not None:
            self.out.emit(LeaderLost(Term(self.election.sequence, self.leader.node), reason))
        self.leader = None

    # Links.

    def _gain(self, peer: NodeId, now: Instant) -> None:
        self.links.gain(peer)
        if self.phase is Phase.RETURNING:
            self.enquiry.ask(peer)
            self.out.send(peer, msg.Enquire(None))
            self._await_return(now + self.config.answer_wait)
        elif self.phase is not Phase.RESETTING:
            self.out.send(peer, self.state(compare=True))

    def _lose(self, peer: NodeId, now: Instant) -> None:
        self.links.lose(peer)
        self.patience.forget(peer)
        g = self.gathering
        if self.phase is Phase.RETURNING:
            if self.enquiry.drop(peer):
                self._finish_return(now)  # Else it waits on: there may be others.
        elif not self.links.peers:  # A region of one leads itself.
            if self.phase is not Phase.RESETTING and self.status is not Status.LEADER:
                self._begin(now)
        elif g is not None:
            g.drop(peer)
            if g.parent == peer and g.seek_parent(now):
                self.phase = Phase.GATHERING
            self._evaluate(now)

    def _on_enquire(self, sender: NodeId, election: ElectionId | None, now: Instant) -> None:
        g = self.gathering
        orphaned = g is not None and g.on_enquire(sender, election)
        if not orphaned or election is None:
            self.out.send(sender, self.state())
        if g is not None:
            if orphaned and g.seek_parent(now):
                self.phase = Phase.GATHERING
            self._evaluate(now)

    # Comparing: differences between neighbours are settled by an election.

    def _on_state(self, sender: NodeId, state: msg.State, now: Instant) -> None:
        self.links.hear(sender, state, now)
        if state.election is not None:
            self.sequence.note(state.election.sequence)
        g, theirs = self.gathering, view_of(state.election, state.leader)
        if self.phase is Phase.RETURNING:
            if self.enquiry.hear(sender, state):
                self._finish_return(now)
        elif state.progress == "returning":
            pass
        elif g is not None and state.election == g.election:
            if g.seeking and g.consider(sender, state):
                g.answer_enquirers(self.state(), now)
                self._evaluate(now)
        elif state.election == self.election and (
            state.progress != "idle" or view_of(self.election, self.leader) == theirs
        ):
            self.links.agrees(sender)
            if state.progress != "idle" and self.leader is not None and self.election is not None:
                self.out.send(sender, msg.Ldm(self.election, self.leader))  # It has missed the declaration.
        else:
            if g is not None and sender in g.children:
                g.drop(sender)
                self._evaluate(now)
            self._on_difference(sender, state, now)

    def _on_difference(self, sender: NodeId, state: msg.State, now: Instant) -> None:
        """Settle a difference that is not just a message under way."""
        if self._will_hear(sender, state.election, now):
            return
        mine, theirs = view_of(self.election, self.leader), view_of(state.election, state.leader)
        if state.compare or self.links.differs(sender, mine, theirs, now, self.patience.answer_wait):
            if order(self.me) < order(sender):
                self._begin(now)
            elif state.compare and newer(state.election, self.election):
                self.out.send(sender, self.state(compare=True))  # It may not know where this node is.

    def _on_older(self, peer: NodeId, election: ElectionId, now: Instant) -> None:
        """Settle it with a peer that does not know the newer election, unless both were initiated at the same time."""
        assert self.election is not None
        together = self.gathering is not None and election.sequence == self.election.sequence
        if not together and not self._will_hear(peer, election, now):
            self.patience.give_up(peer, self.election)
            if order(self.me) < order(peer):
                self._begin(now)
            else:
                self.out.send(peer, self.state(compare=True))

    def _will_hear(self, peer: NodeId, election: ElectionId | None, now: Instant) -> bool:
        return self.links.will_hear(peer, self.election, election, now, self.patience.answer_wait)

    # [MADM §6.2.2] Returning.

    def _become_returning(self, now: Instant) -> None:
        self.phase = Phase.RETURNING
        self.enquiry.begin(self.links.peers)
        self.links.send_all(msg.Enquire(None))
        wait = self.config.answer_wait if self.links.peers else self.config.link_wait  # Decision 43.
        self._await_return(now + wait)
        if not wait:
            self._begin(now)

    def _await_return(self, until: Instant) -> None:
        self.deadline_at = max(self.deadline_at, until)
        self.out.set_timer(msg.EnquiryEnds(), self.deadline_at)

    def _finish_return(self, now: Instant) -> None:
        """Join, look on, adopt or initiate: all neighbours have answered, or never will."""
        found = self.enquiry.end(self.me, self.links.peers)
        if found is None:
            self._begin(now)
            return
        election, parent = found.election, found.parent
        if found.leader is not None:
            self._become_settled(election, found.leader, now)
        else:
            self.election, self.phase = election, Phase.GATHERING if parent else Phase.AWAITING
            self.gathering = self._gather(election, parent, self.config.diameter_max, took_part=parent is not None)
            if parent is not None:
                self.out.send(parent, msg.Ack(election))
            self._await_declaration(election, now)
        for peer in found.apart:
            self.out.send(peer, self.state(compare=True))

    # Stabilising from any state.

    def _pulse(self, now: Instant) -> None:
        """Repair, count the hops to the leader, and let the neighbours compare (decision 42)."""
        config = self.config
        self.out.set_timer(msg.PulseBegins(), now + config.pulse_interval)
        self._repair(now)
        if self.phase is Phase.IDLE and self.leader is None:
            if not now < self.deadline_at <= now + config.reset_wait:  # Else not everybody hears yet.
                self._begin(now)
        elif self.phase is Phase.IDLE and self.status is not Status.LEADER:
            view, since = view_of(self.election, self.leader), now - 3 * config.pulse_interval
            if self.links.count(view, since, now) > config.diameter_max:
                self._begin(now)  # Nobody is that far away: it is a ghost.
        if self.phase is not Phase.RESETTING:
            self.links.send_all(self.state())

    def _repair(self, now: Instant) -> None:
        """Make sense of whatever memory holds, and give up what waits in vain."""
        self.links.repair(now)
        self.patience.repair(now)
        self.sequence.note(0)
        if self.election is not None:
            self.sequence.note(self.election.sequence)
        late = not now <= self.deadline_at <= now + self.config.declaration_wait
        g = self.gathering
        if self.electing != (g is not None) or (g is not None and g.election != self.election):
            self.gathering = g = None
            if self.phase is not Phase.RETURNING and self.phase is not Phase.RESETTING:
                self.phase = Phase.IDLE
        if g is not None or self.election is None:
            self._forget_leader("election")
        if g is not None:
            g.repair()
            if late:
                self._begin(now)
        elif late and self.phase is Phase.RETURNING:
            self._finish_return(now)
        elif late and self.phase is Phase.RESETTING:
            self._on_reset_ends(False, now)

    def _become_resetting(self, now: Instant) -> None:
        """Forget everything as sequences are used up, and be deaf until everybody has, and nothing old is under way."""
        self._forget_leader("election")
        self.links.send_all(msg.Reset())
        self.phase, self.election, self.gathering = Phase.RESETTING, None, None
        self.sequence.reset()
        self.deadline_at = now + self.config.reset_wait
        self.out.set_timer(msg.ResetEnds(False), self.deadline_at)

    def _on_reset_ends(self, initiate: bool, now: Instant) -> None:
        if self.phase is Phase.RESETTING:
            self.phase = Phase.IDLE
            self.deadline_at = now + (self.config.diameter_max + 1) * self.config.hop_delay  # By then everybody hears.
            self.out.set_timer(msg.ResetEnds(True), self.deadline_at)
        elif initiate and self.phase is Phase.IDLE and self.election is None:
            self._begin(now)
