"""The closed forms of [LE Ch. 5], against published values, definitions, enumerations and small simulations."""

import heapq
import time
from fractions import Fraction
from math import ceil, comb, exp, expm1, floor, inf, isfinite, log
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from doyen.errors import ConfigError
from doyen_papers.analysis import announce_events as events
from doyen_papers.analysis import announce_forms as forms
from doyen_papers.analysis.announce import QUANTITIES, NoClosedForm, advise_timers, value
from doyen_papers.analysis.announce_forms import WakeUp
from doyen_papers.analysis.setting import Setting

UNIFORM = WakeUp(1.0)


def setting(variant: str = "le-s", model: str = "none", nodes: int = 100, loss: float = 0.4, **more: Any) -> Setting:
    return Setting(variant=variant, loss_model=model, nodes=nodes, loss=loss, **more)  # type: ignore[arg-type]


def random_settings(seed: int, count: int, **fixed: Any) -> list[Setting]:
    """Odd intervals on purpose: Δ beyond T_S, T_S beyond T_A, T_A below Δ."""
    rng = Random(seed)
    return [
        Setting(
            **{
                "nodes": rng.choice([2, 3, 4, 6]),
                "loss": rng.choice([0.0, 0.2, 0.5, 0.7]),
                "timer": rng.choice(["uniform", "exponential"]),
                "announce_s": rng.choice([1.0, 0.4, 1.7]),
                "suppress_s": rng.choice([1.0, 0.3, 1.3]),
                "delay_s": rng.choice([0.1, 0.02, 0.45, 1.1]),
                **fixed,
            }
        )
        for _ in range(count)
    ]


# ── Published and settled values ────────────────────────────────────────────────────────────────────────────

REFERENCE = [
    (setting(nodes=10), "tmax", 0.5),
    (setting(nodes=10), "messages", 3.8290),
    (setting(), "tmax", 0.5),
    (setting(), "messages", 15.0874),
    (setting(model="correlated", nodes=10), "tmax", 1.16667),
    (setting(model="correlated", nodes=10), "messages", 6.2034),
    (setting(model="correlated"), "messages", 18.9674),
    (setting(model="uncorrelated"), "tmax", 5.65033),
    (setting("le-a", "uncorrelated"), "tmax", 5.15033),
    (setting("le-a", "uncorrelated"), "messages", 106.2096),
    (setting("al", "uncorrelated"), "tmax", 5.15033),
    (setting("le-m"), "tmax", 0.00990),
    (setting("le-m"), "messages", 11.0),
    (setting("le-m", "uncorrelated"), "tmax", 5.16023),
    (setting("sup", nodes=10), "tmax", 0.129),
    (setting("sup", nodes=10), "messages", 2.0),
    (setting("sup", "correlated", nodes=10), "tmax", 0.189),
    (setting("sup", "correlated", nodes=10), "messages", 2.666),
    (setting(timer="exponential"), "wake-up", 0.82529),
    (setting(timer="exponential"), "wake-up-min", 0.19464),
    (setting(timer="exponential"), "messages", 8.3778),
    (setting(model="correlated", timer="exponential"), "messages", 13.7013),
    (setting("le-m", timer="exponential"), "messages", 2.0291),
    (setting("le-m", "correlated", timer="exponential"), "messages", 4.4821),
    (setting(model="correlated", nodes=10, timer="exponential"), "messages", 6.3330),
    (setting(model="correlated", listen_s=3.0, event="leader-departs", nodes=10), "reestablishment", 3.2),
]


@pytest.mark.parametrize(("cell", "quantity", "wanted"), REFERENCE)
def test_reference_values(cell: Setting, quantity: str, wanted: float) -> None:
    digits = 1e-3 if quantity == "reestablishment" else 5e-4 if cell.variant == "sup" else 5e-5
    assert value(cell, quantity) == pytest.approx(wanted, abs=digits)


