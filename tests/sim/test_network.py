"""Each network model does what it says: rates and means within four standard errors, and what it must never do."""

from itertools import groupby, pairwise
from math import sqrt
from typing import Any, ClassVar

import pytest
from msgspec import Struct

from doyen.core.clock import Instant, ms, seconds
from doyen.core.effects import Out
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.core.machine import Hears
from doyen.errors import ConfigError
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, LossModel, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology

SIGMAS = 4.0


def network(size: int = 2, *, links: list[tuple[int, int]] | None = None, seed: int = 1, **config: Any) -> Network:
    return Network(NetworkConfig(**config), Topology(size, links), Streams(seed))


def close(mean: float, expected: float, sigma: float, count: int) -> bool:
    return abs(mean - expected) <= SIGMAS * sigma / sqrt(count)


def rate_close(hits: int, count: int, prob: float) -> bool:
    return close(hits / count, prob, sqrt(prob * (1 - prob)), count)


# ── Loss ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("prob", [0.003, 0.1, 0.4, 0.9])
def test_uncorrelated_loss_of_multicasts_is_independent_and_as_frequent_as_told(prob: float) -> None:
    net, size, count = network(101, loss=Loss(model="uncorrelated", prob=prob)), 101, 300
    masks = [net.mask(0, 0, size, 0) for _ in range(count)]
    lost = [size - 1 - sum(mask) for mask in masks]
    assert rate_close(sum(lost), count * (size - 1), prob)
    assert net.faults["loss"] == sum(lost)
    variance = sum((n - prob * (size - 1)) ** 2 for n in lost) / count
    expected = (size - 1) * prob * (1 - prob)  # Of a binomial: receivers decide alone.
    assert close(variance, expected, expected * sqrt(2), count)


def test_the_sender_never_hears_itself() -> None:
    net = network(5, loss=Loss(model="uncorrelated", prob=0.1))
    assert all(net.mask(3, 3, 5, 0)[3] == 0 for _ in range(50))


def test_correlated_loss_is_all_or_none() -> None:
    net, count = network(20, loss=Loss(model="correlated", prob=0.3)), 2000
    heard = [sum(net.mask(0, 0, 20, 0)) for _ in range(count)]
    assert set(heard) == {0, 19}
    assert rate_close(heard.count(0), count, 0.3)
    spread = [len(net.tree(0, range(1, 20), 0)[1]) for _ in range(count)]  # The same where receivers differ.
    assert set(spread) == {0, 19}
    assert rate_close(spread.count(0), count, 0.3)


@pytest.mark.parametrize("model", ["uncorrelated", "correlated"])
def test_unicasts_are_lost_once_per_hop(model: LossModel) -> None:
    net, count = network(4, links=[(0, 1), (1, 2), (2, 3)], loss=Loss(model=model, prob=0.2)), 3000
    heard = sum(bool(net.route(0, 3, 0)[1]) for _ in range(count))
    assert rate_close(heard, count, 0.8**3)


def test_a_multicast_lost_on_a_tree_edge_is_lost_to_all_behind_it() -> None:
    net = network(4, links=[(0, 1), (1, 2), (1, 3)], loss=Loss(model="uncorrelated", prob=0.5))
    reached = [set(net.tree(0, [1, 2, 3], 0)[1]) for _ in range(500)]
    assert all(1 in one for one in reached if one)
    assert {frozenset(one) for one in reached} == {frozenset(x) for x in ((), (1,), (1, 2), (1, 3), (1, 2, 3))}


def test_links_differ_in_loss_and_keep_it() -> None:
    net, count = network(60, loss=Loss(model="links", prob=0.2)), 2000
    pairs = [(a, b) for a in range(60) for b in range(60) if a != b]
    rates = [net.link_loss(a, b) for a, b in pairs]
    assert close(sum(rates) / len(rates), 0.2, 0.4 / sqrt(12), len(rates))
    assert len(set(rates)) == len(rates) and 0 <= min(rates) and max(rates) <= 0.4
    for a, b in [(0, 1), (1, 0), (5, 9)]:
        lost = sum(not net.route(a, b, 0)[1] for _ in range(count))
        assert rate_close(lost, count, net.link_loss(a, b))
    again = network(60, loss=Loss(model="links", prob=0.2))
    assert [again.link_loss(a, b) for a, b in reversed(pairs)] == rates[::-1]  # Whoever asks first.


