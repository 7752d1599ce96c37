"""SimPy's queue under doyen's machines: one SimPy event per delivery, and nothing that can be left out.

No processes: an event is made as its message leaves, with a callback that is made once, and is pushed on the
environment's heap directly.  No trace, no counts of faults, no sizes.  Tried and slower: `Environment.schedule`
(a call more per event), `env.timeout` with a callback added, a list of callbacks per event, a value tuple in place of
attributes.
"""

from collections.abc import Callable
from heapq import heappush
from random import Random
from typing import Any

from simpy.core import Environment
from simpy.events import NORMAL, Event

from doyen.core.clock import NEVER, Duration, Instant
from doyen.core.host import Host, Port, Verbs
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.machine import Machine
from doyen.election.announce.machine import Announce
from doyen.sim.streams import Streams
from doyen_lab.simulators.ping import MemberSilent, Pinger
from doyen_lab.simulators.workloads import Detected, Detection, Elected, Election, names

_LATER = NORMAL + 1  # Timers: after the deliveries of their instant.


class _Arrival(Event):
    _ok = True

    def __init__(self, callbacks: tuple[Callable[["_Arrival"], None]], port: Port, sender: NodeId, message: Any):
        self.callbacks = callbacks  # type: ignore[assignment]  # A tuple will do, and is made once.
        self.port, self.sender, self.message = port, sender, message


class _Alarm(Event):
    _ok = True

    def __init__(self, callbacks: tuple[Callable[["_Alarm"], None]], port: Port, timer: Any):
        self.callbacks = callbacks  # type: ignore[assignment]  # A tuple will do, and is made once.
        self.port, self.timer = port, timer


class _World:
    """The world of all nodes, and what is watched in it."""

    def __init__(self, delay: Duration, loss: float, seed: int) -> None:
        self.env = env = Environment()
        self.ports: dict[NodeId, Port] = {}
        self.unsettled: list[Host] = []
        self.delay, self.loss, self.random = delay, loss, Random(seed).random
        self.message_count = 0
        self.on_fact: Callable[[Port, Any, Instant], None]
        unsettled = self.unsettled

        def deliver(event: _Arrival) -> None:
            now: Any = env._now  # Whole nanoseconds, as they were put in.
            hear = event.port.hear
            hear(event.sender, event.message, now)
            if unsettled:
                unsettled[-1].settle(now)

        def fire(event: _Alarm) -> None:
            now: Any = env._now  # Whole nanoseconds, as they were put in.
            fire = event.port.fire
            fire(event.timer, now)
            if unsettled:
                unsettled[-1].settle(now)

        self.on_arrival, self.on_alarm = (deliver,), (fire,)
        self.verbs = self._outlets()

    def add(self, name: NodeId, build: Callable[[Port], Machine]) -> Host:
        host = Host(name, self, self.unsettled)
        self.ports[name] = host.add("bench", build)
        return host

    def _outlets(self) -> Callable[[Port], Verbs]:
        """Return closures over what all ports share, as doyen's own simulator does (`sim/channel.py`)."""
        queue: Any
        env, ports, delay, loss, random = self.env, self.ports, self.delay, self.loss, self.random
        queue, event_ids, on_arrival, on_alarm = env._queue, env._eid, self.on_arrival, self.on_alarm

        def verbs(port: Port) -> Verbs:
            me = port.host.node

            def send(to: Any, message: Any) -> None:
                if random() >= loss:
                    event = _Arrival(on_arrival, ports[to], me, message)
                    heappush(queue, (env._now + delay, NORMAL, next(event_ids), event))

            def multicast(message: Any) -> None:
                self.message_count += 1
                at = env._now + delay
                for other in ports.values():
                    if random() >= loss and other is not port:
                        heappush(queue, (at, NORMAL, next(event_ids), _Arrival(on_arrival, other, me, message)))

            def set_timer(timer: Any, at: Instant) -> None:
                if at < NEVER:
                    heappush(queue, (at, _LATER, next(event_ids), _Alarm(on_alarm, port, timer)))

            return Verbs(send, multicast, set_timer)

        return verbs

    def persist(self, port: Port, record: Any) -> None:
        raise NotImplementedError("nothing here persists")

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        self.on_fact(port, fact, now)


def elect(work: Election, seed: int) -> Elected:
    world, streams, members = _World(work.delay, work.loss, seed), Streams(seed), names(work.nodes)
    winner, convinced, outcome = members[-1], set[NodeId](), (0, 0)
    converged = world.env.event()

    def on_fact(port: Port, fact: Any, now: Instant) -> None:
        nonlocal outcome
        if fact.__class__ is LeaderElected and fact.term.leader == winner and port.host.node not in convinced:
            convinced.add(port.host.node)
            if len(convinced) == work.nodes:
                outcome = (now - work.delay, world.message_count)
                if work.duration is None:
                    converged.succeed()

    world.on_fact = on_fact
    hosts = [
        world.add(name, lambda port, i=i: Announce(members[i], work.config, port, streams.of("election", i)))  # type: ignore[misc]
        for i, name in enumerate(members)
    ]
    for host in hosts:
        host.start(0)
    world.env.run(until=converged if work.duration is None else work.duration)
    return Elected(outcome[0] / 1e9, outcome[1])


def detect(work: Detection, seed: int) -> Detected:
    world, streams, members = _World(work.delay, work.loss, seed), Streams(seed), names(work.nodes)
    silent = 0

    def on_fact(port: Port, fact: Any, now: Instant) -> None:
        nonlocal silent
        silent += fact.__class__ is MemberSilent

    world.on_fact = on_fact
    hosts = [
        world.add(name, lambda port, i=i: Pinger(members, i, work.config, port, streams.of("ping", i)))  # type: ignore[misc]
        for i, name in enumerate(members)
    ]
    for host in hosts:
        host.start(0)
    world.env.run(until=work.duration)
    return Detected(work.nodes * work.periods, silent)
