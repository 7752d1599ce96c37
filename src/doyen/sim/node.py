"""One simulated node: the world of its host, with a clock, a disk and a state of its own."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from doyen.core.clock import NEVER, Duration, Instant
from doyen.core.host import Host, Port, Verbs
from doyen.core.ids import Incarnation, NodeId
from doyen.errors import ConfigError
from doyen.sim.streams import Stream

if TYPE_CHECKING:
    from doyen.sim.engine import Simulation

State = Literal["down", "up", "paused", "slow"]
Setup = Callable[["SimNode", Host], None]  # Adds a node's machines to its host; called at each (re)start.
Step = Callable[[Instant], None]


class Clock:
    """A node's own clock: offset from true time, and a rate that is not quite one."""

    __slots__ = ("offset", "rate")

    def __init__(self, offset: Duration = 0, drift: float = 0.0) -> None:
        if not -0.5 <= drift <= 1.0:
            raise ConfigError(f"{drift} is no clock's drift: give -0.5 to 1 (0.001: fast by 1 in 1,000)", field="drift")
        self.offset, self.rate = offset, 1.0 + drift

    def local(self, true: Instant) -> Instant:
        return self.offset + true if self.rate == 1.0 else self.offset + int(true * self.rate)

    def true(self, local: Instant) -> Instant:
        """Return the first true instant at which this clock shows at least `local`."""
        if self.rate == 1.0:
            return local - self.offset
        guess = int((local - self.offset) / self.rate)
        while self.local(guess) < local:
            guess += 1
        return guess


class SimNode:
    """The world of one host; made by `Simulation.add`, started, stopped and disturbed by the simulation."""

    def __init__(self, sim: "Simulation", name: NodeId, index: int, setup: Setup, clock: Clock | None) -> None:
        self.sim, self.name, self.index, self.setup = sim, name, index, setup
        self.clock = clock
        self.host: Host | None = None
        self.ports: dict[str, Port] = {}  # Its host's; none while it is down.
        self.state: State = "down"
        self.incarnation = Incarnation(0)
        self.disk: dict[str, bytes] = {}  # What is durable, by channel, as it was written.
        self.step_delay: Duration = 0  # slow: how long each input takes.
        self._waiting: deque[Step] = deque()  # Inputs that a paused or slow node has yet to get to.
        self._turn = 0  # Changes of state: what was planned in an earlier one is void.

    # For setups.

    def rng(self, purpose: str) -> Stream:
        """Return the random stream of this node for one purpose (a channel); after a restart it is another one."""
        return self.sim.streams.of(purpose if self.incarnation == 1 else f"{purpose}#{self.incarnation}", self.index)

    def restored(self, channel: str, kind: Any) -> Any:
        """Return what a machine persisted in an earlier incarnation, or None."""
        data = self.disk.get(channel)
        return None if data is None else msgspec.msgpack.decode(data, type=kind)

    def now(self) -> Instant:
        """Return the instant by the node's own clock."""
        return self.sim.now if self.clock is None else self.clock.local(self.sim.now)

    # The world of its host.

    def verbs(self, port: Port) -> Verbs:
        return self.sim.channel(port.channel).verbs(self, port)

    def persist(self, port: Port, record: Any) -> None:
        self.sim.write(self, port, msgspec.msgpack.encode(record))

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        sim, channel = self.sim, port.channel
        trace, true = sim.trace, sim.now
        trace.records += (true, -1 - self.index)
        if trace.lines is not None:
            trace.line(true, "fact", f"{self.name}/{channel}", fact)
        for watch in sim.watchers:
            watch(self, channel, fact, true)

    def set_skewed_timer(self, port: Port, timer: Any, at: Instant) -> None:
        """Set a timer by this node's clock, which may be set back meanwhile: then the timer waits again."""
        if at < NEVER:
            clock, sim = self.clock or Clock(), self.sim
            when = max(clock.true(at), sim.now)
            sim.timers.push(when, next(sim.sequence), port, _Skewed(timer, at), self.index, sim.now)

    # Its state.

    def enter(self, step: Step) -> None:
        """Take one input as far as this node is able to: now, later, or never."""
        faults = self.sim.network.faults
        if self.host is None:
            return
        if self.state == "paused":
            faults["late by pause"] += 1
            self._waiting.append(step)
        elif self.state == "slow":
            faults["slow step"] += 1
            self._waiting.append(step)
            if len(self._waiting) == 1:
                self._plan()
        else:
            self._take(step)

    def _plan(self) -> None:
        self.sim.at(self.sim.now + self.step_delay, partial(self._get_to, self._turn), f"{self.name} gets to it")

    def _get_to(self, turn: int) -> None:
        if turn == self._turn:
            step = self._waiting.popleft()
            if self._waiting:
                self._plan()
            self._take(step)

    def able_state(self) -> State:
        """Return the state of a node that is neither down nor paused."""
        return "slow" if self.step_delay else "up"

    def _take(self, step: Step) -> None:
        host, now = self.host, self.now()
        step(now)
        if host is not None:
            host.settle(now)

    def set_state(self, state: State) -> None:
        """Change the state; while it is not plainly up, the node stands between the world and its machines.

        One that is up again takes at once what has waited, in the order in which it came.
        """
        if state == self.state == "slow":
            return
        self.state = state
        self._turn += 1
        if state == "down":
            self._waiting.clear()
        if self.host is not None:
            for port in self.host.ports.values():
                if state == "up" and self.clock is None and not self.sim.hear_watchers:
                    port.hear, port.fire = port.machine.on_message, port.machine.on_timer
                else:
                    port.hear, port.fire = partial(self._hear, port), partial(self._fire, port)
                self.sim.channel(port.channel).connect(self, port.hear)
        if state == "slow" and self._waiting:
            self._plan()
        while self._waiting and self.state == "up":
            self._take(self._waiting.popleft())

    def _hear(self, port: Port, sender: NodeId, message: Any, now: Instant) -> None:
        self.enter(partial(self._take_in, port, sender, message))

    def _take_in(self, port: Port, sender: NodeId, message: Any, now: Instant) -> None:
        for watch in self.sim.hear_watchers:
            watch(self, port.channel, sender, message)
        port.machine.on_message(sender, message, now)

    def _fire(self, port: Port, timer: Any, now: Instant) -> None:
        if timer.__class__ is _Skewed:
            if self.now() < timer.at:
                self.set_skewed_timer(port, timer.timer, timer.at)
                return
            timer = timer.timer
        self.enter(lambda now: port.machine.on_timer(timer, now))


class _Skewed:
    """A timer of a node with a clock of its own."""

    __slots__ = ("at", "timer")

    def __init__(self, timer: Any, at: Instant) -> None:
        self.timer, self.at = timer, at

    def __repr__(self) -> str:
        return repr(self.timer)
