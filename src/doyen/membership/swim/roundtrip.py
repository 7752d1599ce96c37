"""Estimates how long answers take, from the acks of direct pings; elections may set timeouts by it.

Mean and deviation are smoothed as TCP does it (RFC 6298); `timeout` is mean + 4 deviations.
"""

from typing import Final

from msgspec import Struct

from doyen.core.clock import Duration
from doyen.core.ids import NodeId

NEWS: Final = 0.25  # The part by which the timeout must change to be emitted again.
SAMPLES_MIN: Final = 5  # Fewer samples give no estimate.


class RoundTripEstimated(Struct, frozen=True):
    """Members answer after `mean` on average, and hardly ever later than `timeout`."""

    mean: Duration
    timeout: Duration


class RoundTrips:
    """The estimate for all members together, and the means of some of them."""

    __slots__ = ("_count", "_deviation", "_mean", "_told", "by_member", "members_max")

    def __init__(self) -> None:
        self._count = 0
        self._mean = self._deviation = self._told = 0.0
        self.members_max = 0  # How many means are kept.  0 by default, as a simulation has thousands of such lists.
        self.by_member: dict[NodeId, float] = {}

    def note(self, member: NodeId, took: Duration) -> RoundTripEstimated | None:
        """Take one more sample; return the estimate if it has changed enough to be emitted."""
        self._count += 1
        if self.members_max:
            self._note_member(member, took)
        if self._count == 1:
            self._mean, self._deviation = float(took), took / 2
        else:
            self._deviation += (abs(took - self._mean) - self._deviation) / 4
            self._mean += (took - self._mean) / 8
        timeout = self._mean + 4 * self._deviation
        if self._count < SAMPLES_MIN or abs(timeout - self._told) <= NEWS * self._told:
            return None
        self._told = timeout
        return RoundTripEstimated(int(self._mean), int(timeout))

    def _note_member(self, member: NodeId, took: Duration) -> None:
        mean = self.by_member.pop(
            member, None
        )  # Put back at the end: the member that was not heard of for longest is the first.
        self.by_member[member] = float(took) if mean is None else mean + (took - mean) / 8
        if len(self.by_member) > self.members_max:
            del self.by_member[next(iter(self.by_member))]