@pytest.mark.parametrize("loss", [0.0, 0.3, 0.6, 0.9])
def test_le_figure_5_10_one_flat_line_per_loss(loss: float) -> None:
    for nodes in (2, 100, 500):
        assert value(setting(model="correlated", nodes=nodes, loss=loss), "tmax") == pytest.approx(
            0.5 + loss / (1 - loss)
        )


@pytest.mark.parametrize("nodes", [2, 10, 1000])
def test_without_loss_the_sums_are_known(nodes: int) -> None:
    delay_s = 0.1
    everything = (nodes - 1) * delay_s + forms.harmonic(nodes)
    first = nodes * delay_s + sum((1 - delay_s**k) / k for k in range(1, nodes + 1))
    assert value(setting(nodes=nodes), "messages") == pytest.approx(everything, rel=1e-10)
    assert value(setting(nodes=nodes), "first-round-messages") == pytest.approx(first, rel=1e-10)
    assert value(setting(nodes=nodes), "messages", as_printed=True) == pytest.approx(first, rel=1e-10)
    for variant in ("le-m", "sup"):
        wanted = nodes * delay_s + 1 - delay_s**nodes
        assert value(setting(variant, nodes=nodes), "messages") == pytest.approx(wanted, rel=1e-10)


def test_le_s_is_le_a_later_by_its_wake_up() -> None:
    for model in ("none", "correlated", "uncorrelated"):
        gap = value(setting("le-s", model), "tmax") - value(setting("le-a", model), "tmax")
        assert gap == pytest.approx(0.5, rel=1e-9)


def test_le_s_without_suppression_is_le_a() -> None:
    for model in ("none", "correlated", "uncorrelated"):
        for quantity in ("tmax", "messages", "first-round-messages", "first-round-tmax"):
            short = value(setting("le-s", model, suppress_s=0.0), quantity)
            assert short == pytest.approx(value(setting("le-a", model), quantity), rel=1e-12)


# ── Against definitions ─────────────────────────────────────────────────────────────────────────────────────


def wake_of(cell: Setting) -> tuple[Any, Any]:
    """Density and distribution of the wake-up, written down anew."""
    span, rate = cell.suppress_s, log(cell.nodes) + 1
    if cell.timer == "uniform":
        return (lambda t: 1 / span if 0 <= t < span else 0.0), (lambda t: min(1.0, max(0.0, t / span)))
    return (
        lambda t: rate * exp(rate * t / span) / (span * expm1(rate)) if 0 <= t < span else 0.0,
        lambda t: expm1(rate * min(span, max(0.0, t)) / span) / expm1(rate),
    )


def kept_by(cell: Setting, number: int, t: float, upto: float) -> float:
    """E_s[l^max(0, m+1+⌊(t-s-Δ)/T_A⌋); s < upto] + P(s >= upto): step by step in s."""
    _, cdf = wake_of(cell)
    total, steps, start = 1 - cdf(upto), 0, 0.0
    edges = {0.0, upto}
    for i in range(-400, 400):
        edges.add(min(upto, max(0.0, t - cell.delay_s - i * cell.announce_s)))
    for end in sorted(edges)[1:]:
        middle = (start + end) / 2
        steps = max(0, number + 1 + floor((t - middle - cell.delay_s) / cell.announce_s))
        total += cell.loss**steps * (cdf(end) - cdf(start))
        start = end
    return float(total)


def by_definition(cell: Setting) -> float:
    density, cdf = wake_of(cell)
    n, span = cell.nodes, cell.suppress_s
    breaks = {
        t for i in range(-20, 20) for x in (0.0, span) if 0 < (t := cell.delay_s + x + i * cell.announce_s) < span
    }

    def once(t: float, number: int) -> float:
        if cell.variant == "le-m":
            return float(n * (kept_by(cell, number, t, t) ** (n - 1) - (1 - cdf(t)) ** (n - 1)))
        return sum(kept_by(cell, number, t, span) ** k for k in range(1, n))

    total = 1 / (1 - cell.loss) + max(0, ceil(cell.delay_s / cell.announce_s - 1e-9) - 1)
    for number in range(60):
        part = quad(lambda t, m=number: density(t) * once(t, m), 0, span, points=sorted(breaks), epsabs=1e-8)[0]
        total += part
        if number > 6 and part < 1e-8:
            break
    return total


