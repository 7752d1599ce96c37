"""Oracles made of others, and every server's score by an oracle, from a whole matrix.  [POLE §2, §5]"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.core.rank import OracleStanding
from doyen.errors import ConfigError
from doyen.score.oracles import Oracle, Part, Situation

SAME_PLACE_MS: Final = 1.0  # Servers within this of the nearest are in one data centre with it.


def composite(*priorities: tuple[Oracle, float]) -> Oracle:
    """Combine oracles: the first decides in classes of its width, within a class the next one does.  [POLE §5]

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
    """Return an oracle that goes by a list, best first; nodes that are not on it come last."""
    places = {name: len(names) - i for i, name in enumerate(names)}
    if len(places) != len(names):
        raise ConfigError("a preference list names somebody twice")
    return Oracle("preference", (Part(lambda situation: float(places.get(situation.me, 0)), True, 1.0),))


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
    """Score every server as if it had measured its row of the matrix.  `exclude` names the leader that crashes."""
    voters = tuple(rtt)
    told = reattributed(rates, exclude, rtt) if exclude is not None and reattribute else dict(rates)
    scores: dict[NodeId, float | None] = {}
    claims: dict[NodeId, OracleStanding] = {}
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
    """Return the rates once the clients of `gone` have moved to the servers of its data centre, evenly."""
    told = {node: rate for node, rate in rates.items() if node != gone}
    distances = {node: rtt[node][gone] for node in rtt if node != gone and gone in rtt[node]}
    if distances:
        nearest = min(distances.values())
        heirs = [node for node, value in distances.items() if value <= nearest + SAME_PLACE_MS]
        for heir in heirs:
            told[heir] = told.get(heir, 0.0) + rates.get(gone, 0.0) / len(heirs)
    return told
