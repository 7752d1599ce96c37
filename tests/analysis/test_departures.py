"""Closed forms of false departures, beside simulations of the machines where departures are frequent.

The bands were chosen after looking at other seeds and hours: forms are rather too high than too low.
"""

from typing import Any

import pytest

from doyen.node.config import NodeConfig
from doyen.node.layers import configure
from doyen_papers.analysis.departures import leases_lost_per_s, missed_in_a_row_per_s
from doyen_papers.analysis.measured import rate
from doyen_papers.studies.promised import FalseDepartures, Network, departures

HOUR_S = 3600.0


def group(election: str, nodes: int, table: str, **timers: str) -> NodeConfig:
    given: dict[tuple[str, ...], Any] = {("group",): "g", ("election",): election, ("preset",): "lan"}
    given[("group_size",)] = nodes
    if election == "quorum":
        given |= {("voters",): tuple(f"n{i}" for i in range(nodes)), ("volatile",): True}
    return configure(given | {(table, field): value for field, value in timers.items()}, environment={})


def on(loss: float) -> Network:
    return Network(loss, delay_s=0.02, spread_s=0.005)


def test_runs_of_lost_announcements_are_as_many_as_the_form_says() -> None:
    config = group("fast", 5, "announce")  # T_A 1.25 s, T_L 3 s: two in a row.
    counted = departures(config, "announce", 5, on(0.3), HOUR_S, seed=11)
    assert counted == pytest.approx(HOUR_S * missed_in_a_row_per_s(0.3, 5, interval_s=1.25, misses=2), rel=0.15)


def test_leases_are_lost_at_most_as_often_as_the_form_says() -> None:
    config = group("quorum", 3, "pole", lease="666ms", heartbeat_interval="222ms")
    counted = departures(config, "pole", 3, on(0.3), HOUR_S, seed=11)
    form = leases_lost_per_s(0.3, 3, lease_s=0.666, beat_s=0.222, retry_s=0.1, round_trip_s=0.04)
    assert 0.25 * HOUR_S * form <= counted <= 1.5 * HOUR_S * form


def test_members_fail_falsely_as_often_as_smaller_losses_are_said_to_bring_it() -> None:
    config = group("gossip", 3, "swim", suspicion_timeout="300ms")
    found = FalseDepartures(config, "hybrid", 3, on(0.2), lasting_s=1200)
    for loss in (0.2, 0.1):
        counted = departures(config, "hybrid", 3, on(loss), 2 * HOUR_S, seed=11)
        promised, seen = found.per_s(loss), rate(counted, 2 * HOUR_S)
        assert promised.low <= seen.high and seen.low <= promised.high
    assert found.per_s(0.0).high == 0 < found.per_s(0.001).high < found.per_s(0.1).low


def test_nothing_is_lost_where_nothing_is_lost() -> None:
    assert leases_lost_per_s(0.0, 5, lease_s=2, beat_s=0.666, retry_s=0.1, round_trip_s=0.001) == 0
    assert leases_lost_per_s(0.5, 1, lease_s=2, beat_s=0.666, retry_s=0.1, round_trip_s=0.001) == 0