@pytest.mark.parametrize("variant", ["le-s", "le-m"])
def test_correlated_messages_are_the_sum_that_defines_them(variant: str) -> None:
    for cell in random_settings(1, 3, variant=variant, loss_model="correlated", nodes=3, loss=0.3):
        assert value(cell, "messages") == pytest.approx(by_definition(cell), rel=2e-6), cell


def test_uncorrelated_le_a_messages_by_enumerating_who_goes_on() -> None:
    nodes, loss = 5, 0.45
    chances, others = {frozenset(range(nodes)): 1.0}, 0.0
    for _ in range(400):
        others += sum(chance * (len(group) - 1) for group, chance in chances.items())
        following: dict[frozenset[int], float] = {}
        for group, chance in chances.items():
            ranked, outcomes = sorted(group), {frozenset[int](): chance}
            for place, process in enumerate(ranked):
                grown: dict[frozenset[int], float] = {}
                for kept, p in outcomes.items():
                    grown[kept | {process}] = grown.get(kept | {process}, 0.0) + p * loss**place
                    grown[kept] = grown.get(kept, 0.0) + p * (1 - loss**place)
                outcomes = grown
            for kept, p in outcomes.items():
                following[kept] = following.get(kept, 0.0) + p
        chances = following
    rounds = sum(1 - (1 - loss**i) ** (nodes - 1) for i in range(400))
    got = value(setting("le-a", "uncorrelated", nodes=nodes, loss=loss), "messages")
    assert got == pytest.approx(rounds + others, rel=1e-10)


@pytest.mark.parametrize("loss", [Fraction(2, 5), Fraction(9, 10)])
def test_the_printed_alternating_sum_in_exact_arithmetic(loss: Fraction) -> None:
    nodes = 60
    exact = sum((-1) ** (i + 1) * comb(nodes, i) / (1 - loss**i) for i in range(1, nodes + 1))
    cell = setting(model="uncorrelated", nodes=nodes, loss=float(loss))
    assert value(cell, "rounds", as_printed=True) == pytest.approx(float(exact), rel=1e-10)
    assert value(cell, "tmax", as_printed=True) == pytest.approx(0.5 + float(exact), rel=1e-10)
    receivers = sum((-1) ** (i + 1) * comb(nodes - 1, i) / (1 - loss**i) for i in range(1, nodes))
    assert value(cell, "rounds") == pytest.approx(float(receivers), rel=1e-10)


def test_two_processes_cannot_tell_the_loss_models_apart() -> None:
    for variant in ("le-a", "le-s", "le-m", "sup"):
        for quantity in ("tmax", "messages", "first-round-tmax", "first-round-messages"):
            one, other = (value(setting(variant, model, nodes=2), quantity) for model in ("correlated", "uncorrelated"))
            assert one == pytest.approx(other, rel=1e-9)


def test_the_last_first_announcement_of_two_by_hand() -> None:
    """E[max] - (1-l) E[s_1 - s_0; s_1 > s_0 + Δ], where the worse one hears the better one."""
    for loss in (0.0, 0.4, 0.99):
        for delay_s in (0.0, 0.1, 0.5, 0.8):
            wanted = 2 / 3 - (1 - loss) * (1 / 6 - delay_s**2 / 2 + delay_s**3 / 3)
            assert forms.last_first_les(UNIFORM, 2, loss, delay_s) == pytest.approx(wanted, rel=1e-9)


def test_wake_ups_by_quadrature() -> None:
    for nodes in (3, 50):
        wake, n = WakeUp(2.0, log(nodes) + 1), nodes
        assert wake.mean() == pytest.approx(quad(lambda t, w=wake: 1 - w.cdf(t), 0, 2)[0], rel=1e-9)
        assert wake.mean_least(n) == pytest.approx(quad(lambda t, w=wake, n=n: (1 - w.cdf(t)) ** n, 0, 2)[0], rel=1e-8)
        assert wake.mean_greatest(n) == pytest.approx(quad(lambda t, w=wake, n=n: 1 - w.cdf(t) ** n, 0, 2)[0], rel=1e-8)


