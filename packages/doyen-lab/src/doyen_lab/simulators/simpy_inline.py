"""The workloads in SimPy with a process per node and per message, but without the manual's stores.

A message's process calls its receiver when it arrives; suppression is an interrupt.
No longer how the manual writes it, and faster: it is shown beside the other two, not in their place.
"""

from collections.abc import Generator
from random import Random
from typing import Any

from simpy.core import Environment
from simpy.exceptions import Interrupt

from doyen.core.ids import NodeId
from doyen_lab.simulators.workloads import Detected, Detection, Elected, Election, names

Process = Generator[Any, Any, None]


class _Claimant:
    """LE-S, straight from [LE Prog. 5.2] with T_L = ∞."""

    def __init__(self, group: "_Group", name: NodeId) -> None:
        self.group, self.name = group, name
        self.leader = name
        self.process = group.env.process(self.run())

    def run(self) -> Process:
        group, env = self.group, self.group.env
        try:
            yield env.timeout(int(group.random() * group.work.config.suppress_interval))
            while True:
                self.announce()
                yield env.timeout(group.work.config.announce_interval)
        except Interrupt:
            return  # A better one was heard.

    def announce(self) -> None:
        group, env, random, loss = self.group, self.group.env, self.group.random, self.group.work.loss
        group.message_count += 1
        for other in group.members:
            if other is not self and random() >= loss:
                env.process(self.message(other))

    def message(self, to: "_Claimant") -> Process:
        yield self.group.env.timeout(self.group.work.delay)
        to.hear(self.name)

    def hear(self, claimant: NodeId) -> None:
        group = self.group
        if claimant > self.leader:
            if self.leader == self.name:
                self.process.interrupt()
            self.leader = claimant
            if claimant == group.winner:
                group.convince()


class _Group:
    def __init__(self, work: Election, seed: int) -> None:
        self.work, self.env, self.random = work, Environment(), Random(seed).random
        self.message_count = 0
        self.outcome = (0, 0)
        self.convinced = 1
        self.converged = self.env.event()
        self.members: list[_Claimant] = []
        everybody = names(work.nodes)
        self.winner = everybody[-1]
        self.members += [_Claimant(self, name) for name in everybody]

    def convince(self) -> None:
        self.convinced += 1
        if self.convinced == self.work.nodes:
            self.outcome = (int(self.env.now) - self.work.delay, self.message_count)
            if self.work.duration is None:
                self.converged.succeed()


def elect(work: Election, seed: int) -> Elected:
    group = _Group(work, seed)
    group.env.run(until=group.converged if work.duration is None else work.duration)
    return Elected(group.outcome[0] / 1e9, group.outcome[1])


class _Prober:
    """Pings one of the others per period; an ack that is late says nothing."""

    def __init__(self, watch: "_Watch", me: int) -> None:
        self.watch, self.me = watch, me
        self.probe_no, self.awaited = 0, False
        watch.env.process(self.run())

    def run(self) -> Process:
        watch, env, random = self.watch, self.watch.env, self.watch.random
        config = watch.work.config
        yield env.timeout(int(random() * config.period))
        while True:
            self.probe_no += 1
            self.awaited = True
            drawn = int(random() * (len(watch.members) - 1))
            target = watch.members[drawn if drawn < self.me else drawn + 1]
            if random() >= watch.work.loss:
                env.process(self.ping(target, self.probe_no))
            yield env.timeout(config.ack_timeout)
            watch.silent += self.awaited
            yield env.timeout(config.period - config.ack_timeout)

    def ping(self, target: "_Prober", probe_no: int) -> Process:
        watch = self.watch
        yield watch.env.timeout(watch.work.delay)
        if watch.random() >= watch.work.loss:
            watch.env.process(self.ack(probe_no))

    def ack(self, probe_no: int) -> Process:
        watch = self.watch
        yield watch.env.timeout(watch.work.delay)
        if probe_no == self.probe_no:
            self.awaited = False


class _Watch:
    def __init__(self, work: Detection, seed: int) -> None:
        self.work, self.env, self.random = work, Environment(), Random(seed).random
        self.silent = 0
        self.members: list[_Prober] = []
        self.members += [_Prober(self, i) for i in range(work.nodes)]


def detect(work: Detection, seed: int) -> Detected:
    watch = _Watch(work, seed)
    watch.env.run(until=work.duration)
    return Detected(work.nodes * work.periods, watch.silent)
