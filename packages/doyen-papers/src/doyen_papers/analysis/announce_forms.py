"""The formulas of [LE §5.3] as pure functions of numbers; `announce` decides which one applies.

Two observations make nearly all of them exact and fast.  First, under correlated loss a process still
announces at an instant if and only if every announcement its betters *would* have made in time is lost: a
better one silenced earlier was silenced by a message that everybody heard.  So betters act independently, and
the chance of announcing is a power of one number.  Second, with w = P(t), the wake-up's own quantile, both
timer distributions make that number piecewise *linear* in w, since P(t - c) is linear in P(t).

Sums over rounds use positive terms only.  Close to loss 1 they are finished by the Euler-Maclaurin formula.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from math import ceil, exp, expm1, floor, log, log1p, log2, pi, sin

from msgspec import Struct
from numpy.polynomial.legendre import leggauss

HEAD_ROUNDS = 40  # Rounds summed one by one before the Euler-Maclaurin formula takes over.
STEEP = 0.3  # -ln(loss) from which on all rounds are summed one by one.
TINY = 1e-17
NEGLIGIBLE = 1e-18  # A chance not worth carrying along.


class WakeUp(Struct, frozen=True):
    """The distribution of a wake-up time in [0, span_s): uniform at rate 0, else of density ~ e^(rate t/span)."""

    span_s: float  #: T_S.
    rate: float = 0.0  #: λ.

    def cdf(self, t: float) -> float:
        """P(t), 0 before the interval and 1 after it."""
        if t <= 0:
            return 0.0 if self.span_s > 0 or t < 0 else 1.0
        if t >= self.span_s:
            return 1.0
        return expm1(self.rate * t / self.span_s) / expm1(self.rate) if self.rate else t / self.span_s

    def stretch(self, delay_s: float) -> float:
        """The d in P(t - delay) = d (P(t) - P(delay)), for t from delay to span."""
        return exp(-self.rate * delay_s / self.span_s) if self.rate else 1.0

    def mean(self) -> float:
        """E[t_s].  [LE §5.3.1.1]"""
        return self.span_s * (1 / -expm1(-self.rate) - 1 / self.rate if self.rate else 0.5)

    def mean_least(self, count: int) -> float:
        """E[t_min], the mean of the least of `count` draws.  [LE §5.4.3]"""
        if not self.rate:
            return self.span_s / (count + 1)
        return self._integral(lambda t: exp(count * log1p(-self.cdf(t))), count)

    def mean_greatest(self, count: int) -> float:
        """The mean of the greatest of `count` draws."""
        if not self.rate:
            return self.span_s * count / (count + 1)
        return self._integral(lambda t: -expm1(count * log(self.cdf(t))), count)

    def _integral(self, f: Callable[[float], float], count: int) -> float:
        return sum(weight * f(t) for t, weight in graded(0.0, self.span_s, layers(count), layers(count)))


# ── Quadrature ──────────────────────────────────────────────────────────────────────────────────────────────


@cache
def gauss(order: int) -> tuple[tuple[float, float], ...]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = leggauss(order)
    return tuple(((1 + x) / 2, weight / 2) for x, weight in zip(nodes.tolist(), weights.tolist(), strict=True))


def graded(a: float, b: float, left: int, right: int, order: int = 12) -> list[tuple[float, float]]:
    """Nodes and weights on [a, b]; panels halve `left` times towards a and `right` times towards b."""
    if b <= a:
        return []
    cuts = [0.0, *(0.5**k for k in range(left + 1, 1, -1)), 0.5]
    cuts += [*(1 - 0.5**k for k in range(2, right + 2)), 1.0]
    width, rule = b - a, gauss(order)
    return [
        (a + width * (lo + (hi - lo) * x), width * (hi - lo) * weight)
        for lo, hi in pairwise(cuts)
        for x, weight in rule
    ]


def layers(count: float) -> int:
    """Return how often panels must halve to show features of relative width 1/count."""
    return ceil(log2(max(count, 1.0))) + 8


def whole_steps(span_s: float, step_s: float) -> tuple[int, int]:
    """Floor and ceiling of span / step; 0.3 / 0.1 is 3, whatever binary fractions say of it."""
    ratio = span_s / step_s
    near = round(ratio)
    if abs(ratio - near) <= 1e-9 * max(1.0, ratio):
        return near, near
    return floor(ratio), ceil(ratio)


# ── Sums ────────────────────────────────────────────────────────────────────────────────────────────────────


def harmonic(n: int) -> float:
    """H_n."""
    if n < 64:
        return sum(1 / k for k in range(1, n + 1))
    return log(n) + 0.5772156649015328606 + 1 / (2 * n) - 1 / (12 * n**2) + 1 / (120 * n**4)


def harmonic_gap(q: float, n: int) -> float:
    """Σ_{k=1..n} (1 - (1-q)^k) / k, as the integral of (1 - (1-y)^n) / y from 0 to q."""
    if n <= 64:
        return sum(-expm1(k * log1p(-q)) / k if q < 1 else 1 / k for k in range(1, n + 1))
    nodes = graded(0.0, q, layers(n * q), 1)
    return sum(weight * -expm1(n * log1p(-y)) / y for y, weight in nodes)


def power_run(q: float, n: int) -> float:
    """Σ_{k=1..n} (1-q)^k."""
    if q <= 0:
        return float(n)
    return 0.0 if q >= 1 else (1 - q) * -expm1(n * log1p(-q)) / q


def log_run(x: float, n: int) -> float:
    """Σ_{k=1..n} x^k / k, for 0 < x < 1."""
    if n <= 64:
        return sum(x**k / k for k in range(1, n + 1))
    if -n * log(x) > 40:
        return -log1p(-x)
    return harmonic(n) - harmonic_gap(1 - x, n)


def linear_power(width: float, q_a: float, q_b: float, n: int) -> float:
    """The integral of n (1-q)^(n-1) over `width`, where q runs linearly from q_a to q_b."""
    if q_a >= 1 or width <= 0:
        return 0.0
    rho = (q_b - q_a) / (1 - q_a)
    start = width * exp((n - 1) * log1p(-q_a))
    if abs(rho) < 1e-300:
        return n * start
    return start * (-expm1(n * log1p(-rho)) if rho < 1 else 1.0) / rho


def linear_powers(points: Sequence[tuple[float, float]], n: int) -> float:
    """`linear_power` along a polygon of points (w, q)."""
    return sum(linear_power(w_b - w_a, q_a, q_b, n) for (w_a, q_a), (w_b, q_b) in pairwise(points))


def sum_over_rounds(f: Callable[[float, float], float], loss: float) -> float:
    """Σ_{i>=0} f(l^i, 1 - l^i), for a smooth f that vanishes at l^i -> 0 like l^i."""
    if loss == 0:
        return f(1.0, 0.0)
    steep = -log(loss)
    total = 0.0
    for i in range(HEAD_ROUNDS if steep < STEEP else 200):
        total += (term := f(exp(-steep * i), -expm1(-steep * i)))
        if term < TINY * total:
            return total
    if steep >= STEEP:
        return total
    edge = exp(-steep * (HEAD_ROUNDS - 0.5))
    tail = 0.0
    while edge > 0:  # The integral of f over rounds; d(rounds) = d(l^i) / (l^i steep).
        panel = sum(weight * f(x * edge, 1 - x * edge) / x for x, weight in _half_panel())
        tail += panel
        edge /= 2
        if panel <= 1e-14 * (total + tail / steep) * steep:
            tail += panel  # What is left halves with every panel.
            break
    return total + tail / steep + _seam(lambda i: f(exp(-steep * i), -expm1(-steep * i)))


def _seam(term: Callable[[int], float]) -> float:
    """Return the Euler-Maclaurin terms of an integral from HEAD_ROUNDS - 1/2: F'/24 - 7 F'''/5760, by differences."""
    a, b, c, d = (term(HEAD_ROUNDS + i) for i in (-2, -1, 0, 1))
    return (c - b) / 24 - 17 / 5760 * (d - 3 * c + 3 * b - a)


@cache
def _half_panel() -> tuple[tuple[float, float], ...]:
    return tuple((0.5 + 0.5 * x, 0.5 * weight) for x, weight in gauss(12))


def power_runs_over_rounds(q: float, n: int, loss: float) -> float:
    """Σ_{i>=0} Σ_{k=1..n} ((1-q) l^i)^k; with q = 0 it is Σ_{k=1..n} 1 / (1 - l^k)."""
    if loss == 0 or q >= 1:
        return power_run(q, n)
    steep, x = -log(loss), 1 - q
    total = 0.0
    for i in range(HEAD_ROUNDS if steep < STEEP else 200):
        term = power_run(q + x * -expm1(-steep * i), n)
        total += term
        if term < TINY * total:
            return total
    if steep >= STEEP:
        return total
    # The integral over rounds is that of (1 - ξ^n) / (1 - ξ), once more a sum.
    tail = log_run(x * exp(-steep * (HEAD_ROUNDS - 0.5)), n)
    return total + tail / steep + _seam(lambda i: power_run(q + x * -expm1(-steep * i), n))


# ── Leadership delay and rounds ─────────────────────────────────────────────────────────────────────────────


def rounds_correlated(loss: float) -> float:
    """Announcements until one is not lost: 1 / (1-l).  [LE §5.3.1.2]"""
    return 1 / (1 - loss)


def rounds_uncorrelated(receivers: int, loss: float) -> float:
    """Announcements until every receiver has heard one: Σ_{i>=0} [1 - (1 - l^i)^receivers].  [LE §5.3.1.3]

    Deviation [LE §5.3.1.3]: the alternating sum Σ (-1)^(i+1) C(N,i) / (1 - l^i) has the same value at
    receivers = N, but drowns in rounding beyond N = 50; the terms here are positive at any N.
    """
    if receivers == 0:
        return 1.0
    return sum_over_rounds(lambda kept, gap: 1.0 if gap <= 0 else -expm1(receivers * log1p(-kept)), loss)


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


def extra_rounds(announce_s: float, delay_s: float) -> int:
    """Announcements the winner makes while the last one needed is under way: ⌈Δ/T_A⌉ - 1."""
    return max(0, whole_steps(delay_s, announce_s)[1] - 1)


def messages_lea_correlated(nodes: int, loss: float, announce_s: float, delay_s: float) -> float:
    """1/(1-l) + Σ_{k=1..N-1} 1/(1-l^k); a delay beyond T_A adds whole rounds of all N."""
    once = rounds_correlated(loss) + power_runs_over_rounds(0.0, nodes - 1, loss)
    return once + nodes * extra_rounds(announce_s, delay_s)


def messages_lea_uncorrelated(nodes: int, loss: float) -> float:
    """E[R] + Σ_r (E[announcers in round r] - 1), for rounds that do not overlap.

    Deviation [LE §5.3.3.3]: not the recurrence Q(i,n,r), whose sum i·r·Q is another number.  Of i announcers the one
    with j betters goes on with chance l^j, independently, so their number is a Markov chain that only falls.
    """
    others = [0.0, 0.0]  # others[i]: announcements still to come from all but the best of i announcers.
    chances, low = [1.0], 1  # chances[i]: that low + i of those looked at so far go on.
    size, kept = 1, loss
    while size < nodes and kept > 1e-14 * (1 - loss):
        grown = [*chances, 0.0]
        for i in range(len(chances) - 1, -1, -1):
            grown[i + 1] += chances[i] * kept
            grown[i] -= chances[i] * kept
        size, kept, chances = size + 1, kept * loss, grown
        all_stay = chances[-1] if low + len(chances) - 1 == size else 0.0
        fewer = sum(c * m for c, m in zip(chances, others[low:], strict=False))
        others.append((size - 1 + fewer) / (1 - all_stay))
        while chances[-1] < NEGLIGIBLE:
            chances.pop()
        while chances[0] < NEGLIGIBLE:
            chances.pop(0)
            low += 1
    if size == nodes:
        return rounds_uncorrelated(nodes - 1, loss) + others[nodes]
    fewer = sum(c * m for c, m in zip(chances, others[low:], strict=False))
    return rounds_uncorrelated(nodes - 1, loss) + (nodes - 1) + fewer


def _late_chance(wake: WakeUp, t: float, loss: float, announce_s: float, delay_s: float, number: int) -> float:
    """1 - g_m(t): the chance that one better process was heard before t's announcement m (from 0)."""
    total, weight, at = 0.0, 1 - loss, t + number * announce_s - delay_s
    while at > 0 and weight > TINY * total:
        total += weight * wake.cdf(at)
        weight *= loss
        at -= announce_s
    return total


