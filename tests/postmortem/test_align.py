"""Clocks are aligned by messages: the true offset lies within the stated error, whatever offsets and drifts are."""

from random import Random

import pytest

from doyen.core.clock import NEVER, Instant, ms, seconds
from doyen.postmortem.align import DRIFT_MAX, Alignment, Passage, align


class Clock:
    """A clock that is off, and drifts; it may change its rate half-way."""

    def __init__(self, offset: int, drift: float, later: float | None = None, half: int = NEVER) -> None:
        self.offset, self.drift, self.later, self.half = offset, drift, drift if later is None else later, half

    def at(self, true: Instant) -> Instant:
        before, after = min(true, self.half), max(0, true - self.half)
        return self.offset + true + round(before * self.drift + after * self.later)


def talk(
    clocks: list[Clock], rng: Random, *, until: int, every: int, delay: int, quiet: tuple[int, int] = (0, 0)
) -> list[Passage]:
    """Return messages at random instants between random clocks, with random delays; none while it is quiet."""
    found, now = [], 0
    while now < until:
        now += round(rng.expovariate(1 / every))
        if quiet[0] <= now <= quiet[1]:
            continue
        sender, receiver = rng.sample(range(len(clocks)), 2)
        heard = now + delay + round(rng.expovariate(1 / delay))
        found.append(Passage(sender, receiver, clocks[sender].at(now), clocks[receiver].at(heard)))
    return found


def check(clocks: list[Clock], found: Alignment, until: int) -> float:
    """Check the truth against every stated error; return the largest one."""
    worst = 0.0
    for step in range(201):
        true = until * step // 200
        base = clocks[found.reference].at(true)
        for number, clock in enumerate(clocks):
            error = found.error(number, clock.at(true))
            assert abs(found.common(number, clock.at(true)) - base) <= error + 2
            worst = max(worst, error)
            for other, its in enumerate(clocks):
                later, error = found.between(number, clock.at(true), other, its.at(true))
                assert abs(later) <= error + 2
    return worst


@pytest.mark.parametrize("seed", range(12))
def test_the_true_offset_lies_within_the_stated_error(seed: int) -> None:
    rng, half = Random(seed), DRIFT_MAX / 2
    clocks = [
        Clock(rng.randrange(-(10**15), 10**15), rng.uniform(-half, half), rng.uniform(-half, half), seconds(200))
        for _ in range(rng.choice([2, 3, 5]))
    ]
    until = seconds(400)
    quiet = (seconds(150), seconds(250)) if seed % 2 else (0, 0)
    passages = talk(clocks, rng, until=until, every=ms(100), delay=ms(1), quiet=quiet)
    rough = [rng.randrange(-(10**13), 10**13) - clock.offset for clock in clocks]  # Wall clocks may be hours off.
    worst = check(clocks, align(len(clocks), passages, rough), until)
    assert worst < (ms(15) if seed % 2 else ms(3))  # While nobody speaks for 100 s the error grows by 200 millionths.


def test_a_host_that_two_others_hear_bounds_those_two() -> None:
    rng, clocks = Random(1), [Clock(0, 0), Clock(seconds(7), 0), Clock(-seconds(9), 0)]
    passages = [
        p for p in talk(clocks, rng, until=seconds(60), every=ms(50), delay=ms(1)) if {p.sender, p.receiver} != {0, 1}
    ]
    found = align(3, passages, [0, 0, 0])
    assert found.reference == 2
    later, error = found.between(0, clocks[0].at(seconds(30)), 1, clocks[1].at(seconds(30)))
    assert abs(later) <= error < ms(5)


def test_a_clock_without_messages_has_no_bound_and_one_that_only_listens_neither() -> None:
    found = align(3, [Passage(0, 1, 10, 20)], [0, 0, 5])
    assert found.common(2, 7) == 12
    assert found.error(2, 7) == found.error(1, 20) == float("inf")
    assert align(1, [], [0]).common(0, 9) == 9


def test_a_clock_that_was_stepped_contradicts_itself() -> None:
    passages = [Passage(i % 2, 1 - i % 2, seconds(i), seconds(i) + ms(1)) for i in range(60)]
    stepped = [
        Passage(
            p.sender, p.receiver, p.sent + seconds(2) * (p.sender == 1), p.received + seconds(2) * (p.receiver == 1)
        )
        if i > 30
        else p
        for i, p in enumerate(passages)
    ]
    assert align(2, passages, [0, 0]).contradiction(0) == align(2, passages, [0, 0]).contradiction(1) == 0
    found = align(2, stepped, [0, 0])
    assert found.contradiction(1 - found.reference) > seconds(0.9)


def test_a_clock_without_messages_is_laid_by_the_wall_clock_of_most() -> None:
    """The one with the most messages may have the wrong wall clock."""
    passages = [Passage(0, 1, ms(10), ms(11)), Passage(1, 0, ms(12), ms(13))]
    passages += [Passage(0, 2, ms(20), ms(21)), Passage(2, 0, ms(22), ms(23))]
    found = align(4, passages, [seconds(3600), 0, 0, 0])
    assert found.reference == 0 and found.rough(ms(13)) == pytest.approx(ms(13), abs=ms(2))
    assert found.common(3, ms(50)) == pytest.approx(ms(50), abs=ms(2))


def test_an_earlier_run_on_the_same_hosts_is_wrong_by_the_same() -> None:
    hour, talk = seconds(3600), ((1, 2), (3, 4), (50, 51))
    later = [Passage(a, 1 - a, hour + ms(sent), hour + ms(heard)) for a in (0, 1) for sent, heard in talk]
    before = [Passage(2 + a, 3 - a, ms(sent), ms(heard)) for a in (0, 1) for sent, heard in talk[:2]]
    found = align(4, [*later, *before], [0, 9 * hour, 0, 9 * hour], ["ant", "bee", "ant", "bee"])
    assert found.common(1, hour) == pytest.approx(hour, abs=ms(2))
    assert found.common(2, 0) == pytest.approx(0, abs=ms(2)) == found.common(3, 0)
    assert found.error_max(1, hour, hour + ms(60)) < ms(2)
    assert found.error(2, 0) == float("inf") and found.between(2, 0, 3, 0)[1] < ms(2)
