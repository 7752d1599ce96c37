"""Ranks by what a node observes itself: delay, loss and neighbours.  [LE §5.1, §5.7]"""

from random import Random
from typing import Any

import pytest

from doyen.core.clock import ms, seconds
from doyen.core.effects import Emit, Multicast, Send
from doyen.core.ids import NodeId
from doyen.core.rank import RANKS, Vitals, VitalsObserved
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.announce.observed import Echo, Observer, Probe, ProbeIsDue
from doyen.errors import ConfigError
from doyen.sim.network import Delay, Loss, NetworkConfig
from doyen.sim.scenario.nodes import world_of
from doyen.sim.scenario.schema import Group, RunConfig, Scenario
from doyen.sim.world import World
from doyen.testing import RecordingOut

A, B, C = (NodeId(name) for name in "abc")


class Told(RecordingOut):
    def facts(self) -> list[Vitals]:
        return [
            one.fact.vitals for one in self.take() if isinstance(one, Emit) and isinstance(one.fact, VitalsObserved)
        ]


def probed(observer: Observer, times: int, trips: dict[NodeId, list[int | None]], begin: int = 0) -> None:
    """Send so many probes, one a second; each other answers after its next round trip, or not at all."""
    for i in range(times):
        now = seconds(begin + i)
        observer.on_timer(ProbeIsDue(), now)
        for node, took in trips.items():
            wait = took[i % len(took)]
            if wait is not None:
                observer.on_message(node, Echo(begin + i + 1), now + wait)


def test_a_probe_is_answered_and_a_round_trip_counts_half() -> None:
    out = Told()
    observer = Observer(A, seconds(1), out, Random(1))
    observer.start(0)
    out.take()
    observer.on_message(B, Probe(7, 1), 0)
    assert out.take() == [Send(B, Echo(7))]
    probed(observer, 7, {B: [ms(20)], C: [ms(60), None]})
    assert any(isinstance(one, Multicast) for one in out.effects)
    (found,) = out.facts()
    assert found.delay_sum_s == pytest.approx(0.010 + 0.030)
    assert found.loss_sum == pytest.approx(2 / 5) and found.neighbour_count == 2


def test_what_others_hear_and_this_node_does_not_counts_as_lost() -> None:
    """Else the node that hears hardly anybody would be the best."""
    out = Told()
    observer = Observer(A, seconds(1), out, Random(1))
    observer.on_message(B, Probe(1, 9), 0)
    probed(observer, 7, {B: [ms(20)]})
    (found,) = out.facts()
    assert found.loss_sum == 8.0 and found.delay_sum_s > 8.0 and found.neighbour_count == 1


def test_noise_is_not_told_and_a_change_is() -> None:
    out = Told()
    observer = Observer(A, seconds(1), out, Random(1))
    probed(observer, 60, {B: [ms(20), ms(22), ms(18), None], C: [ms(40), None]})
    assert len(out.facts()) <= 4  # By 5, 10, 20 and 40 probes, and never since.
    probed(observer, 60, {B: [ms(20)], C: [ms(400)]}, begin=60)
    found = out.facts()
    assert found and found[-1].delay_sum_s > 3 * 0.030
    assert found[-1].loss_sum < 0.2


def test_a_silent_node_is_forgotten_and_a_stray_echo_says_nothing() -> None:
    out = Told()
    observer = Observer(A, seconds(1), out, Random(1))
    probed(observer, 6, {B: [ms(1)]})
    observer.on_message(B, Echo(10**6), seconds(6))
    observer.on_message(A, Probe(1, 5), seconds(6))  # Its own word, come back.
    assert set(observer.peers) == {B} and 10**6 not in observer.peers[B].trips
    probed(observer, 60, {C: [ms(1)]}, begin=6)
    assert set(observer.peers) == {C}


def world(rank: str, observed: str, network: NetworkConfig, nodes: int = 6) -> World:
    election = AnnounceConfig(observed_rank=observed, listen_timeout=seconds(6))  # type: ignore[arg-type]
    group = Group(nodes=nodes, rank=rank, election=election)  # type: ignore[arg-type]
    return world_of(Scenario(group=group, network=network, run=RunConfig(quiet=0)), seed=3)


