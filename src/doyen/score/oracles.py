"""Who ought to lead, by an application's own measure.  [POLE §2, §3.3]

An oracle turns what one server knows (a `Situation`) into its score θ, and says whether more or less of it is better.

    history     θ_z  the longest history                        higher wins
    request     θ_r  requests per second from clients           higher
    consensus   θ_c  round trip to the quorum's last member     lower
    latency     θ_l  θ_c + round trips weighted by requests     lower
    worst-case  θ_w  θ_c + the longest round trip               lower
    rotating         1 for whose turn the epoch is, else 0      higher

`composite` puts several in order of priority, each in classes; `preference`, `callable_oracle` and `quality_oracle` are
for everything else.  Elections compare *standings*: tuples, greater is better, quantised; the empty one is below all.

Ambiguity [POLE Eq. 1]: the text weighs round trips, the equation prints one-way delays; round trips here.
Ambiguity [POLE Eq. 2]: it prints θ_l and defines θ_w.
Ambiguity [POLE §3.3]: θ_c is the (⌊N/2⌋+1)-th smallest round trip with the server itself counted as 0; N is the
  configured size, also while some are dead.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.errors import ConfigError
from doyen.score.topsis import Attribute, quality

OracleName = Literal["history", "request", "consensus", "latency", "worst-case", "rotating"]
Standing = tuple[float, ...]  # Greater is better; () is below every measured one.

log = logging.getLogger("doyen")

QUANTUM: Final = 0.001  # Of round trips in ms: 1 µs.
SAME_PLACE_MS: Final = 1.0  # Servers within this of the nearest are in one data centre with it.


class Situation(Struct, frozen=True, kw_only=True):
    """What one server knows when it is asked for its score."""

    me: NodeId
    voters: tuple[NodeId, ...]  # All that are configured, dead or alive.
    rtt: Mapping[NodeId, float] = {}  # Mean round trips in ms, to those that answer; without itself.
    rates: Mapping[NodeId, float] = {}  # Requests per second that each gets from clients; with itself.
    history: float = 0.0  # The last transaction that it accepted.
    epoch: int = 1

    def without(self, gone: NodeId | None) -> "Situation":
        """As it will be when that one has crashed: its clients are nobody's."""
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
    """One score of an oracle: how it is computed, which way is better, and how finely it is told apart."""

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
        """θ of the first part, as the paper writes it."""
        return self.parts[0].theta(situation)

    def standing(self, situation: Situation) -> Standing:
        """What elections compare; () if anything that it needs was not measured."""
        found = []
        for part in self.parts:
            value = part.standing(situation)
            if value is None:
                return ()
            found.append(value)
        return tuple(found)


# ── The paper's scores ──────────────────────────────────────────────────────────────────────────────────────


def consensus_score(situation: Situation) -> float | None:
    """θ_c [POLE §2.2]: the round trip that completes a quorum."""
    trips = sorted([0.0, *situation.rtt.values()])
    quorum = situation.size // 2 + 1
    return trips[quorum - 1] if len(trips) >= quorum else None


def mean_latency_score(situation: Situation) -> float | None:
    """θ_l [POLE Eq. 1].  Whoever answers no pings is suspected, and its requests do not count."""
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
    """θ_w [POLE Eq. 2]."""
    consensus = consensus_score(situation)
    return None if consensus is None else consensus + max(situation.rtt.values(), default=0.0)


def request_score(situation: Situation) -> float | None:
    """θ_r: needs no messages."""
    return situation.rates.get(situation.me, 0.0)


def history_score(situation: Situation) -> float | None:
    """θ_z: needs no messages."""
    return situation.history


def rotating_score(situation: Situation) -> float | None:
    """1 for the epoch's turn; if its holder is dead all are 0, and the highest id wins."""
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
#: Which of them compare what pings measure.
MEASURED: Final = frozenset({"consensus", "latency", "worst-case"})


# ── Ours ────────────────────────────────────────────────────────────────────────────────────────────────────


def quantised(oracle: Oracle, quantum: float) -> Oracle:
    """Scores are told apart only so finely; 0 is as finely as floats do."""
    if not 0 <= quantum < float("inf"):
        raise ConfigError(f"{quantum} must be 0 or more, and finite", field="quantum")
    return Oracle(oracle.name, tuple(replace(part, quantum=quantum) for part in oracle.parts))


