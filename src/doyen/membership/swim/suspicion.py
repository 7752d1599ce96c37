"""Keeps who is suspected, by whom, and how long the suspect has to refute.  [SWIM §4.2], [Lifeguard §IV-B]

A single accuser may be the slow one, so its suspicion lasts Max; every independent accuser brings the deadline nearer,
down to Min once K of them have confirmed.  Plain SWIM is the case Max = Min.
"""

from math import log
from typing import Final

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.ids import Incarnation, NodeId
from doyen.membership.swim.config import SwimConfig, suspicion_max, suspicion_min
from doyen.membership.swim.messages import SuspicionExpires

LIFE_MAX: Final = 1_000_000  # The incarnations of one process, by refutations; the next process begins above them.


class Suspicion(Struct):
    """The suspicion of one member, at one incarnation."""

    incarnation: int
    since: Instant
    deadline: Instant
    least: Duration
    most: Duration
    confirmations_wanted: int
    accusers: set[NodeId]
    rechecked: bool = False  # This node pings the suspect again and again.
    hastened: bool = False  # Its host has said that the process is gone (decision 25).


class Suspicions:
    """All suspicions of one node; a timer that comes before a deadline is ignored."""

    __slots__ = ("_config", "_group_size", "_terms", "by_node")

    def __init__(self, config: SwimConfig) -> None:
        self._config = config
        self._group_size = 0  # The last size of the group, and the terms of a suspicion in it.
        self._terms: tuple[Duration, Duration, int] = terms(config, 0)
        self.by_node: dict[NodeId, Suspicion] = {}

    def begin(self, node: NodeId, incarnation: int, by: NodeId, group_size: int, now: Instant) -> Instant:
        """Suspect a member; return its deadline."""
        if group_size != self._group_size:
            self._terms, self._group_size = terms(self._config, group_size), group_size
        least, most, wanted = self._terms
        self.by_node[node] = Suspicion(incarnation, now, now + most, least, most, wanted, {by})
        return now + most

    def confirm(self, node: NodeId, incarnation: int, by: NodeId, now: Instant) -> Instant | None:
        """Count another accuser; return the nearer deadline, or None if that is no news."""
        found = self.by_node.get(node)
        if (
            found is None
            or found.incarnation != incarnation
            or by in found.accusers
            or len(found.accusers) > found.confirmations_wanted
        ):
            return None
        found.accusers.add(by)
        given = dogpile(found.least, found.most, len(found.accusers) - 1, found.confirmations_wanted)
        found.deadline = min(found.deadline, found.since + given)
        return max(found.deadline, now)

    def hasten(self, node: NodeId, life: Incarnation, deadline: Instant) -> SuspicionExpires | None:
        """Set an earlier deadline for that process of the node; return its timer, or None if that is no news."""
        found = self.by_node.get(node)
        if found is None or not life <= found.incarnation < life + LIFE_MAX or found.deadline <= deadline:
            return None
        found.deadline, found.hastened = deadline, True
        return SuspicionExpires(node, Incarnation(found.incarnation))

    def end(self, node: NodeId) -> None:
        self.by_node.pop(node, None)

    def is_overdue(self, node: NodeId, incarnation: int, now: Instant) -> bool:
        found = self.by_node.get(node)
        return found is not None and found.incarnation == incarnation and now >= found.deadline

    def postpone(self, node: NodeId, slept: Duration) -> Instant:
        """Give the suspect the time back for which this node slept, and time to refute: as its first answer had."""
        found, config = self.by_node[node], self._config
        by = slept + (config.ack_timeout if found.hastened else config.period)
        found.since += by
        found.deadline += by
        return found.deadline


def terms(config: SwimConfig, group_size: int) -> tuple[Duration, Duration, int]:
    """Return Min and Max in a group of that size, and how many confirmations bring Max down to Min."""
    least = suspicion_min(config, group_size)
    if config.confirmation_count == 0 or group_size - 2 < config.confirmation_count:
        return least, least, 0  # There are too few others to wait for: plain SWIM.
    return least, suspicion_max(config, group_size), config.confirmation_count


def dogpile(least: Duration, most: Duration, confirmations: int, wanted: int) -> Duration:
    """[Lifeguard §IV-B] Return max(Min, Max − (Max − Min)·log(C+1)/log(K+1))."""
    if wanted == 0:
        return least
    return max(least, int(most - (most - least) * log(confirmations + 1) / log(wanted + 1)))
