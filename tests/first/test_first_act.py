"""What a first leader waits for, on real processes: silent seeds, members that are expected, and other elections."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import doyen
from doyen.cli.doctor import check_nodes
from doyen.errors import DoyenError
from doyen.net.keys import new_key, write_keys
from doyen.node.control import ask, find_node

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
    return {line[0]: line[1] for line in ask(find_node(group, name), "explain", election="")["lines"]}


def test_a_silent_seed_is_waited_for_and_then_named() -> None:
    began = time.monotonic()
    seeds = ("--seed", "127.0.0.1:9", "--alone-after", "1.5s", "--name", "ant")
    with runner(*seeds, group="silent") as process:
        assert "no answer yet from seed 127.0.0.1:9" in told(process, "waiting", "answer")["text"]
        assert "127.0.0.1:9" in explained("silent", "ant")["waiting"]
        warning = told(process, "warning", "alone")["text"]
        assert "leads 'silent' alone: seed 127.0.0.1:9 did not answer within 1.5s" in warning and "--seed" in warning
        told(process, "elected")
        assert time.monotonic() - began >= 1.5
        assert "waiting" not in explained("silent", "ant")


def test_a_seeds_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "seeds"
    with runner(
        "--seeds-file", str(file), "--alone-after", "inf", "--bind", "127.0.0.1:17647", group="file"
    ) as process:
        assert f"no answer yet from seed {file}" in told(process, "waiting", "answer")["text"]
        file.write_text("127.0.0.1:17647\n")  # Itself alone: nobody is missed.
        told(process, "elected")


def test_its_own_address_is_no_seed() -> None:
    with runner(
        "--bind", "127.0.0.1:17643", "--seed", "127.0.0.1:17643", "--alone-after", "inf", group="own"
    ) as process:
        assert "nobody was found" in told(process, "warning")["text"]
        told(process, "elected")


def test_who_has_met_its_only_seed_takes_over_at_once_when_that_leaves_and_is_not_called_alone() -> None:
    flags = ("--bind", "127.0.0.1:17645", "--name", "ant", "--no-find-local")
    with runner(*flags, group="heir") as first:
        told(first, "elected")
        heirs = ("--seed", "127.0.0.1:17645", "--name", "bee", "--alone-after", "inf", "--no-find-local")
        with runner(*heirs, group="heir") as second:
            deadline = time.monotonic() + 20
            while not _names("heir", "bee", "ant"):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            first.terminate()
            assert second.stderr is not None
            events = []
            for line in second.stderr:
                events.append(json.loads(line)["event"])
                if events[-1] == "elected":
                    break
            assert "elected" in events and "warning" not in events, events


def _names(group: str, name: str, leader: str) -> bool:
    """Whether that node is there, and names that leader."""
    with suppress(DoyenError):
        return bool(ask(find_node(group, name), "leader", election="").get("leader") == leader)
    return False


def test_nobody_acts_before_as_many_answer_as_are_expected() -> None:
    with ExitStack() as stack:
        flags = ("--expect", "3")
        two = [stack.enter_context(runner(*flags, "--name", name, group="three")) for name in ("ant", "bee")]
        leader = _leader("three", "ant")
        first = two[("ant", "bee").index(leader)]
        other = two[("bee", "ant").index(leader)]
        assert told(other, "waiting", f"{leader} leads (term")["leader"] == leader
        assert "2 of the 3 members expected answer" in told(first, "waiting", "2 of the 3")["text"]
        words = explained("three", leader)
        assert "2 of the 3" in words["waiting"] and "no quorum" in words["expect"]
        stack.enter_context(runner(*flags, "--name", "cat", group="three"))
        told(first, "elected")


def _leader(group: str, name: str) -> str:
    """Return whom that node names, once it knows of two members and names one of them."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(DoyenError):  # It has not begun yet.
            said = ask(find_node(group, name), "members")
            if len(said["members"]) == 2 and said["leader"]:
                return str(said["leader"])
        time.sleep(0.05)
    raise AssertionError("nobody leads")


