"""Elections that the spanning election is compared with.  PALE, the chapter's choice, is not specified in it.

    FloodMax   every node passes on the best it has heard, whenever that improves; no node knows when it is over
    Vkt        Vasudevan, Kurose and Towsley (2004): a diffusing computation; every Election is answered by one Ack, a
               node's parent gets it last and with the best below, and the source declares

Both serve as baselines, not as elections to rely on.  They handle only the failures that the comparison needs: a
neighbour that is gone is not waited for, and a node that learns that a conductor died begins a round with a higher
number, which resets every node that it reaches.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.commands import Command
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected
from doyen.core.link import LinkChanged
from doyen.core.machine import Hears, hears
from doyen.core.order import order
from doyen.election.spanning.messages import Candidate


class Best(Struct, frozen=True, gc=False, array_like=True, tag="B"):
    round_no: int
    best: Candidate


class Election(Struct, frozen=True, gc=False, array_like=True, tag="E"):
    round_no: int


class Answer(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    round_no: int
    best: Candidate | None  # None: the receiver is not the sender's parent.


class Leader(Struct, frozen=True, gc=False, array_like=True, tag="L"):
    round_no: int
    leader: Candidate


class BeginRound(Command, frozen=True):
    """Conduct an election; the study that gives the command counts the rounds."""

    round_no: int


class FloodMax:
    """Floods the maximum."""

    __slots__ = ("_out", "best", "links", "me", "mine", "round_no")
    MESSAGES: ClassVar[Any] = Best

    def __init__(self, me: NodeId, out: Out, *, standing: float, neighbours: Iterable[NodeId]) -> None:
        self.me, self._out, self.links = me, out, sorted(neighbours, key=order)
        self.mine = Candidate(standing, me)
        self.best: Candidate | None = None  # Asleep until somebody speaks.
        self.round_no = 0

    @property
    def done(self) -> bool:
        return not self.links  # No node with neighbours ever knows.

    def start(self, now: Instant) -> None:
        pass

    def on_begin_round(self, command: BeginRound, now: Instant) -> None:
        self.round_no = command.round_no
        self._improve(self.mine, None)

    def on_link_changed(self, fact: LinkChanged, now: Instant) -> None:
        self.links.remove(fact.peer)

    HEARS: ClassVar[Hears] = hears(LinkChanged, on_link_changed) | hears(BeginRound, on_begin_round)

    def on_message(self, sender: NodeId, message: Best, now: Instant) -> None:
        heard = message.best
        if message.round_no > self.round_no:
            self.round_no = message.round_no
            woken = self.mine if self.mine.beats(heard) else heard
            self._improve(woken, sender if woken is heard else None)
        elif message.round_no == self.round_no and self.best is not None and heard.beats(self.best):
            self._improve(heard, sender)

    def on_timer(self, timer: Any, now: Instant) -> None:
        pass

    def _improve(self, best: Candidate, source: NodeId | None) -> None:
        self.best = best
        for peer in self.links:
            if peer != source:
                self._out.send(peer, Best(self.round_no, best))
        self._out.emit(LeaderElected(Term(self.round_no, best.node)))


class Vkt:
    """Elects over a spanning tree without co-parents."""

    __slots__ = ("_out", "awaited", "best", "leader", "links", "me", "mine", "parent", "reported", "round_no")
    MESSAGES: ClassVar[Any] = Election | Answer | Leader

    def __init__(self, me: NodeId, out: Out, *, standing: float, neighbours: Iterable[NodeId]) -> None:
        self.me, self._out, self.links = me, out, sorted(neighbours, key=order)
        self.best = self.mine = Candidate(standing, me)
        self.parent: NodeId | None = None
        self.leader: Candidate | None = None
        self.awaited: set[NodeId] = set()
        self.reported = False
        self.round_no = 0

    @property
    def done(self) -> bool:
        return self.leader is not None

    def start(self, now: Instant) -> None:
        pass

    def on_begin_round(self, command: BeginRound, now: Instant) -> None:
        self._join(command.round_no, None)

    def on_link_changed(self, fact: LinkChanged, now: Instant) -> None:
        self.links.remove(fact.peer)
        self.awaited.discard(fact.peer)
        if self.parent != fact.peer:  # Else its round leads nowhere, and another one will come.
            self._evaluate()

    HEARS: ClassVar[Hears] = hears(LinkChanged, on_link_changed) | hears(BeginRound, on_begin_round)

    def on_message(self, sender: NodeId, message: Election | Answer | Leader, now: Instant) -> None:
        if message.round_no > self.round_no and not isinstance(message, Answer):
            if isinstance(message, Election):
                self._join(message.round_no, sender)
        elif message.round_no == self.round_no:
            match message:
                case Election():
                    self._out.send(sender, Answer(self.round_no, None))
                case Answer():
                    self.awaited.discard(sender)
                    if message.best is not None and message.best.beats(self.best):
                        self.best = message.best
                    self._evaluate()
                case Leader() if self.leader is None:
                    self._declare(message.leader, sender)
                case _:
                    pass

    def on_timer(self, timer: Any, now: Instant) -> None:
        pass

    def _join(self, round_no: int, parent: NodeId | None) -> None:
        self.round_no, self.parent, self.leader, self.best, self.reported = round_no, parent, None, self.mine, False
        self.awaited = {peer for peer in self.links if peer != parent}
        for peer in self.links:
            if peer != parent:
                self._out.send(peer, Election(round_no))
        self._evaluate()

    def _evaluate(self) -> None:
        if self.round_no and not self.awaited and not self.reported:
            self.reported = True
            if self.parent is None:
                self._declare(self.best, None)
            else:
                self._out.send(self.parent, Answer(self.round_no, self.best))

    def _declare(self, leader: Candidate, source: NodeId | None) -> None:
        self.leader = leader
        for peer in self.links:
            if peer != source:
                self._out.send(peer, Leader(self.round_no, leader))
        self._out.emit(LeaderElected(Term(self.round_no, leader.node)))
