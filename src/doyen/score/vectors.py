"""Round trips and request rates of the other servers, by which a server scores itself.  [POLE §3.3]

Round trips are means over a window of time; a rate is what its owner last said.  A peer that missed too many pongs
leaves the round trips; its last rate is remembered, for its clients go somewhere.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from doyen.core.clock import Duration, Instant
from doyen.core.ids import NodeId
from doyen.core.rank import OracleStanding
from doyen.score.oracles import Oracle, Situation


class Fixed:
    """A figure that does not change; unlike a lambda it can be kept in a recording."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self) -> float:
        return self.value


NOTHING: Final = Fixed(0.0)


class Vectors:
    """The round trips and request rates that one server knows: RTT_i and F_i."""

    def __init__(self, me: NodeId, window: Duration) -> None:
        self.me, self._window = me, window
        self._samples: dict[NodeId, deque[tuple[Instant, Duration]]] = {}
        self.rates: dict[NodeId, float] = {}

    def measured(self, peer: NodeId, round_trip: Duration, now: Instant) -> bool:
        """Keep a round trip; return whether it is the first of that peer."""
        new = peer not in self._samples
        samples = self._samples.setdefault(peer, deque())
        samples.append((now, round_trip))
        while samples[0][0] <= now - self._window:
            samples.popleft()
        return new

    def told(self, peer: NodeId, rate: float) -> None:
        self.rates[peer] = rate

    def forget(self, peer: NodeId) -> bool:
        """Forget the round trips of a peer that is suspected; return whether there were any."""
        return self._samples.pop(peer, None) is not None

    @property
    def rtt(self) -> dict[NodeId, float]:
        """Return the mean round trips in ms."""
        return {peer: sum(trip for _, trip in samples) / len(samples) / 1e6 for peer, samples in self._samples.items()}


class Scorer:
    """Scores one server for an election, by an oracle and all that the server can know."""

    def __init__(
        self,
        oracle: Oracle,
        me: NodeId,
        voters: Iterable[NodeId],
        *,
        vectors: Vectors | None = None,
        rate: Callable[[], float] = NOTHING,
        history: Callable[[], float] = NOTHING,
        places: Mapping[NodeId, str] | None = None,  # Data centres: a crashed leader's clients stay in theirs.
    ) -> None:
        self.oracle, self.me, self.voters = oracle, me, tuple(voters)
        self._vectors, self._rate, self._history, self._places = vectors, rate, history, places

    def __call__(self, epoch: int, gone: NodeId | None) -> OracleStanding | None:
        """Return this server's standing, or None while too little was measured."""
        standing = self.oracle.standing(self.situation(epoch, gone))
        return standing or None

    def situation(self, epoch: int, gone: NodeId | None) -> Situation:
        rtt = {} if self._vectors is None else self._vectors.rtt
        rates = {} if self._vectors is None else dict(self._vectors.rates)
        rates[self.me] = self._rate()
        if gone is not None and self._places is not None:
            heirs = [node for node in self.voters if node != gone and self._places[node] == self._places[gone]]
            for heir in heirs:
                rates[heir] = rates.get(heir, 0.0) + rates.get(gone, 0.0) / len(heirs)
        return Situation(
            me=self.me, voters=self.voters, rtt=rtt, rates=rates, history=self._history(), epoch=epoch
        ).without(gone)