def kinks(wake: WakeUp, announce_s: float, *offsets_s: float) -> list[float]:
    """0, T_S, and every t between them that is an offset plus whole announcement intervals."""
    inside = {0.0, wake.span_s}
    for offset in offsets_s:
        at = offset - floor(offset / announce_s) * announce_s
        while at < wake.span_s:
            inside.add(at)
            at += announce_s
    return sorted(inside)


def _claims(points: Sequence[tuple[float, float]], n: int, once: Callable[[float], float]) -> float:
    """The integral of once(q) along a polygon of points (w, q), graded towards small q."""
    total = 0.0
    for (w_a, q_a), (w_b, q_b) in pairwise(points):
        if q_b <= q_a:
            total += (w_b - w_a) * once(q_a)
            continue
        depth = min(60, layers((q_b - q_a) / max(q_a, 1 / n)) - 4)
        total += sum((w_b - w_a) * weight * once(q_a + (q_b - q_a) * x) for x, weight in graded(0.0, 1.0, depth, 1))
    return total


def messages_les_correlated(wake: WakeUp, nodes: int, loss: float, announce_s: float, delay_s: float) -> float:
    """1/(1-l) + Σ_{m>=0} ∫ p(t) Σ_{k=1..N-1} g_m(t)^k dt.

    Deviation [LE §5.3.3.2]: the chapter stops after the suppression interval; this counts to convergence.
    """
    n = nodes - 1
    marks = kinks(wake, announce_s, delay_s, delay_s + wake.span_s)
    settled = max(0, whole_steps(wake.span_s + delay_s, announce_s)[1] - 1)  # Then g_(m+1) = l g_m.

    def points(number: int) -> list[tuple[float, float]]:
        return [(wake.cdf(t), _late_chance(wake, t, loss, announce_s, delay_s, number)) for t in marks]

    total = rounds_correlated(loss) + extra_rounds(announce_s, delay_s)
    total += sum(_claims(points(number), n, lambda q: power_run(q, n)) for number in range(settled))
    return total + _claims(points(settled), n, lambda q: power_runs_over_rounds(q, n, loss))


