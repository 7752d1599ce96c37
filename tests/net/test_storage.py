"""The state directory: identity and promises over crashes; damage is refused; a full disk silences the node."""

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doyen.cli import main
from doyen.errors import TransportError
from doyen.net.storage import Storage, look_at, next_name, write_time_s


def promise(storage: Storage, number: int, channel: str = "election") -> None:
    storage.save(channel, storage.encode(channel, number))


def life(directory: Path, least: int = 0) -> Storage:
    storage = Storage(directory)
    storage.began = storage.begin_incarnation(least)  # type: ignore[attr-defined]
    return storage


def test_incarnations_grow_from_life_to_life_whatever_the_wall_clock_says(tmp_path: Path) -> None:
    began = []
    for clock in (1000, 2000, 500, 500, 3000):
        storage = life(tmp_path / "ant", clock)
        began.append(storage.began)  # type: ignore[attr-defined]
        storage.close()
    assert began == [1000, 2000, 2001, 2002, 3000]


def test_what_was_promised_is_there_in_the_next_life(tmp_path: Path) -> None:
    storage = life(tmp_path / "ant")
    promise(storage, 7)
    promise(storage, 8, "election/mail")
    storage.close()
    again = life(tmp_path / "ant")
    assert (again.load("election", int), again.load("election/mail", int), again.load("other", int)) == (7, 8, None)


def test_two_processes_do_not_share_a_directory(tmp_path: Path) -> None:
    first = life(tmp_path / "ant")
    with pytest.raises(TransportError, match="another process runs as ant"):
        life(tmp_path / "ant")
    (tmp_path / "ant" / "lock").unlink()  # Whoever removes it has removed no process.
    with pytest.raises(TransportError, match="another process runs as ant"):
        life(tmp_path / "ant")
    first.close()
    life(tmp_path / "ant")


def test_a_process_whose_directory_was_replaced_promises_nothing_in_the_new_one(tmp_path: Path) -> None:
    first = life(tmp_path / "ant")
    (tmp_path / "ant").rename(tmp_path / "aside")
    second = life(tmp_path / "ant")
    with pytest.raises(TransportError, match="was replaced while a process used it"):
        promise(first, 7)
    promise(second, 8)


def test_a_running_process_says_which_of_its_files_are_lost(tmp_path: Path) -> None:
    storage = life(tmp_path / "ant")
    promise(storage, 7)
    assert storage.lost() == ""
    (tmp_path / "ant" / "election.state").unlink()
    assert storage.lost().endswith("ant lacks election.state")
    (tmp_path / "ant").rename(tmp_path / "aside")
    assert "is gone while it runs" in storage.lost()
    (tmp_path / "ant").mkdir()
    assert "was replaced while it runs" in storage.lost()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """How long the next flushes take, by a clock that stands still otherwise."""
    now, takes = [0.0], list[float]()

    def flush(file: int) -> None:
        now[0] += takes.pop(0) if takes else 0.0

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        patch.setattr(time, "monotonic", lambda: now[0])
        yield takes


@pytest.mark.parametrize("slowest", [0, 1, 2])
def test_of_three_writes_that_try_a_disk_the_slowest_counts(tmp_path: Path, disk: list[float], slowest: int) -> None:
    took = [0.25, 0.25, 0.25]
    took[slowest] = 2.0
    disk += [part for write in took for part in (write / 2, write / 2)]  # Of the file, and of its directory.
    assert write_time_s(tmp_path) == 2.0 and not disk
    assert list(tmp_path.iterdir()) == []


def test_of_a_nodes_last_writes_the_slowest_counts(tmp_path: Path, disk: list[float]) -> None:
    storage = life(tmp_path / "n1")
    promise(storage, 1)
    for number, took in enumerate((0.25, 2.0, 0.5), 2):
        disk += [took / 2, took / 2]
        promise(storage, number)
    assert storage.slowest_write_s == 2.0
    storage.close()


@pytest.mark.parametrize("promised", [False, True])
def test_a_missing_identity_is_a_lost_one(tmp_path: Path, promised: bool) -> None:
    storage = life(tmp_path / "ant")
    if promised:
        promise(storage, 7)
    storage.close()
    (tmp_path / "ant" / "identity.state").unlink()
    for _ in range(2):
        with pytest.raises(TransportError, match=r"identity\.state is missing\. This node must not vote as ant again"):
            life(tmp_path / "ant")


