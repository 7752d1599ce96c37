"""An arbitrator of a central group, as a machine of its own: outside the ring, it only votes.  [ARB §III]"""

from typing import Any, ClassVar

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.membership.arbitration.arbitrator import CentralMemory
from doyen.membership.arbitration.config import ArbitrationConfig
from doyen.membership.arbitration.messages import Arb, Messages, Vote


class CentralArbitrator:
    """`replacement`: put in by hand for one that failed, it rejects, and records both, until T_arb has passed."""

    MESSAGES: ClassVar[Any] = Messages

    def __init__(self, config: ArbitrationConfig, out: Out, *, replacement: bool = False) -> None:
        self._config, self._out, self._replacement = config, out, replacement
        self._memory = CentralMemory(config, None)

    def start(self, now: Instant) -> None:
        self._memory = CentralMemory(self._config, now if self._replacement else None)

    def on_message(self, sender: NodeId, message: Messages, now: Instant) -> None:
        if isinstance(message, Arb):
            verdict = self._memory.judge((sender, message.life), message.suspect.name, now)
            self._out.send(sender, Vote(1, message.life, message.number, verdict))

    def on_timer(self, timer: Any, now: Instant) -> None:
        """It sets none."""
