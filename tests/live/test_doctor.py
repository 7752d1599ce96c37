"""What `doyen doctor` calls wrong of nodes that run here; the nodes say it themselves, too."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from doyen.core.clock import ms
from doyen.core.codec import Codec
from doyen.core.ids import Incarnation, NodeId, parse_address
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.machine import Swim
from doyen.net.driver import Driver
from doyen.net.udp import UdpConfig, UdpTransport
from doyen.node.control import ask
from doyen.testing.processes import LocalCluster, multicast_on_loopback

pytestmark = [pytest.mark.alone]


def asked(name: str, what: str) -> Any:
    return ask(Path(os.environ["DOYEN_RUNTIME_DIR"]) / "ills" / f"{name}.sock", what)


async def examined(*flags: str) -> tuple[int, list[dict[str, str]]]:
    """Return the exit code, and all findings."""
    line = [sys.executable, "-m", "doyen", "doctor", "--json", *flags]
    done = await asyncio.to_thread(subprocess.run, line, capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout)["findings"]


async def doctor() -> tuple[int, dict[str, str]]:
    """Return the exit code, and what is wrong with the advice to it."""
    code, findings = await examined()
    return code, {found["what"]: found["advice"] for found in findings if found["verdict"] == "wrong"}


def advice(wrong: dict[str, str], *parts: str) -> str:
    """Return the advice of the one finding that has all these parts."""
    (found,) = (then for what, then in wrong.items() if all(part in what for part in parts))
    return found


def test_what_is_wrong_here_is_called_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    flags = ["--preset", "local"]

    async def main() -> None:
        async with LocalCluster("ills", None, flags=flags) as ills, LocalCluster("dumb", None, flags=flags) as dumb:
            ant = await ills.start("ant", "--election", "announce")
            await dumb.start("dog", "--election", "announce", *multicast_on_loopback())
            await ills.until_started()
            assert ant.address is not None
            bee = await ills.start("bee", "--election", "hybrid", "--seed", ant.address)
            await ills.until_started()
            await dumb.until_started()
            assert bee.address is not None
            nameless = Driver(  # A member that tells nobody where it is.
                NodeId("cat"), Incarnation(1), Codec("ills"), UdpTransport(UdpConfig()), asks_for_echoes=True
            )
            seeds, timers = [parse_address(bee.address)], SwimConfig(period=ms(200), ack_timeout=ms(80))
            nameless.addresses.given = frozenset(seeds)
            nameless.add("membership", lambda port: Swim(NodeId("cat"), timers, port, Random(1), seeds=seeds))
            await nameless.start()
            await ills.until(lambda: {ant.leader, bee.leader} == {"ant", "bee"}, 20)
            async with asyncio.timeout(20):
                while not all(asked(name, "status")["differs"] for name in ("ant", "bee")):
                    await asyncio.sleep(0.05)
                while "cat" not in {member["name"] for member in asked("bee", "members")["members"]}:
                    await asyncio.sleep(0.05)
            code, wrong = await doctor()
            nameless.close()
            _, of_dumb = await examined("--group", "dumb")
            assert not [found for found in of_dumb if "promise" in found["what"]], "dog runs fast, not the default"
            assert code == 1
            assert not any("leaders here" in what for what in wrong), "bee is named, but lets ant act"
            ours = "bee runs gossip (hybrid), this node runs fast (announce)"
            theirs = "ant runs fast (announce), this node runs gossip (hybrid)"
            waits = f"is named leader, but does not act yet: {theirs}"
            assert advice(wrong, "ills/ant", ours) == advice(wrong, "ills/bee", waits) == "give both the same"
            assert advice(wrong, "ills/bee", "the address of cat is unknown") == "--advertise HOST:PORT on cat"
            assert "leave --bind away" in advice(wrong, "dumb/dog", "multicast only reaches this machine", "127.0.0.1")
            assert len(wrong) == 4
            for name, said in (("ant", ours), ("bee", theirs)):
                assert ["differs", f"{said}: give both the same"] in asked(name, "explain")["lines"]
            logged = capfd.readouterr().err
            for line in (f"ant: {ours}: give both the same", f"bee: {theirs}: give both the same"):
                assert logged.count(line) == 1
            assert "no machine here listens" not in logged

    asyncio.run(main())


def test_a_state_directory_that_was_removed_is_found_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))

    async def main() -> None:
        state = tmp_path / "state"
        async with LocalCluster("kept", None, flags=["--preset", "local", "--state", str(state)]) as kept:
            await kept.start("ant")
            while not (state / "ant" / "election.state").exists():  # It is elected: what it has to write is written.
                await asyncio.sleep(0.01)
            _, wrong = await doctor()
            assert not any("state directory" in what for what in wrong)
            shutil.rmtree(state)
            _, wrong = await doctor()
            assert advice(wrong, "kept/ant", f"state directory {state}/ant is gone while it runs").startswith(
                "start it again"
            )

    asyncio.run(main())


def test_a_voter_without_a_record_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))

    async def main() -> None:
        voters = ["--election", "quorum", "--voters", "ant,bee", "--state", str(tmp_path / "state")]
        async with LocalCluster("votes", None, flags=["--preset", "local", *voters]) as group:
            await group.start("ant")
            await group.start("bee", "--newcomer")
            await group.until_started()
            _, wrong = await doctor()
            assert "doyen voters replace ant" in advice(wrong, "votes/ant", "does not vote")
            assert not any("votes/bee" in what and "does not vote" in what for what in wrong)

    asyncio.run(main())
