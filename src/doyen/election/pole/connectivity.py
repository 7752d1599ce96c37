"""Knows which voters hear this one and are heard by it, and what is known of a leader that others hear.

Only a voter that exchanges messages with a majority, both ways, stands for election (decision 33).  Links change, so
what was heard counts for a window of time, not forever.

A voter that does not hear the leader itself may learn of it from one that does.  Each report says how long ago the
leader was heard, so that two voters cannot vouch for a dead leader to each other forever.
"""

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import Duration, Instant, ms
from doyen.core.ids import NodeId, Term
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.messages import HeartbeatAck, LeaderIsAskedFor, Message, Pending, Propose, ScoreReply, Vote


class Links:
    """The links between this voter and the others, within the window."""

    def __init__(self, me: NodeId, window: Duration) -> None:
        self._me, self._window = me, window
        self._heard_at: dict[NodeId, Instant] = {}
        self._hears_me_at: dict[NodeId, Instant] = {}

    def received(self, sender: NodeId, message: Message, now: Instant) -> bool:
        """Note a message; return whether its sender cannot know yet that it is heard, or does not hear this voter."""
        known = self._is_recent(self._heard_at, sender, now)
        self._heard_at[sender] = now
        match message:
            case Propose(heard=heard) if heard is not None and self._me not in heard:
                self._hears_me_at.pop(sender, None)
                return True
            case Propose() | Vote() | HeartbeatAck() | Pending() | ScoreReply():
                self._hears_me_at[sender] = now
        return not known

    def forget(self, nodes: frozenset[NodeId]) -> None:
        """Count the links to these voters for nothing until they are heard again, as they did not answer."""
        for node in nodes:
            self._hears_me_at.pop(node, None)

    def heard(self, now: Instant) -> tuple[NodeId, ...]:
        return tuple(sorted(node for node in self._heard_at if self._is_recent(self._heard_at, node, now)))

    def both_ways(self, now: Instant) -> set[NodeId]:
        """Return the voters with which messages are exchanged both ways, this one included."""
        return {self._me, *(node for node in self._hears_me_at if self._is_recent(self._hears_me_at, node, now))}

    def _is_recent(self, at: dict[NodeId, Instant], node: NodeId, now: Instant) -> bool:
        return node in at and now - at[node] <= self._window


class Sight(Struct, frozen=True):
    """A leader, or a claimant, when it was last heard, and by whom."""

    leader: NodeId
    epoch: int
    acting: bool
    heard_at: Instant
    source: NodeId | None = None  # The voter that reported it; None: this voter heard it itself.

    @property
    def is_own(self) -> bool:
        """Return whether this voter itself has heard a leader that acts."""
        return self.acting and self.source is None

    def vote(self, now: Instant) -> Vote:
        """Return the message that vouches for the leader to another voter."""
        return Vote(self.epoch, self.leader, max(now - self.heard_at, 0) // ms(1), self.acting)


class Lookout:
    """A voter's knowledge of the leader or claimant that it has chosen, and of the one that it gave up last."""

    def __init__(self, config: PoleConfig) -> None:
        self._config, self._guard, self._patience = config, config.guard, config.patience
        self.seen: Sight | None = None  # None: the chosen one has not been heard yet.
        self.lost: Sight | None = None
        self.asked = 0  # Distinguishes the questions for one leader that is not heard from those for another.

    @property
    def gone(self) -> NodeId | None:
        """Return the leader that fell silent: scores leave it out."""
        return None if self.lost is None else self.lost.leader

    def has_lost(self, term: Term) -> bool:
        """Return whether that is the term that was given up last."""
        return self.lost is not None and (self.lost.epoch, self.lost.leader) == (term.number, term.leader)

    @property
    def awaited_until(self) -> Instant:
        """Return until when to wait for the chosen one: one that is heard here is asked before it is given up."""
        assert self.seen is not None
        asks = self.seen.is_own and self._config.connected
        return self.seen.heard_at + (self._config.doubt if asks else self._guard)

    def next_question(self) -> LeaderIsAskedFor:
        """Return a timer for questions about a leader that is not heard; earlier ones are void."""
        self.asked += 1
        return LeaderIsAskedFor(self.asked)

    def give_up(self, now: Instant, *, gone: bool) -> None:
        """Note that the chosen one is missed; nobody can have heard since of a process that is gone."""
        if self.seen is not None:
            self.lost = replace(self.seen, heard_at=now) if gone else self.seen

    @property
    def source(self) -> NodeId | None:
        """Return the voter that reported the chosen one, if it is not heard here."""
        return None if self.seen is None else self.seen.source

    def is_fresh(self, now: Instant) -> bool:
        """Return whether the chosen one was heard lately."""
        return self.seen is not None and now - self.seen.heard_at < self._patience

    def is_missed(self, now: Instant) -> bool:
        """Return whether a leader that was heard here has been silent for a guard, though it was asked repeatedly."""
        return self.seen is not None and self.seen.is_own and now >= self.seen.heard_at + self._guard

    def vote(self, now: Instant) -> Vote | None:
        """Return what this voter says of the chosen one; None if it does not hear it, and was not told lately."""
        if self.seen is None or (self.seen.source is not None and not self.is_fresh(now)):
            return None
        return self.seen.vote(now)

    def is_news(self, sight: Sight, chosen: NodeId | None, now: Instant) -> bool:
        """Return whether another voter has heard of a leader lately that this one has not heard since."""
        known = self.seen if chosen == sight.leader else self.lost
        if known is None or known.leader != sight.leader:
            return now - sight.heard_at < self._guard
        hears_it = chosen == sight.leader and known.source is None and sight.source is not None
        return now - sight.heard_at < self._guard and known.heard_at < sight.heard_at and not hears_it


def told(source: NodeId, vote: Vote, margin: Duration, now: Instant) -> Sight | None:
    """Return what a vote says of a leader; None if it says nothing of when it was heard.

    The margin is above the vote's time on the way, so that what is passed on never looks younger than it is.
    """
    if vote.age is None:
        return None
    itself = vote.leader == source
    return Sight(vote.leader, vote.epoch, vote.acting, now - ms(vote.age) - margin, None if itself else source)