@pytest.mark.parametrize(("prob", "length"), [(0.1, 5.0), (0.4, 3.0), (0.2, 1.0)])
def test_bursts_have_their_share_and_their_mean_length(prob: float, length: float) -> None:
    net, count = network(loss=Loss(model="bursts", prob=prob, burst_count=length)), 20_000
    lost = [not net.route(0, 1, 0)[1] for _ in range(count)]
    bursts = [len(list(run)) for bad, run in groupby(lost) if bad]
    if length > 1:
        assert close(sum(bursts) / len(bursts), length, sqrt(length * (length - 1)), len(bursts))
    else:
        assert set(bursts) == {1} or prob > 0.1
    sigma = sqrt(prob * (1 - prob) * (2 * length))  # Losses of a burst come together.
    assert close(sum(lost) / count, prob, sigma, count)


def test_a_burst_of_certainty_never_ends() -> None:
    net = network(loss=Loss(model="bursts", prob=1.0))
    assert not any(net.route(0, 1, 0)[1] for _ in range(200))


def test_load_dependent_loss_grows_with_messages_sent_together() -> None:
    rates = []
    for together in (1, 50, 200):
        net, count, lost = network(loss=Loss(model="load", prob=0.2, capacity=100, window=ms(10))), 200, 0
        for round_no in range(count):
            now = round_no * ms(50)
            for _ in range(together):
                net.note_send(now)
            lost += 20 - sum(net.mask(0, 20, 21, now)[:20])
        expected = 1 - 0.8 ** (1 + (together - 1) / 100)
        assert rate_close(lost, count * 20, expected)
        rates.append(lost / count / 20)
    assert rates[0] < rates[1] < rates[2]


def test_without_a_model_nothing_is_lost_whatever_the_probability() -> None:
    net = network(10, loss=Loss(model="none", prob=0.9))
    assert all(sum(net.mask(0, 0, 10, 0)) == 9 for _ in range(20)) and not net.faults["loss"]


# ── Delay ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("delay", "mean", "sigma", "least"),
    [
        (Delay(model="constant", mean=ms(100)), 100, 0, 100),
        (Delay(model="uniform", mean=ms(100), spread=ms(60)), 100, 60 / sqrt(3), 40),
        (Delay(model="exponential", mean=ms(100)), 100, 100, 0),
        (Delay(model="normal", mean=ms(100), spread=ms(10)), 100, 10, 0),
        (Delay(model="pareto", mean=ms(100), spread=ms(30)), 130, 30 * sqrt(3), 100),
    ],
)
def test_delays_have_the_mean_of_their_distribution(delay: Delay, mean: float, sigma: float, least: float) -> None:
    net, count = network(delay=delay), 20_000
    drawn = [net.route(0, 1, 0)[1][0] / 1e6 for _ in range(count)]
    assert min(drawn) >= least
    if sigma:
        assert close(sum(drawn) / count, mean, sigma, count)
        assert len(set(drawn)) > count * 0.9
    else:
        assert set(drawn) == {mean}


def test_delays_add_up_over_hops() -> None:
    net = network(4, links=[(0, 1), (1, 2), (2, 3)], delay=Delay(mean=ms(7)))
    assert net.route(0, 3, 0) == (3, [ms(21)], [(0, 1), (1, 2), (2, 3)])
    hops, arrivals = net.tree(0, [1, 2, 3], 0)
    assert hops == 3 and [arrivals[i][0] for i in (1, 2, 3)] == [[ms(7)], [ms(14)], [ms(21)]]


