"""Rates at which a living leader is given up, or loses its lease, where packets are lost.

Losses are independent, each packet's with chance l.  A round trip is lost with r = 1 − (1 − l)².
"""

from math import comb

YEAR_S = 365.25 * 86400


def round_trip_loss(loss: float) -> float:
    """Return r, the chance that a question or its answer is lost."""
    return 1 - (1 - loss) ** 2


def missed_in_a_row_per_s(loss: float, nodes: int, *, interval_s: float, misses: int) -> float:
    """Return how many runs of that many lost announcements begin in a second, at all listeners.  [LE §5.5]"""
    return float((nodes - 1) * (1 - loss) * loss**misses / interval_s)


def leases_lost_per_s(
    loss: float, voters: int, *, lease_s: float, beat_s: float, retry_s: float, round_trip_s: float
) -> float:
    """Return how many leases a living leader loses in a second, as too few voters answer.  [POLE §3]

    A heartbeat asks as many voters as a majority needs; if one of their answers is missing after T, another heartbeat
    asks all, again and again after T (decision 35).  The lease runs from the last heartbeat that a majority
    answered, and is lost if none of the further ones that fit into it is answered.
    """
    if voters == 1:
        return 0.0
    r, needed = round_trip_loss(loss), voters // 2
    first = 1 - (1 - r) ** needed
    others = voters - 1
    again = sum(comb(others, n) * (1 - r) ** n * r ** (others - n) for n in range(needed))
    tries = 1 + max(0, int((lease_s - beat_s - round_trip_s) / retry_s + 1e-9))
    return float(first * again ** (tries - 1) / beat_s)
