"""This version and the one before it work in one group: real processes of both builds, from wheels' own files."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import doyen

pytestmark = pytest.mark.live
WHEEL = next(Path(__file__).parent.glob("doyen-*.whl"))
OLD = WHEEL.name.split("-")[1]
PATIENCE_S = 30.0  # A start takes a second, several where the machine is busy.


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the version before, in a folder: what is imported from a zip would be compiled at each start."""
    folder = tmp_path_factory.mktemp("before")
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(folder)
    return folder


class Group:
    """Agents of both builds, and the last status of each."""

    def __init__(self, before: Path, place: Path) -> None:
        self.before, self.place = before, place
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.told: dict[str, list[dict[str, Any]]] = {}
        self._readers: list[asyncio.Task[None]] = []

    async def start(self, name: str, build: str, *flags: str) -> None:
        env = os.environ | {"DOYEN_RUNTIME_DIR": str(self.place / "run")}
        if build == "old":
            env["PYTHONPATH"] = str(self.before)
        command = [sys.executable, "-m", "doyen", "agent", "--name", name, "--preset", "local", "--status-every", "0.1"]
        process = await asyncio.create_subprocess_exec(*command, *flags, env=env, stdout=subprocess.PIPE)
        self.processes[name], self.told[name] = process, []
        self._readers.append(asyncio.create_task(self._read(name)))

    async def _read(self, name: str) -> None:
        stream = self.processes[name].stdout
        assert stream is not None
        async for line in stream:
            self.told[name].append(json.loads(line))

    def status(self, name: str) -> dict[str, Any]:
        return next((told for told in reversed(self.told[name]) if told["event"] == "status"), {})

    def leader(self, *names: str) -> str | None:
        """Return the leader that all of these name, if there is one."""
        named = {self.status(name).get("leader") for name in names}
        leader = named.pop()
        return leader if not named and leader in names and self.status(leader)["status"] == "leading" else None

    def versions(self, name: str) -> dict[str, str]:
        """Return what `doyen members` says of the members' versions, asked of this one."""
        command = [sys.executable, "-m", "doyen", "members", "--group", "gossip", "--name", name, "--json"]
        env = os.environ | {"DOYEN_RUNTIME_DIR": str(self.place / "run")}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        members = json.loads(done.stdout)["members"]
        return {member["name"]: member["software"] for member in members if member["state"] == "alive"}

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not holds():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"{what}: {json.dumps({name: told[-3:] for name, told in self.told.items()}, indent=1)}")

    async def kill(self, name: str) -> None:
        self.processes[name].kill()
        await self.processes[name].wait()

    async def end(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.terminate()
        await asyncio.gather(*(process.wait() for process in self.processes.values()), *self._readers)


def free_addresses(count: int) -> list[str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)]
        for made in sockets:
            made.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{made.getsockname()[1]}" for made in sockets]


def test_the_wheel_is_of_another_version(before: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(before)}
    show = "import doyen; print(doyen.__version__, doyen.__file__)"
    done = subprocess.run([sys.executable, "-c", show], env=env, capture_output=True, text=True, check=True)
    version, file = done.stdout.split()
    assert Path(file).is_relative_to(before)
    assert version != doyen.__version__
    assert not Path(doyen.__file__).is_relative_to(before)


def test_both_builds_share_members_and_leaders(before: Path, tmp_path: Path) -> None:
    """`gossip` and `quorum` side by side, with a key: joined, agreed, the leaders killed, agreed again."""
    gossips = {"ant": "old", "bee": "new", "cat": "old", "dog": "new"}
    voters = {"one": "old", "two": "new", "three": "old"}
    keys = tmp_path / "group.keys"
    make_key = [sys.executable, "-m", "doyen", "keys", "new", "--file", str(keys)]
    subprocess.run(make_key, check=True, capture_output=True)

    async def main() -> None:
        group, deadline = Group(before, tmp_path), time.monotonic() + 2 * PATIENCE_S
        at = dict(zip((*gossips, *voters), free_addresses(7), strict=True))
        common = ["--group", "gossip", "--election", "hybrid", "--membership", "swim", "--key-file", str(keys)]
        voting = ["--group", "quorum", "--election", "pole", "--voters", ",".join(voters), "--newcomer"]
        voting += ["--key-file", str(keys)]
        voting += ["--state", str(tmp_path / "state"), *(flag for name in voters for flag in ("--seed", at[name]))]
        try:
            for name, build in gossips.items():
                await group.start(name, build, *common, "--bind", at[name], "--seed", at["ant"])
            for name, build in voters.items():
                await group.start(name, build, *voting, "--bind", at[name])

            def listed(count: int) -> bool:
                return all(
                    group.status(name).get("members", {}).get("alive") == count
                    for name in gossips
                    if group.processes[name].returncode is None
                )

            await group.until(lambda: listed(4), "one list of four members")
            await group.until(lambda: group.leader(*gossips) is not None, "one leader by gossip")
            await group.until(lambda: group.leader(*voters) is not None, "one leader by quorum")
            first, elected = group.leader(*gossips), group.leader(*voters)
            assert first and elected
            await asyncio.gather(group.kill(first), group.kill(elected))
            others = [name for name in gossips if name != first]
            rest = [name for name in voters if name != elected]
            await group.until(lambda: group.leader(*rest) is not None, "the next leader by quorum")
            await group.until(lambda: group.leader(*others) is not None, "the next leader by gossip")
            await group.until(lambda: listed(3), "one list of three members")
            assert group.status(rest[0])["term"] > 1
            asked = next(name for name in others if gossips[name] == "new")
            builds = {name: OLD if gossips[name] == "old" else doyen.__version__ for name in others}
            while (versions := await asyncio.to_thread(group.versions, asked)) != builds:  # They come by gossip.
                assert time.monotonic() < deadline, versions
            refused = {name: group.told[name][-1].get("refused", {}) for name in group.told}
            # The earlier build does not know every message; nothing depends on those.
            for name, build in (gossips | voters).items():
                wrong = {"version", "malformed"} | ({"message", "channel"} if build == "new" else set())
                assert not wrong & refused[name].keys(), (name, refused[name])
        finally:
            await group.end()

    asyncio.run(main())


def test_without_a_key_the_earlier_build_is_not_heard_and_the_log_says_what_to_do(
    before: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It cannot echo (decision 84); each build leads its own, and the earlier one names itself."""

    async def main() -> str:
        group = Group(before, tmp_path)
        at = dict(zip(("ant", "bee"), free_addresses(2), strict=True))
        seeds = [flag for address in at.values() for flag in ("--seed", address)]
        said = ""
        try:
            for name, build in (("ant", "old"), ("bee", "new")):
                flags = ["--group", "gossip", "--election", "hybrid", "--membership", "swim", "--bind", at[name]]
                await group.start(name, build, *flags, *seeds)

            def is_complained_of() -> bool:
                nonlocal said
                said += capfd.readouterr().err
                return f"datagram from {at['ant']}: deaf: its source goes on sending and does not echo" in said

            await group.until(is_complained_of, "a line about the earlier build")
            assert group.status("bee").get("members", {}).get("alive", 1) == 1
        finally:
            await group.end()
        return said

    said = asyncio.run(main())
    assert "runs doyen 0.1" in said and "upgrade it, or give the group a key first" in said
