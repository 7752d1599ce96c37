"""The two figures of a real group, on a smaller scale: takeover after a kill, and idle traffic."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from doyen_lab.contest.kills import TIMERS, Kill, Takeovers, kill_leaders

pytestmark = pytest.mark.alone
DOYEN = [sys.executable, "-m", "doyen"]


def test_killed_leaders_are_followed_by_the_best_survivor_in_time() -> None:
    kills = 3
    seen: list[Kill] = []
    result = asyncio.run(kill_leaders(kills=kills, on_kill=seen.append))
    print(f"takeover: median {result.median_s} s, worst {result.worst_s} s, lateness {result.lateness_worst_s} s")
    assert result.each == seen
    assert result.kills == kills == result.agreed
    assert len({kill.pid for kill in seen}) == len(seen)
    assert all(kill.survivors == 4 and kill.heir == "n04" and kill.victim == "n05" for kill in seen)
    assert result.worst_s is not None
    assert result.worst_s < result.bound_s == pytest.approx(1.05)
    assert result.holds


def kill(takeover_s: float | None, *, counted: bool = True, lateness_s: float = 0.001) -> Kill:
    return Kill(
        victim="n05", pid=1, heir="n04", survivors=4, takeover_s=takeover_s, lateness_s=lateness_s, counted=counted
    )


def test_kills_on_a_late_machine_do_not_count_but_are_shown() -> None:
    result = Takeovers.of(5, TIMERS, [kill(0.5), kill(3.0, counted=False, lateness_s=0.2), kill(0.7)])
    assert (result.kills, result.repeated, result.worst_s, result.holds) == (2, 1, 0.7, True)
    assert result.lateness_worst_s == 0.001
    assert len(result.each) == 3


def test_a_group_that_never_agrees_does_not_hold() -> None:
    result = Takeovers.of(5, TIMERS, [kill(0.5), kill(None)])
    assert (result.kills, result.agreed, result.worst_s, result.holds) == (2, 1, None, False)


def test_a_takeover_at_the_bound_does_not_hold() -> None:
    assert not Takeovers.of(5, TIMERS, [kill(0.5), kill(1.05)]).holds


def test_bench_kill_says_what_it_measured() -> None:
    done = subprocess.run([*DOYEN, "bench", "kill", "--nodes", "2", "--kills", "1"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 leaders killed · 2 processes on loopback · T_A 200ms, T_L 600ms, T_S 150ms" in done.stdout
    for word in ("agreed", "median", "worst", "lateness", "repeated", "holds"):
        assert word in done.stdout


@pytest.mark.root
def test_sixteen_idle_agents_send_less_than_600_bytes_a_second() -> None:
    done = subprocess.run([*DOYEN, "bench", "idle", "--seconds", "5", "--json"], capture_output=True, text=True)
    assert done.returncode == 0
    assert all("NOT authenticated" in line for line in done.stderr.splitlines())  # Nothing else is complained of.
    result = json.loads(done.stdout)
    members = result["members"]
    print(f"idle: {result['bytes_per_s']:.1f} B/s")
    assert len(members) == 16
    assert len({member["pid"] for member in members}) == 16
    assert len({member["namespace"] for member in members}) == 16
    inodes = {member["namespace_inode"] for member in members}
    assert len(inodes | {os.stat("/proc/self/ns/net").st_ino}) == 17
    assert len({(member["namespace"], member["interface"]) for member in members}) == 16
    # The others send nothing but what their kernels ask about addresses, for the idle connection to the leader.
    busiest = max(members, key=lambda member: member["tx_bytes"])
    assert busiest["name"] == result["leader"] == "n16"
    # A multicast is counted once, where it was sent; and everybody else heard it.
    assert all(member["rx_packets"] >= 4 for member in members if member["name"] != "n16")
    assert 14 + 20 + 8 < result["bytes_per_s"] < 600
    assert result["holds"]


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_bench_leaves_no_process_and_no_namespace(number: signal.Signals) -> None:
    bench = [*DOYEN, "bench", "idle", "--nodes", "2", "--seconds", "600"]
    with subprocess.Popen(bench, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        children: list[int] = []
        try:
            children = _agents_of(process, 2)
            process.send_signal(number)
            out, error = process.communicate(timeout=20)
        except BaseException:  # Or a bench that does not end would hang the suite.
            for pid in (process.pid, *children):
                os.kill(pid, signal.SIGKILL)
            raise
    assert process.returncode == 128 + number
    assert (out, error.strip()) == ("", "")
    assert not any(os.path.exists(f"/proc/{pid}") for pid in children)
    assert not [name for name in os.listdir("/run/netns") if name.startswith(f"doyen{process.pid}-")]


def _agents_of(process: "subprocess.Popen[str]", wanted: int) -> list[int]:
    """Its agents, as soon as there are so many."""

    async def wait() -> list[int]:
        async with asyncio.timeout(20):
            while True:
                with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                    agents = [int(pid) for pid in file.read().split() if _is_agent(int(pid))]
                if len(agents) == wanted:
                    return agents
                await asyncio.sleep(0.01)

    return asyncio.run(wait())


def _is_agent(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"\0agent\0" in file.read()
    except OSError:
        return False