# A member that runs something else than its group, or has another key, does not act beside it.

FAST = ("--election", "fast")


def acts(group: str, name: str) -> bool:
    try:
        return bool(ask(find_node(group, name), "status")["acts"])
    except DoyenError:
        return False


@pytest.mark.parametrize("second", [FAST, ("--membership", "heartbeat")])
def test_a_second_that_runs_something_else_waits_for_as_long_as_the_first_is_there(second: Sequence[str]) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(runner("--name", "ant", group="kinds"))
        told(first, "elected")
        other = stack.enter_context(runner("--name", "bee", *second, group="kinds"))
        assert "this node runs" in told(other, "waiting", "ant runs")["text"]
        assert "give both the same" in told(other, "warning", "but does not act yet: ant runs")["text"]
        assert "ant runs" in explained("kinds", "bee")["waiting"]
        wrong = [finding.what for finding in check_nodes("kinds") if finding.verdict == "wrong"]
        assert any("bee" in what and "does not act yet: ant runs" in what for what in wrong), wrong
        until = time.monotonic() + 4  # Longer than the time after which whoever is silent counts as gone.
        while time.monotonic() < until:
            assert not acts("kinds", "bee")
            time.sleep(0.2)
        first.kill()
        told(other, "elected")


def test_of_two_that_start_at_once_and_run_different_elections_one_acts() -> None:
    with ExitStack() as stack:
        for name, flags in (("ant", FAST), ("bee", ())):
            stack.enter_context(runner("--name", name, *flags, group="race"))
        both = [False, False]
        until = time.monotonic() + 8
        while time.monotonic() < until:
            both = [acts("race", name) for name in ("ant", "bee")]
            assert not all(both)
            time.sleep(0.1)
        assert any(both)


@pytest.mark.parametrize("first_has_it", [True, False])
def test_on_one_machine_the_second_with_another_key_waits(first_has_it: bool, tmp_path: Path) -> None:
    write_keys(tmp_path / "key", [new_key()])
    sealed = ("--key-file", str(tmp_path / "key"))
    with ExitStack() as stack:
        first = stack.enter_context(runner("--name", "ant", *(sealed if first_has_it else ()), group="keys"))
        told(first, "elected")
        other = stack.enter_context(runner("--name", "bee", *(() if first_has_it else sealed), group="keys"))
        has = "has a key, this node has none" if first_has_it else "has no key, this node has one"
        assert told(other, "waiting", "key")["text"] == f"ant on this machine {has}"
        assert "--key-file" in told(other, "warning", "but does not act yet: ant")["text"]
        until = time.monotonic() + 4
        while time.monotonic() < until:
            assert not acts("keys", "bee") and acts("keys", "ant")
            time.sleep(0.2)
        first.kill()
        told(other, "elected")


@pytest.mark.parametrize("late", [("--key-file", "other"), ()])
def test_a_late_one_with_a_wrong_key_waits_though_it_hears_nobody(late: Sequence[str], tmp_path: Path) -> None:
    """By the default preset members that have met send nothing to one whom they cannot read."""
    for name in ("key", "other"):
        write_keys(tmp_path / name, [new_key()])
    usual = ("--preset", "lan", "--alone-after", "2s")
    with ExitStack() as stack:
        for name in ("ant", "bee"):
            stack.enter_context(runner("--name", name, *usual, "--key-file", str(tmp_path / "key"), group="late"))
        until = time.monotonic() + 20
        while not (acts("late", "ant") or acts("late", "bee")):
            assert time.monotonic() < until
            time.sleep(0.05)
        given = [str(tmp_path / "other") if word == "other" else word for word in late]
        third = stack.enter_context(runner("--name", "cat", *usual, *given, group="late"))
        told(third, "waiting", "on this machine has")
        until = time.monotonic() + 8
        while time.monotonic() < until:
            assert not acts("late", "cat")
            time.sleep(0.1)


