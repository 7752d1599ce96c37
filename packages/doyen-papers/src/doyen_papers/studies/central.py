"""An arbitrator of a central group, as a machine of its own: outside the ring, it only votes.  [ARB §III]"""

from typing import Any, ClassVar

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.machine import Hears
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name
from doyen.membership.ring.messages import Arb, Messages, Verdict, Vote


class CentralMemory:
    """The memory of one group for all: one list, and a time after boot in which it knows too little to accept."""

    def __init__(self, config: ArbitrationConfig, booted_at: Instant | None) -> None:
        self.config = config
        self._booted_at = booted_at  # None: with the group itself, so that there was nothing to miss.
        self._failed: dict[Name, Instant] = {}

    def judge(self, asker: Name, suspect: Name, now: Instant) -> Verdict:
        recent = self.config.recent
        self._failed = {name: at for name, at in self._failed.items() if now - at <= recent}
        if self._booted_at is not None and now - self._booted_at < recent:
            for name in (asker, suspect):
                self._failed.setdefault(name, now)
            return Verdict.REJECT
        if asker in self._failed:
            return Verdict.REJECT
        self._failed.setdefault(suspect, now)
        return Verdict.ACCEPT


class CentralArbitrator:
    """One arbitrator of a central group.

    A `replacement`, put in by hand for one that failed, rejects, and records both, until T_arb has passed.
    """

    MESSAGES: ClassVar[Any] = Messages
    HEARS: ClassVar[Hears] = {}

    def __init__(self, config: ArbitrationConfig, out: Out, *, replacement: bool = False) -> None:
        self._config, self._out, self._replacement = config, out, replacement
        self._memory = CentralMemory(config, None)

    def start(self, now: Instant) -> None:
        self._memory = CentralMemory(self._config, now if self._replacement else None)

    def on_message(self, sender: NodeId, message: Messages, now: Instant) -> None:
        if isinstance(message, Arb):
            verdict = self._memory.judge((sender, message.incarnation), message.suspect.name, now)
            self._out.send(sender, Vote(1, message.incarnation, message.number, verdict))

    def on_timer(self, timer: Any, now: Instant) -> None:
        """Do nothing: it sets no timer."""
