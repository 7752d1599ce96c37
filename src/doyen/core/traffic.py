"""Says which messages of a machine show how its network behaves, so that a node can measure it without a packet more."""

from typing import TypeAlias

from msgspec import Struct


class Exchange(Struct, frozen=True, kw_only=True):
    """A question and its answer, which carry the same number: they show how long a round trip takes."""

    question: type[Struct]
    answer: type[Struct]
    number: str  # The field of both that has the number.
    when: str = ""  # The field of the question that must be true for it to count.
    target: str = ""  # The field of the question that names who answers it, always; "": some answer, some need not.


class Series(Struct, frozen=True, kw_only=True):
    """Messages that one sender repeats by the clock: those that are missing between two that came were lost."""

    message: type[Struct]
    interval: str  # The name that the time between two has in the machine's configuration.
    within: str = ""  # The field of the message that begins another series when it changes.


Measured: TypeAlias = Exchange | Series
