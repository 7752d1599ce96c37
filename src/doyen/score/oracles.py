"""Oracles say who ought to lead, by an application's own measure.  [POLE §2, §3.3]

An oracle turns what one server knows (a `Situation`) into its score θ, and says whether more or less of it is better.

    history     θ_z  the longest history                        higher wins
    request     θ_r  requests per second from clients           higher
    consensus   θ_c  round trip to the quorum's last member     lower
    latency     θ_l  θ_c + round trips weighted by requests     lower
    worst-case  θ_w  θ_c + the longest round trip               lower
    rotating         1 for whose turn the epoch is, else 0      higher

Elections compare *standings*: tuples, greater is better, quantised; the empty one is below all.

Ambiguity [POLE Eq. 1]: the text weighs round trips, the equation prints one-way delays; round trips here.
Ambiguity [POLE Eq. 2]: it prints θ_l and defines θ_w.
Ambiguity [POLE §3.3]: θ_c is the (⌊N/2⌋+1)-th smallest round trip with the server itself counted as 0; N is the
  configured size, also while some are dead.
"""

from collections.abc import Callable, Mapping
from math import inf, isfinite
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.core.rank import OracleStanding
from doyen.errors import ConfigError

QUANTUM: Final = 0.001  # Of round trips in ms: 1 µs.


class Situation(Struct, frozen=True, kw_only=True):
    """All that one server knows when it is asked for its score."""

    me: NodeId
    voters: tuple[NodeId, ...]  # All that are configured, dead or alive.
    rtt: Mapping[NodeId, float] = {}  # Mean round trips in ms, to those that answer; without itself.
    rates: Mapping[NodeId, float] = {}  # Requests per second that each gets from clients; with itself.
    history: float = 0.0  # The last transaction that it accepted.
    epoch: int = 1

    def without(self, gone: NodeId | None) -> "Situation":
        """Return the situation once that server has crashed, and its clients are nobody's."""
        if gone is None or gone == self.me:
            return self
        return replace(
            self,
            rtt={node: value for node, value in self.rtt.items() if node != gone},
            rates={node: value for node, value in self.rates.items() if node != gone},
        )

    @property
    def size(self) -> int:
        return len(self.voters)


class Part(Struct, frozen=True):
    """One score of an oracle: how it is computed, which way is better, and how finely it is rounded."""

    theta: Callable[[Situation], float | None]  # None: too little was measured.
    higher_wins: bool
    quantum: float = QUANTUM

    def standing(self, situation: Situation) -> float | None:
        value = self.theta(situation)
        if value is None or not isfinite(value):
            return None
        steps = value / self.quantum if self.quantum else inf
        rounded = round(steps) * self.quantum if isfinite(steps) else value
        return (rounded if self.higher_wins else -rounded) + 0.0  # No -0.0.


class Oracle(Struct, frozen=True):
    """A total order over servers: parts in order of priority."""

    name: str
    parts: tuple[Part, ...]

    def score(self, situation: Situation) -> float | None:
        """Return θ of the first part, as the paper writes it."""
        return self.parts[0].theta(situation)

    def standing(self, situation: Situation) -> OracleStanding:
        """Return what elections compare; () if anything that it needs was not measured."""
        found = []
        for part in self.parts:
            value = part.standing(situation)
            if value is None:
                return ()
            found.append(value)
        return tuple(found)


# ── The paper's scores ──────────────────────────────────────────────────────────────────────────────────────


def consensus_score(situation: Situation) -> float | None:
    """Return θ_c, the round trip that completes a quorum.  [POLE §2.2]"""
    trips = sorted([0.0, *situation.rtt.values()])
    quorum = situation.size // 2 + 1
    return trips[quorum - 1] if len(trips) >= quorum else None


def mean_latency_score(situation: Situation) -> float | None:
    """Return θ_l.  A server that answers no pings is suspected, and its requests do not count.  [POLE Eq. 1]"""
    consensus = consensus_score(situation)
    if consensus is None:
        return None
    trips = {situation.me: 0.0, **situation.rtt}
    rates = {node: rate for node, rate in situation.rates.items() if node in trips}
    total = sum(rates.values())
    if total <= 0:
        return consensus
    return consensus + sum(rate * trips[node] for node, rate in rates.items()) / total


def worst_case_score(situation: Situation) -> float | None:
    """Return θ_w.  [POLE Eq. 2]"""
    consensus = consensus_score(situation)
    return None if consensus is None else consensus + max(situation.rtt.values(), default=0.0)


def request_score(situation: Situation) -> float | None:
    """Return θ_r, which needs no messages."""
    return situation.rates.get(situation.me, 0.0)


def history_score(situation: Situation) -> float | None:
    """Return θ_z, which needs no messages."""
    return situation.history


def rotating_score(situation: Situation) -> float | None:
    """Return 1 for the epoch's turn; if its holder is dead all are 0, and the highest id wins."""
    turn = sorted(situation.voters, key=order)[(situation.epoch - 1) % situation.size]
    return 1.0 if turn == situation.me else 0.0


HISTORY: Final = Oracle("history", (Part(history_score, True, 1.0),))
REQUEST: Final = Oracle("request", (Part(request_score, True),))
CONSENSUS: Final = Oracle("consensus", (Part(consensus_score, False),))
LATENCY: Final = Oracle("latency", (Part(mean_latency_score, False),))
WORST_CASE: Final = Oracle("worst-case", (Part(worst_case_score, False),))
ROTATING: Final = Oracle("rotating", (Part(rotating_score, True, 1.0),))

ORACLES: Final[dict[str, Oracle]] = {
    oracle.name: oracle for oracle in (HISTORY, REQUEST, CONSENSUS, LATENCY, WORST_CASE, ROTATING)
}
# Which of them compare what pings measure.
MEASURED: Final = frozenset({"consensus", "latency", "worst-case"})


# ── Ours ────────────────────────────────────────────────────────────────────────────────────────────────────


def quantised(oracle: Oracle, quantum: float) -> Oracle:
    """Return the oracle with scores rounded to this quantum; 0 leaves them as they are."""
    if not 0 <= quantum < float("inf"):
        raise ConfigError(f"{quantum} must be 0 or more, and finite", field="quantum")
    return Oracle(oracle.name, tuple(replace(part, quantum=quantum) for part in oracle.parts))
