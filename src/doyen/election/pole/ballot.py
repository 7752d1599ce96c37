"""Holds what a voter knows of the election of one epoch: the best proposal, who proposed, who voted.  [POLE Alg. 1]"""

from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.core.rank import OracleStanding
from doyen.election.pole.messages import Propose


def better(one: tuple[OracleStanding, NodeId], other: tuple[OracleStanding, NodeId]) -> bool:
    """Whether one proposal is greater than the other: by score, then by the highest id.  [POLE §3.2]"""
    return (one[0], order(one[1])) > (other[0], order(other[1]))


class Ballot:
    """The proposals and votes of one epoch; a new epoch makes a new ballot, with empty sets and no timer."""

    def __init__(self, epoch: int, size: int) -> None:
        self.epoch, self.size = epoch, size
        self.best: tuple[OracleStanding, NodeId] | None = None
        self.proposers: set[NodeId] = set()
        self.votes: dict[NodeId, tuple[int, NodeId]] = {}
        self.timed = False  # The election timer runs; it is started once.

    @property
    def quorum(self) -> int:
        return self.size // 2 + 1

    def is_lesser(self, theirs: Propose) -> bool:
        """[POLE Alg. 1, line 37] Whether a proposal is less than the best here: by epoch, then score, then id."""
        if theirs.epoch != self.epoch:
            return theirs.epoch < self.epoch
        return self.best is not None and better(self.best, (theirs.standing, theirs.node))

    def offer(self, standing: OracleStanding, node: NodeId) -> bool:
        """Keep the greater of this proposal and the best; return whether this one is greater."""
        if self.best is None or better((standing, node), self.best):
            self.best = (standing, node)
            return True
        return False

    def proposal(self) -> Propose:
        assert self.best is not None
        return Propose(self.epoch, *self.best)

    @property
    def complete(self) -> bool:
        return len(self.proposers) == self.size

    @property
    def has_quorum(self) -> bool:
        return len(self.proposers) >= self.quorum

    def vote(self, voter: NodeId, epoch: int, leader: NodeId) -> bool:
        """Count a vote; return whether a quorum votes alike, the leader itself included: a dead one is not joined."""
        self.votes[voter] = (epoch, leader)
        alike = [node for node, vote in self.votes.items() if vote == (epoch, leader)]
        return len(alike) >= self.quorum and leader in alike