def test_a_process_that_ended_before_it_had_an_identity_has_lost_none(tmp_path: Path) -> None:
    (tmp_path / "ant").mkdir()
    (tmp_path / "ant" / "lock").touch()
    assert life(tmp_path / "ant", 5).began == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", ["election.state", "identity.state"])
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_detected_and_refused_with_advice(tmp_path: Path, file: str, data: st.DataObject) -> None:
    directory = Path(tempfile.mkdtemp(dir=tmp_path)) / "ant"
    storage = life(directory)
    promise(storage, 7)
    storage.close()
    whole = (directory / file).read_bytes()
    if data.draw(st.booleans()):
        bent = bytearray(whole)
        bent[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        (directory / file).write_bytes(bytes(bent))
    else:
        (directory / file).write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(TransportError) as refused:
        life(directory).load("election", int)  # Either of the two.
    said = str(refused.value)
    assert "damaged (checksum)" in said and "must not vote as ant again" in said
    assert f"doyen state reset --new-identity {directory}" in said


def test_a_promise_that_vanished_is_missed(tmp_path: Path) -> None:
    storage = life(tmp_path / "ant")
    promise(storage, 7)
    storage.close()
    (tmp_path / "ant" / "election.state").unlink()
    with pytest.raises(TransportError, match=r"promise file election.state is missing. This node must not vote as ant"):
        life(tmp_path / "ant")


def test_a_later_version_is_refused_and_not_called_damage(tmp_path: Path) -> None:
    storage = life(tmp_path / "ant")
    body = msgspec.msgpack.encode((3, {"from": "the future"}))
    storage.save("election", zlib.crc32(body).to_bytes(4, "big") + body)
    with pytest.raises(TransportError, match="has version 3; this doyen reads 2"):
        storage.load("election", int)
    promise(storage, "seven")  # type: ignore[arg-type]
    with pytest.raises(TransportError, match="not what this version wrote"):
        storage.load("election", int)


def test_another_nodes_file_is_refused_and_so_is_that_of_another_election(tmp_path: Path) -> None:
    """A backup that was put back on the wrong host: each file is whole, and promises what this node never did."""
    for name in ("ant", "bee"):
        storage = life(tmp_path / name)
        promise(storage, 7)
        promise(storage, 9, "election/mail")
        storage.close()
    ant, bee = tmp_path / "ant", tmp_path / "bee"
    own = (ant / "election.state").read_bytes()
    for foreign in (bee / "election.state", ant / "election%2fmail.state"):
        (ant / "election.state").write_bytes(foreign.read_bytes())
        storage = life(ant)
        with pytest.raises(TransportError, match=r"not its own, but '.*must not vote as ant again"):
            storage.load("election", int)
        storage.close()
    (ant / "election.state").write_bytes(own)
    (ant / "identity.state").write_bytes((bee / "identity.state").read_bytes())
    with pytest.raises(TransportError, match=r"identity.state is not its own, but 'identity' of 'bee'"):
        life(ant)
    bee.rename(tmp_path / "cat")  # Nor is it enough to rename the directory.
    with pytest.raises(TransportError, match="must not vote as cat again"):
        life(tmp_path / "cat")


def test_what_cannot_be_opened_says_what_is_needed(tmp_path: Path) -> None:
    storage = life(tmp_path / "ant")
    (tmp_path / "ant" / "election.state").mkdir()
    with pytest.raises(TransportError, match="Is a directory: this user must be able to read it"):
        storage.load("election", int)
    storage.close()
    (tmp_path / "ant" / "lock").unlink()
    (tmp_path / "ant" / "lock").mkdir()
    with pytest.raises(TransportError, match="its file lock: Is a directory: this user must be able to write it"):
        life(tmp_path / "ant")


class Crash(BaseException):
    """The machine stops here."""


def test_a_crash_at_any_call_leaves_the_old_record_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    stop_at = [0]

    def failing(name: str) -> None:
        real = getattr(os, name)

        def call(*given: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) == stop_at[0]:
                raise Crash
            return real(*given, **options)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "replace", "open", "close"):
        failing(name)
    outcomes = set()
    for stop in range(1, 40):
        directory = tmp_path / f"{stop}" / "ant"
        stop_at[0] = 0
        storage = life(directory)
        promise(storage, 7)
        calls.clear()
        stop_at[0] = stop
        crashed = False
        try:
            promise(storage, 8)
        except Crash:
            crashed = True
        stop_at[0] = 0
        storage.close()
        again = life(directory)
        kept = again.load("election", int)
        assert kept == 8 if not crashed else kept in (7, 8)
        promise(again, 9)
        assert again.load("election", int) == 9
        again.close()
        outcomes.add((crashed, kept))
        if not crashed:
            break
    assert outcomes == {(True, 7), (True, 8), (False, 8)}


