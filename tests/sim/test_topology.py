"""Every shape at every size is the graph it says, and routes over it are shortest, hop by hop."""

from collections import deque
from math import dist

import pytest

from doyen.core.clock import ms
from doyen.errors import ConfigError
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.streams import Streams
from doyen.sim.topology import Shape, Topology, TopologyConfig, build

SIZES = [1, 2, 3, 4, 5, 7, 12, 13, 16, 30, 31]
SHAPES: list[Shape] = ["complete", "ring", "bus", "star", "tree", "torus", "grid", "geometric", "clusters", "edges"]


def graph(shape: Shape, size: int, **more: float) -> Topology:
    edges = tuple((i, (i * 7 + 3) % i) for i in range(1, size)) if shape == "edges" else ()
    if shape == "edges" and not edges:
        return Topology(size, [])
    return build(TopologyConfig(shape=shape, edges=edges, **more), size, Streams(3).of("topology"))  # type: ignore[arg-type]


def hops_from(topology: Topology, root: int, without: frozenset[int] = frozenset()) -> dict[int, int]:
    found, queue = {root: 0}, deque([root])
    while queue:
        node = queue.popleft()
        for other in topology.neighbours(node) if node not in without or node == root else ():
            if other not in found:
                found[other] = found[node] + 1
                queue.append(other)
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_everybody_reaches_everybody_over_real_links_and_shortest(shape: Shape, size: int) -> None:
    topology = graph(shape, size)
    assert topology.connected()
    for a in range(size):
        hops = hops_from(topology, a)
        for b in range(size):
            path = topology.path(a, b)
            assert path is not None
            if shape == "complete":
                assert path == [(a, b)] or a == b
                continue
            assert [x for x, _ in path] == [a, *(y for _, y in path)][:-1] and (not path or path[-1][1] == b)
            assert all(y in topology.neighbours(x) for x, y in path)
            if not topology.places or shape == "grid":  # Elsewhere the shortest is so in metres.
                assert len(path) == hops[b]
    assert all(a in topology.neighbours(b) for a, b in topology.links())


@pytest.mark.parametrize(
    ("shape", "size", "links"),
    [
        ("complete", 7, 21), ("ring", 7, 7), ("ring", 2, 1), ("ring", 1, 0), ("bus", 7, 6), ("star", 7, 6),
        ("tree", 7, 6), ("torus", 16, 32), ("grid", 16, 24), ("grid", 7, 6), ("torus", 7, 7), ("grid", 12, 17),
        ("torus", 12, 24), ("torus", 4, 4), ("torus", 6, 9),
    ],
)  # fmt: skip
def test_the_number_of_links_is_that_of_the_shape(shape: Shape, size: int, links: int) -> None:
    assert len(graph(shape, size).links()) == links


def distances(topology: Topology, start: int) -> list[int]:
    paths = (topology.path(start, other) for other in range(topology.size))
    return [len(path) for path in paths if path is not None]


def test_distances_are_those_of_the_shapes() -> None:
    assert max(distances(graph("ring", 13), 0)) == 6
    assert max(distances(graph("bus", 13), 0)) == 12
    assert sorted(distances(graph("star", 5), 3)) == [0, 1, 2, 2, 2]
    assert max(distances(graph("tree", 13, arity=3), 0)) == 2
    assert max(distances(graph("torus", 16), 0)) == 4 and max(distances(graph("grid", 16), 0)) == 6


@pytest.mark.parametrize("shape", ["geometric", "clusters"])
def test_radios_carry_as_far_as_told(shape: Shape) -> None:
    topology = graph(shape, 30)
    for a in range(30):
        near = [b for b in range(30) if b != a and dist(topology.places[a], topology.places[b]) <= 4.0]
        assert topology.neighbours(a) == near


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_routes_lead_around_nodes_that_are_down_and_back_through_them_later(shape: Shape) -> None:
    topology = graph(shape, 12)
    before = {(a, b): topology.path(a, b) for a in range(12) for b in range(12)}
    for down in range(12):
        topology.set_down(down, True)
        for a in range(12):
            hops = hops_from(topology, a, frozenset({down}))
            for b in range(12):
                path = topology.path(a, b)
                assert (path is None) == (b not in hops)
                assert path is None or all(x in (a, b) or x != down for x, _ in path)
        topology.set_down(down, False)
        assert before == {(a, b): topology.path(a, b) for a in range(12) for b in range(12)}


def test_two_down_nodes_are_both_avoided_in_any_order() -> None:
    topology = graph("ring", 6)
    for first, second in ((1, 4), (4, 1)):
        topology.set_down(first, True)
        assert topology.path(0, 2) is not None or first == 1
        topology.set_down(second, True)
        assert topology.path(0, 3) is None and topology.path(2, 3) == [(2, 3)]
        topology.set_down(first, False)
        topology.set_down(second, False)


def test_distances_asked_during_a_cut_leave_routes_alone() -> None:
    topology, cut = graph("ring", 6), frozenset({(0, 1), (1, 0)})
    topology.forget_routes()
    assert len(topology.path(0, 1, cut) or ()) == 5
    assert topology.path(0, 1, cut) == [(0, 5), (5, 4), (4, 3), (3, 2), (2, 1)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_newcomer_is_reached_once_it_is_linked(shape: Shape) -> None:
    topology = graph(shape, 5)
    new = topology.grow()
    if not topology.complete:
        assert topology.path(0, new) is None
        topology.link(new, 2)
    path = topology.path(0, new)
    assert path is not None and path[-1][1] == new


@pytest.mark.parametrize("shape", SHAPES)
def test_hops_and_delays_of_messages_are_those_of_the_route(shape: Shape) -> None:
    topology = graph(shape, 12)
    net = Network(NetworkConfig(delay=Delay(mean=ms(3))), topology, Streams(1))
    for b in range(1, 12):
        hops, delays, path = net.route(0, b, 0)
        assert hops == len(path) and delays == [hops * ms(3)]
    hops, arrivals = net.tree(0, range(1, 12), 0)
    assert hops == (1 if topology.complete else 11)  # Each edge of the tree once.
    assert all(arrivals[b][0] == net.route(0, b, 0)[1] for b in range(1, 12))


def test_what_cannot_be_a_graph_is_refused() -> None:
    for make in (
        lambda: TopologyConfig(arity=0),
        lambda: TopologyConfig(reach_m=float("nan")),
        lambda: TopologyConfig(density=-1),
        lambda: TopologyConfig(cluster_count=0),
        lambda: TopologyConfig(shape="edges"),
        lambda: TopologyConfig(edges=((0, 1),)),
        lambda: Topology(3, [(0, 3)]),
        lambda: Topology(3, [(1, 1)]),
        lambda: build(TopologyConfig(shape="geometric", reach_m=0.01), 30, Streams(1).of("topology")),
    ):
        with pytest.raises(ConfigError) as caught:
            make()
        assert caught.value.field is not None
