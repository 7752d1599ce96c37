"""Every membership × election on real sockets: three processes that know one seed agree, also after a kill."""

import asyncio
import socket
import subprocess
import sys

import pytest

from doyen.election.announce.config import AnnounceConfig
from doyen.node.agent_line import AgentLine
from doyen.testing.processes import LocalCluster

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("membership", "election"),
    [
        ("swim", "hybrid"),
        ("medley", "base"),
        ("heartbeat", "optimistic"),
        ("swim", "spanning"),
        ("swim", "local"),
        ("swim", "le-s"),
        ("ring", "by-key"),
    ],
)
def test_three_that_know_one_seed_agree_and_again_after_a_kill(membership: str, election: str) -> None:
    told: list[AgentLine] = []

    async def main() -> None:
        port = free_port()
        flags = ["--preset", "local", "--membership", membership, "--election", election, "--no-find-local"]
        async with LocalCluster("stack", AnnounceConfig(), flags=flags, on_told=told.append) as cluster:
            await cluster.start("a", "--bind", f"127.0.0.1:{port}")
            for name in ("b", "c"):  # They know a, and hear of each other through it.
                await cluster.start(name, "--seed", f"127.0.0.1:{port}")
            await cluster.until_started()
            await cluster.until(lambda: all(m.alive for m in cluster.members.values()), 1)
            await cluster.agreement(15, unchanged_s=0.5)
            first = cluster.agreed()
            assert first is not None
            cluster.kill(first)
            await cluster.members[first].process.wait()
            await cluster.agreement(20)
            assert cluster.agreed() != first

    asyncio.run(main())
    if election == "le-s":
        return  # It does not wait for the membership.
    victim = next(t.member for t in told if t.event == "member" and t.member_status == "failed")
    if membership in ("swim", "medley"):  # Nobody fails before it was suspected, and by whom is told.
        assert any(t.member == victim and t.member_status == "suspected" and t.by for t in told)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--membership", "none", "--election", "hybrid"],
            "--membership none cannot carry the election gossip (hybrid)",
        ),
        (["--membership", "none", "--election", "spanning"], "it speaks to its neighbours"),
        (["--election", "none", "--membership", "none"], "--election none leaves nothing to do"),
        (["--election", "le-s", "--suppress-interval", "0"], "with 0 it is le-a"),
        (["--hops", "bee"], "--hops 'bee' is not name=hops"),
        (["--meta", "zone"], "--meta 'zone' is not key=value"),
        (["--group-size", "0"], "--group-size 0 is out of range"),
        (["--config", "nowhere.toml"], "--config nowhere.toml"),
    ],
)
def test_combinations_without_sense_are_refused_and_why_is_said(flags: list[str], said: str) -> None:
    done = subprocess.run([*DOYEN, "agent", "--group", "g", *flags], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
