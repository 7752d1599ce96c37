"""`doyen run`: a command runs only while its runner leads, and never outlives that."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from doyen.core.clock import ms, seconds
from doyen.runner.guard import descendants
from doyen.runner.ward import Ward

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]
LEASE_S = 1.5  # A machine that stalls for a second must not end it.
QUORUM_OF_ONE = ["--name", "a", "--election", "pole", "--voters", "a", "--volatile", "--pole-lease", f"{LEASE_S}s"]


@pytest.fixture(autouse=True)
def _own_runtime_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))


@contextmanager
def runner(*flags: str, command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    line = [*DOYEN, "run", "--preset", "local", "--json", *flags, "--", *command]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def told(process: "subprocess.Popen[str]", event: str) -> dict[str, Any]:
    """Reads on until it says that."""
    assert process.stderr is not None
    for line in process.stderr:
        said: dict[str, Any] = json.loads(line)
        if said["event"] == event:
            return said
    raise AssertionError(f"it never said {event}")


def until(holds: Callable[[], bool], within_s: float = 10) -> float:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + within_s
        time.sleep(0.005)
    return time.monotonic() - began


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_exit_code_is_passed_on_and_the_term_is_in_the_environment() -> None:
    script = "echo term $DOYEN_TERM; sed -n 's/SigIgn://p' /proc/self/status; exit 7"
    with runner("--group", "code", command=["sh", "-c", script]) as process:
        out, error = process.communicate(timeout=20)
    assert (process.returncode, out.splitlines()[0]) == (7, "term 1")
    ignored = int(out.split()[-1], 16)
    assert not any(ignored & 1 << number - 1 for number in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ))
    said = [json.loads(line) for line in error.splitlines()]
    events = [line["event"] for line in said if line["event"] != "waiting"]
    assert events == ["preset", "note", "warning", "elected", "ended"]
    assert "leads 'code' alone: nobody was found" in next(line["text"] for line in said if line["event"] == "warning")
    note = next(line for line in said if line["event"] == "note")
    assert "a second sh may run across a partition, around failures, or while this one is stopped" in note["text"]
    assert "no other host is looked for (--seed)" in note["text"] and len(note["text"]) <= 140
    assert "the election quorum (pole)" in note["promise_text"]


def test_a_killed_command_gives_128_and_its_signal() -> None:
    with runner("--group", "signal", command=["sh", "-c", "kill -9 $$"]) as process:
        process.communicate(timeout=20)
    assert process.returncode == 137


@pytest.mark.parametrize("election", ["hybrid", "pole"])
def test_sigterm_to_the_runner_ends_the_command_first_then_leaves(tmp_path: Path, election: str) -> None:
    """It has its grace: behind a shell that ends at once, too, and beyond a lease, which is renewed meanwhile."""
    flags = QUORUM_OF_ONE if election == "pole" else []
    last_s = LEASE_S + 0.2 if flags else 0.7
    job = f"trap 'sleep {last_s}; echo bye; exit 3' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.02; done"
    with runner("--group", "term", *flags, command=["sh", "-c", f'sh -c "{job}"; true']) as process:
        told(process, "elected")
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        process.terminate()
        out, error = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "bye\n")
    last = json.loads(error.splitlines()[-1])
    assert (last["event"], last["signal"]) == ("stopped", "SIGTERM")
    assert last["text"].startswith("by SIGTERM: no other member is here to take over; sh (pid ")


def test_what_ignores_sigterm_is_killed_after_the_grace() -> None:
    with runner(
        "--group", "deaf", "--grace", "200ms", command=["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
    ) as process:
        told(process, "elected")
        time.sleep(0.3)
        began = time.monotonic()
        process.terminate()
        process.wait(10)
    assert 0.2 <= time.monotonic() - began < 3


@pytest.mark.parametrize("election", ["hybrid", "pole"])
def test_a_killed_runner_takes_its_command_and_its_children_with_it(tmp_path: Path, election: str) -> None:
    """Also those that have left its process group, as `timeout` does, or its session."""
    flags = QUORUM_OF_ONE if election == "pole" else []
    me = f"echo \\$\\$ >> {tmp_path}/pids"
    script = f"""trap '' TERM; sh -c "{me}; exec sleep 61" & timeout 62 sh -c "{me}; exec sleep 62" &
        setsid sh -c "{me}; sleep 63 & wait" & echo $$ >> {tmp_path}/pids; wait; while :; do sleep 1; done"""
    grace = "10s" if flags else "300ms"
    with runner("--group", "kill", "--grace", grace, *flags, command=["sh", "-c", script]) as process:
        told(process, "elected")
        until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 4)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert all(alive(pid) for pid in pids)
        process.kill()
        process.wait()
        took = until(lambda: not any(alive(pid) for pid in pids))
    # With a lease, SIGKILL comes before it ends, whatever the grace; without, after the grace.  A second is for
    # a machine that stalls.
    assert took < (LEASE_S + 1 if election == "pole" else 1.3)


def test_a_killed_guard_takes_the_command_with_it_too(tmp_path: Path) -> None:
    script = f"echo $PPID $$ > {tmp_path}/pids; while :; do sleep 1; done"
    with runner("--group", "guard", command=["sh", "-c", script]) as process:
        told(process, "elected")
        until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
        guard, command = (int(pid) for pid in (tmp_path / "pids").read_text().split())
        os.kill(guard, signal.SIGKILL)
        until(lambda: not alive(command))
        assert process.wait(10) == 137


def test_a_paused_runner_does_not_keep_the_command_alive_beyond_the_lease(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; while :; do sleep 0.02; done"
    with runner("--group", "pause", *QUORUM_OF_ONE, command=["sh", "-c", script]) as process:
        told(process, "elected")
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        pid = int((tmp_path / "pid").read_text())
        os.kill(process.pid, signal.SIGSTOP)
        took = until(lambda: not alive(pid))
        ended_at = time.time()
        time.sleep(LEASE_S)  # By then the lease has ended, too: the guard may know of an earlier end than the runner.
        os.kill(process.pid, signal.SIGCONT)
        assert took < LEASE_S + 1  # A second is for a machine that stalls.
        lost = told(process, "lost")
        assert "lease" in lost["reason"]
        assert lost["at"] <= ended_at + 0.1, "it is dated when the command ended, not when the runner woke up"
        assert told(process, "elected")["term"] > 1  # It wakes up, and campaigns again.


def test_a_machine_that_slept_through_the_lease_ends_the_command_and_its_runner_waits_again(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; while :; do sleep 0.02; done"
    with runner("--group", "slept", *QUORUM_OF_ONE, command=["sh", "-c", script]) as process:
        told(process, "elected")
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        pid = int((tmp_path / "pid").read_text())
        guard = parent(pid)
        stopped = (process.pid, parent(guard), guard, pid)
        for each in stopped:
            os.kill(each, signal.SIGSTOP)
        time.sleep(LEASE_S)
        for each in (pid, parent(guard), guard):
            os.kill(each, signal.SIGCONT)
        until(lambda: not alive(pid))
        os.kill(process.pid, signal.SIGCONT)  # Last: it hears of an end that is not the command's own word.
        lost = told(process, "lost")
        assert "lease" in lost["reason"] and "it was killed (137)" in lost["text"]
        assert told(process, "elected")["term"] > 1


def test_a_command_that_ends_while_its_runner_is_paused_is_dated_when_it_ended(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; sleep 0.5"
    with runner("--group", "paused", command=["sh", "-c", script]) as process:
        told(process, "elected")
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: not alive(int((tmp_path / "pid").read_text())))
        ended_at = time.time()
        time.sleep(1.5)
        os.kill(process.pid, signal.SIGCONT)
        ended = told(process, "ended")
        assert ended["at"] <= ended_at + 0.1
        assert f" at {time.strftime('%H:%M', time.localtime(ended['at']))}" in ended["text"]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for made in sockets:
        made.bind(("127.0.0.1", 0))
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports


def overlaps(log: Path) -> list[str]:
    """Commands that began while another had not ended; each writes `begin PID` and beats every 5 ms."""
    alive_until: dict[str, int] = {}
    began: list[tuple[int, str]] = []
    for line in log.read_text().splitlines():
        at, word, pid = line.split()
        if word == "begin":
            began.append((int(at), pid))
        alive_until[pid] = max(alive_until.get(pid, 0), int(at))
    found = []
    for at, pid in began:
        found += [
            f"{pid} began while {other} acted"
            for _, other in began
            if other != pid and began_at(began, other) < at < alive_until[other]
        ]
    return found


def began_at(began: list[tuple[int, str]], pid: str) -> int:
    return next(at for at, other in began if other == pid)


WITNESS = """
import os, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
say = lambda word: os.write(log, b"%d %s %d\\n" % (time.clock_gettime_ns(time.CLOCK_BOOTTIME), word, os.getpid()))
say(b"begin")
while True:
    time.sleep(0.005)
    say(b"beat")
