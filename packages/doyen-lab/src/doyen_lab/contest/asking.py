"""Questions to processes, through their own namespaces' loopback, so that none crosses a counted interface."""

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from doyen.errors import TransportError
from doyen_lab.iproute import enter
from doyen_lab.netns import Namespace

T = TypeVar("T")


class Asker:
    def __init__(self, threads: int = 16) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="asker")

    async def ask(self, host: Namespace, question: Callable[[], T]) -> T:
        """Ask within that host's namespace."""

        def inside() -> T:
            enter(host.name)  # Each time: a thread is wherever its last question was.
            return question()

        return await asyncio.get_running_loop().run_in_executor(self._threads, inside)

    def close(self) -> None:
        self._threads.shutdown(wait=False)


def need_commands(what: str, packages: dict[str, str]) -> None:
    """Refuse to go on without a command or a file; `packages` says which Debian package has it."""
    missing = [package for name, package in packages.items() if shutil.which(name) is None and not Path(name).exists()]
    if missing:
        raise TransportError(f"{what} is not here: as root, apt-get install {' '.join(missing)}")
