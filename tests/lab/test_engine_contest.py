"""`doyen bench engines`: what could not be measured is a row that says why, and loses nothing else."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from doyen.errors import TransportError
from doyen_lab.cli.bench.engines import command
from doyen_lab.contest import engines
from doyen_lab.contest.engines import Figures

WHY = "nobody led within 90 s; ant has ended: KazooTimeoutError: Connection time-out"


def measured(kind: str, how: str, *_: object) -> Figures:
    if how == "kazoo Election":
        raise TransportError(WHY)
    ours = how == "ours"
    return Figures(kind, how, [0.1 if ours else 9.0], [3.0 if ours else 9.0], 1.0, 0)


def test_a_recipe_that_fails_is_told_and_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "measure", measured)
    monkeypatch.setattr(engines, "missing", lambda kind: "")
    ended = CliRunner().invoke(command, ["--store", "zookeeper", "--store", "redis"])
    assert ended.exit_code == 1, "one is not measured"
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert [line[:3] for line in lines if line[0] in ("zookeeper", "redis")] == [
        ["zookeeper", "ours", "0.10"],
        ["zookeeper", "no-will", "9.00"],
        ["redis", "ours", "0.10"],
        ["redis", "no-will", "9.00"],
        ["redis", "redis-lock", "9.00"],
        ["zookeeper", "kazoo", "Election"],
        ["redis", "90.0", "times"],
    ]
    assert f"kazoo Election  failed: {WHY}" in ended.stdout
    assert CliRunner().invoke(command, ["--store", "redis"]).exit_code == 0


def test_members_that_ended_are_named_where_nobody_leads(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    group = engines.Group("redis-lock", "redis://127.0.0.1:1/0?db=x", str(tmp_path))
    try:
        with pytest.raises(TransportError, match=r"^nobody leads; ant has ended: ValueError: .*; bee has"):
            group.leader()
    finally:
        group.end()


def test_a_member_that_says_late_that_it_takes_part_acts_on(tmp_path: Path) -> None:
    member = engines.Member("ant", ["true"], {}, tmp_path / "log")
    for event in ("acts", "candidate"):
        member.hear(f'{{"event": "{event}", "clock": 3000000000}}')
    assert member.acting and member.waits and member.acts == [3.0]
    member.hear('{"event": "stops", "clock": 4000000000}')
    assert not member.acting and member.acts == [3.0]
    member.end()
