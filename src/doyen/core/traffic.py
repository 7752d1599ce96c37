"""Says which messages of a machine show how its network behaves: a node measures it without a packet more."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.core.ids import NodeId


class Exchange(Struct, frozen=True, kw_only=True):
    """A question and its answer, which carry the same number: they show losses, and how long a round trip takes."""

    question: type[Struct]
    answer: type[Struct]
    number: Callable[[Any], int]  # Of a question, and of an answer.
    targets: Callable[[Any, Any], Iterable[NodeId]]  # (machine, question) → who answers it, unless something is lost.


class Series(Struct, frozen=True, kw_only=True):
    """Messages that one sender repeats by the clock: those that are missing between two that came were lost.

    A sender that pauses for longer than half an interval cannot be distinguished from a loss.
    """

    message: type[Struct]
    interval: Callable[[Any], Duration]  # (machine) → the time between two.


Measured: TypeAlias = Exchange | Series
