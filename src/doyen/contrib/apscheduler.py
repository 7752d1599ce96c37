"""One scheduler of many, for APScheduler 3: start it everywhere, and jobs run on the leader alone.

    scheduler = BackgroundScheduler()
    scheduler.add_job(send_report, "cron", hour=6)
    with doyen.sync.join("clock", seeds=["10.0.0.2"]) as node, WhileLeading(scheduler, node):
        …

    async with doyen.join("clock") as node, WhileLeading(AsyncIOScheduler(), node):
        …

The scheduler is paused wherever its process does not lead.  When a new leader's is resumed, jobs that were due more
than `misfire_grace_time` before (one second, if the job does not say) are passed over: the last leader ran them.  A
job store that all processes share goes on where it was; give `replace_existing=True` to `add_job`.
"""

import asyncio
import threading

from apscheduler.schedulers.base import BaseScheduler

import doyen
from doyen.errors import LocalProtocolError


class WhileLeading:
    """Starts a scheduler, resumes it while the node leads, pauses it when not, and shuts it down at the end."""

    def __init__(self, scheduler: BaseScheduler, node: doyen.Node | doyen.sync.Node) -> None:
        self.scheduler, self._node = scheduler, node
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = False

    # In a program of threads.

    def __enter__(self) -> "WhileLeading":
        if not isinstance(self._node, doyen.sync.Node):
            raise LocalProtocolError(
                "this node lives in an event loop: async with WhileLeading(…), or doyen.sync.join(…)"
            )
        self.scheduler.start(paused=True)
        self._thread = threading.Thread(target=self._follow, args=(self._node,), name="doyen-apscheduler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Wait for the jobs that run; leave the node afterwards, and no other begins before they have ended."""
        self._over = True
        self.scheduler.pause()
        self.scheduler.shutdown(wait=True)

    def _follow(self, node: doyen.sync.Node) -> None:
        for term in node.terms():
            with term:
                if self._over:
                    return
                self.scheduler.resume()
                term.wait_lost()
                self._pause()

    # In an event loop.

    async def __aenter__(self) -> "WhileLeading":
        if not isinstance(self._node, doyen.Node):
            raise LocalProtocolError("this node is for threads: with WhileLeading(…), or doyen.join(…)")
        self.scheduler.start(paused=True)
        self._task = asyncio.get_running_loop().create_task(self._follow_in_loop(self._node))
        return self

    async def __aexit__(self, *error: object) -> None:
        self._over = True
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.scheduler.shutdown(wait=False)

    async def _follow_in_loop(self, node: doyen.Node) -> None:
        async for term in node.terms():
            async with term:
                self.scheduler.resume()
                try:
                    await asyncio.Event().wait()  # Cancelled when leadership is lost.
                finally:
                    self._pause()

    def _pause(self) -> None:
        if not self._over and self.scheduler.running:
            self.scheduler.pause()


__all__ = ["WhileLeading"]
