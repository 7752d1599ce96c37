"""`doyen sim membership`: its figures, their definitions, and that every option bites."""

import json
import time
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from doyen.core import NodeId, seconds
from doyen.errors import ConfigError
from doyen.membership.swim.config import SwimConfig
from doyen_papers.cli.sim.membership import command
from doyen_papers.studies.membership import Group, MembershipSetting, builder, simulate


def run(*flags: str) -> dict[str, object]:
    done = CliRunner().invoke(command, [*flags, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("protocol", ["swim", "medley", "heartbeat"])
@pytest.mark.parametrize("topology", ["grid", "random", "cluster", "complete"])
def test_all_figures_are_plain_numbers(protocol: str, topology: str) -> None:
    found = run(
        *("--protocol", protocol, "--topology", topology, "--nodes", "20", "--drop", "0.02"),
        *("--seconds", "120", "--warm-up", "20", "--crash", "2", "--seed", "3"),
    )
    for name in ("false_positives_per_node_hour", "messages_per_node_second", "bytes_per_node_second"):
        assert isinstance(found[name], float)
    detection, missing = found["detection"], found["missing"]
    assert isinstance(detection, dict) and isinstance(missing, dict)
    assert 0 < detection["first"] <= detection["median"] <= detection["last"] < 96
    assert 0 <= missing["mean"] <= missing["max"] and missing["p99"] <= missing["max"] <= 20
    assert found["undetected"] == 0


def test_same_seed_same_figures() -> None:
    setting = MembershipSetting(nodes=16, seconds=30, warm_up=10, drop=0.1)
    assert simulate(setting, 5) == simulate(setting, 5)
    assert simulate(setting, 5).trace_hash != simulate(setting, 6).trace_hash


def test_loss_makes_members_missing() -> None:
    calm, stormy = (
        simulate(MembershipSetting(protocol="medley", topology="random", drop=drop, seconds=40, warm_up=20, crash=0), 1)
        for drop in (0.0, 0.25)
    )
    assert calm.missing.max == 0 and calm.false_positives == 0 and calm.detection is None
    assert stormy.missing.max > 0 and stormy.false_positives_per_node_hour > 1


def test_the_handicap_changes_who_is_missing() -> None:
    given: dict[str, Any] = {"topology": "cluster", "nodes": 36, "drop": 0.25, "seconds": 40, "warm_up": 20, "crash": 0}
    fair, unfair, worse = (
        simulate(MembershipSetting(protocol="medley", **given, **more), 3)
        for more in ({}, {"handicap": True}, {"handicap": True, "handicap_form": "traffic"})
    )
    assert len({found.missing.mean for found in (fair, unfair, worse)}) == 3  # More or less: that differs by the seed.
    assert len({found.trace_hash for found in (fair, unfair, worse)}) == 3
    with pytest.raises(ConfigError, match="too much loss"):
        MembershipSetting(drop=0.3, handicap=True)


def test_missing_counts_views_and_not_suspicions() -> None:
    world = Group(5, builder(SwimConfig.lan(5)), seed=1)
    world.start()
    world.run(seconds(3))
    lone = world.sim.nodes[4]
    world.sim.partition("alone", [lone], world.sim.nodes[:4])
    assert world.run_until(lambda: world.missing_counts()[lone.name] == 4, seconds(60))
    world.crash(lone)
    assert world.missing_counts()[NodeId("n004")] == 0, "a dead member is not missing"


def test_a_thousand_swim_nodes_run_in_real_time() -> None:
    world = Group(1000, builder(replace(SwimConfig.lan(1000), period=seconds(1))), seed=1)
    world.start()
    world.run(seconds(2))
    began = time.process_time()
    world.run(seconds(6))
    took = time.process_time() - began
    print(f"\n1,000 SWIM nodes, 1 s periods: 6 s of made-up time in {took:.2f} s")
    assert took < 6


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--drop", "1.5"), "--drop"),
        (("--nodes", "0"), "--nodes"),
        (("--crash", "49"), "--crash"),
        (("--seconds", "0"), "--seconds"),
    ],
)
def test_nonsense_is_refused_by_the_flags_name(flags: tuple[str, str], complaint: str) -> None:
    done = CliRunner().invoke(command, list(flags))
    assert done.exit_code != 0
    assert complaint in str(done.exception or done.output)
