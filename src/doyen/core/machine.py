"""The shape every protocol has."""

from typing import Any, ClassVar, Protocol

from doyen.core.clock import Instant
from doyen.core.ids import NodeId


class Machine(Protocol):
    """Driven by its host, the network and its timers; each input runs to completion and writes to an `Out`.

    No clock, socket, thread or global chance inside: `now` is an argument, `rng` a constructor argument.
    Further inputs are facts (`ViewChanged`) and commands (`Resign`): its constructor subscribes to those that it takes,
    `out.subscribe(ViewChanged, self.on_view_changed)`, and a handler is called as `handle(fact, now)`.
    """

    MESSAGES: ClassVar[Any]  # The union of the message types this machine sends and understands.
    # A machine that persists also has RECORD, the type of what it keeps, and takes `restored` by constructor.
    # What must be told apart between two lives of one sender (its incarnation) the messages carry themselves.

    def start(self, now: Instant) -> None: ...

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None: ...  # No incarnation: decision 2.

    def on_timer(self, timer: Any, now: Instant) -> None: ...
