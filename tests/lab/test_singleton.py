"""Commands under `doyen run`: what the judge objects to, and what the beater sees.  The real thing is short here."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from doyen.core.clock import ms
from doyen.lab.proving import beater
from doyen.lab.proving.history import Life, Record
from doyen.lab.proving.singleton import judge_commands, prove_singleton


def command(host: str, pid: int, first: int, last: int, term: int, parent: int = 1) -> Life:
    """One that beats every 5 ms."""
    made = Life(host, f"{pid}-77", 1, Path("nowhere"), durable=False)
    made.add(Record(kind="begin", at=ms(first), term=term, reason=str(parent)))
    for at in range(first, last + 1, 5):
        made.add(Record(kind="act", at=ms(at), term=term))
    return made


def test_one_after_the_other_is_fine_even_on_one_host_and_in_one_term() -> None:
    lives = [command("n0", 10, 0, 100, 1), command("n0", 11, 105, 200, 1), command("n1", 12, 205, 300, 2)]
    assert judge_commands(lives) == []


def test_a_second_that_begins_too_early_is_caught_by_its_beats() -> None:
    found = judge_commands([command("n0", 10, 0, 100, 1), command("n1", 11, 80, 200, 2)])
    assert found == ["two at once: n0#10 (term 1) acted 20 ms after n1#11 (term 2) had begun"]


def test_a_child_that_outlives_its_parent_is_part_of_the_command() -> None:
    lives = [
        command("n0", 10, 0, 100, 1),
        command("n0-child", 20, 0, 150, 1, parent=10),
        command("n1", 11, 120, 200, 2),
    ]
    assert judge_commands(lives) == ["two at once: n0#10 (term 1) acted 30 ms after n1#11 (term 2) had begun"]


def test_what_a_command_saw_when_it_began_counts_although_beats_do_not_overlap() -> None:
    late = command("n1", 11, 200, 300, 2)
    late.add(Record(kind="beside", at=ms(200), term=2, reason="n0.10-77.jsonl"))
    assert judge_commands([command("n0", 10, 0, 100, 1), late]) == ["n1 began while n0.10-77.jsonl lived"]


def test_one_term_on_two_hosts_is_caught() -> None:
    found = judge_commands([command("n0", 10, 0, 100, 1), command("n1", 11, 200, 300, 1)])
    assert found == ["term 1 ran on two hosts: ['n0', 'n1']"]


@pytest.mark.live
def test_the_beater_sees_another_that_lives_and_not_one_that_ended(tmp_path: Path) -> None:
    def start(host: str) -> "subprocess.Popen[bytes]":
        line = [sys.executable, "-S", "-E", beater.__file__, str(tmp_path), host]
        return subprocess.Popen(line, env=os.environ | {"DOYEN_TERM": "7"}, start_new_session=True)

    def acts(host: str) -> str:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            text = "".join(path.read_text() for path in tmp_path.glob(f"{host}.*"))
            if '"act"' in text:
                return text
            time.sleep(0.01)
        raise AssertionError(f"{host} did not begin")

    started = [start("n0")]
    try:
        assert "beside" not in acts("n0")
        started.append(start("n1"))
        assert '"reason":"n0.' in acts("n1")
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        while any(beater.identity(int(path.name.split(".")[1].partition("-")[0])) for path in tmp_path.iterdir()):
            time.sleep(0.01)
        started = [start("n2")]
        assert "beside" not in acts("n2")
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.live
@pytest.mark.root
def test_a_watchdog_that_does_not_know_the_lease_is_caught_when_its_runner_is_paused() -> None:
    mutant = [sys.executable, str(Path(__file__).with_name("mutants.py")), "sleeping_watchdog"]
    result = asyncio.run(prove_singleton(5, doyen=mutant))
    shutil.rmtree(result.histories)
    assert result.faults["runner paused"] == 1
    assert any(text.startswith("two at once") for text in result.violations), result.violations
    assert any("began while" in text for text in result.violations)


@pytest.mark.live
@pytest.mark.root
@pytest.mark.soak
def test_no_second_command_starts_before_the_first_has_stopped_over_200_kills() -> None:
    assert asyncio.run(prove_singleton(200)).violations == ()
