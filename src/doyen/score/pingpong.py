"""Ping-pong heartbeats: every server measures its round trips to all, and tells its request rate.  [POLE §3.3]

Not the election's own heartbeats: these go between all pairs, slowly, and only where an oracle needs them.  What the
election measures itself counts as measured here, and while there is a leader the other pairs may be pinged less often.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from msgspec import Struct

from doyen.core.clock import Instant, seconds
from doyen.core.config import Config, Doc, Period, Positive
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Hears, hears
from doyen.core.rank import RoundTripsTold, VectorsChanged
from doyen.score.vectors import NOTHING, Vectors

RATE_MAX: Final = 1e12


class PingPongConfig(Config, frozen=True, kw_only=True):
    ping_interval: Annotated[Period, Doc("100 ms to 1 s [POLE §3.3]. Long: old news. Short: traffic.")] = seconds(1)
    led_interval: Annotated[Period, Doc("The same while there is a leader, if it is longer.")] = seconds(1)
    window: Annotated[Period, Doc("Round trips are means over it. Short: jitter. Long: changes hide.")] = seconds(10)
    missed_max: Annotated[Positive, Doc("After this many missed pongs in a row a peer counts as crashed.")] = 3


class Ping(Struct, frozen=True, gc=False, array_like=True, tag="i"):
    number: int
    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)


class Pong(Struct, frozen=True, gc=False, array_like=True, tag="o"):
    number: int
    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)


Message: TypeAlias = Ping | Pong


class PingDue(Struct, frozen=True, gc=False): ...


class PingPong:
    """One server's measurements; `vectors` is what oracles read."""

    MESSAGES: ClassVar[Any] = Ping | Pong

    def __init__(
        self,
        me: NodeId,
        config: PingPongConfig,
        out: Out,
        rng: Random,
        *,
        voters: Iterable[NodeId],
        rate: Callable[[], float] = NOTHING,  # Of requests from clients, per second.
    ) -> None:
        self.config, self.vectors = config, Vectors(me, config.window)
        self._out, self._rng, self._rate = out, rng, rate
        self._others = frozenset(voters) - {me}
        self._number = 0
        self._pinged_at: Instant = 0
        self._led = False
        self._sent_at: dict[int, Instant] = {}
        self._heard: dict[NodeId, int] = {}  # The last ping that each answered.

    def start(self, now: Instant) -> None:
        self._on_due(now)

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        if sender not in self._others:
            return
        self.vectors.told(sender, message.rate)
        match message:
            case Ping():
                self._out.send(sender, Pong(message.number, self._rate()))
            case Pong():
                sent_at = self._sent_at.get(message.number)
                if sent_at is not None and message.number > self._heard.get(sender, 0):
                    self._heard[sender] = message.number
                    if self.vectors.measured(sender, now - sent_at, now):
                        self._out.emit(VectorsChanged(len(self._heard)))

    def on_timer(self, timer: Any, now: Instant) -> None:
        self._on_due(now)

    def on_leader_elected(self, fact: LeaderElected, now: Instant) -> None:
        self._led = True

    def on_leader_lost(self, fact: LeaderLost, now: Instant) -> None:
        """Measure at once, for the election, what was measured rarely."""
        self._led = False
        if now >= self._pinged_at + self.config.ping_interval:
            self._ping(now)

    def on_round_trips_told(self, fact: RoundTripsTold, now: Instant) -> None:
        """Take over what the election has measured."""
        for peer, took in fact.trips:
            if peer in self._others:
                self._heard[peer] = self._number
                if self.vectors.measured(peer, took, now):
                    self._out.emit(VectorsChanged(len(self._heard)))

    HEARS: ClassVar[Hears] = (
        hears(LeaderElected, on_leader_elected)
        | hears(LeaderLost, on_leader_lost)
        | hears(RoundTripsTold, on_round_trips_told)
    )

    def _on_due(self, now: Instant) -> None:
        if not self._led or self.config.led_interval <= now - self._pinged_at + self.config.ping_interval:
            self._ping(now)
        spread = self.config.ping_interval // 10
        self._out.set_timer(PingDue(), now + self.config.ping_interval - int(self._rng.random() * spread))

    def _ping(self, now: Instant) -> None:
        for peer in [p for p, heard in self._heard.items() if self._number - heard >= self.config.missed_max]:
            del self._heard[peer]
            if self.vectors.forget(peer):
                self._out.emit(VectorsChanged(len(self._heard)))
        self._number, self._pinged_at = self._number + 1, now
        self._sent_at[self._number] = now
        self._sent_at.pop(self._number - self.config.missed_max - 1, None)
        self._out.multicast(Ping(self._number, self._rate()))


def _check_rate(rate: float) -> None:
    if not 0 <= rate <= RATE_MAX:  # Also false for nan.
        raise ValueError("rate is out of range")