# ── Against a small simulation of the rules ─────────────────────────────────────────────────────────────────


def play(cell: Setting, rng: Random) -> dict[str, float]:
    """One run from the start with T_L = ∞, event by event; process 0 is the best, but in LE-M."""
    n, rate = cell.nodes, log(cell.nodes) + 1
    draws = [rng.random() for _ in range(n)]
    wake = [
        cell.suppress_interval_s * (u if cell.timer == "uniform" else np.log1p(u * expm1(rate)) / rate) for u in draws
    ]
    key = wake if cell.variant == "le-m" else list(range(n))
    best = min(range(n), key=lambda i: key[i])
    silent, sent, named, rounds = [False] * n, [0] * n, {best: 0}, 0
    first_tmax = 0.0
    queue: list[tuple[float, int, int, Any]] = [(wake[i], 1, i, 0) for i in range(n)]
    heapq.heapify(queue)
    while queue:
        now, kind, who, what = heapq.heappop(queue)
        if kind == 1 and not silent[who]:
            sent[who] += 1
            if sent[who] == 1:
                first_tmax = max(first_tmax, now)
            lost = [rng.random() < cell.loss_prob for _ in range(n)]
            if cell.loss_model == "correlated":
                lost = [lost[0]] * n
            heapq.heappush(queue, (now + cell.delay_s, 0, who, (lost, sent[who], now)))
            if cell.variant == "sup":
                silent[who] = True
            else:
                heapq.heappush(queue, (now + cell.announce_s, 1, who, 0))
        elif kind == 0:
            lost, number, at = what
            for i in range(n):
                if i != who and not lost[i] and (cell.variant == "sup" or key[who] < key[i]):
                    silent[i] = True
                    if who == best:
                        named.setdefault(i, number)
            if cell.variant != "sup" and len(named) == n:
                rounds = max(named.values())
                return {
                    "tmax": at,
                    "messages": sum(sent),
                    "rounds": rounds,
                    "avg-rounds": sum(named.values()) / (n - 1),
                    "first-round-tmax": first_tmax,
                    "first-round-messages": sum(s > 0 for s in sent),
                }
    return {"tmax": first_tmax, "messages": sum(sent)}


@pytest.mark.parametrize("model", ["correlated", "uncorrelated"])
@pytest.mark.parametrize("variant", ["le-a", "le-s", "le-m", "sup"])
def test_a_small_simulation_agrees(variant: str, model: str) -> None:
    rng, compared = Random(5), 0
    for cell in random_settings(3, 5, variant=variant, loss_model=model):
        runs = [play(cell, rng) for _ in range(1200)]
        for quantity in runs[0]:
            try:
                wanted = value(cell, quantity)
            except NoClosedForm:
                continue
            seen = np.array([run[quantity] for run in runs])
            assert abs(seen.mean() - wanted) < 4.5 * seen.std() / len(runs) ** 0.5 + 1e-9, (quantity, cell)
            compared += 1
    assert compared >= 4


def test_figure_5_12_first_round_of_a_hundred() -> None:
    """Exact values; a vectorised simulation of the same rule is beside them."""
    rng = np.random.default_rng(11)
    for loss, wanted in ((0.0, 0.516993), (0.4, 0.599939)):
        wake = rng.random((20_000, 100))
        heard = np.where(rng.random(wake.shape) < loss, np.inf, wake + 0.1)
        before = np.minimum.accumulate(np.hstack([np.full((20_000, 1), np.inf), heard[:, :-1]]), axis=1)
        last = np.where(wake < before, wake, 0).max(axis=1)
        got = value(setting(model="correlated", loss=loss), "first-round-tmax")
        assert got == pytest.approx(wanted, abs=1e-6)
        assert abs(last.mean() - got) < 4 * last.std() / 20_000**0.5
    overlap = [value(setting(variant, "correlated"), "first-round-tmax") for variant in ("le-m", "sup")]
    assert overlap[0] == overlap[1]


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_lossless_and_correlated_departure_is_printed_right_up_to_relapses() -> None:
    for variant, wake_s in (("le-a", 0.0), ("le-s", 0.5), ("le-m", 0.1)):
        cell = setting(variant, nodes=10, event="leader-departs", listen_s=3.0)
        assert value(cell, "reestablishment") == pytest.approx(3 + 0.2 - 0.5 + wake_s, rel=1e-12)
        assert value(cell, "tmax") == pytest.approx(3 + 0.1 - 0.5 + wake_s, rel=1e-12)
    cell = setting(model="uncorrelated", nodes=10, event="leader-departs", listen_s=3.0)
    assert value(cell, "reestablishment", as_printed=True) == pytest.approx(3.2)


