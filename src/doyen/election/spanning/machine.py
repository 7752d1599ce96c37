"""Elects the best node of any connected graph: an election spreads, its tree gathers the best, a flood declares it.
[MADM §6.2.2, Algorithms 11–13]

Whoever learns that the leader is lost initiates: EIM goes out, and whom a node hears it from first is its parent.
Neighbours that are neither parent nor child are *co-parents*: they swap what they know, so that the best has several
ways to the initiator.  Children's reports, MQFM, go up the tree; the initiator declares the best of all, LDM.

        initiate, or EIM ─▶ GATHERING ──reported──▶ AWAITING ──LDM──▶ IDLE (a leader is named)
                                ▲  └─ initiator: all reported ─ declares ──────▲
                                └──── EIM of a newer election, LDM overdue: initiate 1 + the highest sequence seen

This is a weak election: each region has a leader, and when a link comes up its ends compare, and the lower id
initiates if they differ.

Deviation [MADM Alg. 12]: a node waits for co-parents for a bounded time only, or two of them may wait for each other
  for ever; it tells them exactly once, when its children have reported, whatever they did (line 41 starves them).
Deviation [MADM §6.2.2]: elections are ordered by (higher sequence, lower initiator); by the initiator alone nobody
  could ever re-initiate after the lowest had died.
Deviation [MADM §6.2.5]: "any single link failure is tolerated" is false as printed.  A node that has lost its parent
  asks its neighbours for another, its own children last; and whoever finds a worse leader declared than itself
  although it took part initiates anew.
Deviation: an EIM of the election just declared is still answered by AGM, so that counts do not depend on overtaking.
Extension: a pulse between neighbours (off as published) finds ghosts, lost messages and corrupted state.
"""

from collections.abc import Callable, Iterable
from math import isfinite, nan
from typing import Any, ClassVar, Final

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.kinds import NoLease
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkChanged
from doyen.core.order import order
from doyen.core.rank import ScoreGiven
from doyen.core.view import ViewChanged
from doyen.election.spanning import healing, orphan, pulse, returning
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.gathering import Gathering
from doyen.election.spanning.messages import (
    DEPTH_MAX,
    SEQUENCE_MAX,
    Ack,
    Agm,
    AnswersOverdue,
    Candidate,
    CoParentsOverdue,
    DeclarationOverdue,
    Eim,
    ElectionId,
    Enquire,
    Ldm,
    LeaderUnreachable,
    Message,
    Mqfm,
    NotYet,
    ParentOverdue,
    PulseDue,
    ReportsOverdue,
    Request,
    RequestsOverdue,
    Reset,
    ResetOver,
    ReturnOverdue,
    State,
    Timer,
    newer,
)
from doyen.election.spanning.patience import Patience
from doyen.election.spanning.phase import Phase, Status
from doyen.election.spanning.watch import Watch
from doyen.errors import LocalProtocolError

STANDING_MAX: Final = 1e300


