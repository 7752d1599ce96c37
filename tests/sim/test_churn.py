"""What befalls nodes: one by one, in every order, and to their clocks."""

from itertools import permutations
from random import Random
from typing import Any, ClassVar

import pytest
from msgspec import Struct

from doyen.core.clock import Instant, ms, seconds
from doyen.core.effects import Out
from doyen.core.host import Host
from doyen.core.ids import NodeId
from doyen.core.machine import Hears
from doyen.errors import ConfigError
from doyen.sim.churn import ChurnConfig, ChurnEvent, RandomChurn
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import Clock, SimNode
from doyen.sim.scenario import Result, Scenario, simulate, to_line
from doyen.sim.scenario.schema import Clocks, Group, RunConfig
from doyen.sim.streams import Streams
from doyen.sim.topology import Shape, Topology, TopologyConfig


def run(*events: ChurnEvent, quiet_s: float = 10, seed: int = 1, nodes: int = 4, **tables: Any) -> Result:
    scenario = Scenario(
        group=tables.pop("group", Group(nodes=nodes)),
        churn=ChurnConfig(events=events),
        run=RunConfig(length=seconds(20 + quiet_s), quiet=seconds(quiet_s), seed=seed),
        **tables,
    )
    result = simulate(scenario)
    assert not result.violations, f"{result.violations[0].text}\ndoyen sim replay '{to_line(scenario)}'"
    return result


def event(do: Any, at_s: float, *who: int | str, **more: Any) -> ChurnEvent:
    return ChurnEvent(do=do, at=seconds(at_s), who=who, **more)


def test_without_churn_the_greatest_name_leads() -> None:
    assert run().leaders == ["n3"]


def test_a_crashed_leader_is_replaced_and_takes_over_again_when_it_returns() -> None:
    assert run(event("crash", 5, "leader")).leaders == ["n2"]
    back = run(event("crash", 5, "leader", lasting=seconds(8)))
    assert back.leaders == ["n3"] and back.up == 4 and back.leader_changes > 2


def test_an_orderly_leave_is_faster_than_a_crash() -> None:
    left, crashed = run(event("leave", 5, "n3")), run(event("crash", 5, "n3"))
    assert left.up == crashed.up == 3
    assert left.converged_at is not None and crashed.converged_at is not None
    assert left.converged_at < 6 < crashed.converged_at


def test_newcomers_join_and_the_better_one_leads() -> None:
    result = run(event("join", 5, "a"), event("join", 6, "z"), event("join", 7))
    assert result.leaders == ["z"] and result.up == 7 and result.faults["join"] == 3


@pytest.mark.parametrize("shape", ["ring", "star", "tree", "grid", "torus", "geometric", "clusters"])
def test_newcomers_are_linked_wherever_nodes_are_linked(shape: Shape) -> None:
    result = run(event("join", 5, "z"), event("join", 7), nodes=7, topology=TopologyConfig(shape=shape))
    assert result.leaders == ["z"] and result.up == 9


def test_everybody_may_crash_and_return() -> None:
    result = run(event("crash", 5, "all"), event("restart", 9, "all"))
    assert result.faults["crash"] == 4 and result.faults["restart"] == 4 and result.leaders == ["n3"]


def test_random_befalls_one_that_it_can_and_series_repeat_until_told() -> None:
    result = run(event("crash", 2, "random", every=seconds(2), until=seconds(6)))
    assert result.faults["crash"] == 3 and result.up == 1


def test_several_at_random_are_different_ones() -> None:
    assert run(event("crash", 5, "random", "random", "random")).up == 1


def test_a_paused_leader_wakes_up_believing_and_is_outranked_by_nobody() -> None:
    result = run(event("pause", 5, "n3", lasting=seconds(6)))
    assert result.leaders == ["n3"] and result.faults["late by pause"] > 0 and result.leader_changes >= 2


def test_a_slow_node_answers_late() -> None:
    assert run(event("slow", 5, "n3", by=ms(300), lasting=seconds(5))).faults["slow step"] > 0


def test_a_partition_elects_on_both_sides_and_heals_by_rank() -> None:
    split = event("partition", 5, "n3", "n0")
    forever = run(split, quiet_s=0)
    assert forever.agreed and sorted(forever.leaders) == ["n2", "n3"]
    assert run(split).leaders == ["n3"]


