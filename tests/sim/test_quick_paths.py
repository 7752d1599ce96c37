"""What is done quickly is done alike: ports that send by themselves, timers in lanes, messages encoded together."""

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from io import StringIO
from itertools import pairwise
from random import Random
from typing import Any, ClassVar

import pytest
from msgspec import Struct

from doyen.core import Host, Instant, NodeId, ms, seconds
from doyen.core.commands import Command
from doyen.core.effects import Out
from doyen.core.machine import Hears, hears
from doyen.errors import LocalProtocolError
from doyen.sim.channel import size_max
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, LossModel, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.timers import Timers
from doyen.sim.topology import Topology
from doyen.sim.trace import Trace
from doyen_lab.simulators.ping import Ack, Ping, PingConfig, Pinger

MEMBERS = [NodeId(name) for name in ("ann", "bob", "eve", "a longer name", "übel")]


def simulation(loss: LossModel = "uncorrelated", prob: float = 0.3, **options: Any) -> Simulation:
    streams = Streams(5)
    config = NetworkConfig(delay=Delay(mean=ms(40)), loss=Loss(model=loss, prob=prob))
    return Simulation(Network(config, Topology(len(MEMBERS), None), streams), streams, **options)


def run_pingers(sim: Simulation, *, seconds_long: int = 40) -> tuple[str, object, object, object]:
    def setup(node: SimNode, host: Host) -> None:
        host.add("ping", lambda port: Pinger(MEMBERS, node.index, PingConfig(), port, node.rng("ping")))

    for name in MEMBERS:
        sim.start(sim.add(name, setup))
    sim.at(seconds(9), lambda: sim.crash(sim.nodes[1]), "bob falls")
    sim.at(seconds(17), lambda: sim.start(sim.nodes[1]), "bob is back")
    sim.run(until=seconds(seconds_long))
    return sim.trace.digest(), sim.traffic, sim.network.faults, (sim.event_count, sim.delivery_count, sim.message_count)


@pytest.mark.parametrize(
    "hinder",
    [
        lambda: watched(simulation()),
        lambda: simulation(wire=True),
        lambda: simulation(trace=Trace(StringIO())),
    ],
    ids=["send watcher", "wire", "trace lines"],
)
def test_a_run_is_the_same_whoever_looks_on(hinder: Callable[[], Simulation]) -> None:
    quick, slow = simulation(), hinder()
    assert run_pingers(quick) == run_pingers(slow)
    assert quick.network.faults["loss"] > 50 and quick.network.faults["receiver down"] > 0


def by_hops(**options: Any) -> Simulation:
    streams = Streams(5)
    delay, loss = Delay(model="uniform", mean=ms(25), spread=ms(25)), Loss(model="uncorrelated", prob=0.1)
    links = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]
    radio = Network(NetworkConfig(delay=delay, loss=loss), Topology(len(MEMBERS), links), streams)
    return Simulation(radio, streams, **options)


@pytest.mark.parametrize(
    "hinder",
    [
        lambda: watched(by_hops()),
        lambda: by_hops(wire=True),
        lambda: by_hops(trace=Trace(StringIO())),
        lambda: looked_at(by_hops()),
    ],
    ids=["send watcher", "wire", "trace lines", "checks"],
)
def test_a_run_hop_by_hop_is_the_same_whoever_looks_on(hinder: Callable[[], Simulation]) -> None:
    quick, slow = by_hops(), hinder()
    for sim in (quick, slow):  # What is under way while the network changes arrives, or not, in either.
        sim.at(seconds(20), partial(cut_off, sim), "a link is cut")
        sim.at(seconds(23), partial(sim.heal, "storm"), "it is mended")
    assert run_pingers(quick) == run_pingers(slow)
    assert quick.by_hops and quick.network.faults["loss"] > 50
    assert quick.network.faults["receiver down"] > 0


def cut_off(sim: Simulation) -> None:
    sim.cut("storm", [(sim.nodes[3], sim.nodes[4])])


def looked_at(sim: Simulation) -> Simulation:
    sim.checks.append(lambda now: None)
    return sim


def watched(sim: Simulation) -> Simulation:
    sim.send_watchers.append(lambda node, channel, message, now: None)
    return sim


def test_the_hash_does_not_hang_on_how_a_run_is_cut_into_pieces() -> None:
    whole, pieces = simulation(), simulation()
    expected = run_pingers(whole)
    run_pingers(pieces, seconds_long=3)
    for second in range(4, 41):
        pieces.run(until=seconds(second))
        _ = pieces.traffic
    assert (pieces.trace.digest(), pieces.traffic) == expected[:2]


@pytest.mark.parametrize("prob", [0.0, 0.05, 0.5, 0.97, 1.0])
def test_unicasts_are_lost_as_often_as_told_and_independently(prob: float) -> None:
    sim = simulation(prob=prob)
    inlet = sim.channel("x").inlet(sim.add(MEMBERS[0], lambda node, host: None))
    heard = [inlet.next_is_heard(inlet) for _ in range(20_000)]
    assert abs(heard.count(False) / 20_000 - prob) < 0.015
    if 0 < prob < 1:
        after_a_loss = [b for a, b in pairwise(heard) if not a]
        assert abs(after_a_loss.count(False) / len(after_a_loss) - prob) < 0.05