def test_a_new_directory_is_there_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is an entry of the directory above, which must be flushed like any other."""
    flushed: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd))[1])
    Storage(tmp_path / "a" / "b" / "ant")
    assert set(flushed) == {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")}
    flushed.clear()
    Storage(tmp_path / "a" / "b" / "ant")
    assert flushed == []


def test_an_elections_name_may_be_any_text(tmp_path: Path) -> None:
    storage = life(tmp_path / "ant")
    for number, channel in enumerate(("election/選挙", "election/%e9", "election/é", "election/x")):
        promise(storage, number, channel)
    found = {file.record for file in look_at(tmp_path / "ant") if not file.damage and not isinstance(file.record, dict)}
    assert found == {0, 1, 2, 3}


def test_a_crash_between_two_writes_leaves_the_old_record_whole(tmp_path: Path) -> None:
    storage = life(tmp_path / "ant")
    promise(storage, 7)
    (tmp_path / "ant" / "election.new").write_bytes(b"half writ")
    storage.close()
    again = life(tmp_path / "ant")
    assert again.load("election", int) == 7
    promise(again, 8)
    assert again.load("election", int) == 8


FULL = """
import asyncio, logging, resource, sys, os
from pathlib import Path
from random import Random
from doyen.core.clock import ms, seconds
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.core.leadership import LeaderElected
from doyen.net.driver import Driver
from doyen.net.storage import Storage
from doyen.net.udp import UdpConfig, UdpTransport

async def main():
    storage = Storage(Path(sys.argv[1]))
    told = []
    failed = asyncio.Event()
    driver = Driver(NodeId("ant"), storage.begin_incarnation(0), Codec("g"), UdpTransport(UdpConfig()), storage=storage,
                    observer=lambda c, f, n: told.append(f), on_failure=lambda e: failed.set())
    config = AnnounceConfig(announce_interval=ms(20), listen_timeout=ms(100), suppress_interval=ms(10))
    machine = driver.add("election", lambda port: Announce(NodeId("ant"), config, port, Random(1), restored=0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # From here on no file takes a byte.
    await driver.start()
    async with asyncio.timeout(5):
        await failed.wait()
    sent = driver.transport.sent_count
    await asyncio.sleep(0.1)
    elected = [f for f in told if isinstance(f, LeaderElected)]
    os.write(1, f"{driver.failure}|{sent}|{driver.transport.sent_count}|{len(elected)}|{driver.running}".encode())

logging.disable(logging.CRITICAL)
asyncio.run(main())
"""


def test_a_full_disk_silences_the_node_with_the_reason(tmp_path: Path) -> None:
    """It claims a term, cannot keep it, and so never says it: not to others, not to its own application."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "ant")], check=True, capture_output=True, text=True, timeout=30
    )
    reason, before, after, elected, running = done.stdout.split("|")
    assert "election.state: File too large: nothing was promised on it" in reason
    assert (before, after, elected, running) == ("0", "0", "0", "False")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("a tmpfs of its own needs root")
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "doyen-test", str(path)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs may be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def fill(disk: Path) -> Path:
    """To the last byte; the file to remove for room."""
    rubbish = disk / "rubbish"
    with open(rubbish, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        deque(map(file.write, repeat(bytes(512))), maxlen=0)
    return rubbish


def test_a_record_that_finds_no_room_is_refused_and_the_last_one_stands(small_disk: Path) -> None:
    storage = life(small_disk / "ant")
    promise(storage, 7)
    rubbish = fill(small_disk)
    with pytest.raises(TransportError, match=r"election\.state: No space left on device: nothing was promised on it"):
        promise(storage, 8)
    storage.close()
    rubbish.unlink()
    again = life(small_disk / "ant")
    assert again.load("election", int) == 7
    promise(again, 9)
    assert again.load("election", int) == 9
    again.close()


def test_no_life_begins_on_a_full_disk(small_disk: Path) -> None:
    storage = life(small_disk / "ant", 5)
    storage.close()
    rubbish = fill(small_disk)
    with pytest.raises(TransportError, match="No space left on device"):
        life(small_disk / "ant", 6)
    rubbish.unlink()
    again = life(small_disk / "ant", 0)
    assert again.began > 5  # type: ignore[attr-defined]
    again.close()


def test_an_agent_whose_disk_fills_up_ends_with_the_reason(small_disk: Path) -> None:
    """It promises with every reign; the next one finds no room, so it says nothing of it, and ends."""
    line = [sys.executable, "-m", "doyen", "agent", "--group", "full", "--name", "ant", "--state", str(small_disk)]
    line += ["--election", "le-s", "--preset", "local", "--status-every", "600"]
    environment = os.environ | {"DOYEN_RUNTIME_DIR": tempfile.mkdtemp()}
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as agent:
        try:
            assert agent.stdout is not None and agent.stderr is not None
            told = (json.loads(words) for words in agent.stdout)
            assert next(words["term"] for words in told if words["event"] == "elected") == 1
            fill(small_disk)
            ask = [sys.executable, "-m", "doyen", "resign", "--group", "full", "--cooldown", "100ms"]
            subprocess.run(ask, check=True, capture_output=True, timeout=30, env=environment)
            assert agent.wait(timeout=30) == 1
            assert "No space left on device: nothing was promised on it" in agent.stderr.read()
            assert not [words for words in told if words["event"] == "elected"], "what was not kept was not said"
        finally:
            agent.kill()


def test_a_directory_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TransportError, match="state directory"):
        Storage(tmp_path / "file" / "ant")


# ── doyen state ─────────────────────────────────────────────────────────────────────────────────────────────


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["state", *arguments])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def kept(tmp_path: Path, *names: str) -> None:
    for name in names:
        storage = life(tmp_path / name, 5)
        promise(storage, 7)
        storage.close()