@pytest.mark.parametrize(
    ("loss", "listen_s", "delay_s", "span_s"),
    [(0.9, 3.0, 0.1, 1.0), (0.5, 1.0, 0.1, 0.0), (0.6, 2.3, 0.45, 1.7), (0.0, 0.3, 0.1, 0.2), (0.7, 0.5, 0.2, 1.0)],
)
def test_a_correlated_departure_ends_with_the_first_agreement(
    loss: float, listen_s: float, delay_s: float, span_s: float
) -> None:
    """Spells of agreement on the successor, played from the last announcement heard of the leader."""
    rng, seen = Random(3), []
    for _ in range(6000):
        left_at = rng.random() - delay_s
        while rng.random() < loss:
            left_at += 1
        heard_at = listen_s + rng.random() * span_s + delay_s
        while rng.random() < loss:
            heard_at += 1
        seen.append(heard_at - left_at)
    cell = setting(
        "le-s" if span_s else "le-a", "correlated", 5, loss, suppress_s=span_s, delay_s=delay_s, listen_s=listen_s,
        event="leader-departs",
    )  # fmt: skip
    error = float(np.std(seen)) / len(seen) ** 0.5
    assert abs(float(np.mean(seen)) - value(cell, "reestablishment")) < 4 * error


def test_a_sole_survivor_names_itself_as_soon_as_it_notices() -> None:
    for model in ("correlated", "uncorrelated"):
        cell = setting(model=model, nodes=2, event="leader-departs", listen_s=3.0)
        assert value(cell, "reestablishment") == value(cell, "notice") == pytest.approx(0.1 + 3 - 0.5 - 2 / 3)
    assert value(setting(nodes=1, event="leader-departs", listen_s=3.0), "reestablishment") == 0


def test_false_departures_joiners_and_what_the_chapter_printed() -> None:
    false = setting(model="correlated", event="false-departure", listen_s=2.5)
    assert value(false, "reestablishment") == pytest.approx(2 + 1 / 0.6 - 2.5)
    assert value(false, "reestablishment", as_printed=True) == pytest.approx(1 / 0.6 - 2.5)
    short = setting(event="false-departure", listen_s=0.7)
    assert value(short, "reestablishment") == pytest.approx(0.3)
    for model in ("correlated", "uncorrelated"):
        assert value(setting(model=model, event="joiner-worse"), "reestablishment") == pytest.approx(0.5 + 2 / 3)
    better = setting(model="uncorrelated", nodes=99, event="joiner-better")
    assert value(better, "tmax") == pytest.approx(5.65033, abs=5e-6)  # N = 99 incumbents are as many receivers.
    assert value(better, "rounds") == pytest.approx(6.15033, abs=5e-6)
    assert value(better, "reestablishment", as_printed=True) == pytest.approx(0.6 + 6.15033, abs=5e-6)


