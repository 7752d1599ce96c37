"""Ping one member per period; say so if it stays silent.  [SWIM §3.1]

The smallest failure detector there is: no helpers, no gossip, no memory of earlier probes.  It measures how fast the
simulator carries unicasts and timers (`doyen bench sim`), and shows the shape of a membership machine.

Deviation: no ping-req, and members are drawn independently each period instead of in a shuffled round.
Deviation: the first period begins after a random part of one, so that a group started together does not ping in step.
"""

from collections.abc import Sequence
from math import floor
from random import Random
from typing import Annotated, Any, ClassVar, Final

from msgspec import Struct

from doyen.core.clock import Instant, ms
from doyen.core.config import Config, Doc, Period, need
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.machine import Hears

# ── Config ──────────────────────────────────────────────────────────────────────────────────────────────────


class PingConfig(Config, frozen=True, kw_only=True):
    period: Annotated[Period, Doc("T': one probe is sent in each. Short: traffic. Long: slow detection.")] = ms(1000)
    ack_timeout: Annotated[Period, Doc("The wait for one ack. Below a round trip everybody seems silent.")] = ms(300)

    def check(self) -> None:
        need(self.ack_timeout < self.period, "ack_timeout", "must be less than period")


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Ping(Struct, frozen=True, gc=False, array_like=True, tag="P"):
    probe_no: int


class Ack(Struct, frozen=True, gc=False, array_like=True, tag="A"):
    probe_no: int  # Of the ping that it answers.


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────


class PeriodBegins(Struct, frozen=True, gc=False): ...


class AckOverdue(Struct, frozen=True, gc=False):
    probe_no: int


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────


class MemberSilent(Struct, frozen=True, gc=False):
    """This member's ack did not come in time; one lost message is enough for that."""

    member: NodeId


# ── The machine ─────────────────────────────────────────────────────────────────────────────────────────────


class Pinger:
    """Pings one of the others per period, and answers everybody's pings."""

    __slots__ = ("_awaited", "_me", "_other_count", "_out", "_probe_no", "_rng", "config", "members")
    MESSAGES: ClassVar[Any] = Ping | Ack
    HEARS: ClassVar[Hears] = {}

    def __init__(
        self,
        members: Sequence[NodeId],  # The whole group, one list for all: a node keeps only its own place in it.
        me: int,
        config: PingConfig,
        out: Out,
        rng: Random,
    ) -> None:
        self.members, self.config = members, config
        self._me, self._out, self._rng = me, out, rng
        self._other_count = len(members) - 1
        self._probe_no = 0
        self._awaited: NodeId | None = None  # Whose ack we still wait for.

    # Inputs.

    def start(self, now: Instant) -> None:
        if self._other_count:
            self._out.set_timer(_PERIOD_BEGINS, now + int(self._rng.random() * self.config.period))

    def on_message(self, sender: NodeId, message: Ping | Ack, now: Instant) -> None:
        if type(message) is Ping:
            self._out.send(sender, Ack(message.probe_no))
        elif message.probe_no == self._probe_no and sender == self._awaited:
            self._awaited = None  # Any other ack is late and says nothing about this probe.

    def on_timer(self, timer: PeriodBegins | AckOverdue, now: Instant) -> None:
        if type(timer) is AckOverdue:
            if self._awaited is not None and timer.probe_no == self._probe_no:
                self._out.emit(MemberSilent(self._awaited))
                self._awaited = None
            return
        out, config = self._out, self.config
        self._probe_no = probe_no = self._probe_no + 1
        drawn = floor(self._rng.random() * self._other_count)  # `randrange` costs ten times as much.
        self._awaited = awaited = self.members[drawn if drawn < self._me else drawn + 1]
        out.send(awaited, Ping(probe_no))
        out.set_timer(AckOverdue(probe_no), now + config.ack_timeout)
        out.set_timer(_PERIOD_BEGINS, now + config.period)


_PERIOD_BEGINS: Final = PeriodBegins()