def test_show_tells_what_is_kept_and_what_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path, "ant", "bee")
    code, out, _ = run(capsys, "show", str(tmp_path))
    assert code == 0 and "2 nodes · nothing damaged" in out and "ant · incarnation 5" in out
    (tmp_path / "bee" / "election.state").write_bytes(b"nonsense")
    code, out, _ = run(capsys, "show", str(tmp_path), "--json")
    shown: Any = json.loads(out)
    assert code == 1 and shown["damaged"] == 1
    assert [found["record"] for found in shown["nodes"]["ant"] if found["file"] == "election.state"] == [7]
    assert any("must not vote as bee" in found["damage"] for found in shown["nodes"]["bee"])


def test_reset_retires_a_name_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path, "ant", "bee")
    (tmp_path / "ant" / "election.state").write_bytes(b"nonsense")
    assert run(capsys, "reset", str(tmp_path), "--new-identity")[0] == 2  # Whose?
    assert run(capsys, "reset", str(tmp_path / "ant"))[0] == 2  # It must be said.
    code, out, err = run(capsys, "reset", str(tmp_path / "ant"), "--new-identity")
    assert code == 0 and "ant is retired" in out and "--name ant-2" in err
    assert len(list((tmp_path / "ant").glob("retired-*/election.state"))) == 1
    with pytest.raises(TransportError, match=r"ant was retired here.*--name ant-2"):
        life(tmp_path / "ant")
    assert life(tmp_path / "bee").load("election", int) == 7
    assert life(tmp_path / "ant-2").began == 1  # type: ignore[attr-defined]


def test_reset_does_not_touch_a_node_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = life(tmp_path / "ant")
    code, _, err = run(capsys, "reset", str(tmp_path / "ant"), "--new-identity")
    assert code == 1 and "another process runs as ant" in err
    promise(storage, 9)


def test_names_count_on() -> None:
    assert [next_name(name) for name in ("ant", "ant-2", "ant-9", "a-b")] == ["ant-2", "ant-3", "ant-10", "a-b-2"]


def test_there_must_be_something_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for where in (tmp_path, tmp_path / "nothing"):
        code, out, err = run(capsys, "show", str(where))
        assert (code, out) == (2, "") and "DIRECTORY" in err
    assert os.listdir(tmp_path) == []


def test_where_a_directory_cannot_be_locked_its_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on some network file systems."""
    flock = fcntl.flock

    def no_directories(lock: int, how: int) -> None:
        if stat.S_ISDIR(os.fstat(lock).st_mode):
            raise OSError(errno.ENOLCK, "no locks")
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", no_directories)
    first = life(tmp_path / "ant")
    with pytest.raises(TransportError, match="another process runs as ant"):
        life(tmp_path / "ant")
    first.close()
    life(tmp_path / "ant").close()
