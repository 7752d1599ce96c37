"""Beside a real Patroni: its PostgreSQL fails over, and the election that doyen keeps there goes on."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import pytest

import doyen
from doyen.fence import Postgres, TermRefused
from doyen_lab.servers import Server, free_port

pytestmark = [
    pytest.mark.live,
    pytest.mark.soak,
    pytest.mark.skipif(
        shutil.which("patroni") is None or os.getuid() != 0,
        reason="patroni is not here: as root, apt-get install patroni",
    ),
]
POSTGRES = "/usr/lib/postgresql"
CONFIG = """\
scope: money
name: {name}
restapi: {{listen: '127.0.0.1:{api}', connect_address: '127.0.0.1:{api}'}}
etcd3: {{host: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs: {{ttl: 20, loop_wait: 1, retry_timeout: 3, synchronous_mode: true, postgresql: {{use_pg_rewind: false}}}}
  initdb: [{{encoding: UTF8}}, {{auth-host: trust}}, {{auth-local: trust}}]
  pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust', 'local all all trust']
postgresql:
  listen: '127.0.0.1:{port}'
  connect_address: '127.0.0.1:{port}'
  data_dir: {folder}/{name}
  pgpass: {folder}/{name}.pgpass
  bin_dir: {bin}
  parameters: {{unix_socket_directories: '{folder}', fsync: 'off'}}
  authentication: {{superuser: {{username: postgres, password: x}}, replication: {{username: repl, password: x}}}}
"""


class Patroni:
    """One Patroni with its PostgreSQL."""

    def __init__(self, name: str, folder: Path, etcd_port: int) -> None:
        self.name, self.folder, self.api, self.port = name, folder, free_port(), free_port()
        found = sorted(Path(POSTGRES).glob("*/bin"))[-1]
        given = {"api": self.api, "port": self.port, "etcd": etcd_port, "bin": found, "folder": folder}
        (folder / f"{name}.yml").write_text(CONFIG.format(name=name, **given))
        with (folder / f"{name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["patroni", str(folder / f"{name}.yml")],
                cwd=folder,
                user="postgres",
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def says(self, what: str) -> bool:
        """Whether it answers yes to one of its probes: primary, sync."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.api}/{what}", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """Kill Patroni and its PostgreSQL, as a machine that loses power would."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        pid_file = self.folder / self.name / "postmaster.pid"
        if pid_file.exists():
            main = int(pid_file.read_text().split()[0])
            children = Path(f"/proc/{main}/task/{main}/children")
            for pid in [main, *map(int, children.read_text().split() if children.exists() else ())]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@contextmanager
def patronis(etcd_port: int) -> Iterator[list[Patroni]]:
    with tempfile.TemporaryDirectory(prefix="doyen-patroni-") as text:
        folder = Path(text)
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
        made: list[Patroni] = []
        try:
            made.append(Patroni("pg1", folder, etcd_port))
            made.append(Patroni("pg2", folder, etcd_port))
            until("a primary, and a synchronous standby", lambda: both(made), lambda: logs(folder))
            yield made
        finally:
            for each in made:
                each.kill()


def both(made: list[Patroni]) -> bool:
    return any(each.says("primary") for each in made) and any(each.says("sync") for each in made)


def logs(folder: Path) -> str:
    return "".join(file.read_text(errors="replace")[-1500:] for file in folder.glob("*.log"))


def until(what: str, holds: Callable[[], bool], why: Callable[[], str] = str) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, f"{what}: {why()}"
        time.sleep(0.2)


async def elected(nodes: list[doyen.Node], above: int) -> tuple[str, int]:
    """Wait for a leader of a greater term; fail if two act at once."""
    async with asyncio.timeout(120):
        while True:
            acting = [node for node in nodes if node.is_leader]
            assert len(acting) <= 1
            for node in acting:
                if node.term is not None and node.term.number > above:
                    return node.name, node.term.number
            await asyncio.sleep(0.005)


def test_after_a_failover_of_patroni_there_is_one_leader_and_late_ones_are_refused(
    server_of: Callable[[str], Server], tell: Callable[[str], None]
) -> None:
    import psycopg

    etcd = server_of("etcd")
    server_of("postgresql")  # Skips where there is none.

    async def fail_over(made: list[Patroni]) -> str:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in made)
        store = doyen.Engine(f"postgresql://postgres@{hosts}/postgres", lease="2s", renew_interval="500ms")

        def connected() -> "psycopg.Connection[tuple[object, ...]]":
            address = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write&connect_timeout=3"
            return psycopg.connect(address, autocommit=True)

        async with AsyncExitStack() as stack:
            nodes = [
                await stack.enter_async_context(doyen.join("money", name=name, election=store))
                for name in ("ant", "bee", "cat")
            ]
            _, first = await elected(nodes, 0)
            before = connected()
            fence = Postgres(before, "money")
            fence.prepare()
            fence.check(first)
            before.close()
            primary = next(each for each in made if each.says("primary"))
            killed_at = time.monotonic()
            await asyncio.to_thread(primary.kill)
            _, second = await elected(nodes, first)
            took = time.monotonic() - killed_at
            after = connected()
            late = Postgres(after, "money")
            late.check(second)
            with pytest.raises(TermRefused):
                late.check(first)
            after.close()
            return f"beside Patroni: term {first}, its primary killed, term {second} after {took:.1f} s"

    with patronis(etcd.port) as made:
        tell(asyncio.run(fail_over(made)))
