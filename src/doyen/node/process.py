"""The process of `doyen agent`: a node that reports what it sees, as JSON lines or for people, until a signal."""

import asyncio
import os
import sys
import time
from collections import Counter
from typing import Any

from doyen.core.view import MembershipView
from doyen.node.agent_line import AgentLine, encode_line
from doyen.node.config import NodeConfig
from doyen.node.events import Event
from doyen.node.node import Node
from doyen.node.reign import Reign
from doyen.node.signals import on_ending_signal

_EVENTS = {
    "elected": "elected",
    "lost": "lost",
    "accused": "suspected",
    "shortage": "cannot elect",
    "waiting": "waiting",
    "alone": "alone",
    "differs": "differs",
}

COUNTED_MAX = 500  # Members that are counted for every line.
COUNT_EVERY_S = 0.5


def stay(config: NodeConfig, status_every: float, as_json: bool) -> int:
    if as_json:
        return asyncio.run(Reporter(config).run(status_every))
    from doyen.node.speaker import speak  # Only where somebody reads it.

    return asyncio.run(speak(config))


class Reporter:
    """Writes a JSON line for every event of its node, and its status now and then."""

    def __init__(self, config: NodeConfig) -> None:
        self.node = Node(config, leave_on_sigterm=False)
        self.node.listeners.append(self._on_event)
        self._counts: dict[str, int] = {}
        self._counted_at = 0.0

    async def run(self, status_every: float) -> int:
        node = self.node
        on_ending_signal(lambda _: node.ended.set())
        async with node:
            served = node.agent.attached.http
            self._say("started", pid=os.getpid(), address=node.address, http=None if served is None else served.url)
            while not node.ended.is_set():
                self._say_status()
                try:
                    async with asyncio.timeout(status_every):
                        await node.ended.wait()
                except TimeoutError:
                    continue
        self._say("stopped")
        return 0 if node.failure is None else 1

    def _say_status(self) -> None:
        reigns = list(self.node.agent.stack.reigns.values())
        for reign in reigns:
            self._say("status", reign, leader=reign.expected, term=reign.term_max)
        if not reigns:
            self._say("status")

    def _on_event(self, event: Event) -> None:
        if event.kind == "changed" or (event.kind == "updated" and event.leader is not None):
            return
        reign = self.node.agent.stack.reigns.get(event.election)
        fields: dict[str, Any] = {"reason": event.reason or None} if event.kind in _EVENTS else {}
        if event.member is not None:
            fields |= {"member": event.member, "by": event.by}
            fields |= {"member_status": event.state or None, "incarnation": event.incarnation}
        if event.kind == "elected" and reign is not None:
            fields["reason"] = reign.why.text
        fields |= {"leader": event.leader, "term": event.term, "address": event.address, "compared": event.compared}
        self._say(_EVENTS.get(event.kind, "member"), reign, **fields)

    def _count(self, view: MembershipView) -> None:
        """Count the members by status; in a large group now and then, as a stranger may name 100,000 at once."""
        now = time.monotonic()
        if len(view) <= COUNTED_MAX or now - self._counted_at >= COUNT_EVERY_S:
            self._counts, self._counted_at = dict(Counter(member.status.value for member in view.members.values())), now

    def _say(self, what: str, reign: Reign | None = None, **fields: Any) -> None:
        agent = self.node.agent
        driver, view = agent.driver, agent.stack.view
        reign = reign or agent.reign
        if view is not None:
            self._count(view)
        told = AgentLine(
            what,
            agent.name,
            time.time(),
            driver.clock(),
            status="" if reign is None else reign.status,
            election="" if reign is None else reign.name,
            sent=driver.transport.sent_count,
            received=driver.received_count,
            refused=dict(driver.refused),
            members=self._counts,
            **fields,
        )
        try:
            os.write(sys.stdout.fileno(), encode_line(told))
        except OSError:
            self.node.ended.set()  # The reader is gone.