def test_the_first_does_not_wait_for_one_that_has_another_key(tmp_path: Path) -> None:
    write_keys(tmp_path / "key", [new_key()])
    with ExitStack() as stack:
        flags = ("--alone-after", "inf", "--name")
        first = stack.enter_context(runner(*flags, "ant", "--expect", "2", group="elder"))
        told(first, "waiting", "1 of the 2")
        second = stack.enter_context(runner(*flags, "bee", "--key-file", str(tmp_path / "key"), group="elder"))
        told(second, "waiting", "ant on this machine has no key")
        stack.enter_context(runner(*flags, "cat", group="elder"))
        told(first, "elected")  # And bee, which never answers, is not waited for.
        assert not acts("elder", "bee")


def test_two_that_are_each_others_seed_and_have_no_key_in_common_do_not_both_wait(tmp_path: Path) -> None:
    write_keys(tmp_path / "key", [new_key()])
    ports = ("127.0.0.1:17648", "127.0.0.1:17649")
    with ExitStack() as stack:
        flags = ("--alone-after", "1s", "--bind", ports[0], "--seed", ports[1], "--name", "ant", "--expect", "2")
        first = stack.enter_context(runner(*flags, group="pair"))
        told(first, "waiting", "1 of the 2")
        flags = ("--alone-after", "1s", "--bind", ports[1], "--seed", ports[0], "--name", "bee")
        second = stack.enter_context(runner(*flags, "--key-file", str(tmp_path / "key"), group="pair"))
        told(second, "waiting", "ant on this machine has no key")
        stack.enter_context(runner("--alone-after", "1s", "--name", "cat", group="pair"))
        until = time.monotonic() + 20
        while not acts("pair", "ant"):
            assert time.monotonic() < until, "each waits for the other"
            time.sleep(0.1)


def test_a_quorum_without_its_majority_says_who_is_silent_until_that_one_comes(tmp_path: Path) -> None:
    flags = ("--election", "quorum", "--voters", "ant,bee,cat", "--state", str(tmp_path), "--newcomer")
    with ExitStack() as stack:
        first = stack.enter_context(runner("--name", "ant", *flags, group="votes"))
        warning = told(first, "warning", "nobody leads 'votes'")["text"]
        assert "1 of 3 voters answers here, 2 must; silent: bee, cat; start them" in warning
        assert "silent: bee, cat" in ask(find_node("votes", "ant"), "explain", election="")["sentence"]
        second = stack.enter_context(runner("--name", "bee", *flags, group="votes"))
        deadline = time.monotonic() + 20
        while not (acts("votes", "ant") or acts("votes", "bee")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        second.terminate()


def test_the_first_error_about_a_quorum_has_a_command_and_a_call_that_work(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DOYEN, "run", "--group", "whole", "--election", "quorum", "--", "true"], capture_output=True, text=True
    )
    assert done.returncode == 2 and "voters, name, state, and at its first start newcomer" in done.stderr
    command = re.search(r"doyen (run .* --) COMMAND; in Python (doyen\.join\(.*\))", done.stderr)
    assert command is not None
    first = [*command[1].replace("DIRECTORY", str(tmp_path)).split()[1:-1]]
    with ExitStack() as stack:
        for name in ("ant", "bee"):  # A majority of the three.
            flags = [name if word == "ant" else word for word in first if word not in ("--group", "whole")]
            stack.enter_context(runner(*flags, group="whole"))
        deadline = time.monotonic() + 30
        while not (acts("whole", "ant") or acts("whole", "bee")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    node = eval(command[2].replace("DIRECTORY", str(tmp_path)), {"doyen": doyen})
    assert (node.config.name, node.config.newcomer, node.config.voters) == ("ant", True, ("ant", "bee", "cat"))
