"""The messages and the timer of an election by key."""

from msgspec import Struct

from doyen.membership.ring.geometry import Seat

# On the wire.


class Claim(Struct, frozen=True, array_like=True, tag=1):
    """The sender owns the key by all that it knows, and asks whether the receiver knows better."""

    number: int
    seat: Seat


class Answer(Struct, frozen=True, array_like=True, tag=2):
    """Return whether the receiver may lead, as far as the sender knows."""

    number: int  # Of the claim.
    granted: bool
    term: int  # The highest number that the sender has heard of.


class Reign(Struct, frozen=True, array_like=True, tag=3):
    """The sender leads; sent to members that came after its term had begun."""

    number: int  # Of its term.


# Timers.


class ClaimRepeats(Struct, frozen=True, gc=False):
    """The claim is sent again to every neighbour that has not granted it."""

    number: int