"""


def test_with_a_quorum_no_second_command_starts_before_the_first_has_stopped(tmp_path: Path) -> None:
    takeovers(tmp_path, rounds=4)


@pytest.mark.soak
def test_with_a_quorum_no_second_command_starts_before_the_first_has_stopped_over_200_kills(tmp_path: Path) -> None:
    takeovers(tmp_path, rounds=200)


def takeovers(tmp_path: Path, rounds: int) -> None:
    """Kills, pauses and terminates the runner that leads, again and again; the witnesses' log is judged at the end."""
    log, names = tmp_path / "acts", ["a", "b", "c"]
    ports = dict(zip(names, free_ports(3), strict=True))
    (tmp_path / "witness.py").write_text(WITNESS)

    def start(name: str, first: bool) -> "subprocess.Popen[str]":
        flags = ["--group", "quorum", "--name", name, "--bind", f"127.0.0.1:{ports[name]}", "--grace", "100ms"]
        flags += [f"--seed=127.0.0.1:{port}" for other, port in ports.items() if other != name]
        flags += ["--election", "pole", "--voters", "a,b,c", "--state", str(tmp_path / "state")]
        flags += ["--newcomer"] if first else []
        command = [sys.executable, "-S", str(tmp_path / "witness.py"), str(log)]
        line = [*DOYEN, "run", "--preset", "local", "--json", *flags, "--", *command]
        return subprocess.Popen(line, stderr=subprocess.DEVNULL, text=True)

    runners = {name: start(name, True) for name in names}
    try:
        for number in range(rounds):
            leader, acts = wait_for_acts(runners, log)
            victim = runners[leader]
            if number % 4 == 3:
                victim.send_signal(signal.SIGSTOP)
                wait_for_another(runners, log, leader, acts)
                victim.send_signal(signal.SIGCONT)
                continue
            victim.send_signal(signal.SIGTERM if number % 4 == 1 else signal.SIGKILL)
            victim.wait(10)
            wait_for_another(runners, log, leader, acts)
            runners[leader] = start(leader, False)
    finally:
        for process in runners.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in runners.values():
            process.wait(10)
    assert overlaps(log) == []
    assert len({line.split()[2] for line in log.read_text().splitlines()}) > rounds / 2