def test_inconsistency_by_counting_announcements_missed() -> None:
    loss, nodes = 0.4, 5
    for listen_s in (0.6, 1.0, 2.25, 3.0):
        phases = (np.arange(20_000) + 0.5) / 20_000
        due = np.floor(listen_s - phases) + 1  # Announcements whose arrival T_L still covers.
        one = loss**due
        cell = setting(model="uncorrelated", nodes=nodes, loss=loss, listen_s=listen_s)
        assert value(cell, "inconsistent-one") == pytest.approx(one.mean(), rel=1e-9)
        assert value(cell, "inconsistent") == pytest.approx((1 - (1 - one) ** (nodes - 1)).mean(), rel=1e-9)
        together = setting(model="correlated", nodes=nodes, loss=loss, listen_s=listen_s)
        assert value(together, "inconsistent") == value(together, "inconsistent-one")
        assert value(cell, "false-departures") == pytest.approx(4 * 0.6 * 0.4 ** floor(listen_s))
    assert value(setting(model="correlated", listen_s=inf), "inconsistent") == 0
    assert value(setting(listen_s=0.7), "inconsistent", as_printed=True) == pytest.approx(0.3)


def test_binary_fractions_do_not_cost_an_announcement() -> None:
    cell = setting(model="correlated", announce_s=0.1, listen_s=0.3, suppress_s=0.05, delay_s=0.01)
    assert value(cell, "false-departures") == pytest.approx(99 * 0.6 * 0.4**3)
    assert events.false_departure_delay(0.4, 0.1, 0.3) == pytest.approx(0.1 / 0.6)


# ── As printed ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_printed_first_round_misplaces_a_factor() -> None:
    cell = setting(model="correlated", nodes=10)
    inner = quad(lambda t: (1 - (1 - 0.6 * (t - 0.1)) ** 10) / (t - 0.1), 0.1, 1)[0]
    assert value(cell, "first-round-messages", as_printed=True) == pytest.approx(10 * 0.1 / 0.6 + inner, rel=1e-8)
    assert value(cell, "first-round-messages") == pytest.approx(10 * 0.1 + inner / 0.6, rel=1e-8)


def test_printed_and_corrected_agree_where_the_chapter_is_right() -> None:
    for quantity in ("tmax", "leadership-delay", "rounds", "avg-rounds"):
        cell = setting(model="correlated")
        assert value(cell, quantity) == value(cell, quantity, as_printed=True)


# ── Large groups, high loss ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("loss", [0.0, 0.4, 0.99])
@pytest.mark.parametrize("model", ["correlated", "uncorrelated"])
@pytest.mark.parametrize("variant", ["le-a", "le-s", "le-m", "sup", "al"])
def test_a_million_processes_are_no_trouble(variant: str, model: str, loss: float) -> None:
    for timer in ("uniform", "exponential"):
        for quantity in QUANTITIES:
            begun = time.thread_time()  # Of this thread alone: others may be busy.
            try:
                got = value(setting(variant, model, 10**6, loss, timer=timer), quantity)
            except ConfigError:
                continue
            assert isfinite(got)
            assert time.thread_time() - begun < 1.0, quantity


@pytest.mark.parametrize("loss", [0.5, 0.7, 0.9, 0.99, 0.9995])
def test_sums_over_rounds_against_plain_summation(loss: float) -> None:
    kept = loss ** np.arange(0, int(60 / (1 - loss)))
    for n in (1, 2, 9, 1000, 10**6):
        with np.errstate(divide="ignore"):
            plain = -np.expm1(n * np.log1p(-kept))
        assert forms.rounds_uncorrelated(n, loss) == pytest.approx(plain.sum(), rel=1e-8)
        k = np.arange(1, n + 1)
        assert forms.power_runs_over_rounds(0.0, n, loss) == pytest.approx(
            (1 / -np.expm1(k * log(loss))).sum(), rel=1e-9
        )


