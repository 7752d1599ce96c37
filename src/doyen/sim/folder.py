"""The directory or store that all simulated nodes reach: delays, operations that hang or fail, hosts that crash.

A step of an operation takes effect some time after it was begun, and its node hears of it some time later.  What a
node began takes effect although the node crashes meanwhile, as an operation in the kernel does; who hangs, hangs before
its next step takes effect.  A store that fails for a node loses the request, or the answer.
"""

from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec

from doyen.core.clock import Duration, Instant
from doyen.core.host import Host
from doyen.core.outside import Answered, Outside
from doyen.election.directory.steps import (
    MARKER,
    Link,
    ListNames,
    Marker,
    Read,
    Remove,
    Replace,
    Step,
    packed,
    perform,
)
from doyen.election.engine.messages import Found, Record, ToStore
from doyen.sim.engine import Simulation
from doyen.sim.node import SimNode
from doyen.sim.streams import Stream

Steps = Generator[Step | ToStore, Any, Any]


class SimFolder:
    """One directory; the disk's delay is the mean time of a step."""

    def __init__(self, sim: Simulation, group: str) -> None:
        self._sim = sim
        self.record: Record | None = None  # That of an election by a store.
        self.files: dict[str, bytes] = {MARKER: packed(Marker(group))}
        self._hung: dict[int, list[Callable[[], None]]] = {}  # By node: what waits until its directory answers.
        self._hanging: Counter[int] = Counter()  # By node: how many faults are in force.
        self._failing: Counter[int] = Counter()
        self._rngs: dict[int, Stream] = {}
        self._number = 0
        self._held: dict[int, Callable[[], None]] = {}  # Claims that are held back, in the order in which they began.
        self.holds_claims: Callable[[], Duration] = lambda: 0  # For how long a claim is late, and its answer.

    # Faults.

    def disturb(self, node: SimNode, how: str) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return how a fault begins and how it ends."""
        faults = self._hanging if how == "hang" else self._failing

        def begin() -> None:
            faults[node.index] += 1

        def end() -> None:
            faults[node.index] -= 1
            self._release(node.index)

        return begin, end

    def calm(self) -> None:
        """End all faults."""
        self._hanging.clear()
        self._failing.clear()
        for index in list(self._hung):
            self._release(index)
        for number in list(self._held):
            self._let_go(number)

    def _release(self, index: int) -> None:
        if self._hanging[index] <= 0:
            for go_on in self._hung.pop(index, ()):
                go_on()

    # Operations.

    def ask(self, node: SimNode, channel: str, request: Any, outside: Outside) -> None:
        """Begin an operation of a node."""
        host = node.host
        assert host is not None
        steps = _swapped(request) if isinstance(request, ToStore) else perform(request, outside)
        self._begin(node, host, channel, request.number, steps, next(steps))

    def _begin(self, node: SimNode, host: Host, channel: str, number: int, steps: Steps, step: Step | ToStore) -> None:
        take = partial(self._take_effect, node, host, channel, number, steps, step)
        self._later(node, step, take, f"{node.name} {type(step).__name__}")

    def _later(self, node: SimNode, step: Step | ToStore, act: Callable[[], None], what: str) -> None:
        """Do it when the disk is done; a claim may be held back, but not beyond the end of all faults."""
        claims = isinstance(step, Link) or (isinstance(step, ToStore) and step.wanted is not None)
        held = self.holds_claims() if claims else 0
        if held:
            self._number += 1
            number = self._number
            self._held[number] = act
            act = partial(self._let_go, number)
        self._sim.at(self._sim.now + self._wait(node) + held, act, what)

    def _let_go(self, number: int) -> None:
        act = self._held.pop(number, None)
        if act is not None:
            act()

    def _wait(self, node: SimNode) -> int:
        mean = self._sim.disk_delay // 2
        if not mean:
            return 0
        return int(self._rng(node).expovariate(1.0) * mean)

    def _rng(self, node: SimNode) -> Stream:
        if node.index not in self._rngs:
            self._rngs[node.index] = self._sim.streams.of("folder", node.index)
        return self._rngs[node.index]

    def _take_effect(
        self, node: SimNode, host: Host, channel: str, number: int, steps: Steps, step: Step | ToStore
    ) -> None:
        if self._hanging[node.index] > 0:
            self._sim.network.faults["hung"] += 1
            again = partial(self._take_effect, node, host, channel, number, steps, step)
            self._hung.setdefault(node.index, []).append(again)
            return
        result: Any = None
        if self._failing[node.index] > 0:
            self._sim.network.faults["failed"] += 1
            result = OSError("Input/output error")
            if isinstance(step, ToStore) and self._rng(node).random() < 0.5:
                self.do(step)  # It is the answer that is lost.
        else:
            result = self.do(step)

        def hear() -> None:
            if node.host is host:
                node.enter(lambda now: self._go_on(node, host, channel, number, steps, result, now))

        self._later(node, step, hear, f"{node.name} {type(step).__name__} done")

    def _go_on(
        self, node: SimNode, host: Host, channel: str, number: int, steps: Steps, result: Any, now: Instant
    ) -> None:
        try:
            step = steps.throw(result) if isinstance(result, OSError) else steps.send(result)
        except StopIteration as ended:
            host.tell(Answered(number, found=msgspec.msgpack.encode(ended.value)), now, channel=channel)
        except OSError as error:
            host.tell(Answered(number, failed=str(error)), now, channel=channel)
        else:
            self._begin(node, host, channel, number, steps, step)

    def do(self, step: Step | ToStore) -> Any:
        """Let a step take effect."""
        match step:
            case ToStore(wanted=wanted, expected=expected):
                swapped = wanted is not None and self.record == expected
                self.record = wanted if swapped else self.record
                return Found(swapped, self.record)
            case ListNames():
                return tuple(self.files)
            case Read(name):
                return self.files.get(name)
            case Link(name, data):
                self.files.setdefault(name, data)
            case Replace(name, data):
                self.files[name] = data
            case Remove(name):
                self.files.pop(name, None)
        return None


def _swapped(request: ToStore) -> Steps:
    """Yield the one step of a request to a store."""
    found = yield request
    return found
