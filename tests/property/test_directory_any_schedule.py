"""Elections by a directory under any schedule: each step of each operation takes as long as it likes, or forever.

Storms draw faults that last; here every single step, answer and timer may be late by more than a guard, clocks run at
the two rates that are still allowed, and members end in the middle of whatever they do.  Nothing is asked of liveness.
"""

from collections.abc import Generator
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

import msgspec
import pytest
from broken_directories import BROKEN

from doyen.core.clock import Instant, ms
from doyen.core.commands import LeaveGroup, Resign
from doyen.core.effects import Emit, SetTimer
from doyen.core.ids import Incarnation, NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.outside import Answered, Outside, Request
from doyen.core.rank import ScoreGiven, ScoreWanted
from doyen.election.directory.config import DirectoryConfig
from doyen.election.directory.machine import Directory
from doyen.election.directory.messages import Status
from doyen.election.directory.steps import MARKER, Link, ListNames, Marker, Read, Remove, Replace, Step, packed, perform
from doyen.testing import RecordingOut

CONFIG = DirectoryConfig(lease=ms(100), renew_interval=ms(20), stand_time=ms(20), drift_max=0.05)
RATES = (0.95, 1.05)
LENGTH = ms(2000)
SCHEDULES = 100


class Life:
    """One incarnation of one member: its machine, its clock, and whether it still runs."""

    def __init__(self, index: int, incarnation: int, rate: float, kind: type[Directory]) -> None:
        self.name, self.rate = NodeId(f"n{index}"), rate
        self.out = RecordingOut()
        self.machine = kind(self.name, Incarnation(incarnation), CONFIG, self.out)
        self.outside = Outside(
            node=self.name, incarnation=Incarnation(incarnation), group="g", name="", shared="d", config=CONFIG
        )
        self.runs = True

    def local(self, now: Instant) -> Instant:
        return int(now * self.rate)


class Schedule:
    """One run; `two` says who acted at once, and under which terms."""

    def __init__(self, seed: int, kind: type[Directory] = Directory, *, overwrites: bool = False) -> None:
        self.rng, self.kind, self.overwrites = Random(seed), kind, overwrites
        self.files = {MARKER: packed(Marker("g"))}
        self.now: Instant = 0
        self.events: list[tuple[Instant, int, Any]] = []
        self.sequence = count(1)
        self.lives = [self.born(index) for index in range(3)]
        self.terms: dict[int, NodeId] = {}
        self.reigns = 0
        self.two = ""

    def later(self, delay: Instant, act: Any) -> None:
        heappush(self.events, (self.now + delay, next(self.sequence), act))

    def some_time(self, late_prob: float = 0.03) -> Instant:
        """Return how long one step takes: hardly anything, or anything up to three guards."""
        return int(self.rng.random() * (ms(300) if self.rng.random() < late_prob else ms(2)))

    def born(self, index: int) -> Life:
        life = Life(index, next(self.sequence), self.rng.choice(RATES), self.kind)
        self.later(int(self.rng.random() * ms(30)), lambda: self.enter(life, life.machine.start))
        self.later(int(self.rng.expovariate(1 / ms(1200))), lambda: self.end(index))
        return life

    def end(self, index: int) -> None:
        """End a member: killed, or asked to leave, and started anew; or asked to resign."""
        life, how = self.lives[index], self.rng.random()
        command: Any = LeaveGroup() if how < 0.3 else Resign()
        if how < 0.6:
            self.enter(life, lambda now: life.machine.HEARS[type(command)](life.machine, command, now))
        if how < 0.3 or how >= 0.6:
            life.runs = how < 0.3  # One that left still gets to write that it did.
            self.lives[index] = self.born(index)
        else:
            self.later(int(self.rng.expovariate(1 / ms(1200))), lambda: self.end(index))

    def enter(self, life: Life, step: Any) -> None:
        """Give a member one input, and carry out what it says."""
        if not life.runs:
            return
        step(life.local(self.now))
        for effect in life.out.take():
            match effect:
                case SetTimer(timer, at):
                    late = self.some_time() if self.rng.random() < 0.1 else 0
                    wait = max(0, int(at / life.rate) + 1 - self.now) + late
                    self.later(wait, lambda timer=timer: self.fire(life, timer))
                case Emit(Request() as request):
                    self.begin(life, request.number, perform(request, life.outside))  # type: ignore[arg-type]
                case Emit(ScoreWanted(number)):
                    given = ScoreGiven(number, self.rng.randrange(3))
                    self.later(0, lambda given=given: self.enter(life, lambda now: _score(life, given, now)))
                case Emit(LeaderElected(term)) if term.leader == life.name:
                    self.reigns += 1
                    if self.terms.setdefault(term.number, life.name) != life.name or term.number < max(self.terms):
                        self.two = self.two or f"{life.name} acts in term {term.number} of {self.terms}"

    def fire(self, life: Life, timer: Any) -> None:
        self.enter(life, lambda now: life.machine.on_timer(timer, now))

    def begin(self, life: Life, number: int, steps: Generator[Step, Any, Any], result: Any = None) -> None:
        try:
            step = steps.send(result)
        except StopIteration as ended:
            answered = Answered(number, found=msgspec.msgpack.encode(ended.value))
            self.later(self.some_time(), lambda: self.enter(life, lambda now: life.machine.on_answered(answered, now)))
            return
        # Where it hurts most: a claim, and whatever a member does that has claimed and does not act yet.
        tense = isinstance(step, Link) or (life.machine.status is Status.WAITING and isinstance(step, Replace))
        self.later(self.some_time(0.4 if tense else 0.03), lambda: self.take_effect(life, number, steps, step))

    def take_effect(self, life: Life, number: int, steps: Generator[Step, Any, Any], step: Step) -> None:
        """Let a step take effect, whether its process still runs or not; only a process that runs goes on."""
        result: Any = None
        match step:
            case ListNames():
                result = tuple(self.files)
            case Read(name):
                result = self.files.get(name)
            case Link(name, data) if not self.overwrites:
                self.files.setdefault(name, data)
            case Link(name, data) | Replace(name, data):
                self.files[name] = data
            case Remove(name):
                self.files.pop(name, None)
        if life.runs:
            self.later(self.some_time(), lambda: self.begin(life, number, steps, result) if life.runs else None)

    def run(self) -> "Schedule":
        while self.events and self.now < LENGTH and not self.two:
            self.now, _, act = heappop(self.events)
            act()
            acting = [life.name for life in self.lives if life.machine.leads(life.local(self.now))]
            if len(acting) > 1:
                self.two = f"{acting} act at once"
        return self


def _score(life: Life, given: ScoreGiven, now: Instant) -> None:
    life.machine.on_score_given(given, now)


def test_never_two_act_under_any_schedule() -> None:
    reigns = 0
    for seed in range(SCHEDULES):
        played = Schedule(seed).run()
        assert not played.two, (seed, played.two)
        reigns += played.reigns
    assert reigns > SCHEDULES


@pytest.mark.soak
def test_never_two_act_under_many_schedules() -> None:
    for seed in range(10_000):
        played = Schedule(seed).run()
        assert not played.two, (seed, played.two)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_variant_is_caught_by_some_schedule(kind: type[Directory]) -> None:
    assert any(Schedule(seed, kind).run().two for seed in range(5 * SCHEDULES))


def test_a_claim_that_overwrites_is_caught_by_some_schedule() -> None:
    assert any(Schedule(seed, overwrites=True).run().two for seed in range(5 * SCHEDULES))
