"""The workloads in SimPy with a process per node and per message, but without the manual's stores.

A message's process calls its receiver when it arrives; suppression is an interrupt.
No longer how the manual writes it, and faster: it is shown beside the other two, not in their place.
"""

from typing import Any

from doyen.core.ids import NodeId
from doyen_lab.simulators import simpy_manual
from doyen_lab.simulators.simpy_manual import Process
from doyen_lab.simulators.workloads import Detected, Detection, Elected, Election


class Claimant(simpy_manual.Claimant):
    def __init__(self, group: simpy_manual.Group, name: NodeId) -> None:
        self.group, self.name = group, name
        self.leader = name
        self.talking = group.env.process(self.talk())

    def message(self, to: Any) -> Process:
        yield self.group.env.timeout(self.group.work.delay)
        to.hear(self.name)

    def hear(self, claimant: NodeId) -> None:
        group = self.group
        if claimant > self.leader:
            if self.leader == self.name:
                self.talking.interrupt()
            self.leader = claimant
            if claimant == group.winner:
                group.convince()


class Prober(simpy_manual.Prober):
    def __init__(self, watch: simpy_manual.Watch, me: int) -> None:
        self.watch, self.me = watch, me
        self.probe_no, self.awaited = 0, False
        watch.env.process(self.probe())

    def ping(self, target: Any, probe_no: int) -> Process:
        watch = self.watch
        yield watch.env.timeout(watch.work.delay)
        if watch.random() >= watch.work.loss:
            watch.env.process(self.ack(probe_no))

    def ack(self, probe_no: int) -> Process:
        watch = self.watch
        yield watch.env.timeout(watch.work.delay)
        if probe_no == self.probe_no:
            self.awaited = False


def elect(work: Election, seed: int) -> Elected:
    return simpy_manual.elect(work, seed, Claimant)


def detect(work: Detection, seed: int) -> Detected:
    return simpy_manual.detect(work, seed, Prober)
