"""Commands under `doyen run`: what the judge objects to, and what the beater sees.  The real thing is short here."""

import asyncio
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from doyen.core.clock import ms
from doyen_lab.proving import beater
from doyen_lab.proving.history import Record
from doyen_lab.proving.singleton import HOSTS, LEASE, Beats, judge_commands, nothing_ran, prove_singleton


def command(host: str, pid: int, first: int, last: int, term: int, of: int | None = None) -> Beats:
    """One that beats every 5 ms, or another process of it."""
    made = Beats(Path(f"{host}.{pid}-77.{of or pid}-77.jsonl"))
    made.add(Record(kind="begin", at=ms(first), term=term, reason="1"))
    for at in range(first, last + 1, 5):
        made.add(Record(kind="act", at=ms(at), term=term))
    return made


def test_one_after_the_other_is_fine_even_on_one_host_and_in_one_term() -> None:
    lives = [command("n0", 10, 0, 100, 1), command("n0", 11, 105, 200, 1), command("n1", 12, 205, 300, 2)]
    assert judge_commands(lives) == []


def test_a_second_that_begins_too_early_is_caught_by_its_beats() -> None:
    found = judge_commands([command("n0", 10, 0, 100, 1), command("n1", 11, 80, 200, 2)])
    assert found == ["two at once: n0#10 (term 1) acted 20 ms after n1#11 (term 2) had begun"]


@pytest.mark.parametrize("role", ["child", "stray"])
def test_what_outlives_the_command_is_part_of_it(role: str) -> None:
    lives = [
        command("n0", 10, 0, 100, 1),
        command(f"n0-{role}", 20, 0, 150, 1, of=10),
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


def test_a_half_written_line_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "n0.10-77.10-77.jsonl"
    reader = Beats(path)
    path.write_bytes(b'{"kind":"act","at":1,"term":1}\n{"kind":"ac')
    reader.read()
    assert len(reader.records) == 1
    with open(path, "ab") as file:
        file.write(b't","at":2,"term":1}\n')
    reader.read()
    assert [record.at for record in reader.records] == [1, 2]


@pytest.mark.alone
def test_the_beater_sees_another_that_lives_and_not_one_that_ended(tmp_path: Path) -> None:
    def start(host: str) -> "subprocess.Popen[bytes]":
        line = [sys.executable, "-S", "-E", beater.__file__, str(tmp_path), host]
        return subprocess.Popen(line, env=os.environ | {"DOYEN_TERM": "7"}, start_new_session=True)

    def acts(host: str) -> str:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            texts = [path.read_text() for path in tmp_path.glob(f"{host}*")]
            if len(texts) == 3 and all('"act"' in text for text in texts):  # Itself, its child, its stray.
                return "".join(texts)
            time.sleep(0.01)
        raise AssertionError(f"{host} did not begin")

    def end_beaters() -> None:
        for path in tmp_path.iterdir():
            pid = int(path.name.split(".")[1].partition("-")[0])
            if beater.identity(pid):
                os.kill(pid, signal.SIGKILL)

    started = [start("n0")]
    try:
        assert "beside" not in acts("n0")
        started.append(start("n1"))
        assert '"reason":"n0.' in acts("n1")
        for process in started:
            process.kill()
            process.wait()
        end_beaters()
        while any(beater.identity(int(path.name.split(".")[1].partition("-")[0])) for path in tmp_path.iterdir()):
            time.sleep(0.01)
        started = [start("n2")]
        assert "beside" not in acts("n2")
    finally:
        end_beaters()
        for process in started:
            process.wait()


def test_where_nothing_ran_the_complaint_says_how_slow_the_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: time.sleep(0.05))
    text, _, took = nothing_ran(16, "n3: guard and shadow killed", tmp_path).partition(" (a record is written here in ")
    assert text == "no command ran 16 s after n3: guard and shadow killed"
    assert float(took.removesuffix(" s)")) >= 0.1  # The file, and its directory.


MUTANTS = Path(__file__).with_name("mutants.py")
CAUGHT_BY = {  # The fault that brings it to light.
    "sleeping_watchdog": "runner paused",
    "forgets_its_reign": "runner killed",
    "tells_before_it_stops": "runner stopped",
    "without_the_kernels_word": "guard killed",
    "follows_the_group_only": "runner killed",
}


def assert_caught(mutant: str, kills: int, *, hosts: int = HOSTS, lease: str = LEASE) -> None:
    doyen = [sys.executable, str(MUTANTS), mutant]
    result = asyncio.run(prove_singleton(kills, doyen=doyen, only=(CAUGHT_BY[mutant],), hosts=hosts, lease=lease))
    assert result.faults[CAUGHT_BY[mutant]] and not result.holds
    shutil.rmtree(result.histories)
    assert any(text.startswith("two at once") for text in result.violations), result.violations
    assert any("began while" in text for text in result.violations)


@pytest.mark.alone
@pytest.mark.root
def test_a_watchdog_that_does_not_know_the_lease_is_caught_when_its_runner_is_paused() -> None:
    assert_caught("sleeping_watchdog", kills=1)


@pytest.mark.alone
@pytest.mark.root
@pytest.mark.soak
@pytest.mark.parametrize("mutant", runpy.run_path(str(MUTANTS))["RUNNERS"])
def test_every_broken_runner_is_caught(mutant: str) -> None:
    hosts = 1 if mutant == "forgets_its_reign" else HOSTS  # Of several another may come first.
    assert_caught(mutant, kills=2, hosts=hosts, lease="4s")  # A busy machine takes a while to start a runner again.


@pytest.mark.alone
@pytest.mark.root
@pytest.mark.soak
def test_no_second_command_starts_before_the_first_has_stopped_over_200_kills() -> None:
    assert asyncio.run(prove_singleton(200)).violations == ()
