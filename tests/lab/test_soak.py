"""What a long run is measured by."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from doyen.core.clock import seconds
from doyen_lab.proving.evidence import trouble
from doyen_lab.proving.history import Life, Record
from doyen_lab.proving.soak import count_growth, decisions, growth, soak


def agent(label: str, *sizes: tuple[float, int]) -> Life:
    made = Life(label, label)
    for at_s, rss in sizes:
        made.add(Record(kind="status", at=seconds(at_s), rss=rss))
    return made


def test_growth_is_from_the_end_of_warming_up_to_the_end() -> None:
    lives = [
        agent("flat", *((at, 50 if at < 20 else 100) for at in range(0, 101, 5))),
        agent("grows", *((at, 100 + at) for at in range(0, 101, 5))),
    ]
    found, sizes = growth(lives, 0, seconds(100))
    assert found["flat#1"] == 0
    assert found["grows#1"] == pytest.approx((100 + 92.5) / (100 + 35) - 1, abs=0.02)
    assert len(sizes) == 2


def test_who_was_killed_or_came_late_is_not_measured() -> None:
    lives = [agent("killed", (0, 1), (35, 1), (60, 1)), agent("late", (30, 1), (40, 1), (95, 9))]
    assert growth(lives, 0, seconds(100)) == ({}, [])


def counting(label: str, *counts: tuple[float, int, bool]) -> Life:
    made = Life(label, label)
    for at_s, descriptors, leads in counts:
        made.add(Record(kind="status", at=seconds(at_s), rss=1, descriptors=descriptors, leads=leads))
    return made


def test_descriptors_that_leak_are_seen_and_the_connections_of_a_leader_are_none() -> None:
    lives = [
        counting("leaks", *((at, 10 + at // 10, False) for at in range(0, 101, 5))),
        counting("led", *((at, 70 if at > 50 else 10, 50 < at < 98) for at in range(0, 100, 3)), (100, 11, False)),
        counting("leads", *((at, 10 if at < 50 else 70, at >= 50) for at in range(0, 101, 5))),
    ]
    assert count_growth(lives, "descriptors", 0, seconds(100)) == {"leaks#1": (13, 18), "led#1": (10, 11)}


def test_where_members_are_is_kept_as_it_changes() -> None:
    life = Life("n0", "n0")
    for at, moved in ((1, {"n1": "a:1", "n2": "b:1"}), (2, {}), (3, {"n2": "c:1"})):
        life.add(Record(kind="status", at=at, moved=moved))
    assert life.addresses == {"n1": "a:1", "n2": "c:1"}


def test_a_decision_without_a_reason_is_counted() -> None:
    life = agent("n0")
    life.add(Record(kind="elected", at=0, term=1, leader="n0", reason="it has the best score"))
    life.add(Record(kind="lost", at=1, term=1, leader="n0"))
    assert decisions([life]) == (2, 1)


def test_exceptions_in_logs_are_found_and_warnings_are_not(tmp_path: Path) -> None:
    (tmp_path / "n0.1.log").write_text("n0: no key: packets of group 'g' are NOT authenticated\n")
    assert trouble(tmp_path) == []
    (tmp_path / "n1.1.log").write_text("Task exception was never retrieved\nTraceback (most recent call last):\n")
    assert trouble(tmp_path) == [
        "n1.1: Task exception was never retrieved",
        "n1.1: Traceback (most recent call last):",
    ]


@pytest.mark.alone
@pytest.mark.root
@pytest.mark.soak
def test_a_large_group_lives_for_an_hour_through_losses_kills_moves_and_new_keys(tell: Callable[[str], None]) -> None:
    found = asyncio.run(soak(64, 60))
    tell(
        f"64 agents, 60 minutes: {found.faults}, {len(found.takeovers_s)} takeovers, two acted for "
        f"{found.together_s:.2f} s, RSS +{found.rss_growth_max:.1%}, descriptors +{found.descriptors_growth}, "
        f"tasks +{found.tasks_growth}"
    )
    assert found.violations == ()
