"""The formulas of [LE §5.3.2, §5.3.4] as pure functions of numbers: what departures and joiners cost.

A leader departs at a uniform phase of its announcement interval, E[t_d] = T_A/2; T_L = (k+f) T_A throughout.
"""

from collections.abc import Callable
from itertools import pairwise
from math import expm1, inf, log1p

from doyen.analysis.announce_forms import WakeUp, graded, kinks, layers, whole_steps


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
    """T_L + 2Δ - T_A/2 + E[t_s], whatever the correlated loss: when all *first* name the successor.  [LE §5.3.2.1-2]

    Time counts from the departure, and is negative if the leader had been given up, and replaced, before it left.
    """
    return listen_s + 2 * delay_s - announce_s / 2 + wake_s


def regain_delay(
    wake: WakeUp, contenders: int, loss: float, announce_s: float, listen_s: float, delay_s: float
) -> float:
    """What `departure_delay` lacks, since a leader given up early may outlast its successor's own first spell.

    Deviation [LE §5.3.2.2]: ours.  The successor's announcements are heard or lost by all at once, so agreement is
    a renewal process: a spell ends when T_L passes unheard, another begins with the next one heard.  What counts
    is the spell that holds when the departed leader's last announcement would have arrived, or else the next.
    `contenders` draws compete for the wake-up: 1 in LE-S (the best survivor's), all survivors' in LE-M.
    """
    k = whole_steps(listen_s, announce_s)[0]
    part = min(1.0, max(0.0, listen_s / announce_s - k))
    within, beyond = _spells(loss, k, k + 1), _spells(loss, k, k)

    def at_wake_up(t: float) -> float:
        whole = whole_steps(listen_s + t + delay_s, announce_s)[0]
        left = min(1.0, max(0.0, 1 - (listen_s + t + delay_s) / announce_s + whole))
        same = within * min(part, left) + beyond * max(0.0, left - part)  # The leader leaves in this interval,
        next_one = within * max(0.0, part - left) + beyond * (1 - max(part, left))  # or in a later one.
        return float(loss**whole * (same + loss * next_one))

    if wake.span_s == 0:
        return announce_s / (1 + loss) * at_wake_up(0.0)
    marks = kinks(wake, announce_s, -listen_s - delay_s, (1 - part) * announce_s - listen_s - delay_s)
    total = 0.0
    for a, b in pairwise(marks):
        for t, weight in graded(a, b, layers(contenders) if contenders > 1 else 1, 1):
            total += weight * at_wake_up(t) * wake.density_least(t, contenders)
    return announce_s / (1 + loss) * total


def _spells(loss: float, k: int, silent: int) -> float:
    """Expected T_A from one spell's beginning to that of the spell that counts, if `silent` whole intervals
    unheard put the moment that counts between spells."""
    both = loss * loss  # Chance that an announcement is lost and the leader stays for one more.
    rest = 1 - both
    escape = (loss * both**k + both**silent) / (1 + loss)  # This spell is not the one that counts,
    escape /= 1 - loss * (1 - both**k) / (1 + loss)  # seen from any announcement heard in it.
    long_gaps = (1 - loss) * loss * both**k * (k / rest + 1 / rest**2)
    short_gaps = (1 - loss) * loss / rest**2 - long_gaps
    last_gap = (1 - loss) * both**silent * (silent / rest + both / rest**2) + both**silent / rest
    return (1 + loss) * (escape * short_gaps + long_gaps + last_gap)


def joiner_worse_delay(loss: float, announce_s: float) -> float:
    """T_A/2 + T_A l/(1-l), for a joiner at a uniform phase.  [LE §5.3.2]

    Deviation [LE §5.3.2.1]: the printed brackets lost their ceilings, and with them the T_A/2.
    """
    return announce_s / 2 + announce_s * loss / (1 - loss)
