"""The workloads in SimPy as its manual writes them: a process per node and per message, and a store for each inbox.

[SimPy manual, "Event latency" and "Process communication"] A message is a process that waits for its delay and puts
what it carries into the receiver's `Store`; a node is a process that takes from it.  Within that style everything is
as lean as we could make it: a node that acts by the clock and listens as well has a process for each, which is twice as
fast as one that waits for `inbox.get() | timeout`; suppression interrupts the process that announces; one that pings
looks for the ack when it wakes.  No trace, no counts of faults, no sizes.
"""

from collections.abc import Generator
from random import Random
from typing import Any

from simpy.core import Environment
from simpy.exceptions import Interrupt
from simpy.resources.store import Store

from doyen.core.ids import NodeId
from doyen_lab.simulators.workloads import Detected, Detection, Elected, Election, names

Process = Generator[Any, Any, None]


class Claimant:
    """One process of LE-S, straight from [LE Prog. 5.2] with T_L = ∞."""

    def __init__(self, group: "Group", name: NodeId) -> None:
        self.group, self.name = group, name
        self.leader = name
        self.inbox = Store(group.env)
        self.talking = group.env.process(self.talk())
        group.env.process(self.listen())

    def talk(self) -> Process:
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

    def message(self, to: Any) -> Process:
        yield self.group.env.timeout(self.group.work.delay)
        to.inbox.put(self.name)

    def listen(self) -> Process:
        group, take = self.group, self.inbox.get
        while True:
            claimant = yield take()
            if claimant > self.leader:
                if self.leader == self.name:
                    self.talking.interrupt()
                self.leader = claimant
                if claimant == group.winner:
                    group.convince()


class Group:
    def __init__(self, work: Election, seed: int, member: type[Claimant] = Claimant) -> None:
        self.work, self.env, self.random = work, Environment(), Random(seed).random
        self.message_count = 0
        self.outcome = (0, 0)
        self.convinced = 1
        self.converged = self.env.event()
        self.members: list[Any] = []
        everybody = names(work.nodes)
        self.winner = everybody[-1]
        self.members += [member(self, name) for name in everybody]

    def convince(self) -> None:
        self.convinced += 1
        if self.convinced == self.work.nodes:
            self.outcome = (int(self.env.now) - self.work.delay, self.message_count)
            if self.work.duration is None:
                self.converged.succeed()


def elect(work: Election, seed: int, member: type[Claimant] = Claimant) -> Elected:
    group = Group(work, seed, member)
    group.env.run(until=group.converged if work.duration is None else work.duration)
    return Elected(group.outcome[0] / 1e9, group.outcome[1])


class Prober:
    """A process that pings one of the others per period; an ack that is late says nothing."""

    def __init__(self, watch: "Watch", me: int) -> None:
        self.watch, self.me = watch, me
        self.probe_no, self.awaited = 0, False
        self.inbox = Store(watch.env)
        watch.env.process(self.probe())
        watch.env.process(self.listen())

    def probe(self) -> Process:
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

    def ping(self, target: Any, probe_no: int) -> Process:
        return self.message(target.inbox, ("ping", self, probe_no))

    def message(self, inbox: Store, content: tuple[str, "Prober", int]) -> Process:
        yield self.watch.env.timeout(self.watch.work.delay)
        inbox.put(content)

    def listen(self) -> Process:
        watch, take = self.watch, self.inbox.get
        while True:
            what, sender, probe_no = yield take()
            if what == "ping":
                if watch.random() >= watch.work.loss:
                    watch.env.process(self.message(sender.inbox, ("ack", self, probe_no)))
            elif probe_no == self.probe_no:
                self.awaited = False


class Watch:
    def __init__(self, work: Detection, seed: int, member: type[Prober] = Prober) -> None:
        self.work, self.env, self.random = work, Environment(), Random(seed).random
        self.silent = 0
        self.members: list[Any] = []
        self.members += [member(self, i) for i in range(work.nodes)]


def detect(work: Detection, seed: int, member: type[Prober] = Prober) -> Detected:
    watch = Watch(work, seed, member)
    watch.env.run(until=work.duration)
    return Detected(work.nodes * work.periods, watch.silent)
