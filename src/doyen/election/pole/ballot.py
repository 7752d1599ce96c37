"""Holds what a voter knows of the election of one epoch: the best proposal, who proposed, who voted.  [POLE Alg. 1]"""

from doyen.core.clock import Duration
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.core.rank import OracleStanding
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.messages import Propose


def better(one: tuple[OracleStanding, NodeId], other: tuple[OracleStanding, NodeId]) -> bool:
    """Return whether one proposal is greater than the other: by score, then by the highest id.  [POLE §3.2]"""
    return (one[0], order(one[1])) > (other[0], order(other[1]))


class Ballot:
    """The proposals and votes of one epoch; a new epoch makes a new ballot, with empty sets and no timer."""

    def __init__(self, epoch: int, electorate: Electorate) -> None:
        self.epoch, self.electorate = epoch, electorate
        self.mine: OracleStanding | None = None  # This voter's own standing, once it is known.
        self.best: tuple[OracleStanding, NodeId] | None = None  # The greatest candidate.
        self.proposers: set[NodeId] = set()
        self.standing: set[NodeId] = set()  # The proposers that are candidates themselves.
        self.votes: dict[NodeId, tuple[int, NodeId]] = {}
        self.repeat_wait: Duration = 0  # How long after the last proposal it is repeated.
        self.timed = False  # The election timer runs; it is started once.

    def is_lesser(self, theirs: Propose) -> bool:
        """[POLE Alg. 1, line 37] Whether a proposal is less than the best here: by epoch, then score, then id."""
        if theirs.epoch != self.epoch:
            return theirs.epoch < self.epoch
        if self.best is None or theirs.node is None:
            return self.best is not None
        return better(self.best, (theirs.standing, theirs.node))

    def offer_of(self, theirs: Propose) -> bool:
        """Keep the candidate of a proposal, if it has one, as `offer` does."""
        return theirs.node is not None and self.offer(theirs.standing, theirs.node)

    def offer(self, standing: OracleStanding, node: NodeId) -> bool:
        """Keep the greater of this proposal and the best; return whether this one is greater."""
        if self.best is None or better((standing, node), self.best):
            self.best = (standing, node)
            return True
        return False

    def proposal(self, heard: tuple[NodeId, ...] | None, me: NodeId, charter: tuple[int, int] = (0, 0)) -> Propose:
        standing, node = self.best or ((), None)
        return Propose(self.epoch, standing, node, heard, me in self.standing, *charter)

    def is_complete(self, absent: NodeId | None) -> bool:
        """Return whether all voters, but for one that is gone, are known candidates: no greater one can appear."""
        return self.has_quorum and self.standing >= self.electorate.names - {absent}

    @property
    def has_quorum(self) -> bool:
        """Return whether a majority has proposed in this epoch, and knows of a candidate."""
        return self.best is not None and self.electorate.is_majority(self.proposers)

    def vote(self, voter: NodeId, epoch: int, leader: NodeId) -> bool:
        """Count a vote; return whether a quorum votes alike, the leader itself included: a dead one is not joined."""
        self.votes[voter] = (epoch, leader)
        alike = [node for node, vote in self.votes.items() if vote == (epoch, leader)]
        return leader in alike and self.electorate.is_majority(alike)