@pytest.mark.parametrize(("nodes", "loss"), [(100, 0.9), (10**6, 0.99), (10**6, 0.5)])
def test_correlated_messages_of_many_against_plain_summation(nodes: int, loss: float) -> None:
    """T_A = T_S = 1, Δ = .1, uniform: g_m written out, a fine grid in t, all m one by one."""
    edges = np.concatenate([[0.0], 0.1 * 10.0 ** np.linspace(-9, 0, 400), 0.1 + 0.9 * 10.0 ** np.linspace(-9, 0, 600)])
    nodes_x, weights = np.polynomial.legendre.leggauss(4)
    t = (edges[:-1, None] + np.diff(edges)[:, None] * (nodes_x + 1) / 2).ravel()
    weight = (np.diff(edges)[:, None] * weights / 2).ravel()
    woken, n = t, nodes - 1
    heard = (1 - loss) * np.maximum(0, t - 0.1)
    all_s, earlier = 1 / (1 - loss), 1 / (1 - loss)
    heard_m = heard.copy()
    for number in range(1, int(45 / (1 - loss)) + 2):
        with np.errstate(divide="ignore", invalid="ignore"):
            run = (1 - heard) * -np.expm1(n * np.log1p(-heard)) / heard
        all_s += float((weight * np.where(heard > 0, run, n)).sum())
        earlier += float((weight * nodes * np.exp(n * np.log1p(-heard_m))).sum()) - 1
        heard = (1 - loss) * np.minimum(1, t + number - 0.1) + loss * heard
        heard_m = (1 - loss) * woken + loss * heard_m
    assert value(setting(model="correlated", nodes=nodes, loss=loss), "messages") == pytest.approx(all_s, rel=1e-6)
    assert value(setting("le-m", "correlated", nodes, loss), "messages") == pytest.approx(earlier, rel=1e-6)


def test_many_announcers_need_no_more_than_their_expected_number() -> None:
    """At N = 10^6 the chain is cut short; at N where it is not, both ways must meet."""
    cut, whole = (forms.messages_lea_uncorrelated(nodes, 0.7) - nodes for nodes in (10**6, 400))
    rounds = forms.rounds_uncorrelated(10**6 - 1, 0.7) - forms.rounds_uncorrelated(399, 0.7)
    assert cut - whole == pytest.approx(rounds, rel=1e-9)


# ── Refusals ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("cell", "quantity"),
    [
        (setting("le-s", "uncorrelated"), "messages"),
        (setting("le-m", "uncorrelated"), "messages"),
        (setting("sup", "uncorrelated"), "messages"),
        (setting("sup", "uncorrelated"), "tmax"),
        (setting("le-s", "uncorrelated"), "first-round-messages"),
        (setting("le-a", "uncorrelated", delay_s=1.5), "messages"),
        (setting("le-s", "uncorrelated", listen_s=3.0), "tmax"),
        (setting("le-s", "correlated", listen_s=3.0), "messages"),
        (setting("le-s", "none", listen_s=0.9), "messages"),
        (setting("le-s", "correlated", suppress_s=3.0), "first-round-tmax"),
        (setting("le-s", "correlated", suppress_s=100.0), "messages"),
        (setting("le-s", "load"), "tmax"),
        (setting("le-s", "uncorrelated", event="leader-departs", listen_s=3.0), "reestablishment"),
        (setting("le-a", "uncorrelated", 10**6, 0.999), "messages"),
    ],
)
def test_what_nobody_knows_names_the_simulation(cell: Setting, quantity: str) -> None:
    with pytest.raises(NoClosedForm, match=f"doyen sim announce --variant {cell.variant} --nodes {cell.nodes}") as told:
        value(cell, quantity)
    assert "\n" not in str(told.value)


def test_the_command_has_the_flags_that_differ() -> None:
    cell = setting("le-m", "load", 7, 0.25, timer="exponential", announce_s=0.5, listen_s=1.5)
    with pytest.raises(NoClosedForm) as told:
        value(cell, "messages")
    wanted = "--variant le-m --nodes 7 --loss 0.25 --loss-model load --timer exponential --announce 0.5s --listen 1.5s"
    assert str(told.value).endswith(wanted)