@pytest.mark.parametrize(
    ("by", "network"),
    [
        ("delay", NetworkConfig(delay=Delay(mean=ms(50), link_spread=ms(45)))),
        ("loss", NetworkConfig(delay=Delay(mean=ms(5)))),
        ("neighbours", NetworkConfig(delay=Delay(mean=ms(5)))),
    ],
)
def test_the_node_that_stands_out_leads_by_what_it_observes(by: str, network: NetworkConfig) -> None:
    """Of six nodes all but one have slow, lossy or cut links; by name another one would lead."""
    made = world("address", by, network)
    sim, best = made.sim, made.sim.nodes[2] if made.sim.nodes else None
    assert best is not None
    if by == "delay":
        for a in range(6):
            for b in range(6):
                sim.network.delay_of[a, b] = ms(2) if best.index in (a, b) else ms(80)
    else:
        others = [node for node in sim.nodes if node is not best]
        share = Random(1)
        if by == "neighbours":
            sim.block("apart", [(a, b) for a in others for b in others if a is not b])
        else:
            sim.filters.append(
                lambda node, channel, receiver, message: (
                    -1 if channel == "observed" and best not in (node, receiver) and share.random() < 0.4 else 0
                )
            )
    sim.network_changed()
    made.start()
    sim.run(until=seconds(60))
    assert {made.named_by(node) for node in sim.nodes} == {(best.name,)}
    assert made.standings[best.index] == made.machine(best).standing > made.standings[best.index + 1]  # type: ignore[operator]


def test_the_oracle_s_choice_is_the_observed_one() -> None:
    network = NetworkConfig(delay=Delay(mean=ms(50), link_spread=ms(45)))
    chosen = []
    for rank, observed in (("delay", "none"), ("address", "delay")):
        made = world(rank, observed, network)
        made.start()
        made.sim.run(until=seconds(60))
        (named,) = {made.named_by(node) for node in made.sim.nodes}
        chosen.append(named)
    assert chosen[0] == chosen[1]


def test_nothing_is_sent_unless_a_rank_asks_for_it() -> None:
    made = world("address", "none", NetworkConfig())
    made.start()
    made.sim.run(until=seconds(10))
    assert "observed" not in made.sim.traffic


def test_earliest_needs_no_rank() -> None:
    with pytest.raises(ConfigError, match="observed_rank"):
        AnnounceConfig(observed_rank="delay", leader_is="earliest")
    assert set(RANKS) >= {"delay", "loss", "neighbours"}


def test_losses_by_link_are_observed() -> None:
    network = NetworkConfig(delay=Delay(mean=ms(5)), loss=Loss(model="links", prob=0.2))
    made = world("address", "loss", network)
    made.start()
    made.sim.run(until=seconds(60))
    for node in made.sim.nodes:
        links = made.sim.network.link_loss
        others = [other.index for other in made.sim.nodes if other is not node]
        true = sum(1 - (1 - links(node.index, o)) * (1 - links(o, node.index)) for o in others)
        assert made.standings[node.index] == pytest.approx(-true, abs=4 * (len(others) * 0.25 / 40) ** 0.5)


@pytest.mark.parametrize(("rank", "standing"), [("none", 5), ("none", None), ("neighbours", None)])
def test_what_is_observed_ranks_only_who_may_lead_and_is_ranked_by_it(rank: Any, standing: int | None) -> None:
    out = RecordingOut()
    config = AnnounceConfig(observed_rank=rank)
    machine = Announce(A, config, out, Random(1), standing=standing)
    machine.on_vitals_observed(VitalsObserved(Vitals(neighbour_count=9)), seconds(1))
    assert machine.standing == standing and out.take() == []


def test_what_is_observed_ranks_a_candidate() -> None:
    machine = Announce(A, AnnounceConfig(observed_rank="neighbours"), RecordingOut(), Random(1), standing=5)
    machine.on_vitals_observed(VitalsObserved(Vitals(neighbour_count=9)), seconds(1))
    assert machine.standing == 9
