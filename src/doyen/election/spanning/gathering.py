"""One election at one node: its place in the tree, and the best candidate that it has gathered.  [MADM Alg. 12]

The neighbours of a node are its parent, its children, and its co-parents, which are neither.  A node that loses its
parent looks for another among its neighbours, its own children last: asking makes orphans of them too, and the one
that finds a parent becomes the parent of the node that asked.
"""

from collections.abc import Iterable

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.spanning import messages as msg
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.links import Links
from doyen.election.spanning.messages import Candidate, ElectionId
from doyen.election.spanning.patience import Patience


class Gathering:
    """Made on joining an election, dropped on its declaration."""

    def __init__(
        self,
        election: ElectionId,
        mine: Candidate,
        parent: NodeId | None,
        depth: int,
        config: SpanningConfig,
        links: Links,
        patience: Patience,
        out: Out,
        *,
        took_part: bool = True,
    ) -> None:
        self.election, self.mine, self.parent, self.depth = election, mine, parent, depth
        self._config, self._links, self._patience, self._out = config, links, patience, out
        self.took_part = took_part  # False: the node returned too late to report; it waits, and has no say.
        self.pending: set[NodeId] = set()  # Neighbours that got the EIM, and have not answered what they are.
        self.children: set[NodeId] = set()
        self.co_parents: set[NodeId] = set()
        self.reports: dict[NodeId, Candidate] = {}  # By child.
        self.co_parent_reports: dict[NodeId, Candidate] = {}
        self.co_parents_notified = self.co_parents_overdue = False
        self.reported: Candidate | None = None  # What the parent has from this node.
        self.asked: set[NodeId] = set()  # Children that have not answered a request.
        self.sought: set[NodeId] | None = None  # While a parent is sought: neighbours that have not answered.
        self.enquirers: set[NodeId] = set()  # Neighbours that wait for this node to find a parent.
        self.answers_no = self.wait_no = self.seek_no = 0

    # Inputs.

    def begin(self, now: Instant) -> None:
        """[MADM Alg. 11, 12] Pass the election on to every neighbour but the parent."""
        self.pending = {peer for peer in self._links.peers if peer != self.parent}
        if self.pending:
            if self.parent is not None:
                self._links.send(self.parent, msg.Ack(self.election))  # A leaf's MQFM will do for one.
            self._links.send_each(self.pending, msg.Eim(self.election, self.depth))
            self._await_answers(now)
            self._await_reports(now)

    def on_message(self, sender: NodeId, message: msg.Ack | msg.Agm | msg.NotYet | msg.Mqfm) -> None:
        match message:
            case msg.Ack():
                self._add_child(sender)
            case msg.Agm():
                self.on_co_parent(sender)
            case msg.NotYet():
                self.asked.discard(sender)
            case msg.Mqfm(up=False):
                self._add_co_parent(sender)
                self.co_parent_reports[sender] = message.best
            case msg.Mqfm():
                self._add_child(sender)
                self.asked.discard(sender)
                self.reports[sender] = message.best
                if self.reported is not None and self.parent is not None and message.best.beats(self.reported):
                    self.report(self.parent)  # It came late, by another way than it was meant to.

    def on_co_parent(self, sender: NodeId) -> None:
        if self._add_co_parent(sender) and self.co_parents_notified:
            self._links.send(sender, msg.Mqfm(self.election, self.best_below(), False))  # Late, but not left out.

    def on_timer(self, timer: msg.Timer, now: Instant) -> bool:
        """Return whether the timer was still of use."""
        match timer:
            case msg.AnswerWaitEnds(_, round_no) if round_no == self.answers_no:
                self._give_up(self.pending)
            case msg.ReportsAreRequested(_, wait_no) if wait_no == self.wait_no and self.missing:
                self.asked = self.missing
                self._links.send_each(self.asked, msg.Request(self.election))
                self._out.set_timer(msg.RequestWaitEnds(self.election, wait_no), now + self._patience.answer_wait)
            case msg.RequestWaitEnds(_, wait_no) if wait_no == self.wait_no:
                self._give_up(self.asked)
                self._await_reports(now)
            case msg.CoParentWaitEnds():
                self.co_parents_overdue = True
            case msg.ChildrenAreAsked(_, seek_no) if seek_no == self.seek_no and self.seeking:
                self._ask_children()
            case _:
                return False
        return True

    def drop(self, node: NodeId) -> None:
        """Wait for this node no longer; what it has reported stands, for others may still be behind it."""
        self.pending.discard(node)
        self.children.discard(node)
        self.co_parents.discard(node)
        self.asked.discard(node)
        self.enquirers.discard(node)
        if self.sought is not None:
            self.sought.discard(node)

    def repair(self) -> None:
        """Drop nodes that are no neighbours, as corrupted memory may hold such."""
        for node in (self.pending | self.children | self.co_parents) - set(self._links.peers):
            self.drop(node)

    # Reporting.

    def is_complete(self, now: Instant) -> bool:
        """Return whether all that are waited for have reported; co-parents are notified once all children have."""
        if self.pending or self.missing:
            return False
        if not self.co_parents_notified:
            self.co_parents_notified = True
            self._links.send_each(self.co_parents, msg.Mqfm(self.election, self.best_below(), False))
            if self.co_parents:
                self._out.set_timer(msg.CoParentWaitEnds(self.election), now + self._config.co_parent_wait)
        return self.co_parents_heard or self.co_parents_overdue

    def report(self, parent: NodeId) -> None:
        self.reported = self.best()
        self._links.send(parent, msg.Mqfm(self.election, self.reported, True))

    def answer_to(self, sender: NodeId) -> msg.Mqfm | msg.NotYet | msg.Agm:
        """Return the answer to a request for this node's report."""
        if self.parent != sender:
            return msg.Agm(self.election)  # No child of yours: do not wait.
        return msg.NotYet(self.election) if self.reported is None else msg.Mqfm(self.election, self.reported, True)

    @property
    def missing(self) -> set[NodeId]:
        return self.children - self.reports.keys()

    @property
    def co_parents_heard(self) -> bool:
        return self.co_parents <= self.co_parent_reports.keys()

    def best_below(self) -> Candidate:
        """[MADM §6.2.2] Return the best of this node and its children's reports: what co-parents hear."""
        return _best(self.mine, self.reports.values())

    def best(self) -> Candidate:
        """Return the best of that and of what co-parents reported: what the parent hears."""
        return _best(self.best_below(), self.co_parent_reports.values())

    # Another parent.

    @property
    def seeking(self) -> bool:
        return self.sought is not None

    def seek_parent(self, now: Instant) -> bool:
        """Look for another parent; return whether the node gathers again, as one that took no part does not."""
        self.parent, self.reported = None, None
        if not self.took_part:
            return False
        self.seek_no += 1
        self.sought = {peer for peer in self._links.peers if peer not in self.children and peer not in self.enquirers}
        self._links.send_each(self.sought, msg.Enquire(self.election))
        if self.sought:
            self._out.set_timer(msg.ChildrenAreAsked(self.election, self.seek_no), now + self._config.answer_wait)
        else:
            self._ask_children()
        return True

    def on_enquire(self, sender: NodeId, election: ElectionId | None) -> bool:
        """Note that a neighbour lost its parent, or returned (None); return whether this node lost its parent by it."""
        orphaned = self.parent == sender and election in (None, self.election)
        if election is None:
            self.drop(sender)  # Whatever it was, it is no longer.
        elif election == self.election and (orphaned or self.seeking):
            self.enquirers.add(sender)  # It gets an answer once there is a parent.
            self.children.discard(sender)
        return orphaned

    def consider(self, sender: NodeId, state: msg.State) -> bool:
        """Take this neighbour as the parent if it can be one, and return whether it can."""
        assert self.sought is not None
        if state.progress == "gathering" and state.anchored:
            self.drop(sender)
            self.parent, self.sought = sender, None
            self._links.send(sender, msg.Ack(self.election))
            return True
        if sender in self.sought:
            self.sought.discard(sender)
            if not self.sought and self.children:
                self._ask_children()
        return False

    def answer_enquirers(self, state: msg.State, now: Instant) -> None:
        """Send this node's state to those that wait for it; they will be children, unless they found a better way."""
        self._links.send_each(self.enquirers, state)
        if self.enquirers:
            self.pending |= self.enquirers
            self._await_answers(now)
            self.enquirers = set()

    def _ask_children(self) -> None:
        self.sought, self.children = self.children, set()
        self._links.send_each(self.sought, msg.Enquire(self.election))

    # Steps.

    def _add_child(self, node: NodeId) -> None:
        self.pending.discard(node)
        self.co_parents.discard(node)
        if node != self.parent:
            self.children.add(node)

    def _add_co_parent(self, node: NodeId) -> bool:
        """Return whether that is news."""
        self.pending.discard(node)
        if node == self.parent or node in self.children or node in self.co_parents:
            return False
        self.co_parents.add(node)
        return True

    def _give_up(self, nodes: Iterable[NodeId]) -> None:
        for node in list(nodes):
            self.drop(node)
            self._patience.give_up(node, self.election)

    def _await_answers(self, now: Instant) -> None:
        self.answers_no += 1
        self._out.set_timer(msg.AnswerWaitEnds(self.election, self.answers_no), now + self._patience.answer_wait)

    def _await_reports(self, now: Instant) -> None:
        self.wait_no += 1
        self.asked = set()
        self._out.set_timer(
            msg.ReportsAreRequested(self.election, self.wait_no), now + self._config.report_wait(self.depth)
        )


def _best(best: Candidate, others: Iterable[Candidate]) -> Candidate:
    for other in others:
        if other.beats(best):
            best = other
    return best