@pytest.mark.parametrize(
    ("cell", "quantity", "culprit"),
    [
        (setting("le-s", "correlated", loss=1.0), "tmax", "loss 1: nothing converges"),
        (setting("le-m", event="joiner-better"), "reestablishment", "joiner-better"),
        (setting("sup", event="leader-departs", listen_s=3.0), "reestablishment", "sup"),
        (setting("al", event="joiner-worse"), "reestablishment", "al"),
        (setting(event="leader-departs"), "reestablishment", "listen_s inf"),
        (setting(), "notice", "listen_s inf"),
        (setting(), "reestablishment", "event start"),
        (setting(event="false-departure", listen_s=2.0), "reestablishment", "cannot happen"),
        (setting("sup"), "inconsistent", "sup"),
        (setting("sup", suppress_s=0.0, delay_s=0.0), "messages", "delay_s 0"),
        (setting(), "speed", "'speed'"),
    ],
)
def test_nonsense_names_the_culprit(cell: Setting, quantity: str, culprit: str) -> None:
    with pytest.raises(ConfigError, match=culprit) as told:
        value(cell, quantity)
    assert not isinstance(told.value, NoClosedForm)


def test_at_the_edges_nothing_is_refused_without_need() -> None:
    alone = setting("le-s", "uncorrelated", nodes=1, loss=1.0)
    assert [value(alone, q) for q in ("tmax", "messages", "rounds", "leadership-delay")] == [0, 1, 1, 0]
    assert value(setting(loss=1.0), "messages") == pytest.approx(15.0874, abs=5e-5)  # Nothing is lost under `none`.
    deaf = setting("sup", "uncorrelated", nodes=9, loss=1.0)
    assert value(deaf, "messages") == 9
    assert value(deaf, "tmax") == pytest.approx(0.9)
    late = setting("le-s", "uncorrelated", nodes=9, suppress_s=0.2, delay_s=0.3)
    assert value(late, "messages") == pytest.approx(value(setting("le-a", "uncorrelated", nodes=9), "messages"))
    assert value(late, "first-round-messages") == 9
    assert value(setting(announce_s=1.1), "leaders") == value(setting(announce_s=1.1), "messages")
    assert value(setting("al", "uncorrelated"), "leaders") == 100


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_advice_is_the_least_k_that_meets_the_wish() -> None:
    for loss in (0.01, 0.1, 0.4, 0.9):
        for wish in (1e-6, 0.1, 10.0, 1e5):
            advice = advise_timers(100, loss, 0.01, wish)
            rate = 3600 / advice.announce_s * 99 * (1 - loss)
            assert advice.false_departures_per_hour == pytest.approx(rate * loss**advice.k)
            assert advice.false_departures_per_hour <= wish
            assert advice.k == 1 or rate * loss ** (advice.k - 1) > wish
            assert advice.listen_s == advice.k * advice.announce_s
            assert advice.announce_s >= advice.suppress_s + 0.01
            assert advice.takeover_max_s == pytest.approx(advice.listen_s + advice.suppress_s + 0.02)


def test_advice_warns_of_the_chapters_own_setting() -> None:
    advice = advise_timers(100, 0.1, 0.1, 1.0, announce_s=1.0, suppress_s=1.0)
    assert "announce_s 1 is less than suppress_s + delay_s = 1.1" in advice.warnings[0]
    assert advise_timers(100, 0.1, 0.01, 1.0).warnings == ()
    assert any("k = 1" in warning for warning in advise_timers(3, 0.0, 0.01, 0.0).warnings)
    assert advise_timers(3, 0.0, 0.0, 0.0).announce_s == 1.0


@pytest.mark.parametrize(
    ("given", "culprit"),
    [
        ({"loss": 1.0}, "loss 1 "),
        ({"nodes": 0}, "nodes 0"),
        ({"delay_s": -1.0}, "delay_s -1 "),
        ({"false_departures_per_hour": 0.0}, "false_departures_per_hour 0.0"),
        ({"announce_s": 0.0}, "announce_s 0 "),
        ({"suppress_s": inf}, "suppress_s inf"),
    ],
)
def test_advice_refuses_by_name(given: dict[str, Any], culprit: str) -> None:
    wish = {"nodes": 10, "loss": 0.1, "delay_s": 0.1, "false_departures_per_hour": 1.0} | given
    with pytest.raises(ConfigError, match=culprit):
        advise_timers(**wish)