def wait_for_acts(runners: dict[str, "subprocess.Popen[str]"], log: Path) -> tuple[str, str]:
    """Whose command acts now, and the command's pid."""
    found: list[tuple[str, str]] = []

    def acting() -> bool:
        pid = last_actor(log)
        owner = owner_of(pid, runners) if pid else None
        if owner is not None and pid is not None and alive(int(pid)):
            found.append((owner, pid))
        return bool(found)

    until(acting, 20)
    return found[0]


def wait_for_another(runners: dict[str, "subprocess.Popen[str]"], log: Path, leader: str, acts: str) -> None:
    until(lambda: last_actor(log) not in (None, acts), 20)


def last_actor(log: Path) -> str | None:
    if not log.exists():
        return None
    with open(log, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 200))
        lines = file.read().split(b"\n")
    return lines[-2].split()[2].decode() if len(lines) >= 2 and len(lines[-2].split()) == 3 else None


def owner_of(pid: str, runners: dict[str, "subprocess.Popen[str]"]) -> str | None:
    """The runner of the shadow of the guard that is the command's parent."""
    try:
        for _ in range(3):
            pid = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return None
    return next((name for name, process in runners.items() if process.pid == int(pid)), None)


@pytest.mark.parametrize("how", ["leave", pytest.param("resign", marks=pytest.mark.soak)])
def test_a_hand_over_ends_the_command_before_the_others_are_told(tmp_path: Path, how: str) -> None:
    """Which takes its time, longer than a lease: nobody else begins meanwhile, and nothing is begun here."""
    ports = dict(zip("ab", free_ports(2), strict=True))
    script = f"""trap 'sleep 0.8; echo $$ ended >> {tmp_path}/acts; exit' TERM
        echo $$ began >> {tmp_path}/acts; while :; do sleep 0.02; done"""

    def flags(name: str) -> list[str]:
        other = ports["a" if name == "b" else "b"]
        found = ["--group", "g", "--name", name, "--bind", f"127.0.0.1:{ports[name]}", "--seed", f"127.0.0.1:{other}"]
        return [*found, "--election", "pole", "--voters", "a,b", "--volatile"]

    def acts() -> list[str]:
        return (tmp_path / "acts").read_text().split() if (tmp_path / "acts").exists() else []

    command = ["sh", "-c", script]
    with runner(*flags("a"), command=command) as first, runner(*flags("b"), command=command) as second:
        until(lambda: len(acts()) == 2, 20)
        leader = owner_of(acts()[0], {"a": first, "b": second})
        assert leader is not None
        subprocess.run([*DOYEN, how, "--group", "g", "--name", leader], check=True, capture_output=True, timeout=20)
        if how == "leave":
            assert (first if leader == "a" else second).wait(10) == 0
            assert acts()[1::2] == ["began", "ended"]  # Alone the other has no majority.
        else:
            until(lambda: len(acts()) == 6, 20)
            assert acts()[1::2] == ["began", "ended", "began"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--group", "g", "--", "no-such-command-here"], "there is no such command here"),
        (["--group", "g", "--election", "none", "--membership", "swim", "--", "true"], "nothing would ever run"),
        (["--", "true"], "--group is missing"),
        (["--group", "g", "--grace", "soon", "--", "true"], "--grace"),
        (["--group", "g", "--election", "pole", "--", "true"], "voters must name all members"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments: list[str], said: str) -> None:
    done = subprocess.run([*DOYEN, "run", *arguments], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


def test_a_command_that_would_begin_too_late_is_not_begun_and_the_lease_may_be_renewed_while_it_starts() -> None:
    async def main(until_ns: int, renewed_ns: int | None) -> Ward:
        ward = Ward(["sh", "-c", "exit 4"], grace=0, lease=seconds(1))
        await ward.start(1, until_ns)
        if renewed_ns is not None:
            ward.extend(renewed_ns)
        await ward.dismiss()
        return ward

    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    late = asyncio.run(main(now + 1000, None))
    assert (late.was_late, late.pid) == (True, None)
    renewed = asyncio.run(main(now + 1000, now + seconds(30)))
    assert (renewed.was_late, renewed.pid is not None) == (False, True)


def test_a_leader_without_its_majority_stops_its_command_and_begins_no_other_in_what_is_left_of_the_lease(
    tmp_path: Path,
) -> None:
    def flags(name: str, port: int, other: int) -> list[str]:
        place = ["--bind", f"127.0.0.1:{port}", "--seed", f"127.0.0.1:{other}", "--state", str(tmp_path / "state")]
        voters = ["--election", "quorum", "--voters", "a,b", "--newcomer", "--pole-lease", f"{LEASE_S}s"]
        return ["--group", "two", "--name", name, *place, *voters]

    one, two = free_ports(2)
    with (
        runner(*flags("a", one, two), command=["sh", "-c", f"echo a >> {tmp_path}/began; exec sleep 60"]) as a,
        runner(*flags("b", two, one), command=["sh", "-c", f"echo b >> {tmp_path}/began; exec sleep 60"]) as b,
    ):
        until(lambda: (tmp_path / "began").exists() and bool((tmp_path / "began").read_text()), 20)
        leads, other = (a, b) if (tmp_path / "began").read_text() == "a\n" else (b, a)
        other.kill()
        time.sleep(2 * LEASE_S)
        leads.terminate()
        _, error = leads.communicate(timeout=20)
    events = [json.loads(line)["event"] for line in error.splitlines()]
    assert (events.count("elected"), events.count("lost")) == (1, 1), events
    assert len((tmp_path / "began").read_text().split()) == 1


def test_a_command_hears_a_sigterm_that_comes_before_its_first_instruction() -> None:
    """The guard ignores it, and so does its child until it becomes the command."""
    script = (
        "import os, sys, time\nfrom doyen.runner import guard\n"
        "sound = guard.prctl\n"
        "def slow(*what):\n    time.sleep(0.5)\n    sound(*what)\n"  # Between fork and exec.
        "orders, order = os.pipe()\nread, words = os.pipe()\n"
        "for number in guard.IGNORED:\n    guard.signal.signal(number, guard.signal.SIG_IGN)\n"
        "guard.prctl = slow\nos.write(order, b'')\n"
        "watched = guard.Guard(guard.Shared(), orders, words, guard.FOREVER, 20 * 10**9, 0, 0)\n"
        "start = watched.start\n"
        "def started(command):\n    pid = start(command)\n    os.write(order, b'stop\\n')\n    return pid\n"
        "watched.start = started\nprint(watched.run(['sleep', '15']))\n"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.split(), time.monotonic() - began < 10) == (["143"], True), done.stderr


def test_a_command_that_makes_its_group_while_it_is_signalled_hears_it() -> None:
    """Before that there is no group to signal, and after it the command is no longer looked for outside of it."""
    script = (
        "import os, signal, sys, time\nfrom doyen.runner import guard\n"
        "watched = guard.Guard(guard.Shared(), *os.pipe(), guard.FOREVER, 20 * 10**9, 0, 0)\n"
        "watched.pid = os.fork()\n"
        "if not watched.pid:\n    time.sleep(0.3)\n    os.setsid()\n    time.sleep(10)\n    os._exit(0)\n"
        "found = guard.descendants\n"
        "def later(pid):\n    time.sleep(0.6)\n    return found(pid)\n"
        "guard.descendants = later\nwatched.kill(signal.SIGTERM)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(watched.pid, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["-15"], done.stderr


def test_a_stopped_guard_is_replaced_by_its_shadow_as_the_lease_ends() -> None:
    """How soon is for the lab to judge: `singleton` has it 33 times in 200 kills."""

    async def main() -> Ward:
        ward = Ward(["sleep", "61"], grace=seconds(9), lease=seconds(1))
        await ward.start(1, time.clock_gettime_ns(time.CLOCK_BOOTTIME) + seconds(1))
        while ward.pid is None:
            await asyncio.sleep(0.01)
        os.kill(parent(ward.pid), signal.SIGSTOP)
        async with asyncio.timeout(10):
            await ward.dismiss()
        return ward

    ward = asyncio.run(main())
    assert ward.pid is not None and not alive(ward.pid)
    assert ward.stopped_because == "lease not renewed"


def test_nobody_but_the_ward_waits_for_its_shadow_and_it_bears_that_another_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """asyncio's own watcher would write "Unknown child process pid" among the lines of `--json`."""

    async def main() -> int:
        ward = Ward(["sleep", "61"], grace=ms(5000), lease=None)
        before = set(descendants(os.getpid()))
        await ward.start(1, None)
        while ward.pid is None:
            await asyncio.sleep(0.01)
        (shadow,) = (pid for pid in set(descendants(os.getpid())) - before if parent(pid) == os.getpid())
        ward.stop()
        await ward.ended()
        os.kill(shadow, signal.SIGKILL)
        assert os.waitpid(shadow, 0)[0] == shadow
        await ward.dismiss()
        return await ward.ended()

    assert asyncio.run(main()) == 128 + signal.SIGTERM
    assert not caplog.records


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_command_that_ended_by_itself_while_its_runner_was_paused_is_not_run_again(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; sleep 0.2; exit 7"
    with runner("--group", "pause", *QUORUM_OF_ONE, command=["sh", "-c", script]) as process:
        told(process, "elected")
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: not alive(int((tmp_path / "pid").read_text())))
        time.sleep(LEASE_S)  # The lease has ended, too.
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(10) == 7
