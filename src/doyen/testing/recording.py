"""An `Out` that keeps what was written, as values to compare."""

from typing import Any

from doyen.core.clock import Instant
from doyen.core.effects import Effect, Emit, Multicast, Persist, Send, SetTimer
from doyen.core.ids import Address, NodeId


class RecordingOut:
    """Compare `effects` as a whole list, then `clear()` before the next step."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def send(self, to: NodeId | Address, message: Any) -> None:
        """Keep a message to one member."""
        self.effects.append(Send(to, message))

    def multicast(self, message: Any) -> None:
        """Keep a message to all."""
        self.effects.append(Multicast(message))

    def set_timer(self, timer: Any, at: Instant) -> None:
        """Keep a timer."""
        self.effects.append(SetTimer(timer, at))

    def emit(self, fact: Any) -> None:
        """Keep a fact."""
        self.effects.append(Emit(fact))

    def persist(self, record: Any) -> None:
        """Keep a record for the disk."""
        self.effects.append(Persist(record))

    def take(self) -> list[Effect]:
        """Return what was written since the last call."""
        taken, self.effects = self.effects, []
        return taken
