"""The formulas of [LE §5.3.2, §5.3.4] as pure functions of numbers: what departures and joiners cost.

A leader departs at a uniform phase of its announcement interval, E[t_d] = T_A/2; T_L = (k+f) T_A throughout.
"""

from collections.abc import Callable
from math import expm1, inf, log1p

from doyen_papers.analysis.announce_forms import whole_steps


def inconsistent_one(loss: float, announce_s: float, listen_s: float) -> float:
    """l^k (1 - f(1-l)), T_L = (k+f) T_A: the share of time one process does not name the leader.  [LE §5.3.4]"""
    return _mixed(announce_s, listen_s, lambda k: loss**k)


def inconsistent_any(receivers: int, loss: float, announce_s: float, listen_s: float) -> float:
    """f [1 - (1-l^(k+1))^(N-1)] + (1-f) [1 - (1-l^k)^(N-1)], uncorrelated.  [LE §5.3.4]"""

    def some(k: int) -> float:
        missed = loss**k
        return 1.0 if missed >= 1 else -expm1(receivers * log1p(-missed))

    return _mixed(announce_s, listen_s, some)


def _mixed(announce_s: float, listen_s: float, f: Callable[[int], float]) -> float:
    if listen_s == inf:
        return 0.0
    k = whole_steps(listen_s, announce_s)[0]
    part = max(0.0, listen_s / announce_s - k)
    return part * f(k + 1) + (1 - part) * f(k)


def false_departures(nodes: int, loss: float, announce_s: float, listen_s: float) -> float:
    """(N-1)(1-l) l^k per T_A, k = ⌊T_L/T_A⌋: heard, and then k in a row lost."""
    if listen_s == inf or nodes == 1:
        return 0.0
    return float((nodes - 1) * (1 - loss) * loss ** whole_steps(listen_s, announce_s)[0])


def false_departure_delay(loss: float, announce_s: float, listen_s: float) -> float:
    """T_A (⌊T_L/T_A⌋ + 1/(1-l)) - T_L.  [LE §5.3.2]

    Deviation [LE §5.3.2.2]: printed without the ⌊T_L/T_A⌋, so right for T_L < T_A only.
    """
    k = whole_steps(listen_s, announce_s)[0]
    return announce_s * (k + 1 / (1 - loss)) - listen_s


def notice_delay(loss: float, announce_s: float, listen_s: float, delay_s: float) -> float:
    """Δ + T_L - T_A/2 - T_A l/(1-l), from the departure at a uniform phase; negative if it was given up before.
    [LE §5.3.2.1-2]"""
    return delay_s + listen_s - announce_s / 2 - announce_s * loss / (1 - loss)


def departure_delay(wake_s: float, announce_s: float, listen_s: float, delay_s: float) -> float:
    """T_L + 2Δ - T_A/2 + E[t_s], whatever the correlated loss: when all first name the successor.  [LE §5.3.2.1-2]

    It is the first agreement after anybody last heard the old leader, counted from the departure: negative if the
    leader had been given up, and replaced, before it left.  (That the successor may then be falsely given up in its
    turn is false departure, and counted there.)
    """
    return listen_s + 2 * delay_s - announce_s / 2 + wake_s


def joiner_worse_delay(loss: float, announce_s: float) -> float:
    """T_A/2 + T_A l/(1-l), for a joiner at a uniform phase.  [LE §5.3.2]

    Ambiguity [LE §5.3.2.1]: the brackets of the extracted text are ceilings, which is where the T_A/2 comes from.
    """
    return announce_s / 2 + announce_s * loss / (1 - loss)
