"""Looks at the gates of a running node's elections, says what they wait for, and notifies the node when one opens."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from doyen.core.clock import NEVER, Duration, Instant, seconds
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.seeds import PeerHeard
from doyen.core.view import ViewChanged
from doyen.net.driver import Driver
from doyen.node.config import NodeConfig
from doyen.node.gate import Gate, Seen
from doyen.node.reign import Reign
from doyen.node.stack import Stack

LOOK_EVERY_S: Final = 0.025  # While this node is named leader, and does not act yet.
COUNT_EVERY_S: Final = 0.25  # While it follows, and fewer members than expected answer.
WARN_AFTER: Final[Duration] = seconds(2)  # A leader that waits longer says so where everybody sees it.


class Gatekeeper:
    """Gives every election of a node its gate."""

    def __init__(
        self,
        driver: Driver,
        config: NodeConfig,
        seen: Callable[[str], Seen],
        *,
        on_open: Callable[[Reign, Gate, Instant], None],
        on_wait: Callable[[Reign, str, Instant], None],
        on_long_wait: Callable[[Reign, Gate], None],
    ) -> None:
        self._driver, self._config, self._seen = driver, config, seen
        self._on_open, self._on_wait, self._on_long_wait = on_open, on_wait, on_long_wait
        self._said: dict[str, str] = {}  # What each election was last said to wait for, by its name.
        self._waits_since: dict[str, Instant] = {}  # Since when each was said to; NEVER once it was warned about.
        self._timer: asyncio.TimerHandle | None = None
        driver.on_close(self._close)

    def before(self, stack: Stack, channel: str, fact: Any, now: Instant) -> None:
        """Look before this fact changes anything: a node that was in the group for long enough has an open gate."""
        if isinstance(fact, ViewChanged):
            came = any(_is_present(fact, node) and not _was_present(stack, node) for node in fact.changed)
            for reign in stack.reigns.values():
                self._look(reign, now)
                if came and reign.gate is not None:
                    reign.gate.joined(now)
        elif isinstance(fact, PeerHeard):
            self.look(stack, now)
        elif isinstance(fact, LeaderElected | LeaderLost):
            reign_on = stack.reign_on(channel)
            if reign_on is not None:
                gate = self._look(reign_on, now)
                if isinstance(fact, LeaderElected):
                    if reign_on.leader != fact.term.leader:
                        gate.named(now, leader=True)
                elif reign_on.leader == fact.term.leader:
                    gate.named(now, leader=False)

    def look(self, stack: Stack, now: Instant) -> None:
        """Look at every gate that is closed while this node leads, or for what a person must mend.

        It looks again soon while there is such a gate.
        """
        again_s = None
        for reign in stack.reigns.values():
            leads, gate = reign.mine is not None, self._look(reign, now)
            if gate.open or (gate.met and not leads and not gate.defers):
                continue
            if gate.defers:
                self._driver.ask_differing(reign.name)
            again_s = LOOK_EVERY_S if leads else again_s or COUNT_EVERY_S
            if leads and not gate.calms and self._said.get(reign.name) != gate.why:
                self._said[reign.name] = gate.why
                self._on_wait(reign, gate.why, now)
            if gate.advice and now - self._waits_since.setdefault(reign.name, now) >= WARN_AFTER:
                self._waits_since[reign.name] = NEVER
                self._on_long_wait(reign, gate)
        if again_s is not None and self._timer is None and self._driver.running:
            self._timer = asyncio.get_running_loop().call_later(again_s, self._look_again, stack)

    def awaited(self, reign: Reign, now: Instant) -> Gate | None:
        """Return the gate of an election while it is closed, also where another leads."""
        gate = self._look(reign, now)
        return None if gate.open else gate

    def _look_again(self, stack: Stack) -> None:
        self._timer = None
        self.look(stack, self._driver.clock())

    def _look(self, reign: Reign, now: Instant) -> Gate:
        gate = reign.gate
        if gate is None:
            config = self._config
            gate = reign.gate = Gate(
                now,
                settle=config.settle(reign.kind),
                notice=min(config.worst_case(reign.kind).detection, config.alone_after),
                alone_after=config.alone_after,
                expect=config.expect,
                quorum=config.promise(reign.kind).strong,
            )
        if not gate.open and gate.look(now, self._seen(reign.name)):
            self._on_open(reign, gate, now)
        return gate

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _is_present(fact: ViewChanged, node: NodeId) -> bool:
    member = fact.view.members.get(node)
    return member is not None and member.present


def _was_present(stack: Stack, node: NodeId) -> bool:
    member = None if stack.view is None else stack.view.members.get(node)
    return member is not None and member.present