def composite(*priorities: tuple[Oracle, float]) -> Oracle:
    """[POLE §5] The first oracle decides, in classes of this width; within a class the next one does, and so on.

    `composite((LATENCY, 10.0), (HISTORY, 1.0))` is the fattest among the fastest: classes [0, 10), [10, 20), … ms.
    """
    if not priorities:
        raise ConfigError("a composite needs at least one oracle")
    parts: list[Part] = []
    for oracle, width in priorities:
        if not 0 < width < float("inf"):
            raise ConfigError(f"the class width {width} of {oracle.name} must be positive and finite")
        parts += [_in_classes(part, width) for part in oracle.parts]
    return Oracle("+".join(oracle.name for oracle, _ in priorities), tuple(parts))


def _in_classes(part: Part, width: float) -> Part:
    def theta(situation: Situation) -> float | None:
        value = part.standing(situation)
        if value is None:
            return None
        steps = (value if part.higher_wins else -value) / width
        return float(int(steps + 1e-9)) if steps >= 0 else -float(int(-steps + 1 - 1e-9))  # Down, and 30/10 is 3.

    return Part(theta, part.higher_wins, 1.0)


def preference(names: Sequence[NodeId]) -> Oracle:
    """A list, best first; whoever is not on it comes after all that are."""
    places = {name: len(names) - i for i, name in enumerate(names)}
    if len(places) != len(names):
        raise ConfigError("a preference list names somebody twice")
    return Oracle("preference", (Part(lambda situation: float(places.get(situation.me, 0)), True, 1.0),))


def callable_oracle(
    score: Callable[[int], float | None], *, higher_wins: bool = True, quantum: float = QUANTUM, name: str = "callable"
) -> Oracle:
    """`score(epoch)` of the application's own; None while it does not know, and where it fails."""
    return Oracle(name, (Part(_forgiven(lambda situation: score(situation.epoch)), higher_wins, quantum),))


def quality_oracle(attributes: Sequence[Attribute], values: Callable[[], Mapping[str, float] | None]) -> Oracle:
    """The quality factor of [MADM §6.2.2], from what a server measures of itself."""

    def theta(situation: Situation) -> float | None:
        measured = values()
        return None if measured is None else quality(measured, attributes).value

    return Oracle("quality", (Part(_forgiven(theta), True, 1e-6),))


def _forgiven(theta: Callable[[Situation], float | None]) -> Callable[[Situation], float | None]:
    """An election must not stop for an application's mistake: whoever cannot score itself comes after all that can."""

    def tried(situation: Situation) -> float | None:
        try:
            value = theta(situation)
            return None if value is None else float(value)
        except Exception:
            log.exception("%s: the score function failed: not measured", situation.me)
            return None

    return tried


# ── A whole table ───────────────────────────────────────────────────────────────────────────────────────────


class Scores(Struct, frozen=True, kw_only=True):
    """Every candidate's score, and who leads by it."""

    scores: dict[NodeId, float | None]
    leader: NodeId


def score_all(
    oracle: Oracle,
    rtt: Mapping[NodeId, Mapping[NodeId, float]],
    rates: Mapping[NodeId, float],
    *,
    history: Mapping[NodeId, float] | None = None,
    exclude: NodeId | None = None,
    reattribute: bool = False,
    epoch: int = 1,
) -> Scores:
    """As if every server had measured its row of the matrix.  `exclude` names the leader that crashes."""
    voters = tuple(rtt)
    told = reattributed(rates, exclude, rtt) if exclude is not None and reattribute else dict(rates)
    scores: dict[NodeId, float | None] = {}
    claims: dict[NodeId, Standing] = {}
    for node in voters:
        if node == exclude:
            continue
        situation = Situation(
            me=node,
            voters=voters,
            rtt={other: value for other, value in rtt[node].items() if other != node},
            rates=told,
            history=(history or {}).get(node, 0.0),
            epoch=epoch,
        ).without(exclude)
        scores[node], claims[node] = oracle.score(situation), oracle.standing(situation)
    if not scores:
        raise ConfigError("nobody is left to lead", field="exclude")
    return Scores(scores=scores, leader=max(claims, key=lambda node: (claims[node], order(node))))


def reattributed(
    rates: Mapping[NodeId, float], gone: NodeId, rtt: Mapping[NodeId, Mapping[NodeId, float]]
) -> dict[NodeId, float]:
    """Its clients go to the servers of its data centre, evenly: those within 1 ms of the nearest."""
    told = {node: rate for node, rate in rates.items() if node != gone}
    distances = {node: rtt[node][gone] for node in rtt if node != gone and gone in rtt[node]}
    if distances:
        nearest = min(distances.values())
        heirs = [node for node, value in distances.items() if value <= nearest + SAME_PLACE_MS]
        for heir in heirs:
            told[heir] = told.get(heir, 0.0) + rates.get(gone, 0.0) / len(heirs)
    return told