class Spanning(NoLease):
    """One node.  It speaks to its neighbours only; who they are it is told by `LinkChanged`."""

    __slots__ = (
        "answers",
        "config",
        "deadline_at",
        "election",
        "gained_at",
        "gathering",
        "joined_at",
        "keeps",
        "leader",
        "life",
        "links",
        "me",
        "measure",
        "out",
        "patience",
        "phase",
        "retired",
        "returning",
        "sequence_max",
        "standing",
        "stranger_count",
        "watch",
    )
    MESSAGES: ClassVar[Any] = Message
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
        life: int = 0,
        returning: bool = False,
        restored: int | None = None,  # The highest sequence of an earlier life; None: nothing is kept.
    ) -> None:
        self.me, self.config, self.out = me, config, out
        self.standing = standing  # My quality as last told or measured; an election takes it as it is on joining,
        self.measure = measure  # and asks for it then, if there is somebody to ask (a `Rating`, any callable).
        self.retired: float | None = None  # What it is, while I have resigned and `standing` is the lowest.
        self.life = life  # My incarnation.
        self.returning = returning  # Others may be running already: ask them first.
        self.links: list[NodeId] = sorted(set(neighbours) - {me}, key=order)
        self.phase = Phase.IDLE
        self.election: ElectionId | None = None  # The newest that I joined, or whose leader I name.
        self.leader: Candidate | None = None
        self.sequence_max = restored or 0  # The highest seen anywhere; written by `saw` alone.
        self.keeps = restored is not None
        self.gathering: Gathering | None = None
        self.watch = Watch()
        self.patience = Patience()
        self.stranger_count = 0  # Messages from nodes that are not my neighbours: dropped.
        self.answers: dict[NodeId, State | None] = {}  # While returning.
        self.deadline_at: Instant = 0  # When the present election is given up, if a pulse looks.
        self.joined_at: Instant = 0  # Since when all neighbours of then are being told of `election`,
        self.gained_at: dict[NodeId, Instant] = {}  # and those since when who were not, or not yet.

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

    # Inputs.

    def start(self, now: Instant) -> None:
        if self.config.pulse_interval < FOREVER:
            self.out.set_timer(PulseDue(), now + self.config.pulse_interval)
        if self.returning:
            returning.become_returning(self, now)

    def initiate(self, now: Instant) -> None:
        """A command: the leader is lost, or none was ever elected."""
        if self.phase in (Phase.IDLE, Phase.RETURNING):
            self.begin(now)

    def resign(self, now: Instant, to: NodeId | None = None) -> None:
        """A command: elect anew, with me as the last choice until `stand`."""
        self.check_heir(to)
        if self.status is Status.LEADER and self.phase is Phase.IDLE and self.retired is None:
            self.retired, self.standing = self.standing, -STANDING_MAX
            self.begin(now)

    def check_heir(self, to: NodeId | None) -> None:
        """Raises what a resignation would."""
        if to is not None:
            raise LocalProtocolError(f"this election is by quality and cannot hand over to {to}: raise its quality")

    def stand(self, now: Instant) -> None:
        if self.retired is not None:
            self.standing, self.retired = self.retired, None

    def on_leader_unreachable(self, fact: LeaderUnreachable, now: Instant) -> None:
        if self.phase is Phase.IDLE and fact.leader == (self.leader and self.leader.node):
            self.begin(now)

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        leader = self.leader.node if self.leader else None
        if self.phase is Phase.IDLE and leader in fact.changed and not fact.view[leader].present:
            self.begin(now)

    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        if isfinite(fact.value) and self.retired is None:
            self.standing = fact.value
        elif isfinite(fact.value):
            self.retired = fact.value

    def on_link_changed(self, fact: LinkChanged, now: Instant) -> None:
        if fact.up and fact.peer not in self.links and fact.peer != self.me:
            self._gain(fact.peer, now)
        elif not fact.up and fact.peer in self.links:
            self._lose(fact.peer, now)

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        if sender not in self.links:
            self.stranger_count += 1
            return
        if self.phase is Phase.RESETTING:
            return
        if isinstance(message, Eim | Ack | Agm | Mqfm | NotYet):
            self.patience.hear(sender, message.election)
        match message:
            case Eim():
                self._on_eim(sender, message, now)
            case Mqfm():
                self._on_mqfm(sender, message, now)
            case Ldm():
                self._on_ldm(sender, message, now)
            case Ack() | Agm() | NotYet():
                self._on_answer(sender, message, now)
            case Request():
                self._on_request(sender, message)
            case Enquire():
                healing.on_enquire(self, sender, message, now)
            case State():
                healing.on_state(self, sender, message, now)
            case Reset():
                pulse.become_resetting(self, now)

    def on_timer(self, timer: Timer, now: Instant) -> None:
        match timer:
            case PulseDue():
                pulse.pulse(self, now)
            case ReturnOverdue():
                if self.phase is Phase.RETURNING and now >= self.deadline_at:
                    returning.finish_return(self, now)
            case ResetOver():
                pulse.on_reset_over(self, timer, now)
            case _:
                g = self.gathering
                if g is not None and timer.election == g.election:  # Else it is of an election that is over.
                    self._on_overdue(g, timer, now)

    def _on_overdue(self, g: Gathering, timer: Timer, now: Instant) -> None:
        match timer:
            case AnswersOverdue(_, round_no) if round_no == g.answers_no:
                self._give_up(g, g.pending)
            case ReportsOverdue(_, wait_no) if wait_no == g.wait_no and self.phase is Phase.GATHERING and g.missing:
                g.asked = g.missing
                for node in sorted(g.asked, key=order):
                    self.say(node, Request(g.election))
                self.out.set_timer(RequestsOverdue(g.election, wait_no), now + self.answer_wait)
            case RequestsOverdue(_, wait_no) if wait_no == g.wait_no:
                self._give_up(g, g.asked)
                self._await_reports(g, now)
            case CoParentsOverdue():
                g.co_wait_over = True
            case ParentOverdue(_, seek_no) if seek_no == g.seek_no and g.seeking:
                orphan.ask_children(self, g)
            case DeclarationOverdue() if g.election.initiator != self.me:
                self.begin(now)
                return
            case _:
                return
        self.evaluate(now)

    @property
    def answer_wait(self) -> Duration:
        return self.patience.stretched(self.config.answer_wait)

    def _give_up(self, g: Gathering, nodes: Iterable[NodeId]) -> None:
        for node in list(nodes):
            g.drop(node)
            self.patience.give_up(node, g.election)

    def say(self, peer: NodeId, message: Message) -> None:
        """To a neighbour, whatever memory calls one."""
        if peer in self.links:
            self.out.send(peer, message)

    # [MADM Alg. 11] Initiation.

    def begin(self, now: Instant) -> None:
        if self.sequence_max >= SEQUENCE_MAX:
            pulse.become_resetting(self, now)
        else:
            self.patience.begin(now, self.config.declaration_wait)
            self._become_gathering(ElectionId(self.sequence_max + 1, self.me, self.life), None, 0, now)

    def _become_gathering(self, election: ElectionId, parent: NodeId | None, depth: int, now: Instant) -> None:
        """Joining is losing the leader; my quality is frozen from here on."""
        self.forget_leader("election")
        self.patience.join(now, self.config.declaration_wait)
        self.election, self.joined_at = election, now
        self.saw(election.sequence)
        self.phase = Phase.GATHERING
        self.gathering = g = Gathering(election, self.candidate(), parent, depth)
        g.pending = {node for node in self.links if node != parent}
        if g.pending:
            if parent is not None:
                self.out.send(parent, Ack(election))  # A leaf's MQFM will do for one.
            eim = Eim(election, depth)
            for node in self.links:
                if node != parent:
                    self.out.send(node, eim)
            self.await_answers(g, now)
            self._await_reports(g, now)
        self.await_declaration(g, now)
        self.evaluate(now)

    def candidate(self) -> Candidate:
        """Myself, with my quality of this moment; the last one stands where it cannot be measured."""
        if self.measure is not None and self.retired is None:
            try:
                value = float(self.measure())
            except Exception:  # The application's mistake: an election must not stop for it.
                value = nan
            if isfinite(value):
                self.standing = value
        return Candidate(self.standing, self.me)

    def saw(self, sequence: int, *, forget: bool = False) -> None:
        """Nothing that I say of a sequence leaves before it is durable, so no life of mine uses one twice."""
        if forget or sequence > self.sequence_max:
            self.sequence_max = sequence
            if self.keeps:
                self.out.persist(sequence)

    def await_answers(self, g: Gathering, now: Instant) -> None:
        g.answers_no += 1
        self.out.set_timer(AnswersOverdue(g.election, g.answers_no), now + self.answer_wait)

    def _await_reports(self, g: Gathering, now: Instant) -> None:
        g.wait_no += 1
        g.asked = set()
        self.out.set_timer(ReportsOverdue(g.election, g.wait_no), now + self.config.report_wait(g.depth))

    def await_declaration(self, g: Gathering, now: Instant) -> None:
        self.deadline_at = now + self.config.declaration_wait
        if g.election.initiator != self.me:
            self.out.set_timer(DeclarationOverdue(g.election), self.deadline_at)

    # [MADM Alg. 12] Intermediate steps.

    def _on_eim(self, sender: NodeId, message: Eim, now: Instant) -> None:
        election, mine = message.election, self.election
        if newer(election, mine):
            self._become_gathering(election, sender, min(message.depth + 1, DEPTH_MAX), now)
        elif election == mine:
            self.out.send(sender, Agm(election))
            self._on_co_parent(sender, now)
        else:
            healing.on_older(self, sender, election, now)

    def _on_answer(self, sender: NodeId, message: Ack | Agm | NotYet, now: Instant) -> None:
        g = self.gathering
        if g is None or message.election != g.election:
            return
        match message:
            case Ack():
                g.is_child(sender)
            case Agm():
                self._on_co_parent(sender, now)
                return
            case NotYet():
                g.asked.discard(sender)
        self.evaluate(now)

    def _on_co_parent(self, sender: NodeId, now: Instant) -> None:
        g = self.gathering
        if g is not None:
            if g.is_co_parent(sender) and g.told:
                self.out.send(sender, Mqfm(g.election, g.best_below(), False))  # Late, but not left out.
            self.evaluate(now)

    def _on_mqfm(self, sender: NodeId, message: Mqfm, now: Instant) -> None:
        g = self.gathering
        if g is None or message.election != g.election:
            return
        if not message.up:
            g.is_co_parent(sender)
            g.beside[sender] = message.best
        else:
            g.is_child(sender)
            g.asked.discard(sender)
            g.reports[sender] = message.best
            if g.reported is not None and message.best.beats(g.reported) and g.parent is not None:
                self._report(g, g.parent)  # It came to me late, by another way than it was meant to.
        self.evaluate(now)

    def evaluate(self, now: Instant) -> None:
        """After every message: whether all that I wait for is there."""
        g = self.gathering
        if g is None or self.phase is not Phase.GATHERING or g.pending or g.missing:
            return
        if not g.told:
            g.told = True
            for node in sorted(g.co_parents, key=order):
                self.say(node, Mqfm(g.election, g.best_below(), False))
            if g.co_parents:
                self.out.set_timer(CoParentsOverdue(g.election), now + self.config.co_parent_wait)
        if not g.co_parents_heard and not g.co_wait_over:
            return
        if g.parent is not None:
            self._report(g, g.parent)
            self.phase = Phase.AWAITING
        elif g.election.initiator == self.me:
            self._declare(g, now)

    def _report(self, g: Gathering, parent: NodeId) -> None:
        g.reported = g.best()
        self.say(parent, Mqfm(g.election, g.reported, True))

    def _on_request(self, sender: NodeId, message: Request) -> None:
        """Answered at once, whatever the answer."""
        g = self.gathering
        if message.election != self.election:
            self.out.send(sender, healing.state_of(self))
        elif g is None:
            if self.leader is not None:
                self.out.send(sender, Ldm(message.election, self.leader))
        elif g.reported is not None and g.parent == sender:
            self.out.send(sender, Mqfm(g.election, g.reported, True))
        elif g.parent == sender:
            self.out.send(sender, NotYet(g.election))
        else:
            self.out.send(sender, Agm(g.election))  # Not your child: do not wait for me.

    # [MADM Alg. 13] Declaration.

    def _declare(self, g: Gathering, now: Instant) -> None:
        winner = g.best()
        for node in self.links:
            self.out.send(node, Ldm(g.election, winner))
        self.become_settled(g.election, winner, now)

    def _on_ldm(self, sender: NodeId, message: Ldm, now: Instant) -> None:
        election, winner, g = message.election, message.leader, self.gathering
        if newer(self.election, election):
            healing.on_older(self, sender, election, now)
            return
        if election == self.election and g is None:
            return  # Told already.
        if g is not None and election == g.election and g.took_part and g.mine.beats(winner):
            self.begin(now)  # I took part, and was not counted.
            return
        self.saw(election.sequence)
        for node in self.links:
            if node != sender:
                self.out.send(node, message)
        self.become_settled(election, winner, now)

    def become_settled(self, election: ElectionId, winner: Candidate, now: Instant) -> None:
        """A leader is named: by declaration, or because a neighbour says so."""
        self.forget_leader("outranked")
        if election != self.election:
            self.joined_at = now
        self.election, self.leader, self.gathering = election, winner, None
        self.saw(election.sequence)
        self.phase = Phase.IDLE
        self.watch.distance = 0
        self.out.emit(LeaderElected(Term(election.sequence, winner.node)))

    def forget_leader(self, reason: str) -> None:
        if self.leader is not None and self.election is not None:
            self.out.emit(LeaderLost(Term(self.election.sequence, self.leader.node), reason))
        self.leader = None

    # Links.

    def _gain(self, peer: NodeId, now: Instant) -> None:
        self.links = sorted([*self.links, peer], key=order)
        self.gained_at[peer] = now
        if self.phase is Phase.RETURNING:
            returning.greet(self, peer, now)
        elif self.phase is not Phase.RESETTING:
            self.out.send(peer, healing.state_of(self, compare=True))

    def _lose(self, peer: NodeId, now: Instant) -> None:
        self.links.remove(peer)
        self.gained_at.pop(peer, None)
        self.watch.forget(peer)
        self.patience.forget(peer)
        g = self.gathering
        if self.phase is Phase.RETURNING:
            self.answers.pop(peer, None)
            if self.answers and all(self.answers.values()):
                returning.finish_return(self, now)  # Else it waits on: there may be others.
        elif not self.links:  # A region of one leads itself.
            if self.phase is not Phase.RESETTING and self.status is not Status.LEADER:
                self.begin(now)
        elif g is not None:
            g.drop(peer)
            if g.parent == peer:
                orphan.seek_parent(self, g, now)
            self.evaluate(now)
