"""The configuration of a ring: how members watch each other, and what they do when they disagree."""

from typing import Annotated, Literal

from msgspec import Meta

from doyen.core.clock import Duration, ms
from doyen.core.config import Config, Count, Doc, Period, need

Partition = Literal["collapse", "majority", "split"]
Arbiters = Literal["pairwise", "central"]


class ArbitrationConfig(Config, frozen=True, kw_only=True):
    """A ring's configuration, the same on every member.

    The default is the practical mode; `paper()` is the protocol as printed.
    """

    lease: Annotated[
        Period, Doc("How long a lease between neighbours lasts (T_l). Shorter costs traffic, longer detects late.")
    ] = ms(1000)
    arbitration: Annotated[Period, Doc("How long arbitrators' answers are waited for, above a round trip (T_a).")] = ms(
        500
    )
    neighbours: Annotated[
        int, Meta(ge=1, le=16), Doc("How many neighbours each watches on each side (k). More survive together.")
    ] = 3
    arbiters: Annotated[
        Arbiters, Doc("Whether each pair has a group of arbitrators of its own, or one group serves all.")
    ] = "pairwise"
    drift: Annotated[
        float, Meta(ge=0, lt=0.5), Doc("How far clocks may be off: none is faster or slower than 1 ± this (r).")
    ] = 0.0
    resends: Annotated[
        int,
        Meta(ge=0, le=8),
        Doc("How often a request is repeated. With 0 a single lost message costs a node its place."),
    ] = 2
    random_phases: Annotated[
        bool, Doc("Whether leases begin at random times. If not, pairs leave together more often.")
    ] = True
    announced: Annotated[bool, Doc("Whether a member that leaves says so. If not, leaving looks like a crash.")] = True
    partition: Annotated[
        Partition, Doc("What happens without a majority: all leave, the larger part stays, or both parts stay.")
    ] = "collapse"
    expected_size: Annotated[
        Count, Doc("For `majority`: the size of the whole group, half of which is too few; 0: not known.")
    ] = 0
    double_majority: Annotated[
        bool, Doc("Whether a stale request asks the old group and the new one. If not, it is rejected.")
    ] = True
    abort_silent: Annotated[
        bool, Doc("Whether an upgrade without a majority is given up. If not, its proposer leaves.")
    ] = True
    early_upgrades: Annotated[
        bool, Doc("Whether the first majority decides an upgrade. If not, all answers are waited for.")
    ] = True
    slotted_join: Annotated[bool, Doc("Whether each phase of a join takes a whole lease, as in the paper.")] = False
    rejoin: Annotated[bool, Doc("Whether a member that was forced out comes back, as a new member.")] = True
    backoff_max: Annotated[int, Meta(ge=0, le=20), Doc("Joins wait up to 2^this half leases between two attempts.")] = 4

    def check(self) -> None:
        known = self.partition != "majority" or self.expected_size > 0
        need(known, "partition", "majority needs expected_size: of how many?")

    @classmethod
    def paper(cls, **more: object) -> "ArbitrationConfig":
        """Return the protocol as printed: delivery is taken for reliable, clocks for equal, and leaving is silent."""
        printed = {
            "resends": 0,
            "announced": False,
            "partition": "collapse",
            "double_majority": False,
            "abort_silent": False,
            "early_upgrades": False,
            "slotted_join": True,
            "rejoin": False,
        }
        return cls(**(printed | more))  # type: ignore[arg-type]

    @classmethod
    def practical(cls, expected_size: int = 0, **more: object) -> "ArbitrationConfig":
        """Return the practical mode: the larger part of a partition stays, if the size of the group is known."""
        known = {"partition": "majority", "expected_size": expected_size} if expected_size else {}
        return cls(**(known | more))  # type: ignore[arg-type]

    @property
    def recent(self) -> Duration:
        """Return T_arb: how long arbitrators remember, and winners wait, each by its own clock.  [ARB Cor. 2]"""
        return self._by_any_clock(2 * self.lease + self.arbitration)

    @property
    def pending(self) -> Duration:
        """Return how long an arbitrator remembers a proposed version.

        Deviation: T_arb + T_a, not T_arb.  A proposal may be recorded T_a before its proposer acts on it, and a stale
        request can come 2·T_l + T_a after that.
        """
        return self.recent + self._by_any_clock(self.arbitration)

    def _by_any_clock(self, duration: Duration) -> Duration:
        """Return how long a clock must wait, however fast it is, until any other has seen `duration` pass."""
        return duration if not self.drift else int(duration * (1 + self.drift) / (1 - self.drift)) + 1
