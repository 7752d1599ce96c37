"""The effects of a machine on the world: five verbs, and the values that stand for them.

    machine ──send/multicast──▶ network     ──▶ on_message
            ──set_timer──────▶ clock        ──▶ on_timer
            ──emit───────────▶ its node     ──▶ other machines that hear it, and the application
            ──persist────────▶ disk         ──▶ a barrier: what tells of the record waits; `RecordDurable`, if heard

A machine writes its effects, in order, to the `Out` it was given.  Drivers and the simulator supply a direct
one (`core.host.Port`); tests a recording one (`doyen.testing.RecordingOut`), which keeps the values below.
"""

from typing import Any, Protocol

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.ids import Address, NodeId


class UrgentFact(Struct, frozen=True):
    """A fact that takes something back: it passes the persistence barrier (decision 1)."""


class RecordDurable(Struct, frozen=True):
    """Tells a machine that hears it that the oldest of its records on their way is on the disk now."""


class Out(Protocol):
    """The whole doorway.  Call it as `out.send(...)` each time: while a record is being made durable the verbs
    are other functions, so a verb kept aside would slip past the barrier."""

    def send(self, to: NodeId | Address, message: Any, /) -> None: ...

    def multicast(self, message: Any, /) -> None:
        """Send to every other member of the group, and never to the sender."""

    def set_timer(self, timer: Any, at: Instant, /) -> None:
        """`on_timer(timer, now)` with now >= at.  None is cancelled: it carries what it was set for."""

    def emit(self, fact: Any, /) -> None:
        """Notify the node: after this step, at the same `now`, the handlers of the machines that hear it are called."""

    def persist(self, record: Any, /) -> None:
        """Messages and facts written after this leave only once the record is durable; a crash before loses both."""


class Send(Struct, frozen=True):
    to: NodeId | Address
    message: Any


class Multicast(Struct, frozen=True):
    message: Any


class SetTimer(Struct, frozen=True):
    timer: Any
    at: Instant


class Emit(Struct, frozen=True):
    fact: Any


class Persist(Struct, frozen=True):
    record: Any


Effect = Send | Multicast | SetTimer | Emit | Persist
