"""What a first leader waits for, on real processes: a seed that is silent, and a number of members."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]


@contextmanager
def runner(*flags: str, group: str) -> Iterator["subprocess.Popen[str]"]:
    line = [*DOYEN, "run", "--group", group, "--preset", "local", "--json", *flags, "--", "sleep", "60"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def told(process: "subprocess.Popen[str]", event: str, containing: str = "") -> dict[str, Any]:
    assert process.stderr is not None
    before = []
    for line in process.stderr:
        said: dict[str, Any] = json.loads(line)
        if said["event"] == event and containing in said["text"]:
            return said
        before.append(said["event"])
    raise AssertionError(f"it never said {event}, but {before}")


def explained(group: str, name: str) -> dict[str, str]:
    line = [*DOYEN, "explain", "--group", group, "--name", name, "--json"]
    lines: list[list[str]] = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)["lines"]
    return {line[0]: line[1] for line in lines}


def test_a_silent_seed_is_waited_for_and_then_named() -> None:
    began = time.monotonic()
    seeds = ("--seed", "127.0.0.1:9", "--alone-after", "2.5s", "--name", "ant")
    with runner(*seeds, group="silent") as process:
        assert "no answer yet from seed 127.0.0.1:9" in told(process, "waiting", "answer")["text"]
        assert "127.0.0.1:9" in explained("silent", "ant")["waiting"]
        warning = told(process, "warning", "alone")["text"]
        assert "leads 'silent' alone: seed 127.0.0.1:9 did not answer within 2.5s" in warning and "--seed" in warning
        told(process, "elected")
        assert time.monotonic() - began >= 2.5
        assert "waiting" not in explained("silent", "ant")


def test_its_own_address_is_no_seed() -> None:
    with runner(
        "--bind", "127.0.0.1:17643", "--seed", "127.0.0.1:17643", "--alone-after", "inf", group="own"
    ) as process:
        assert "nobody was found" in told(process, "warning")["text"]
        told(process, "elected")


def test_nobody_acts_before_as_many_answer_as_are_expected() -> None:
    with ExitStack() as stack:
        flags = ("--expect", "3")
        two = [stack.enter_context(runner(*flags, "--name", name, group="three")) for name in ("ant", "bee")]
        leader = json.loads(_leader("three"))["leader"]
        first = two[("ant", "bee").index(leader)]
        other = two[("bee", "ant").index(leader)]
        assert told(other, "waiting", f"{leader} leads (term")["leader"] == leader
        assert "2 of the 3 members expected answer" in told(first, "waiting", "2 of the 3")["text"]
        words = explained("three", leader)
        assert "2 of the 3" in words["waiting"] and "no quorum" in words["expect"]
        stack.enter_context(runner(*flags, "--name", "cat", group="three"))
        told(first, "elected")


def _leader(group: str) -> str:
    """Return what a node of that group says of its leader, once both know each other and name one."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        members = subprocess.run([*DOYEN, "members", "--group", group, "--json"], capture_output=True, text=True)
        if members.returncode == 0:
            said = json.loads(members.stdout)
            if len(said["members"]) == 2 and said["leader"]:
                return members.stdout
        time.sleep(0.1)
    raise AssertionError("nobody leads")