def test_one_way_blocks_cuts_and_clogs_end_by_name_or_all_at_once() -> None:
    begin = [
        event("block", 3, "n3", to=("n0",), name="deaf"),
        event("cut", 3, "n1", to=("n2",), name="wire"),
        event("clog", 3, "n3", to=("n1",), name="mud"),
    ]
    end = [ChurnEvent(do="heal", at=seconds(9), name="deaf"), ChurnEvent(do="release", at=seconds(9), name="mud")]
    result = run(*begin, *end, quiet_s=0)
    assert result.faults["heal"] == result.faults["release"] == 1 and result.faults["held up"] > 0
    everything = run(*begin, ChurnEvent(do="heal", at=seconds(9)), quiet_s=0)
    assert everything.faults["heal"] == 2


def test_a_cut_where_there_is_no_link_befalls_nobody() -> None:
    bus = TopologyConfig(shape="bus")
    assert run(event("cut", 5, "n0", to=("n3",)), topology=bus).faults["cut"] == 0
    split = run(event("cut", 5, "n1", to=("n2",)), topology=bus, quiet_s=0)
    assert split.faults["cut"] == 1 and split.agreed and sorted(split.leaders) == ["n1", "n3"]


@pytest.mark.parametrize("kept", ["kept", "lost"])
def test_durable_terms_survive_a_restart_unless_the_disk_is_lost(kept: Any) -> None:
    crash = event("restart", 8, "n3", disk=kept)
    result = run(crash, group=Group(nodes=1, names=("n3",), durable_terms=True))
    assert result.records == 2 and result.leader_changes == 2
    again = run(crash, group=Group(nodes=1, names=("n3",), durable_terms=False))
    assert again.records == 0


ORDERS = [
    ("crash", {}),
    ("restart", {}),
    ("pause", {}),
    ("resume", {}),
    ("slow", {"by": ms(50)}),
    ("leave", {}),
    ("partition", {}),
    ("clock-back", {"by": seconds(2)}),
    ("clock-forward", {"by": seconds(9)}),
]


def test_deeds_befall_one_node_in_all_orders() -> None:
    """Every order of three, the last of them with every start; nothing is violated, and all agree afterwards."""
    for number, deeds in enumerate(permutations(ORDERS, 3)):
        who = ("n3", "n0")[number % 2]
        events = [event(do, 4 + i * 1.7, who, **more) for i, (do, more) in enumerate(deeds)]
        result = run(*events, seed=number, quiet_s=12)
        assert result.agreed, deeds


@pytest.mark.soak
def test_soak_deeds_in_all_orders_of_four() -> None:
    for number, deeds in enumerate(permutations(ORDERS, 4)):
        events = [event(do, 4 + i * 1.7, "n3", **more) for i, (do, more) in enumerate(deeds)]
        assert run(*events, seed=number, quiet_s=12).agreed, deeds


def test_random_churn_happens_as_often_as_told() -> None:
    rate, minutes = 30.0, 10
    names = ["crash", "pause", "slow", "partition", "block", "clog", "clock", "join"]
    random = RandomChurn(mean_lasting=ms(100), up_min=0, **{f"{name}_rate": rate for name in names if name != "join"})
    scenario = Scenario(
        churn=ChurnConfig(random=random),
        run=RunConfig(length=seconds(60 * minutes), quiet=0, checks=()),
    )
    faults = simulate(scenario).faults
    for name in names[:-1]:
        assert abs(faults[name] - rate * minutes) < 4 * (rate * minutes) ** 0.5 + 2, (name, faults[name])


def test_each_kind_of_random_churn_has_a_stream_of_its_own() -> None:
    """Adding one leaves the others where they were."""

    def crashes(**rates: float) -> int:
        random = RandomChurn(crash_rate=20, mean_lasting=ms(1), **rates)
        scenario = Scenario(churn=ChurnConfig(random=random), run=RunConfig(quiet=0, checks=()))
        return simulate(scenario).faults["crash"]

    assert crashes() == crashes(slow_rate=30) == crashes(block_rate=10, clog_rate=3)


def test_no_more_crash_than_may() -> None:
    random = RandomChurn(crash_rate=600, leave_rate=60, up_min=2, mean_lasting=seconds(60))
    scenario = Scenario(churn=ChurnConfig(random=random), run=RunConfig(quiet=0))
    assert simulate(scenario).up >= 2


