"""Servers that elect among themselves and write nothing of it: they are asked, but only while somebody waits."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from doyen.core.clock import Instant
from doyen.net.driver import boot_time_ns
from doyen_lab.contest.asking import Asker
from doyen_lab.contest.entrant import Entrant
from doyen_lab.netns import Network

LOOK_EVERY_S = 0.05


class Asked(Entrant):
    """Each server is asked through its own namespace, so that no question crosses a counted interface."""

    def __init__(self, label: str, network: Network, folder: Path, *, names: Sequence[str]) -> None:
        super().__init__(label, network, folder, names=names)
        self._asker = Asker(self.size)

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        self._asker.close()

    def hear(self, name: str, line: str, at: Instant) -> None:
        """A server's log says nothing that is used here."""

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        asking = asyncio.create_task(self._keep_asking())
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _keep_asking(self) -> None:
        while True:
            asked = self.rest()  # A leader that is cut off goes on saying so for a while: it is not asked.
            found = await asyncio.gather(*(self._asker.ask(self.hosts[name], self.question) for name in asked))
            self.note(dict(zip(asked, found, strict=True)), boot_time_ns())
            await asyncio.sleep(LOOK_EVERY_S)

    @staticmethod
    @abstractmethod
    def question() -> Any:
        """Ask the server on this loopback."""

    @abstractmethod
    def note(self, answers: Mapping[str, Any], at: Instant) -> None:
        """Note in the ledger what the servers' answers mean."""