def test_links_differ_in_delay_and_keep_it_in_both_directions() -> None:
    net = network(30, delay=Delay(mean=ms(50), link_spread=ms(40)))
    delays = {(a, b): net.route(a, b, 0)[1][0] for a in range(30) for b in range(30) if a != b}
    assert all(delays[a, b] == delays[b, a] == net.route(a, b, 0)[1][0] for a, b in delays)
    assert ms(10) <= min(delays.values()) and max(delays.values()) <= ms(90)
    assert close(sum(delays.values()) / len(delays) / 1e6, 50, 40 / sqrt(3), len(delays) // 2)


# ── Other faults ────────────────────────────────────────────────────────────────────────────────────────────


def test_duplicates_arrive_twice_and_as_often_as_told() -> None:
    net, count = network(duplicate_prob=0.25), 4000
    arrivals = [net.route(0, 1, 0)[1] for _ in range(count)]
    twice = [delays for delays in arrivals if len(delays) == 2]
    assert rate_close(len(twice), count, 0.25) and net.faults["duplicate"] == len(twice)
    assert all(first < second for first, second in twice)


def test_corrupted_messages_do_not_arrive_and_are_counted() -> None:
    net, count = network(corrupt_prob=0.15), 4000
    missing = sum(not net.route(0, 1, 0)[1] for _ in range(count))
    assert rate_close(missing, count, 0.15) and net.faults["corrupt"] == missing


def arrivals_in_order_of_sending(net: Network, count: int = 2000) -> list[Instant]:
    return [now + delay for i in range(count) for now in [i * ms(10)] for delay in net.route(0, 1, now)[1]]


def test_reordered_messages_are_overtaken_and_held_back_no_longer_than_told() -> None:
    net = network(delay=Delay(mean=ms(5)), reorder_prob=0.2, reorder_by=ms(100))
    arrivals = arrivals_in_order_of_sending(net)
    late = [at - i * ms(10) - ms(5) for i, at in enumerate(arrivals)]
    assert rate_close(sum(held > 0 for held in late), len(late), 0.2)
    assert max(late) <= ms(100) + 1 and any(a > b for a, b in pairwise(arrivals))


@pytest.mark.parametrize("duplicates", [0.0, 0.3])
def test_fifo_lets_nothing_overtake(duplicates: float) -> None:
    delay = Delay(model="exponential", mean=ms(50))
    loose = arrivals_in_order_of_sending(network(delay=delay, duplicate_prob=duplicates))
    assert any(a > b for a, b in pairwise(loose))
    net = network(delay=delay, fifo=True, duplicate_prob=duplicates)
    kept = arrivals_in_order_of_sending(net)
    assert all(a <= b for a, b in pairwise(kept)) and net.faults["held in order"] > 100


def test_a_fault_that_never_fires_changes_nothing() -> None:
    """Streams are per purpose: turning duplication on leaves losses and delays where they were."""
    delay, loss = Delay(model="exponential", mean=ms(5)), Loss(model="uncorrelated", prob=0.3)
    plain = [network(delay=delay, loss=loss).route(0, 1, 0)[1][:1] for _ in range(1)]
    nets = network(delay=delay, loss=loss), network(delay=delay, loss=loss, duplicate_prob=0.5, corrupt_prob=1e-12)
    both = [[net.route(0, 1, 0)[1][:1] for _ in range(300)] for net in nets]
    assert both[0] == both[1] and both[0][:1] == plain


@pytest.mark.parametrize(
    "build",
    [
        lambda: Delay(mean=-1),
        lambda: Delay(model="uniform", mean=ms(1), spread=ms(2)),
        lambda: Delay(mean=ms(1), link_spread=ms(2)),
        lambda: Loss(prob=1.5),
        lambda: Loss(prob=float("nan")),
        lambda: Loss(model="links", prob=0.6),
        lambda: Loss(capacity=0),
        lambda: Loss(capacity=float("nan")),
        lambda: Loss(burst_count=0.5),
        lambda: Loss(model="bursts", prob=0.9, burst_count=2),
        lambda: NetworkConfig(duplicate_prob=2),
        lambda: NetworkConfig(fifo=True, reorder_prob=0.1),
    ],
)
def test_what_cannot_be_is_refused_with_the_field_to_blame(build: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        build()
    assert caught.value.field is not None


# ── In a run: partitions, cuts, clogs ───────────────────────────────────────────────────────────────────────


class Said(Struct, frozen=True, array_like=True, tag="S"):
    number: int


class Tick(Struct, frozen=True): ...


class Talker:
    """Multicasts a number every 10 ms, and keeps what it hears."""

    MESSAGES: ClassVar[Any] = Said
    HEARS: ClassVar[Hears] = {}

    def __init__(self, out: Out) -> None:
        self._out, self.number = out, 0
        self.heard: list[tuple[NodeId, int]] = []

    def start(self, now: Instant) -> None:
        self._out.set_timer(Tick(), now + ms(10))

    def on_message(self, sender: NodeId, message: Said, now: Instant) -> None:
        self.heard.append((sender, message.number))

    def on_timer(self, timer: Tick, now: Instant) -> None:
        self.number += 1
        self._out.multicast(Said(self.number))
        self._out.set_timer(Tick(), now + ms(10))


class Room:
    def __init__(self, size: int, links: list[tuple[int, int]] | None = None, **config: Any) -> None:
        config.setdefault("delay", Delay(mean=ms(2)))
        self.sim = Simulation(network(size, links=links, **config), Streams(1))
        self.nodes = [self.sim.add(NodeId(f"n{i}"), self._setup) for i in range(size)]
        for node in self.nodes:
            self.sim.start(node)

    @staticmethod
    def _setup(node: SimNode, host: Host) -> None:
        host.add("talk", Talker)

    def heard_by(self, index: int) -> list[tuple[NodeId, int]]:
        host = self.nodes[index].host
        assert host is not None
        machine = host.ports["talk"].machine
        assert isinstance(machine, Talker)
        heard, machine.heard = machine.heard, []
        return heard

    def run(self, span_ms: int) -> list[set[NodeId]]:
        """Whom each heard meanwhile."""
        self.sim.run(until=self.sim.now + ms(span_ms))
        return [{sender for sender, _ in self.heard_by(i)} for i in range(len(self.nodes))]


@pytest.fixture(params=["plain", "per receiver"])
def room(request: pytest.FixtureRequest) -> Room:
    """Four nodes, with a multicast as one event, and as one per receiver."""
    return Room(4, **({} if request.param == "plain" else {"reorder_prob": 1e-12}))


def test_a_symmetric_partition_stops_both_directions_and_heals(room: Room) -> None:
    room.run(50)
    a, b, c, d = room.nodes
    room.sim.partition("p", [a, b], [c, d])
    assert room.run(50) == [{"n1"}, {"n0"}, {"n3"}, {"n2"}]
    assert room.sim.network.faults["cut"] > 0
    room.sim.heal("p")
    assert all(len(heard) == 3 for heard in room.run(50))


def test_a_one_way_block_stops_one_direction_only(room: Room) -> None:
    a, b, *_ = room.nodes
    room.sim.block("deaf", [(a, b)])
    heard = room.run(50)
    assert heard[1] == {"n2", "n3"} and "n1" in heard[0]
    room.sim.heal("deaf")
    assert "n0" in room.run(50)[1]


def test_partitions_overlap_and_heal_one_by_one(room: Room) -> None:
    a, b, c, d = room.nodes
    room.sim.partition("first", [a], [b, c, d])
    room.sim.partition("second", [a, b], [c, d])
    assert room.run(50) == [set(), set(), {"n3"}, {"n2"}]
    room.sim.heal("first")
    assert room.run(50)[0] == {"n1"}


def test_what_is_on_its_way_when_a_link_is_cut_is_lost(room: Room) -> None:
    room.sim.run(until=ms(11))  # Sent at 10 ms, due at 12.
    a, b, *_ = room.nodes
    room.sim.cut("c", [(a, b)])
    room.sim.run(until=ms(13))
    assert [sender for sender, _ in room.heard_by(1)] == ["n2", "n3"]
    assert room.sim.network.faults["cut in flight"] == 2  # There and back.


def test_a_clog_holds_messages_and_release_lets_them_go(room: Room) -> None:
    a, b, *_ = room.nodes
    room.sim.clog("mud", [(a, b)])
    assert "n0" not in room.run(50)[1]
    held = room.sim.network.faults["clog"]
    assert held == 5
    room.sim.release("mud")
    room.sim.run(until=room.sim.now + ms(5))
    assert [number for sender, number in room.heard_by(1) if sender == "n0"] == [1, 2, 3, 4, 5]


def test_a_cut_link_is_routed_around_and_a_bridge_cannot_be() -> None:
    room = Room(4, [(0, 1), (1, 2), (2, 0), (2, 3)])
    room.sim.cut("side", [(room.nodes[0], room.nodes[1])])
    assert all(len(heard) == 3 for heard in room.run(50))
    room.sim.cut("bridge", [(room.nodes[2], room.nodes[3])])
    assert room.run(50) == [{"n1", "n2"}, {"n0", "n2"}, {"n0", "n1"}, set()]
    assert room.sim.network.faults["no route"] > 0


def test_a_multicast_in_a_complete_graph_is_one_transmission_whatever_else_is_configured(room: Room) -> None:
    room.run(100)
    traffic = room.sim.traffic["talk"]
    assert traffic.hops == traffic.messages and traffic.hop_bytes == traffic.bytes


def test_messages_weigh_what_the_codec_makes_of_them() -> None:
    from doyen.core.codec import Codec

    room = Room(2)
    room.sim.run(until=seconds(0.0105))
    size = len(Codec("sim").encode(NodeId("n0"), room.nodes[0].incarnation, "talk", Said(1)))
    assert room.sim.traffic["talk"].messages == 2 and room.sim.traffic["talk"].bytes == 2 * size