def test_other_odds_hold_from_the_moment_they_are_set() -> None:
    sim = simulation(prob=0.0)
    inlet = sim.channel("x").inlet(sim.add(MEMBERS[0], lambda node, host: None))
    assert inlet.next_is_heard(inlet)
    sim.network.config = NetworkConfig(loss=Loss(model="uncorrelated", prob=1.0))
    sim.network_changed()
    assert not inlet.next_is_heard(inlet)


class Big(Struct, frozen=True, array_like=True, tag=True):
    text: str


class Shouter:
    MESSAGES = Big
    HEARS: ClassVar[Hears] = {}

    def __init__(self, out: Out, size: int) -> None:
        self._out, self._size = out, size

    def start(self, now: Instant) -> None:
        self._out.send(MEMBERS[0], Big("x" * self._size))

    def on_message(self, sender: NodeId, message: Big, now: Instant) -> None: ...

    def on_timer(self, timer: object, now: Instant) -> None: ...


def shout(size: int) -> Simulation:
    """Ann whispers to herself, then Bob shouts at her."""

    def setup(node: SimNode, host: Host) -> None:
        host.add("shout", lambda port: Shouter(port, size if node.name == MEMBERS[1] else 1))

    sim = simulation(prob=0.0)
    for name in MEMBERS[:2]:
        sim.start(sim.add(name, setup))
    return sim


def test_a_message_that_does_not_fit_is_refused_as_it_leaves_and_counted_nowhere() -> None:
    with pytest.raises(LocalProtocolError, match=r"bob sends a Big of 2,0\d\d bytes; datagrams hold 1,400"):
        shout(2000)
    assert 100 < shout(100).traffic["shout"].bytes < 200


class Loose(Struct):
    number: int


@pytest.mark.parametrize("kind", [Ping, Ack])
def test_only_what_cannot_change_or_grow_waits_to_be_encoded(kind: type) -> None:
    assert size_max(kind) < 64
    assert size_max(Big) == size_max(Loose) == size_max(dict) == float("inf")


def test_lanes_give_timers_in_the_order_of_a_heap() -> None:
    rng, timers, heap = Random(3), Timers(), list[tuple[int, int]]()
    now = 0
    for sequence in range(5000):
        at = now + rng.choice([0, 7, 7, 7, 100, 100, 1000, rng.randrange(2000)])
        timers.push(at, sequence, None, None, 0, now)
        heappush(heap, (at, sequence))
        while rng.random() < 0.49 and heap:
            popped = timers.pop()
            assert popped[:2] == heappop(heap)
            now = popped[0]
    while heap:
        assert timers.pop()[:2] == heappop(heap)
    assert not timers.heap and not any(timers.lanes.values())


class Say(Command, frozen=True):
    to: NodeId
    message: int


class Listener:
    """Sends what it is told to, and keeps what it heard."""

    MESSAGES = int

    def __init__(self, out: Any) -> None:
        self.out, self.heard = out, list[int]()

    def start(self, now: int) -> None: ...

    def on_message(self, sender: NodeId, message: int, now: int) -> None:
        self.heard.append(message)

    def on_timer(self, timer: Any, now: int) -> None: ...

    def say(self, command: Say, now: int) -> None:
        self.out.send(command.to, command.message)

    HEARS: ClassVar[Hears] = hears(Say, say)


@pytest.mark.parametrize("paused", [False, True])
def test_what_comes_to_a_node_that_was_slow_does_not_overtake_what_came_before(paused: bool) -> None:
    sim = simulation(prob=0.0)
    a, b = (sim.add(name, lambda node, host: host.add("x", Listener)) for name in MEMBERS[:2])
    for node in (a, b):
        sim.start(node)
    listener = b.ports["x"].machine
    sim.slow_down(b, seconds(1))
    for message in range(20):
        sim.at(message * seconds(1) // 10, lambda m=message: sim.tell(a, Say(b.name, m), channel="x"), "say")
    sim.at(seconds(1), lambda: sim.slow_down(b, 0), "quick again")
    if paused:  # Over the time at which it would have got to what came first.
        sim.at(seconds(1) // 2, lambda: sim.pause(b), "pause")
        sim.at(seconds(3) // 2, lambda: sim.resume(b), "resume")
    sim.run(until=seconds(1) - 1)
    assert listener.heard == []
    sim.run(until=seconds(5) // 2)  # Once it is quick it catches up at once, whatever has waited.
    assert (listener.heard, b.state) == (list(range(20)), "up")


def test_hops_that_are_all_alike_are_travelled_in_one_step_and_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    def over_radio() -> Simulation:
        streams = Streams(5)
        delay = Delay(model="uniform", mean=ms(25), spread=ms(25))
        config = NetworkConfig(delay=delay, loss=Loss(model="uncorrelated", prob=0.1))
        ring = [(i, (i + 1) % len(MEMBERS)) for i in range(len(MEMBERS))]
        return Simulation(Network(config, Topology(len(MEMBERS), ring), streams), streams)

    quick = run_pingers(over_radio())
    monkeypatch.setattr(Network, "is_even", lambda network: False)
    assert run_pingers(over_radio()) == quick
    assert quick[2]["loss"] > 10  # type: ignore[index]
