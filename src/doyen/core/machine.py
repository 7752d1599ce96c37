"""The shape every protocol has."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.ids import NodeId

Fact = TypeVar("Fact")
Hears: TypeAlias = dict[type[Any], Callable[[Any, Any, Instant], None]]  # By class: (machine, fact, now).


def hears(kind: type[Fact], handle: Callable[[Any, Fact, Instant], None]) -> Hears:
    """Return the table of one handler, for facts or commands of exactly that class; `|` joins tables."""
    return {kind: handle}


class Machine(Protocol):
    """Driven by its host, the network and its timers; each input runs to completion and writes to an `Out`.

    No clock, socket, thread or global chance inside: `now` is an argument, `rng` a constructor argument.
    Further inputs are facts (`ViewChanged`) and commands (`Resign`): `HEARS` has the handlers of those that it takes
    (decision 4).
    """

    MESSAGES: ClassVar[Any]  # The union of the message types this machine sends and understands.
    HEARS: ClassVar[Hears]  # hears(ViewChanged, on_view_changed) | hears(Resign, resign)
    # A machine that persists also has RECORD, the type of what it keeps, and takes `restored` by constructor.
    # Messages carry the sender's incarnation where it matters which one sent them.

    def start(self, now: Instant) -> None: ...

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None: ...  # No incarnation: decision 2.

    def on_timer(self, timer: Any, now: Instant) -> None: ...


class Nothing(Struct, frozen=True, array_like=True, tag=True):
    """A message that is never sent: a machine must name its messages."""


class FollowsFacts:
    """The inputs of a machine that only follows facts: it hears no message and sets no timer."""

    __slots__ = ()
    MESSAGES: ClassVar[Any] = Nothing

    def start(self, now: Instant) -> None:
        pass

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        pass

    def on_timer(self, timer: Any, now: Instant) -> None:
        pass
