"""`doyen run --once`: the runner's side of its occasion, and the folder in which that is remembered."""

import asyncio
import fcntl
import os
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen.core.commands import Command, Conclude, Inquire, Kept, Recall
from doyen.errors import TransportError
from doyen.membership.occasions import Concluded, Inquired, Memory, OccasionDone
from doyen.net.storage import look_at
from doyen.node.config import NodeConfig
from doyen.node.node import Node
from doyen.node.stack import OCCASIONS


class Once(Struct, frozen=True, kw_only=True):
    """The settings of `--once`; the key is empty where none was given."""

    key: str
    remember: Duration
    linger_s: float


class Occasion:
    """The occasion of one runner: whether it was done, asking the others, and notifying them."""

    def __init__(self, once: Once, node: Node) -> None:
        self.once, self._node = once, node
        self.done: asyncio.Future[OccasionDone] = asyncio.get_running_loop().create_future()
        self._answer: asyncio.Future[Any] | None = None

    def begin(self) -> None:
        """Learn what this machine's disk has, and follow what the others say."""
        agent = self._node.agent
        agent.driver.watch(self._on_fact)
        agent.driver.tell(
            Recall(kept_beside(Path(agent.config.state), agent.config.group, agent.name)), channel=OCCASIONS
        )

    async def ask(self) -> tuple[str, ...] | None:
        """Ask all members that are present; return those that did not answer, or None if it was done."""
        answer = await self._ask(Inquire(), or_done=True)
        return None if answer is None else answer.silent

    async def tell(self) -> Concluded:
        """Make it durable that the command succeeded, here and on all members that are present."""
        told: Concluded = await self._ask(Conclude(self.once.remember), or_done=False)
        return told

    async def _ask(self, command: Command, *, or_done: bool) -> Any:
        self._answer = asyncio.get_running_loop().create_future()
        self._node.agent.driver.tell(command, channel=OCCASIONS)
        waits = {self._answer, self.done} if or_done else {self._answer}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        return None if or_done and self.done.done() else self._answer.result()

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        if channel != OCCASIONS:
            return
        if isinstance(fact, OccasionDone):
            if not self.done.done():
                self.done.set_result(fact)
        elif isinstance(fact, Inquired | Concluded) and self._answer is not None and not self._answer.done():
            self._answer.set_result(fact)


def done_text(fact: OccasionDone) -> str:
    """Return who did it and when: with the day, unless that is today."""
    at, today = time.localtime(fact.at // 10**9), time.localtime()
    return f"by {fact.by} at " + time.strftime("%H:%M:%S" if at[:3] == today[:3] else "%Y-%m-%d %H:%M:%S", at)


# Where it is remembered.


def default_state(group: str) -> Path:
    """Return the folder of this user in which runners of that group remember."""
    given = os.environ.get("XDG_STATE_HOME", "")
    root = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return root / "doyen" / f"once-{quote(group, safe='')}"


class Place:
    """A name and a folder for a runner without a name: the same ones after a restart, and nobody else's meanwhile."""

    def __init__(self, config: NodeConfig) -> None:
        self._lock = -1
        self.config = config
        if config.name:
            return
        directory = Path(config.state)
        host = socket.gethostname()[:40]
        try:
            directory.mkdir(parents=True, exist_ok=True)
            known = sorted(place.name for place in directory.iterdir() if place.name.startswith(f"{host}-"))
            name = next((name for name in known if self._take(directory / name)), "")
            while not name:
                made = f"{host}-{os.urandom(2).hex()}"
                (directory / made).mkdir(exist_ok=True)
                name = made if self._take(directory / made) else ""
        except OSError as error:
            raise TransportError(
                f"state directory {directory}: {error.strerror}: --once remembers there; give another by --state"
            ) from None
        self.config = msgspec.structs.replace(config, name=name)

    def _take(self, place: Path) -> bool:
        if not place.is_dir() or any(place.glob("retired-*")):
            return False
        lock = os.open(place / "runner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def free(self) -> None:
        """Let others have the name; the end of the process does so, too."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def kept_beside(directory: Path, group: str, name: str) -> tuple[Kept, ...]:
    """Return what other runners of that group remember in the same folder; damaged records are passed over."""
    kept: list[Kept] = []
    for place in sorted(directory.iterdir()):
        if place.name == name or not place.is_dir():
            continue
        for found in look_at(place):
            if found.file == f"{OCCASIONS}.state" and not found.damage:
                try:
                    memory = msgspec.convert(found.record, Memory)
                except msgspec.ValidationError:
                    continue
                kept += memory.done if memory.group == group else ()
    return tuple(kept)
