"""One process of a peer's, in a namespace, with a folder of its own for what it keeps and says."""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.iproute import enter
from doyen_lab.netns import Namespace

T = TypeVar("T")


class Peer:
    """Started by `start`, ended by `stop`; its output is in `log`."""

    def __init__(self, name: str, host: Namespace, folder: Path) -> None:
        self.name, self.host, self.folder = name, host, folder
        self.log = folder / "log"
        folder.mkdir(parents=True, exist_ok=True)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self, command: Sequence[str], *, on_line: Callable[[str, Instant], None] | None = None) -> None:
        """`on_line` gets what it writes to its standard output, and when that was read, as it comes."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.host.wrap,
                *command,
                cwd=self.folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log if on_line is None else asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: we end it.
            )
        if on_line is not None:
            self._reader = asyncio.create_task(self._read(self._process, on_line))

    @property
    def pid(self) -> int:
        """`ip netns exec` becomes the command, so this is the process itself."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def namespace_inode(self) -> int:
        return os.stat(f"/proc/{self.pid}/ns/net").st_ino

    async def kill(self) -> Instant:
        """SIGKILL; returns the instant before it."""
        assert self._process is not None
        at = boot_time_ns()
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        return at

    async def stop(self) -> None:
        if self._process is None or not self.alive:
            return
        self._process.kill()  # Nothing that it keeps is needed any more.
        await self._process.wait()
        if self._reader is not None:
            await self._reader

    async def _read(self, process: asyncio.subprocess.Process, on_line: Callable[[str, Instant], None]) -> None:
        assert process.stdout is not None
        with self.log.open("a") as log:
            async for line in process.stdout:
                at, text = boot_time_ns(), line.decode(errors="replace")
                log.write(text)
                on_line(text.rstrip("\n"), at)

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " | ".join(lines[-3:])


class Asker:
    """Asks processes through their own namespaces' loopback, so that no question crosses a counted interface."""

    def __init__(self, threads: int = 16) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="asker")

    async def ask(self, host: Namespace, question: Callable[[], T]) -> T:
        def inside() -> T:
            enter(host.name)  # Each time: a thread is wherever its last question was.
            return question()

        return await asyncio.get_running_loop().run_in_executor(self._threads, inside)

    def close(self) -> None:
        self._threads.shutdown(wait=False)


def need_commands(what: str, packages: dict[str, str]) -> None:
    """`packages`: which Debian package has the file or the command."""
    missing = [package for name, package in packages.items() if shutil.which(name) is None and not Path(name).exists()]
    if missing:
        raise TransportError(f"{what} is not here: as root, apt-get install {' '.join(missing)}")
