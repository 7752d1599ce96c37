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
ALICE, BOB = 61_000_001, 61_000_002  # Nobody has these numbers.


def environment() -> dict[str, str]:
    hers = ("DOYEN_RUNTIME_DIR", "XDG_RUNTIME_DIR")
    return {name: value for name, value in os.environ.items() if name not in hers} | {"HOME": "/"}


@contextmanager
def agent_of(uid: int, *flags: str, groups: tuple[int, ...] = ()) -> Iterator[None]:
    line = [*as_user(uid, groups=groups), *DOYEN, "agent", "--group", "theirs", "--name", "ant", *flags]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["event"] == "started"
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
