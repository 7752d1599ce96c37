"""Advice on T_A, T_L and T_S of an announce-listen election, for a group and its network.  [LE §5.1.3, §5.4.4]"""

from math import ceil, log
from typing import Annotated

from msgspec import Meta, Struct

from doyen.core.config import Amount, Config, Positive, Scale, Share, need

HOUR_S = 3600.0
SUPPRESS_PER_DELAY = 10  # [LE §5.4.1] T_S = 10 Δ, as in all of the chapter's figures.
ANNOUNCE_DEFAULT_S = 1.0  # [LE §5.4.1] T_A, where a delay of 0 suggests none.
LISTEN_MANY = 20  # T_A in T_L from which on a takeover takes longer than most would guess.


class _Wish(Config, frozen=True, kw_only=True):
    """The wishes that timers are to meet."""

    nodes: Positive
    loss: Share
    delay_s: Amount
    false_departures_per_hour: Annotated[float, Meta(ge=0)]
    announce_s: Scale | None
    suppress_s: Amount | None

    def check(self) -> None:
        wish = self.false_departures_per_hour
        reachable = wish > 0 or self.loss == 0 or self.nodes == 1
        need(reachable, "false_departures_per_hour", f"{wish} cannot be had at loss {self.loss:g}: give more than 0")


class TimerAdvice(Struct, frozen=True, kw_only=True):
    """Timers, and what to expect of them.  Times are seconds; worst cases suppose that nothing more is lost."""

    announce_s: float  #: T_A.
    listen_s: float  #: T_L = k T_A.
    suppress_s: float  #: T_S.
    k: int  #: Announcements in a row that a process must miss to give the leader up.
    false_departures_per_hour: float  #: Expected, in the whole group: (N-1)(1-l) l^k per T_A.
    detection_max_s: float  #: From the leader's departure until all have noticed: T_L + Δ.
    takeover_max_s: float  #: From the leader's departure until all name the next: T_L + T_S + 2Δ.
    warnings: tuple[str, ...] = ()


def advise_timers(
    nodes: int,
    loss: float,
    delay_s: float,
    false_departures_per_hour: float,
    *,
    announce_s: float | None = None,
    suppress_s: float | None = None,
) -> TimerAdvice:
    """Return timers with the least k, and with it T_L, that keeps false departures of the whole group to the wish.

    T_S is 10 Δ and T_A the least that obeys T_A >= T_S + Δ, unless given.  What k times a longer T_A would save is
    for the caller to weigh: both make detection slower, but k far less for the same wish.
    """
    _Wish(
        nodes=nodes,
        loss=loss,
        delay_s=delay_s,
        false_departures_per_hour=false_departures_per_hour,
        announce_s=announce_s,
        suppress_s=suppress_s,
    )
    if suppress_s is None:
        suppress_s = SUPPRESS_PER_DELAY * delay_s
        if announce_s is not None:
            suppress_s = max(0.0, min(suppress_s, announce_s - delay_s))
    if announce_s is None:
        announce_s = suppress_s + delay_s or ANNOUNCE_DEFAULT_S
    k = least_misses(nodes, loss, announce_s, false_departures_per_hour)
    listen_s = k * announce_s
    return TimerAdvice(
        announce_s=float(announce_s),
        listen_s=float(listen_s),
        suppress_s=float(suppress_s),
        k=k,
        false_departures_per_hour=departures_per_hour(nodes, loss, announce_s, k),
        detection_max_s=listen_s + delay_s,
        takeover_max_s=listen_s + suppress_s + 2 * delay_s,
        warnings=tuple(_warnings(nodes, announce_s, suppress_s, delay_s, k)),
    )


def departures_per_hour(nodes: int, loss: float, announce_s: float, k: int) -> float:
    """Return (N-1)(1-l) l^k per T_A, as a rate per hour, for T_L = k T_A."""
    return float(HOUR_S / announce_s * (nodes - 1) * (1 - loss) * loss**k)


def least_misses(nodes: int, loss: float, announce_s: float, wish: float) -> int:
    """Return the least k >= 1 with at most `wish` false departures per hour."""
    at_zero = departures_per_hour(nodes, loss, announce_s, 0)
    if loss == 0 or at_zero <= wish:
        return 1
    k = max(1, ceil(log(wish / at_zero) / log(loss)))
    while k > 1 and departures_per_hour(nodes, loss, announce_s, k - 1) <= wish:
        k -= 1
    while departures_per_hour(nodes, loss, announce_s, k) > wish:
        k += 1
    return k


def _warnings(nodes: int, announce_s: float, suppress_s: float, delay_s: float, k: int) -> list[str]:
    found = []
    if announce_s < suppress_s + delay_s:
        # [LE §5.4.4] The chapter's own setting, T_A = T_S = 1, breaks its rule.
        found.append(
            f"announce_s {announce_s:g} is less than suppress_s + delay_s = {suppress_s + delay_s:g}: early claimants "
            "repeat themselves before the best process has been heard"
        )
    if suppress_s <= delay_s and nodes > 2:
        found.append(f"suppress_s {suppress_s:g} is not above delay_s {delay_s:g}: all {nodes} announce at first")
    if k == 1:
        found.append("k = 1: one announcement lost or late costs an election")
    if k > LISTEN_MANY:
        found.append(f"k = {k}: a departure goes unnoticed for {k * announce_s:g} s; loss is too high for the wish")
    return found
