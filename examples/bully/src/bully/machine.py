"""The greatest name leads: ask all that are greater; if none answers, say that you lead.  [BULLY]

Deviation: a leader repeats its `Coordinator`, so that no lost message can leave two leaders or none for long.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Struct

from doyen.core import Hears, Instant, LeaderElected, LeaderLost, NodeId, NoLease, Out, Term, ViewChanged, hears, ms
from doyen.core.config import Config, Doc, Period
from doyen.core.order import order


class BullyConfig(Config, frozen=True, kw_only=True):
    answer_timeout: Annotated[Period, Doc("The wait for an answer, then for a coordinator: two round trips.")] = ms(300)
    repeat_interval: Annotated[Period, Doc("A leader says so again after each. Long: who missed it waits.")] = ms(1000)


class Elect(Struct, frozen=True, array_like=True, tag="E"):
    """Asks a greater one whether it is there."""


class Alive(Struct, frozen=True, array_like=True, tag="A"):
    """Answers a lesser one: I am here, and take it from here."""


class Coordinator(Struct, frozen=True, array_like=True, tag="C"):
    """To all: I lead."""

    number: int


class PatienceEnds(Struct, frozen=True, gc=False):
    attempt: int


class RepeatDue(Struct, frozen=True, gc=False):
    number: int


class Bully(NoLease):
    """One member.  It needs a list of members, and nothing else."""

    MESSAGES: ClassVar[Any] = Elect | Alive | Coordinator
    RECORD: ClassVar[Any] = int  # The greatest term number seen.

    def __init__(self, me: NodeId, config: BullyConfig, out: Out, *, restored: int | None = None) -> None:
        self.me, self.config, self._out = me, config, out
        self._keeps, self._number = restored is not None, restored or 0
        self._present: Sequence[NodeId] = ()
        self._attempt = 0  # The election under way; 0: none.
        self.term: Term | None = None

    @property
    def named(self) -> NodeId | None:
        return None if self.term is None else self.term.leader

    def start(self, now: Instant) -> None:
        """The first view begins the first election."""

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        self._present = sorted((member.node for member in fact.view.present() if member.node != self.me), key=order)
        if self.term is not None and self.term.leader not in (self.me, *self._present):
            lost, self.term = self.term, None
            self._out.emit(LeaderLost(lost, "gone"))
        if self.term is None or (self.named == self.me and self._greater()):
            self._elect(now)
        elif self.named == self.me:
            self._tell(fact.changed)

    HEARS: ClassVar[Hears] = hears(ViewChanged, on_view_changed)

    def on_message(self, sender: NodeId, message: Elect | Alive | Coordinator, now: Instant) -> None:
        match message:
            case Elect() if order(sender) < order(self.me):
                self._out.send(sender, Alive())
                if self.term is not None and self.named == self.me:
                    self._out.send(sender, Coordinator(self.term.number))
                elif not self._attempt:
                    self._elect(now)
            case Alive() if self._attempt:  # It takes over; should it die meanwhile, we begin anew.
                self._out.set_timer(PatienceEnds(self._attempt), now + 2 * self.config.answer_timeout)
                self._attempt += 1
            case Coordinator(number) if order(sender) > order(self.me):
                self._follow(Term(number, sender))
            case Coordinator(number):  # [BULLY] A lesser one leads: bully it.
                self._number = max(self._number, number)
                self._elect(now)

    def on_timer(self, timer: PatienceEnds | RepeatDue, now: Instant) -> None:
        match timer:
            case PatienceEnds(attempt) if attempt == self._attempt:
                self._lead(now)
            case PatienceEnds(attempt) if attempt == self._attempt - 1:
                self._elect(now)
            case RepeatDue(number) if self.term == Term(number, self.me):
                self._tell(self._present)
                self._out.set_timer(timer, now + self.config.repeat_interval)

    def _greater(self) -> list[NodeId]:
        return [node for node in self._present if order(node) > order(self.me)]

    def _elect(self, now: Instant) -> None:
        self._attempt += 2
        for node in self._greater():
            self._out.send(node, Elect())
        if self._greater():
            self._out.set_timer(PatienceEnds(self._attempt), now + self.config.answer_timeout)
        else:
            self._lead(now)

    def _lead(self, now: Instant) -> None:
        self._attempt = 0
        self._saw(self._number + 1)
        self.term = Term(self._number, self.me)
        self._out.emit(LeaderElected(self.term))
        self._tell(self._present)
        self._out.set_timer(RepeatDue(self._number), now + self.config.repeat_interval)

    def _follow(self, term: Term) -> None:
        self._attempt = 0
        if term == self.term or term.number < self._number:
            return
        if self.term is not None and self.named == self.me:
            self._out.emit(LeaderLost(self.term, "outranked"))
        self._saw(term.number)
        self.term = term
        self._out.emit(LeaderElected(term))

    def _saw(self, number: int) -> None:
        if self._keeps and number > self._number:
            self._out.persist(number)
        self._number = number

    def _tell(self, nodes: Sequence[NodeId]) -> None:
        assert self.term is not None
        for node in nodes:
            if node != self.me:
                self._out.send(node, Coordinator(self.term.number))
