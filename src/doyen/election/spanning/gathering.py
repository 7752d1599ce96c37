"""What one node knows of one election: who is above, below and beside it, and the best they have reported."""

from doyen.core.ids import NodeId
from doyen.election.spanning.messages import Candidate, ElectionId


class Gathering:
    """Made on joining, dropped on declaration: joining another election resets every field."""

    __slots__ = (
        "answers_no",
        "asked",
        "beside",
        "children",
        "co_parents",
        "co_wait_over",
        "depth",
        "election",
        "enquirers",
        "mine",
        "parent",
        "pending",
        "reported",
        "reports",
        "seek_no",
        "sought",
        "told",
        "took_part",
        "wait_no",
    )

    def __init__(
        self, election: ElectionId, mine: Candidate, parent: NodeId | None, depth: int, *, took_part: bool = True
    ) -> None:
        self.election, self.mine, self.parent, self.depth = election, mine, parent, depth
        self.took_part = took_part  # Returned too late to report: it waits, and has no say.
        self.pending: set[NodeId] = set()  # Got my EIM, and have not said what they are to me.
        self.children: set[NodeId] = set()
        self.co_parents: set[NodeId] = set()
        self.reports: dict[NodeId, Candidate] = {}  # From below.
        self.beside: dict[NodeId, Candidate] = {}  # From co-parents.
        self.told = False  # Co-parents have my word.
        self.co_wait_over = False
        self.reported: Candidate | None = None  # What my parent has from me.
        self.asked: set[NodeId] = set()  # Requests without an answer.
        self.sought: set[NodeId] | None = None  # While I look for a parent: who has not answered yet.
        self.enquirers: set[NodeId] = set()  # Who waits for me to find one.
        self.answers_no = self.wait_no = self.seek_no = 0

    # What neighbours are.

    def is_child(self, node: NodeId) -> None:
        self.pending.discard(node)
        self.co_parents.discard(node)
        if node != self.parent:
            self.children.add(node)

    def is_co_parent(self, node: NodeId) -> bool:
        """Whether that is news."""
        self.pending.discard(node)
        if node == self.parent or node in self.children or node in self.co_parents:
            return False
        self.co_parents.add(node)
        return True

    def drop(self, node: NodeId) -> None:
        """No longer a neighbour; what it has reported stands, for others may still be behind it."""
        self.pending.discard(node)
        self.children.discard(node)
        self.co_parents.discard(node)
        self.asked.discard(node)
        self.enquirers.discard(node)
        if self.sought is not None:
            self.sought.discard(node)

    # What is known.

    @property
    def missing(self) -> set[NodeId]:
        return self.children - self.reports.keys()

    @property
    def co_parents_heard(self) -> bool:
        return self.co_parents <= self.beside.keys()

    @property
    def seeking(self) -> bool:
        return self.sought is not None

    def best_below(self) -> Candidate:
        """[MADM §6.2.2] For co-parents: the best of myself and my children."""
        best = self.mine
        for other in self.reports.values():
            if other.beats(best):
                best = other
        return best

    def best(self) -> Candidate:
        """For the parent: that, and what co-parents said."""
        best = self.best_below()
        for other in self.beside.values():
            if other.beats(best):
                best = other
        return best