@pytest.mark.parametrize(
    ("fields", "culprit"),
    [
        ({"do": "crash"}, "who"),
        ({"do": "heal", "who": ("n1",)}, "who"),
        ({"do": "slow", "who": (0,)}, "by"),
        ({"do": "crash", "who": (0,), "by": 5}, "by"),
        ({"do": "leave", "who": (0,), "lasting": 5}, "lasting"),
        ({"do": "pause", "who": (0,), "disk": "lost"}, "disk"),
        ({"do": "pause", "who": (0,), "until": 5}, "until"),
        ({"do": "pause", "who": (0,), "to": (1,)}, "to"),
        ({"do": "pause", "who": (0,), "name": "x"}, "name"),
        ({"do": "join", "who": ("x",), "every": 5}, "every"),
        ({"do": "join", "who": (3,)}, "who"),
        ({"do": "partition", "who": ("all",)}, "who"),
        ({"do": "crash", "who": (0,), "lasting": 0}, "lasting"),
    ],
)
def test_events_that_make_no_sense_name_the_field(fields: Any, culprit: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ChurnEvent(at=0, **fields)
    assert caught.value.field == culprit


# ── Clocks ──────────────────────────────────────────────────────────────────────────────────────────────────


class Due(Struct, frozen=True):
    at: Instant


class Clockwatcher:
    """Sets timers at all distances, and keeps how late each was by its own clock."""

    MESSAGES: ClassVar[Any] = None
    HEARS: ClassVar[Hears] = {}

    def __init__(self, out: Out, rng: Random) -> None:
        self._out, self._rng = out, rng
        self.late: list[int] = []
        self.nows: list[Instant] = []

    def start(self, now: Instant) -> None:
        for _ in range(5):
            self._arm(now)

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None: ...

    def on_timer(self, timer: Due, now: Instant) -> None:
        self.late.append(now - timer.at)
        self.nows.append(now)
        self._arm(now)

    def _arm(self, now: Instant) -> None:
        at = now + int(self._rng.random() ** 4 * seconds(3))
        self._out.set_timer(Due(at), at)


def watch(clock: Clock | None) -> tuple[Simulation, SimNode, Clockwatcher]:
    sim = Simulation(Network(NetworkConfig(delay=Delay()), Topology(1, None), Streams(1)), Streams(1))
    machines: list[Clockwatcher] = []

    def setup(node: SimNode, host: Host) -> None:
        def build(out: Out) -> Clockwatcher:
            machines.append(Clockwatcher(out, node.rng("clock")))
            return machines[-1]

        host.add("clock", build)

    node = sim.add(NodeId("a"), setup, clock=clock)
    sim.start(node)
    return sim, node, machines[0]


@pytest.mark.parametrize("offset", [0, seconds(1000), -seconds(1000)])
@pytest.mark.parametrize("drift", [0.0, 0.3, -0.3, 1e-6, 1e-9])
def test_timers_are_never_early_by_the_nodes_own_clock_and_hardly_late(offset: int, drift: float) -> None:
    sim, _, machine = watch(Clock(offset, drift))
    sim.run(until=seconds(60))
    assert len(machine.late) > 50 and min(machine.late) >= 0 and max(machine.late) <= 2
    assert machine.nows[-1] == pytest.approx(offset + sim.now * (1 + drift), abs=seconds(4))


def test_stepped_clocks_make_timers_late_but_never_early() -> None:
    sim, node, machine = watch(Clock(seconds(5), 1e-3))
    steps = Random(1)
    for _ in range(200):
        sim.run(until=sim.now + ms(300))
        assert node.clock is not None
        stepped = Clock(node.clock.offset + int((2 * steps.random() - 1) * seconds(2)))
        stepped.rate = node.clock.rate
        sim.set_clock(node, stepped)
    assert len(machine.late) > 50 and min(machine.late) >= 0
    assert any(a > b for a, b in zip(machine.nows, machine.nows[1:], strict=False)), "some steps went back"


def test_a_paused_node_fires_its_timers_late_and_in_order() -> None:
    sim, node, machine = watch(None)
    sim.run(until=seconds(1))
    before = len(machine.late)
    sim.pause(node)
    sim.run(until=seconds(11))
    assert len(machine.late) == before
    sim.resume(node)
    sim.run(until=seconds(11))
    assert len(machine.late) >= before + 5 and max(machine.late) > seconds(6)


def test_wrong_clocks_cost_quality_in_le_m_but_not_agreement() -> None:
    leaders = set()
    for seed in range(5):
        clocks = Clocks(offset_max=seconds(60), drift_max=0.01)
        result = run(clocks=clocks, group=Group(nodes=4, rank="wake-up"), seed=seed)
        assert result.agreed and result.faults["skewed clock"] == 4
        leaders |= set(result.leaders)
    assert len(leaders) > 1