def first_messages_les(wake: WakeUp, nodes: int, loss: float, announce_s: float, delay_s: float) -> float:
    """1 + ∫ p(t) Σ_{k=1..N-1} g_0(t)^k dt: those that announce at their first wake-up.  [LE §5.3.3.1-2]"""
    n = nodes - 1
    marks = kinks(wake, announce_s, delay_s)
    points = [(wake.cdf(t), _late_chance(wake, t, loss, announce_s, delay_s, 0)) for t in marks]
    return 1 + _claims(points, n, lambda q: power_run(q, n))


def first_messages_les_printed(wake: WakeUp, nodes: int, loss: float, delay_s: float) -> float:
    """N P(Δ)/(1-l) + ∫_Δ p(t) [1 - (1 - (1-l) P(t-Δ))^N] / P(t-Δ) dt.  [LE §5.3.3.2, last line]

    The factor 1/(1-l) belongs to the integral, not to N P(Δ).
    """
    at_once = nodes * wake.cdf(delay_s) / (1 - loss)
    if delay_s >= wake.span_s:
        return at_once
    return at_once + harmonic_gap((1 - loss) * wake.cdf(wake.span_s - delay_s), nodes) / wake.stretch(delay_s)


def messages_lem_correlated(wake: WakeUp, nodes: int, loss: float, announce_s: float, delay_s: float) -> float:
    """1/(1-l) + Σ_{m>=0} ∫ N p(t) [g_m(t)^(N-1) - (1-P(t))^(N-1)] dt, where only earlier wake-ups silence.

    g_m(t) = 1 - P(t) + E_s[l^max(0, m+1+⌊(t-s-Δ)/T_A⌋); s < t].  The second power takes the winner out,
    whose announcements the first term counts.
    """
    marks = kinks(wake, announce_s, delay_s)
    woken = [wake.cdf(t) for t in marks]
    heard = [_late_chance(wake, t, loss, announce_s, delay_s, 0) for t in marks]
    total = rounds_correlated(loss) + extra_rounds(announce_s, delay_s)
    for number in range(1, whole_steps(delay_s, announce_s)[1]):
        total += linear_powers(list(zip(woken, heard, strict=True)), nodes) - 1
        later = [wake.cdf(t + number * announce_s - delay_s) for t in marks]
        heard = [(1 - loss) * new + loss * old for new, old in zip(later, heard, strict=True)]

    def one_round(kept: float, gap: float) -> float:
        points = [(w, w * gap + kept * q) for w, q in zip(woken, heard, strict=True)]
        return max(0.0, linear_powers(points, nodes) - 1)

    return total + sum_over_rounds(one_round, loss)


