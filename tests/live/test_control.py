"""The commands that ask a running node: what they print, what they answer, how they fail."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from doyen.cli.local import reigned

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("r")
    before, os.environ["DOYEN_RUNTIME_DIR"] = os.environ["DOYEN_RUNTIME_DIR"], str(place)
    yield place
    os.environ["DOYEN_RUNTIME_DIR"] = before


@contextmanager
def agent(name: str, *flags: str, group: str = "orders") -> Iterator[str]:
    """An agent; its address."""
    line = [*DOYEN, "agent", "--group", group, "--name", name, "--preset", "local", "--election", "hybrid", *flags]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for told in process.stdout:
                said = json.loads(told)
                if said["event"] == "started":
                    yield said["address"]
                    break
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def group(runtime: Path) -> Iterator[None]:
    with ExitStack() as stack:
        seed = stack.enter_context(agent("ant", "--meta", "zone=eu", "--score", "3"))
        stack.enter_context(agent("bee", "--seed", seed))
        stack.enter_context(agent("cat", "--seed", seed, "--no-eligible"))
        deadline = time.monotonic() + 20
        while not (agree := leaders()) or len(agree) != 1 or None in agree:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield


def leaders() -> set[str | None]:
    told = [asked("members", "--name", name) for name in ("ant", "bee", "cat")]
    return {said["leader"] for said in told} if all(len(said["members"]) == 3 for said in told) else set()


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*DOYEN, *arguments], capture_output=True, text=True, timeout=30)


def asked(*arguments: str) -> Any:
    done = run(*arguments, "--json")
    assert done.stdout.count("\n") == 1, done.stderr
    return json.loads(done.stdout)


def test_members_shows_everybody_and_who_leads(group: None) -> None:
    told = asked("members", "--group", "orders", "--name", "ant")
    assert {m["name"]: m["state"] for m in told["members"]} == dict.fromkeys(("ant", "bee", "cat"), "alive")
    assert [m["name"] for m in told["members"] if m["leads"]] == [told["leader"]]
    assert next(m for m in told["members"] if m["me"])["meta"] == {"zone": "eu"}
    for _ in range(100):  # SWIM pings one member a period.
        told = asked("members", "--group", "orders", "--name", "ant")
        if all(member["me"] or member["rtt_s"] for member in told["members"]):
            break
        time.sleep(0.05)
    assert [member["rtt_s"] is not None and 0 < member["rtt_s"] < 1 for member in told["members"]] == [
        not member["me"] for member in told["members"]
    ]
    shown = run("members").stdout.splitlines()
    assert shown[0].startswith(f"orders · 3 members · {told['leader']} has led for ")
    assert "NOT authenticated" in shown[0]
    assert f"{told['leader']}★" in "\n".join(shown[1:])
    assert shown[1].split() == ["NAME", "ADDRESS", "STATE", "SINCE", "SCORE", "HEALTH", "RTT", "VERSION"]
    assert "itself" in shown[2] and " ms " in shown[3]


def test_a_late_member_says_since_when_the_leader_leads_not_since_when_it_knows(group: None) -> None:
    seed = next(member["address"] for member in asked("members")["members"] if member["name"] == "ant")
    with agent("dog", "--seed", seed):
        deadline = time.monotonic() + 20
        since = asked("leader", "--name", asked("leader", "--name", "ant")["leader"])["since"]
        while (told := asked("leader", "--name", "dog"))["since"] != since:  # Until the leader's own word has come.
            assert time.monotonic() < deadline, told
        assert asked("members", "--name", "dog")["leader_since"] == told["since"]
    assert (reigned(time.time() - 7200, 5.0), reigned(None, 5.0), reigned(time.time() + 60, 5.0)) == (
        "2 h",
        "5 s",
        "0 ms",
    )


def test_leader_and_explain_say_who_and_why(group: None) -> None:
    leader = asked("leader")["leader"]
    assert leader in ("ant", "bee")
    done = run("leader")
    assert done.stdout.startswith(f"{leader} has led orders for ")
    assert run("leader", "--name", leader, "--mine").returncode == 0
    assert run("leader", "--name", "cat", "--mine").returncode == 3
    addresses = {member["name"]: member["address"] for member in asked("members")["members"]}
    shown = run("leader", "--name", "cat", "--address")
    assert (shown.returncode, shown.stdout) == (0, f"{addresses[leader]}\n")
    whole = asked("leader", "--name", "cat")
    assert whole["address"] == addresses[leader] and whole["meta"] == ({"zone": "eu"} if leader == "ant" else {})
    assert time.time() - 120 < whole["since"] <= time.time() - whole["since_s"] + 1  # It led before cat knew it.
    said = run("explain", "--name", "cat", "--history").stdout.splitlines()
    assert said[0].startswith(f'{leader} leads "orders" (term ')
    assert "because it has the best score of the healthy members that took part (of equals, the lowest hash)" in said[0]
    assert any(line.startswith("  promise     one leader per connected region") for line in said)
    told = asked("explain", "--name", leader)
    assert (told["leader"], told["kind"], told["strong"]) == (leader, "hybrid", False)
    assert told["history"]


def present(name: str) -> set[str]:
    """Return those whom a member holds alive, or suspects."""
    members = asked("members", "--name", name)["members"]
    return {one["name"] for one in members if one["state"] in ("alive", "suspected")}


def test_watch_tells_of_a_resignation_and_resign_hands_over(group: None) -> None:
    deadline = time.monotonic() + 15
    while present("cat") != {"ant", "bee", "cat"}:
        assert time.monotonic() < deadline, "one of an earlier test is still there"
        time.sleep(0.05)
    leader = asked("leader")["leader"]
    heir = "bee" if leader == "ant" else "ant"
    line = [*DOYEN, "watch", "--name", "cat", "--json", "--for", "20s"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        assert json.loads(watcher.stdout.readline())["kind"] == "watching"
        holds = [json.loads(watcher.stdout.readline()) for _ in range(4)]
        assert [(event["kind"], event["already"]) for event in holds] == [("joined", True)] * 3 + [("elected", True)]
        assert holds[-1]["leader"] == leader
        done = run("resign", "--to", heir, "--cooldown", "1s")
        assert done.stdout.startswith(f"{leader} resigned (term ")
        for told in watcher.stdout:
            event = json.loads(told)
            if event["kind"] == "elected" and event["leader"] == heir:
                break
        watcher.send_signal(signal.SIGINT)
    while asked("leader", "--name", leader)["leader"] != heir:
        time.sleep(0.02)
    refused = run("resign", "--to", "cat", "--name", leader)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"doyen: {leader} does not lead orders, {heir} does: doyen resign --group orders --name {heir}\n"
    )


def test_join_tells_a_running_node_of_another(group: None) -> None:
    with agent("dog", group="elsewhere"):
        assert run("members").returncode == 2  # Two groups run here: which?
        with agent("eel", group="elsewhere") as address:
            assert asked("join", address, "--group", "elsewhere", "--name", "dog")["seeds"] == [address]
            deadline = time.monotonic() + 15
            while len(asked("members", "--group", "elsewhere", "--name", "dog")["members"]) != 2:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert run("leave", "--group", "elsewhere", "--name", "eel").returncode == 0
            while asked("members", "--group", "elsewhere", "--name", "dog")["members"][1]["state"] != "left":
                assert time.monotonic() < deadline
                time.sleep(0.05)


def test_doctor_finds_what_is_there_and_what_is_wrong(group: None) -> None:
    told = asked("doctor")
    assert any("leads, term" in finding["what"] for finding in told["findings"])
    wrong = run("doctor", "--group", "g", "--election", "pole", "--json")
    assert wrong.returncode == 1
    assert "voters must name all members" in wrong.stdout


@pytest.mark.parametrize("command", ["members", "leader", "watch", "explain", "resign", "leave"])
def test_without_a_node_there_is_advice(runtime: Path, command: str) -> None:
    done = run(command, "--group", "nobody")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("doyen: no node")


def test_presets_print_their_worst_case() -> None:
    told = asked("presets", "--group-size", "16")
    by = {(row["preset"], row["election"]): row for row in told["presets"]}
    assert by["lan", "le-s"]["detection_s"] == pytest.approx(3 + 0.001)  # T_L + Δ.
    assert by["lan", "le-s"]["failover_s"] == pytest.approx(3 + 0.2 + 2 * 0.001)  # T_L + T_S + 2Δ.
    assert all(row["failover_s"] >= row["detection_s"] > 0 for row in told["presets"])
    assert "pole" in run("presets").stdout


def test_shells_can_complete_the_commands() -> None:
    env = os.environ | {"_DOYEN_COMPLETE": "bash_source"}
    line = [sys.executable, "-c", "from doyen.cli import main; main()"]
    done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=20)
    assert "complete" in done.stdout, done.stderr


def test_a_node_that_is_stopped_is_named_and_another_of_its_group_is_asked(runtime: Path) -> None:
    with agent("ant", group="frozen"), agent("bee", group="frozen"):
        pid = asked("members", "--group", "frozen", "--name", "ant")["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            for command in (["members"], ["leader", "--mine"], ["explain"], ["watch", "--for", "100ms"]):
                line = [*DOYEN, *command, "--group", "frozen", "--json"]
                done = subprocess.run(line, capture_output=True, text=True, timeout=30)
                assert json.loads(done.stdout.splitlines()[0])["node"] == "bee", done
                assert "ant does not answer within 1 s: is it stopped, or very busy? Asking bee." in done.stderr
        finally:
            os.kill(pid, signal.SIGCONT)
