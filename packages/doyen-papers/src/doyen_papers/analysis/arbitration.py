"""Bounds and costs of arbitrated membership.  [ARB §VI]

Times come out in the unit in which T_l and T_a go in.  Under drift r no clock is off by more than 1 ± r, and a bound by
somebody's own clock takes up to 1/(1 − r) as long in true time.
"""

from typing import Final, NamedTuple

from doyen.core.config import Amount, Config, Count, Positive, Scale, Share, need


class Range(NamedTuple):
    """[low, high)."""

    low: float
    high: float


def upgrade_bound(lease: float, drift: float = 0.0) -> float:
    """Thm 1: from P's upgrade until Q goes by it, if their leases live on."""
    return 2 * lease / (1 - drift)


def detection_range(lease: float, delay: float = 0.0, drift: float = 0.0) -> Range:
    """Thm 2.  With a one-way delay δ the last ack left δ before it arrived: (T_l − δ, 2·T_l − δ]."""
    return Range(lease / (1 + drift) - delay, 2 * lease / (1 - drift) - delay)


def symmetric_range(lease: float, drift: float = 0.0) -> Range:
    """Thm 3: from the first timeout of a pair to the second."""
    return Range(lease / (1 + drift), 2 * lease / (1 - drift))


mutual_range = symmetric_range  # Cor 1: requests follow timeouts at once.


def lifespan_bound(lease: float, arbitration: float, drift: float = 0.0) -> float:
    """Thm 4: a suspected loser is gone."""
    return (2 * lease + arbitration) / (1 - drift)


def recent_time(lease: float, arbitration: float, drift: float = 0.0) -> float:
    """Cor 2, T_arb: by the arbitrator's own clock, which may be fast while the loser's is slow."""
    return (2 * lease + arbitration) * (1 + drift) / (1 - drift)


recovery_wait = recent_time  # Cor 3, by the winner's own clock, from its suspicion.


def consistency_bound(lease: float, arbitration: float, drift: float = 0.0) -> float:
    """Thm 5: the dead have left, and all monitors know; T_a + 4·T_l without drift."""
    return (2 * lease + recent_time(lease, arbitration, drift)) / (1 - drift)


def overhead(lease: float, each_side: int, size: int = 0) -> float:
    """Eq. 2: requests and acks sent, per node and unit of time; size 0 is a large ring."""
    return 2 * (min(2 * each_side, size - 1) if size else 2 * each_side) / lease


def group_size(each_side: int, apart: int, size: int = 0) -> int:
    """Return |A_PQ| for neighbours `apart` places apart, in a ring that is large enough, or all of it."""
    large = 2 * each_side + 1 + apart
    return min(large, size) if size else large


def group_size_range(each_side: int, size: int = 0) -> Range:
    """Return the least and the greatest size of a group: 2k + 2 to 3k + 1."""
    return Range(group_size(each_side, 1, size), group_size(each_side, each_side, size))


def arbitrator_sets_bound(each_side: int) -> int:
    """Return the printed bound on the groups that a node is in: 2k pairs per node, 4k members per group."""
    return 8 * each_side**2


def arbitrator_sets(each_side: int) -> int:
    """Return the exact number of groups that a node of a large ring is in.

    A pair is d places apart (1 ≤ d ≤ k), its group has 2k + 1 + d members, and every node is in as many such groups as
    one has members: Σ (2k + 1 + d) = 2k² + k + k(k + 1)/2, which is 27 at k = 3 and not 72.
    """
    return sum(2 * each_side + 1 + apart for apart in range(1, each_side + 1))


def requests_per_failure(each_side: int) -> int:
    """Return the requests of all 2k monitors to their whole groups, oneself and the dead included: 54 at k = 3."""
    return 2 * arbitrator_sets(each_side)


def central_load(each_side: int, failures: int) -> int:
    """Return the requests to each central arbitrator."""
    return 2 * each_side * failures


class RingSetting(Config, frozen=True, kw_only=True):
    """The values that bounds and costs depend on."""

    lease: Scale
    arbitration: Scale
    neighbours: Positive
    drift: Share
    nodes: Count
    failures: Count
    delay: Amount

    def check(self) -> None:
        need(self.nodes != 1, "nodes", "1 must be at least 2, or 0 for a large ring")


def evaluate(quantity: str, setting: RingSetting) -> float | Range:
    lease, arbitration, drift = setting.lease, setting.arbitration, setting.drift
    neighbours, nodes = setting.neighbours, setting.nodes
    found: dict[str, float | Range] = {
        "upgrade": upgrade_bound(lease, drift),
        "detection": detection_range(lease, setting.delay, drift),
        "symmetric": symmetric_range(lease, drift),
        "mutual": mutual_range(lease, drift),
        "lifespan": lifespan_bound(lease, arbitration, drift),
        "recent": recent_time(lease, arbitration, drift),
        "recovery": recovery_wait(lease, arbitration, drift),
        "consistency": consistency_bound(lease, arbitration, drift),
        "overhead": overhead(lease, neighbours, nodes),
        "group-size": group_size_range(neighbours, nodes),
        "arbitrator-sets": arbitrator_sets_bound(neighbours),
        "central-load": central_load(neighbours, setting.failures),
    }
    return found[quantity]


QUANTITIES: Final = {
    "upgrade": "Thm 1: the other side goes by an upgrade, at most",
    "detection": "Thm 2: from a crash to a monitor's suspicion",
    "symmetric": "Thm 3: from the first timeout of a pair to the second",
    "mutual": "Cor 1: from the first request to the second",
    "lifespan": "Thm 4: a suspected loser is gone, at most",
    "recent": "Cor 2: how long arbitrators remember",
    "recovery": "Cor 3: how long a winner waits, from its suspicion",
    "consistency": "Thm 5: from a crash until all monitors know, at most",
    "overhead": "Eq. 2: requests and acks sent, per node and second",
    "group-size": "members of a pair's group",
    "arbitrator-sets": "groups that a node is in, at most",
    "central-load": "requests to each central arbitrator, for so many failures",
}
