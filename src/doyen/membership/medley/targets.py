"""Decides which member is pinged next: near members more often than far ones.  [MEDLEY]"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from random import Random
from typing import Final

from doyen.core.clock import Instant, to_seconds
from doyen.core.ids import NodeId
from doyen.membership.medley.config import MedleyConfig

Distance = Callable[[NodeId], float]  # In hops, at least 1; asked once per member.

BIAS_MAX: Final = 4.0  # The most by which feedback multiplies or divides a weight.
BIAS_MIN: Final = 1 / BIAS_MAX


class NearFirst:
    """Takes turns by stride: a member of weight w is due every W/w periods, where W is the sum of all weights."""

    def __init__(self, members: list[NodeId], rng: Random, config: MedleyConfig, distance: Distance) -> None:
        self._config, self._distance, self._rng = config, distance, rng
        self._period_s, self._turn_max_mult = to_seconds(config.period), config.turn_max_mult
        self._weights: dict[NodeId, float] = {}
        self._bias: dict[NodeId, float] = {}  # By feedback, where it is not 1.
        self._nearest: tuple[float, NodeId] | None = None
        self._clock = 0.0  # The time in which turns are counted; each period adds 1 / (sum of weights).
        self._total = 0.0
        self._queue: list[
            tuple[float, float, NodeId]
        ] = []  # (due, tie, member); entries of members that are gone are skipped.
        self._due: dict[NodeId, float] = {}  # The entry of a member that counts.
        self._pinged_at: Instant | None = None
        self._leader: NodeId | None = None
        self._hurried: list[NodeId] = []  # Where targets are drawn: the members that come first.
        self._weight_at: dict[float, float] = {}  # By distance.
        self._begin(members)

    def _begin(self, members: list[NodeId]) -> None:
        """Do what `_weigh` and `_enter` do for each member, the heap apart: nobody is favoured yet."""
        queue, rng, turn_max_mult = self._queue, self._rng, self._turn_max_mult
        for count, node in enumerate(members, start=1):
            weight = self._weigh(node)
            least = self._total / (turn_max_mult * count)
            due = self._due[node] = rng.random() * (1.0 / (weight if weight > least else least))
            queue.append((due, rng.random(), node))
        heapify(queue)

    def _weigh(self, node: NodeId) -> float:
        hops = self._distance(node)
        if hops < 1.0:
            hops = 1.0
        weight = self._weight_at.get(hops)
        if weight is None:  # [MEDLEY] Probability ∝ 1/distance^m.
            weight = self._weight_at[hops] = float(hops**-self._config.distance_exponent)
        self._weights[node] = weight
        self._total += weight
        if self._nearest is None or hops < self._nearest[0]:
            self._nearest = (hops, node)
        return weight

    def _enter(self, node: NodeId) -> None:
        """Enter a member at a random point of its stride, so that whole groups do not come in step."""
        self._set_due(node, self._clock + self._rng.random() * self._stride(node))

    def _set_due(self, node: NodeId, due: float) -> None:
        self._due[node] = due
        heappush(self._queue, (due, self._rng.random(), node))

    def _stride(self, node: NodeId) -> float:
        weights = self._weights
        share = weights[node] * self._bias.get(node, 1.0)
        if node == self._leader:
            share = max(share, self._config.leader_weight)
        least = self._total / (self._turn_max_mult * len(weights))
        return 1.0 / (share if share > least else least)

    # What SWIM's prober asks for.

    def add(self, node: NodeId) -> None:
        self._weigh(node)
        self._enter(node)

    def remove(self, node: NodeId) -> None:
        self._total = max(0.0, self._total - self._weights.pop(node))
        self._due.pop(node, None)
        self._bias.pop(node, None)
        if self._nearest is not None and self._nearest[1] == node:
            self._nearest = min(((max(1.0, self._distance(n)), n) for n in self._weights), default=None)

    def next(self) -> NodeId | None:
        if not self._config.time_bounded:
            return self._drawn()
        queue = self._queue
        while queue:
            due, _, node = heappop(queue)
            if self._due.get(node) != due:
                continue  # It left, or was hurried.
            if due > self._clock:
                self._clock = due
            self._set_due(node, due + self._stride(node))
            return node
        return None

    def _drawn(self) -> NodeId | None:
        """[MEDLEY] Draw a member with probability ∝ 1/distance^m; one that asked for a ping comes first."""
        while self._hurried:
            node = self._hurried.pop(0)
            if node in self._weights:
                return node
        if not self._weights:
            return None
        members = list(self._weights)
        weights = [self._weights[node] * self._bias.get(node, 1.0) for node in members]
        return self._rng.choices(members, weights)[0]

    def on_pinged(self, now: Instant) -> int:
        waited = 0 if self._pinged_at is None else now - self._pinged_at
        self._pinged_at = now
        return waited // 1_000_000 + 1

    def on_waited(self, node: NodeId, waited_ms: int) -> None:
        """[MEDLEY] Take passive feedback: each member should be pinged once per period, else it weighs more."""
        if self._config.passive_feedback and node in self._weights:
            lack = waited_ms / 1000.0 / self._period_s
            bias = self._bias.get(node, 1.0) * (0.5 if lack < 0.5 else 2.0 if lack > 2.0 else lack) ** 0.5
            self._bias[node] = BIAS_MIN if bias < BIAS_MIN else BIAS_MAX if bias > BIAS_MAX else bias

    def hurry(self, node: NodeId) -> None:
        """[MEDLEY] Take active feedback: the member is next."""
        if node in self._weights and self._config.time_bounded:
            self._set_due(node, self._clock)
        elif node in self._weights and node not in self._hurried:
            self._hurried.append(node)

    def favour(self, leader: NodeId | None) -> None:
        """Watch the leader as if it were near: many see its silence, so it is believed at once (decision 26)."""
        if leader != self._leader:
            self._leader = leader
            if leader in self._weights and self._config.leader_weight:
                self._enter(leader)

    def starved(self, now: Instant) -> NodeId | None:
        """Return the member to ask for a ping, if nobody has pinged this node for too long."""
        periods = self._config.active_feedback_periods
        if self._pinged_at is None:
            self._pinged_at = now
        if not periods or self._nearest is None or now - self._pinged_at < periods * self._config.period:
            return None
        self._pinged_at = now
        return self._nearest[1]
