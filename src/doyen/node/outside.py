"""Runs the other half of an election in a thread: a disk that hangs must not hang the node."""

import asyncio
import logging
import threading
from contextlib import suppress
from queue import SimpleQueue

from doyen.core.ids import Incarnation, NodeId
from doyen.core.kinds import ElectionKind
from doyen.core.outside import Answered, Outside, Request, Work
from doyen.net.driver import Driver
from doyen.node.config import NodeConfig

log = logging.getLogger("doyen")


def outside_of(config: NodeConfig, name: str, kind: ElectionKind, node: NodeId, incarnation: Incarnation) -> Outside:
    """Return what the other half of that election is made from."""
    table = config.table(kind.table)
    return Outside(
        node=node, incarnation=incarnation, group=config.group, name=name, shared=config.shared, config=table
    )


class Worker:
    """Does the requests of one election in order, and gives its machine the answers."""

    def __init__(self, driver: Driver, channel: str, work: Work) -> None:
        self._driver, self._channel, self._work = driver, channel, work
        self._loop = asyncio.get_running_loop()
        self._requests: SimpleQueue[Request | None] = SimpleQueue()  # None: the node has ended.
        self.busy = 0  # Requests that were not answered yet.
        # As a daemon: a request that hangs must not keep the process from ending.
        threading.Thread(target=self._run, name=f"doyen-{channel}", daemon=True).start()
        driver.on_close(lambda: self._requests.put(None))

    def ask(self, request: Request) -> None:
        self.busy += 1
        self._requests.put(request)

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                answered = Answered(request.number, found=self._work.do(request))
            except OSError as error:
                answered = Answered(request.number, failed=error.strerror or str(error))
            except Exception as error:  # A bug: the election goes without, and nobody leads by mistake.
                log.exception("%s: a request failed", self._channel)
                answered = Answered(request.number, failed=f"{type(error).__name__}: {error}")
            with suppress(RuntimeError):  # The loop has closed meanwhile.
                self._loop.call_soon_threadsafe(self._deliver, answered)

        with suppress(Exception):  # A connection that is broken cannot be closed any better.
            self._work.close()

    def _deliver(self, answered: Answered) -> None:
        self.busy -= 1
        if self._driver.running:
            self._driver.tell(answered, channel=self._channel)