def first_messages_lem(wake: WakeUp, nodes: int, loss: float, announce_s: float, delay_s: float) -> float:
    """∫ N p(t) g_0(t)^(N-1) dt: any message heard before waking silences, as in SUP."""
    marks = kinks(wake, announce_s, delay_s)
    points = [(wake.cdf(t), _late_chance(wake, t, loss, announce_s, delay_s, 0)) for t in marks]
    return linear_powers(points, nodes)


def messages_sup(wake: WakeUp, nodes: int, loss: float, delay_s: float) -> float:
    """N P(Δ) + [1 - x^N] / ((1-l) d), x = 1 - (1-l) P(T_S - Δ); uniform at T_S = 1: N Δ + (1-x^N)/(1-l)."""
    if delay_s >= wake.span_s:
        return float(nodes)
    corner, heard = wake.cdf(delay_s), (1 - loss) * wake.cdf(wake.span_s - delay_s)
    return linear_powers([(0.0, 0.0), (corner, 0.0), (1.0, heard)], nodes)


# ── The last first announcement ─────────────────────────────────────────────────────────────────────────────


def last_send_sup(wake: WakeUp, nodes: int, loss: float, delay_s: float) -> float:
    """E[t_max] of SUP: no loss, or correlated.  With nothing later than x sent if the first to wake after x
    has heard something, P(t_max > x) = ∫_x N p(u) [1 - P(u) + P(x) - (1-l) P(min(u-Δ, x))]^(N-1) du.
    """

    def beyond(x: float) -> float:
        woken, end = wake.cdf(x), min(x + delay_s, wake.span_s)
        marks = [x, delay_s] if x < delay_s < end else [x]
        return linear_powers(
            [
                (wake.cdf(u), wake.cdf(u) - woken + (1 - loss) * wake.cdf(min(u - delay_s, x)))
                for u in (*marks, end, wake.span_s)
            ],
            nodes,
        )

    sharp = (0.0, delay_s, wake.span_s - delay_s, wake.span_s)
    return sum(weight * beyond(x) for x, weight in _layered(wake, nodes, delay_s, sharp))


