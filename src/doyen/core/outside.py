"""The other half of an election: what only the world can do for its machine, such as operations on a shared directory.

    machine ──emit(Request)──▶ the kind's other half, in a thread ──Answered, same number──▶ machine, later or never

The machine stays free of IO: waiting for an answer is a state, and a deadline never depends on one.  The simulator
answers the same requests in made-up time.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from doyen.core.config import Discreet
from doyen.core.ids import Incarnation, NodeId


class Request(Struct, frozen=True):
    """A question or an order to the other half; answered by `Answered` with the same number, or never."""

    number: int


class Answered(Struct, frozen=True):
    """The answer to one request."""

    number: int
    failed: str = ""  # Why it could not be done, and what to do about it; "": it was done.
    found: bytes = b""  # The answer, in the kind's own encoding.


class Outside(Discreet, frozen=True, kw_only=True):
    """Everything that an other half may ask for when it is made."""

    node: NodeId
    incarnation: Incarnation
    group: str
    name: str  # The election's; the group's own is "".
    shared: str  # The directory that all members reach, where one is given.
    config: Any  # The kind's table.


class Work(Struct, frozen=True):
    """The hand that does a machine's requests."""

    do: Callable[[Any], bytes]  # Does one request, and may block; raises `OSError` with words for people.
    close: Callable[[], None] = lambda: None  # Called at the end, in the same thread.


Verdict: TypeAlias = Literal["ok", "note", "wrong"]


class OtherHalf(Protocol):
    """The other half of a kind of election."""

    def work(self, outside: Outside) -> Work:
        """Return what does the machine's requests, one at a time and in order, in a thread of its own."""

    def prepare(self, outside: Outside) -> bool:
        """Make what must be there before the first node starts; return whether anything had to be made."""

    def examine(self, outside: Outside, pause: Callable[[float], None]) -> Iterator[tuple[Verdict, str, str]]:
        """Find out for `doyen doctor` what can be known of the world here: a verdict, what, and what to do.

        Where it must look twice, it calls `pause` with the seconds between.
        """
