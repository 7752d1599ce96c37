"""A node that another user runs on this machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from users import as_user

pytestmark = [pytest.mark.live, pytest.mark.root]
DOYEN = [sys.executable, "-m", "doyen"]
ALICE, BOB, CAROL, OPERATORS = range(61_000_001, 61_000_005)  # Nobody has these numbers.


def environment() -> dict[str, str]:
    hers = ("DOYEN_RUNTIME_DIR", "XDG_RUNTIME_DIR")
    return {name: value for name, value in os.environ.items() if name not in hers} | {"HOME": "/"}


@contextmanager
def agent_of(uid: int, *flags: str, groups: tuple[int, ...] = ()) -> Iterator[None]:
    line = [*as_user(uid, groups=groups), *DOYEN, "agent", "--group", "theirs", "--name", "ant", *flags]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            assert any(json.loads(line)["event"] == "started" for line in process.stdout)
            yield
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            shutil.rmtree(f"/tmp/doyen-{uid}", ignore_errors=True)


def ask(*arguments: str, before: list[str], **further: str) -> "subprocess.CompletedProcess[str]":
    line = [*before, *DOYEN, *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=30, env=environment() | further)


def test_another_users_node_is_named_with_its_user_and_the_way_to_it() -> None:
    place = Path(f"/tmp/doyen-{ALICE}")
    with agent_of(ALICE):
        as_bob = ask("members", "--group", "theirs", before=as_user(BOB))
        as_root = ask("members", "--group", "theirs", before=[])
        told = ask("members", "--group", "theirs", "--json", before=[], DOYEN_RUNTIME_DIR=str(place))
    for done in (as_bob, as_root):
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert f"user #{ALICE} runs ant of group theirs on this machine" in done.stderr
        assert "start one" not in done.stderr
    assert f"sudo -u #{ALICE} doyen members --group theirs" in as_bob.stderr
    assert f"DOYEN_RUNTIME_DIR={place} doyen members --group theirs" in as_root.stderr
    assert json.loads(told.stdout)["node"] == "ant"  # The advice for root is true.


def test_a_control_socket_is_shared_with_a_unix_group_and_nobody_else() -> None:
    place = Path(f"/tmp/doyen-{ALICE}")
    operators, here = (OPERATORS,), {"DOYEN_RUNTIME_DIR": str(place)}
    with agent_of(ALICE, "--control-group", str(OPERATORS), groups=operators):
        modes = {path: (path.stat().st_mode & 0o777, path.stat().st_gid) for path in (place, place / "theirs")}
        assert set(modes.values()) == {(0o750, OPERATORS)}
        found = (place / "theirs/ant.sock").stat()
        assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o660, ALICE, OPERATORS)
        # Bob must say whose nodes he asks; then he may do what Alice may.
        told = ask("members", "--group", "theirs", before=as_user(BOB, groups=operators))
        assert f"DOYEN_RUNTIME_DIR={place} doyen members --group theirs" in told.stderr
        shown = ask("members", "--json", before=as_user(BOB, groups=operators), **here)
        assert json.loads(shown.stdout)["node"] == "ant"
        refused = ask("members", before=as_user(CAROL), **here)
        assert refused.returncode == 1 and "another user's" in refused.stderr
        assert ask("leave", before=as_user(BOB, groups=operators), **here).returncode == 0


def test_a_unix_group_that_the_user_is_not_in_is_refused(tmp_path: Path) -> None:
    line = ("agent", "--group", "theirs", "--control-group", str(OPERATORS))
    done = ask(*line, before=as_user(ALICE))
    said = f"--control-group '{OPERATORS}' is a unix group that this user is not in"
    assert done.returncode == 2 and said in done.stderr
    within = ask(*line, before=as_user(ALICE, groups=(OPERATORS,)), XDG_RUNTIME_DIR=str(tmp_path))
    assert within.returncode == 2
    assert any(f"its members may not enter {folder};" in within.stderr for folder in tmp_path.parents), within.stderr


IMPOSTOR = """
import json, os, socket, sys
os.makedirs(sys.argv[1] + "/theirs", exist_ok=True)
door = socket.socket(socket.AF_UNIX); door.bind(sys.argv[1] + "/theirs/eve.sock"); door.listen()
os.chmod(sys.argv[1] + "/theirs", 0o777); os.chmod(sys.argv[1] + "/theirs/eve.sock", 0o777)
print("ready", flush=True)
told = {"group": "theirs", "node": "eve", "leader": "eve", "term": 1, "since_s": 1.0, "is_me": True, "address": None}
while True:
    line, _ = door.accept()
    with line:
        if line.makefile("rb").readline():
            line.sendall(json.dumps({"ok": True, "result": told}).encode() + b"\\n")
"""


@pytest.mark.parametrize("way", ["a link to a folder of hers that all can write", "a folder of his own"])
def test_another_user_answers_no_command_in_my_name_and_switches_none_off(way: str, tmp_path: Path) -> None:
    place, open_folder, home = Path(f"/tmp/doyen-{ALICE}"), Path(f"/tmp/attack-open-{ALICE}"), Path(f"/tmp/h-{ALICE}")
    for folder in (open_folder, home):
        folder.mkdir()
        os.chown(folder, ALICE, ALICE)
    open_folder.chmod(0o777)
    if "link" in way:
        place.symlink_to(open_folder)
        os.lchown(place, BOB, BOB)
    else:
        place.mkdir()
        place.chmod(0o755)
        os.chown(place, BOB, BOB)
    answering = [*as_user(BOB), sys.executable, "-c", IMPOSTOR, str(place)]
    try:
        with subprocess.Popen(answering, stdout=subprocess.PIPE, text=True) as impostor:
            try:
                assert impostor.stdout is not None and impostor.stdout.readline() == "ready\n"
                mine = ask("leader", "--mine", "--group", "theirs", before=as_user(ALICE), HOME=str(home))
                assert mine.returncode == 1 and "eve leads" not in mine.stdout, mine
                line = [*as_user(ALICE), *DOYEN, "agent", "--group", "theirs", "--name", "ant"]
                hers = environment() | {"HOME": str(home)}
                with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=hers) as agent:
                    try:
                        assert agent.stdout is not None
                        assert any(json.loads(line)["event"] == "started" for line in agent.stdout)
                        told = ask("members", "--json", "--group", "theirs", before=as_user(ALICE), HOME=str(home))
                        assert json.loads(told.stdout)["node"] == "ant"
                    finally:
                        agent.kill()
            finally:
                impostor.kill()
    finally:
        place.unlink() if place.is_symlink() else shutil.rmtree(place)
        shutil.rmtree(open_folder)
        shutil.rmtree(home)
