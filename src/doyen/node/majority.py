"""Says why a quorum has no leader: how many of its voters answer, who is silent, and what to do."""

import asyncio
from collections.abc import Callable
from typing import Final

from doyen.core.clock import Duration, Instant, seconds
from doyen.net.driver import Driver
from doyen.node.config import ANSWERS_WITHIN, NodeConfig
from doyen.node.reign import Reign
from doyen.node.stack import Stack

LOOK_EVERY_S: Final = 1.0
SAY_AFTER: Final[Duration] = seconds(5)  # Without a leader; or what a takeover may take, if that is more.
SAY_EVERY: Final[Duration] = seconds(10)  # The least time from one warning to the next, which says something else.


class MajorityWatch:
    """Looks once a second, from `begin` until the driver closes, whether an election with voters lacks a leader."""

    def __init__(
        self, driver: Driver, config: NodeConfig, stack: Stack, tell: Callable[[Reign, str, Instant], None]
    ) -> None:
        self._driver, self._config, self._stack, self._tell = driver, config, stack, tell
        self._since: dict[str, Instant] = {}  # Since when each election, by its name, has no leader.
        self._said: dict[str, tuple[str, Instant]] = {}  # What was said last of it, and when.

    def begin(self) -> None:
        self._driver.on_close(lambda: self._timer.cancel())
        self._wait()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look_again)

    def _look_again(self) -> None:
        self.look(self._driver.clock())
        self._wait()

    def look(self, now: Instant) -> None:
        """Say what is wrong with every election that has had voters, and no leader, for too long."""
        for name, reign in self._stack.reigns.items():
            if not reign.kind.needs.voters or reign.leader is not None:
                self._since.pop(name, None)
                self._said.pop(name, None)
                reign.silence = ""
                continue
            patience = max(SAY_AFTER, self._config.worst_case(reign.kind).failover)
            if now - self._since.setdefault(name, now) < patience:
                continue
            reign.silence = text = self._text(reign, now)
            said, said_at = self._said.get(name, ("", now - SAY_EVERY))
            if text != said and now - said_at >= SAY_EVERY:
                self._said[name] = text, now
                self._tell(reign, text, now)

    def _text(self, reign: Reign, now: Instant) -> str:
        electors = None if reign.machine is None else reign.machine.electors(now)
        voters = set(self._config.voters if electors is None else electors.voters)
        heard = self._driver.addresses.heard_since(now - ANSWERS_WITHIN[self._config.preset]) | {self._driver.host.node}
        silent, needed = sorted(voters - heard), len(voters) // 2 + 1
        count = len(voters) - len(silent)
        found = f"{count} of {len(voters)} voters answer{'s' * (count == 1)} here"
        if count >= needed:
            return f"{found}, but none leads: one of them may not vote yet; ask each why, doyen explain"
        advice = "start them, or give an address that reaches them (seeds=['HOST'], --seed HOST)"
        return f"{found}, {needed} must; silent: {', '.join(silent)}; {advice}"