def last_first_les(wake: WakeUp, nodes: int, loss: float, delay_s: float) -> float:
    """E[t_max] of the first round of LE-S, no loss or correlated, if no repetition arrives before T_S.

    Ours: take the processes from the best down; all that matters of those seen is when the first of them was
    heard.  The chances F_N(x) that nobody's first announcement falls after x then have, with ρ = 1/(1+(1-l)d),
    the generating function Σ F_N z^N = (1-z)^-1 (1-zα)^ρ (1-zβ)^(1-ρ) / (1-zγ) for x >= Δ (below Δ,
    (1-zα)^(ρ-1) and no pole at 1), α >= β >= γ; its coefficient is two residues and an integral between β and α.
    """
    if delay_s >= wake.span_s:
        return wake.mean_greatest(nodes)
    rho = 1 / (1 + (1 - loss) * wake.stretch(delay_s))
    cut, sharp = _cut_rule(rho), (delay_s, wake.span_s - delay_s, wake.span_s)
    return sum(
        weight * (1 - _none_first_after(x, wake, nodes, loss, delay_s, rho, cut))
        for x, weight in _layered(wake, nodes / (1 - loss), delay_s, sharp, order=8)
    )


CUT_STEP, CUT_REACH = 0.5, 44.0


def _cut_rule(rho: float) -> list[tuple[float, float, float]]:
    """Along s = β + (α-β) / (1 + e^-τ), τ in steps from -reach to reach: the trapezoid rule's (s-β)/(α-β),
    (α-s)/(α-β), and weight (α-s)^(ρ-1) (s-β)^(1-ρ) ds / (α-β) sin(πρ) / π."""
    rule = []
    for i in range(int(2 * CUT_REACH / CUT_STEP) + 1):
        tau = -CUT_REACH + CUT_STEP * i
        up, down = 1 / (1 + exp(-tau)), 1 / (1 + exp(tau))
        rule.append((up, down, CUT_STEP * sin(pi * rho) / pi * exp(rho * log(down) + (2 - rho) * log(up))))
    return rule


