"""What the spanning election is compared with where nothing fails; PALE, the chapter's choice, is not specified in it.

    FloodMax   everybody passes on the best it has heard, whenever that improves; nobody knows when it is over
    Vkt        Vasudevan, Kurose and Towsley (2004): a diffusing computation; every Election is answered by one Ack, a
               node's parent gets it last and with the best below, and the source declares

Both serve as baselines, not as elections to rely on: neither has been given what it needs to survive failures here.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected
from doyen.core.order import order
from doyen.election.spanning.messages import Candidate


class Best(Struct, frozen=True, gc=False, array_like=True, tag="B"):
    best: Candidate


class Election(Struct, frozen=True, gc=False, array_like=True, tag="E"):
    source: NodeId


class Answer(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    best: Candidate | None  # None: you are not my parent.


class Leader(Struct, frozen=True, gc=False, array_like=True, tag="L"):
    leader: Candidate


class FloodMax:
    """The maximum, flooded."""

    __slots__ = ("_out", "best", "links", "me", "mine")
    MESSAGES: ClassVar[Any] = Best

    def __init__(self, me: NodeId, out: Out, *, standing: float, neighbours: Iterable[NodeId]) -> None:
        self.me, self._out, self.links = me, out, sorted(neighbours, key=order)
        self.mine = Candidate(standing, me)
        self.best: Candidate | None = None  # Asleep until somebody speaks.

    def start(self, now: Instant) -> None:
        pass

    def initiate(self, now: Instant) -> None:
        if self.best is None:
            self._improve(self.mine, None)

    def on_message(self, sender: NodeId, message: Best, now: Instant) -> None:
        heard = message.best
        if self.best is None:
            woken = self.mine if self.mine.beats(heard) else heard
            self._improve(woken, sender if woken is heard else None)
        elif heard.beats(self.best):
            self._improve(heard, sender)

    def on_timer(self, timer: Any, now: Instant) -> None:
        pass

    def _improve(self, best: Candidate, source: NodeId | None) -> None:
        self.best = best
        for peer in self.links:
            if peer != source:
                self._out.send(peer, Best(best))
        self._out.emit(LeaderElected(Term(1, best.node)))


class Vkt:
    """The spanning tree without co-parents."""

    __slots__ = ("_out", "awaited", "best", "joined", "leader", "links", "me", "parent")
    MESSAGES: ClassVar[Any] = Election | Answer | Leader

    def __init__(self, me: NodeId, out: Out, *, standing: float, neighbours: Iterable[NodeId]) -> None:
        self.me, self._out, self.links = me, out, sorted(neighbours, key=order)
        self.best = Candidate(standing, me)
        self.parent: NodeId | None = None
        self.leader: Candidate | None = None
        self.awaited: set[NodeId] = set()
        self.joined = False

    def start(self, now: Instant) -> None:
        pass

    def initiate(self, now: Instant) -> None:
        self._join(self.me, None)

    def on_message(self, sender: NodeId, message: Election | Answer | Leader, now: Instant) -> None:
        match message:
            case Election() if not self.joined:
                self._join(message.source, sender)
            case Election():
                self._out.send(sender, Answer(None))
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

    def _join(self, source: NodeId, parent: NodeId | None) -> None:
        self.joined, self.parent = True, parent
        self.awaited = {peer for peer in self.links if peer != parent}
        for peer in self.links:
            if peer != parent:
                self._out.send(peer, Election(source))
        self._evaluate()

    def _evaluate(self) -> None:
        if not self.awaited:
            if self.parent is None:
                self._declare(self.best, None)
            else:
                self._out.send(self.parent, Answer(self.best))

    def _declare(self, leader: Candidate, source: NodeId | None) -> None:
        self.leader = leader
        for peer in self.links:
            if peer != source:
                self._out.send(peer, Leader(leader))
        self._out.emit(LeaderElected(Term(1, leader.node)))
