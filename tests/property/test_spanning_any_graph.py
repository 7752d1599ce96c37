"""Any graph, any initiator, any schedule of failures: the count of messages, and one best leader per region.  [MADM]"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen_papers.studies.graphs import leaf_count
from doyen_papers.studies.spanning import Failure, Graph, SpanningSetting, faults_of, graph, simulate
from doyen_papers.studies.spanning_counts import message_count

TIMES = st.integers(0, 160).map(lambda eighths: eighths / 8)  # Many together, and many at the instants of deliveries.
QUIETLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def connected_graphs(draw: st.DrawFn, size_max: int = 12) -> Graph:
    size = draw(st.integers(1, size_max))
    names = draw(st.permutations([str(i) for i in range(size)]))
    edges = {tuple(sorted((names[i], names[draw(st.integers(0, i - 1))]))) for i in range(1, size)}
    more = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=2 * size))
    edges |= {tuple(sorted(pair)) for pair in more if pair[0] != pair[1]}
    quality = draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, -3.0]), min_size=size, max_size=size))
    return graph([(a, b) for a, b in sorted(edges)], dict(zip(names, quality, strict=True)))


@QUIETLY
@given(connected_graphs(), st.data(), st.integers(0, 2**32), st.sampled_from(["unit", "random"]), st.booleans())
def test_one_initiator_and_no_failure_cost_what_the_formula_says(
    found: Graph, data: st.DataObject, seed: int, delay: str, fifo: bool
) -> None:
    initiator = data.draw(st.sampled_from(found.nodes))
    run = simulate(SpanningSetting(graph=found, initiators=(initiator,), delay=delay, fifo=fifo), seed)  # type: ignore[arg-type]
    assert faults_of(run, found.quality) == []
    leaves = leaf_count(found, initiator)
    assert run.messages["total"] == message_count(len(found.edges), len(found.nodes), leaves)
    assert run.messages["request"] == 0
    assert run.regions[0].leader == min(found.nodes, key=lambda node: (-found.quality[node], order(node)))


@st.composite
def failures(draw: st.DrawFn, found: Graph) -> tuple[Failure, ...]:
    chosen: list[Failure] = []
    for _ in range(draw(st.integers(0, 5))):
        at, back = draw(TIMES), draw(TIMES)
        if found.edges and draw(st.booleans()):
            link = draw(st.sampled_from(found.edges))
            chosen += [Failure("fail-link", link, at), Failure("heal-link", link, at + back)][: draw(st.integers(1, 2))]
        else:
            node: tuple[NodeId, ...] = (draw(st.sampled_from(found.nodes)),)
            chosen += [Failure("fail-node", node, at), Failure("recover", node, at + back)][: draw(st.integers(1, 2))]
    return tuple(chosen)


@QUIETLY
@given(connected_graphs(9), st.data(), st.integers(0, 2**32), st.sampled_from(["unit", "random"]), st.booleans())
def test_whatever_fails_every_region_ends_with_the_best_that_took_part(
    found: Graph, data: st.DataObject, seed: int, delay: str, durable: bool
) -> None:
    initiators = data.draw(st.lists(st.sampled_from(found.nodes), min_size=1, max_size=4, unique=True))
    setting = SpanningSetting(
        graph=found,
        initiators=tuple(initiators),
        delay=delay,  # type: ignore[arg-type]
        failures=data.draw(failures(found)),
        durable=durable,
    )
    assert faults_of(simulate(setting, seed), found.quality) == []


def test_a_link_that_fails_and_heals_at_the_instant_of_the_start_does_not_hide_the_election() -> None:
    """The peer's link came up after the notification, though at the same instant: the peer will not hear of it."""
    found = graph([("0", "1")], {NodeId("0"): 0.0, NodeId("1"): 0.0})
    link = found.edges[0]
    for initiator in found.nodes:
        fail, heal = Failure("fail-link", link, 0.0), Failure("heal-link", link, 0.0)
        setting = SpanningSetting(graph=found, initiators=(initiator,), failures=(fail, heal))
        for seed in range(5):
            assert faults_of(simulate(setting, seed), found.quality) == []