def _none_first_after(
    x: float,
    wake: WakeUp,
    n: int,
    loss: float,
    delay_s: float,
    rho: float,
    rule: list[tuple[float, float, float]],
) -> float:
    woken, early = wake.cdf(x), x < delay_s
    if x + delay_s < wake.span_s:
        gamma = loss * woken
        rest = 1 - wake.cdf(x + delay_s)  # β - γ.
    else:
        gamma = woken - (1 - loss) * wake.cdf(wake.span_s - delay_s)
        rest = 0.0
    missing = wake.cdf(delay_s) - woken if early else (1 - loss) * wake.cdf(x - delay_s)  # 1 - α.
    beta = gamma + rest
    width = max(0.0, 1 - missing - beta)  # α - β.
    if early:
        total = _power(gamma, n) * _power(rest / (width + rest), 1 - rho)
    else:
        total = _power(missing, rho) * _power(1 - beta, 1 - rho) / (1 - gamma)
        total += _power(gamma, n) * _power(width + rest, rho) * _power(rest, 1 - rho) / (1 - gamma)
    if width <= 0 or n * missing > 50:
        return total
    for up, down, weight in rule:
        lack = missing + width * down  # 1 - s.
        if n * lack < 50:
            part = weight * width / (rest + width * up) * exp(n * log1p(-lack))
            total += part if early else part * width * down / lack
    if rest == 0:  # What the rule leaves out below τ = -reach falls like e^(τ(1-ρ)) only.
        left = CUT_STEP * exp(-CUT_REACH * (1 - rho)) / expm1(CUT_STEP * (1 - rho)) * sin(pi * rho) / pi
        left *= _power(beta, n)
        total += left if early else left * width / (1 - beta)
    return total


def _power(base: float, exponent: float) -> float:
    return exp(exponent * log(base)) if base > 0 else 0.0


def _layered(
    wake: WakeUp, sharpness: float, delay_s: float, sharp_s: Sequence[float], order: int = 12
) -> list[tuple[float, float]]:
    """Nodes on [0, T_S] that see layers of width T_S/sharpness on either side of the sharp instants."""
    inner = {t for t in (delay_s, wake.span_s - delay_s) if 0 < t < wake.span_s}
    marks, depth = [0.0, *sorted(inner), wake.span_s], layers(sharpness) - 2
    return [
        node
        for a, b in pairwise(marks)
        for node in graded(a, b, depth if a in sharp_s else 3, depth if b in sharp_s else 3, order)
    ]
