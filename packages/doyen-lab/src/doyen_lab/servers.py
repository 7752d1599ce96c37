"""Real stores from Debian's packages, each alone on a loopback port of its own and in a temporary folder.

A server that refuses to run as root runs as its package's user.  It can be killed, paused and started again on the
same data; leaving the context ends it.  It does not wait for its disk, but for etcd, which has no setting for that:
what a killed process wrote is in the kernel, and whole machines do not fail here.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from doyen.errors import TransportError
from doyen_lab.contest.asking import need_commands
from doyen_lab.contest.zookeeper import CLASSPATH

SERVE_S: Final = 60.0
POSTGRES_HELLO: Final = b"\0\0\0\x26\0\x03\0\0user\0doyen\0database\0postgres\0\0"
POSTGRES_BIN: Final = "/usr/lib/postgresql"
PACKAGES: Final = {
    "postgresql": {POSTGRES_BIN: "postgresql"},
    "redis": {"redis-server": "redis-server"},
    "etcd": {"etcd": "etcd-server"},
    "zookeeper": {"java": "default-jre-headless", "/usr/share/java/zookeeper.jar": "zookeeper"},
}
ZOO_CFG: Final = """\
tickTime=200
dataDir={folder}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
minSessionTimeout=400
maxSessionTimeout=60000
4lw.commands.whitelist=srvr
"""


class Server:
    """One store."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder, self.port = kind, folder, free_port()
        self._user = "postgres" if kind == "postgresql" and os.getuid() == 0 else None
        if self._user is not None:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        if kind == "postgresql":
            made = self._run([f"{_postgres()}/initdb", "-D", f"{folder}/data", "-U", "doyen", "-A", "trust", "-N"])
            if made.wait():
                raise TransportError(f"initdb failed: {self.last_words()}")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        user, path = ("doyen@", "/postgres") if self.kind == "postgresql" else ("", "")
        return f"{self.kind}://{user}127.0.0.1:{self.port}{path}"

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self.process = self._run(self._command())
        deadline = time.monotonic() + SERVE_S
        while not self._serves():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise TransportError(f"{self.kind} does not serve: {self.last_words()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it with all its processes, as a machine that loses power would."""
        if self.process is not None:
            self.resume()
            self._signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        """Stop all its processes: connections stay, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process, then its children: those of PostgreSQL each have a process group of their own."""
        assert self.process is not None
        main = self.process.pid
        if number is not signal.SIGCONT:
            os.kill(main, signal.SIGSTOP)  # From here on it starts no further one.
        with suppress(FileNotFoundError):
            for child in Path(f"/proc/{main}/task/{main}/children").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(child), number)
        os.killpg(main, number)

    def last_words(self) -> str:
        return self.folder.with_suffix(".log").read_text(errors="replace")[-500:].strip()

    def _run(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with open(self.folder.with_suffix(".log"), "ab") as log:
            return subprocess.Popen(
                command,
                user=self._user,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _command(self) -> list[str]:
        folder, port = self.folder, self.port
        if self.kind == "postgresql":
            for left in (folder / "data").glob("postmaster.pid"):  # Of one that was killed.
                left.unlink()
            settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
            given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
            return [f"{_postgres()}/postgres", "-D", f"{folder}/data", "-p", str(port), *given]
        if self.kind == "redis":
            kept = ["--appendonly", "yes", "--appendfsync", "no", "--save", ""]
            return ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), *kept]
        if self.kind == "etcd":
            own, peer = f"http://127.0.0.1:{port}", "http://127.0.0.1:0"
            urls = [f"--listen-client-urls={own}", f"--advertise-client-urls={own}", f"--listen-peer-urls={peer}"]
            return ["etcd", f"--data-dir={folder}/data", *urls, "--logger=zap", "--log-outputs=stderr"]
        (folder / "zoo.cfg").write_text(ZOO_CFG.format(folder=folder, port=port))
        words = [
            "-Xmx128m",
            "-cp",
            CLASSPATH,
            f"-Dzookeeper.log.dir={folder}",
            "-Dzookeeper.forceSync=no",
        ]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return ["java", *words, "-Dzookeeper.root.logger=WARN,CONSOLE", main, f"{folder}/zoo.cfg"]

    def _serves(self) -> bool:
        asked: dict[str, Callable[[], bool]] = {
            "postgresql": lambda: self._says(POSTGRES_HELLO, b"R\0\0\0\x08\0\0\0\0"),  # It takes the user.
            "redis": lambda: self._says(b"PING\r\n", b"+PONG"),
            "etcd": lambda: self._says(b"GET /health HTTP/1.0\r\n\r\n", b'"true"'),
            "zookeeper": lambda: self._says(b"srvr", b"Mode:"),
        }
        return asked[self.kind]()

    def _says(self, question: bytes, *expected: bytes) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(question)
                said = b""
                while not any(word in said for word in expected) and (part := connection.recv(4096)):
                    said += part
                return any(word in said for word in expected)
        except OSError:
            return False


def missing(kind: str) -> str:
    """Return why there can be no such server here; an empty text where there can."""
    try:
        need_commands(kind, PACKAGES[kind])
    except TransportError as error:
        return str(error)
    return ""


@contextmanager
def running(kind: str) -> Iterator[Server]:
    """Run a server: postgresql, redis, etcd or zookeeper."""
    if reason := missing(kind):
        raise TransportError(reason)
    place = Path(tempfile.mkdtemp(prefix=f"doyen-{kind}-"))
    place.chmod(0o755)
    folder = place / kind
    folder.mkdir()
    server = Server(kind, folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(place, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _postgres() -> str:
    """Return the folder of the newest PostgreSQL's programs."""
    return str(max(Path(POSTGRES_BIN).glob("*/bin"), key=lambda path: float(path.parent.name)))
