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

    lease: Annotated[Period, Doc("T_l. Short: traffic, and slow nodes are suspected. Long: slow detection.")] = ms(1000)
    arbitration: Annotated[Period, Doc("T_a, above a round trip. Long: losers stay longer, recovery waits.")] = ms(500)
    neighbours: Annotated[
        int, Meta(ge=1, le=16), Doc("k, on each side. More survive together; costs 4k messages per lease.")
    ] = 3
    arbiters: Annotated[Arbiters, Doc("Each pair has a group of its own, or one group serves all.")] = "pairwise"
    drift: Annotated[float, Meta(ge=0, lt=0.5), Doc("r: no clock is faster or slower than 1 ± r.")] = 0.0
    resends: Annotated[int, Meta(ge=0, le=8), Doc("How often a request is repeated. 0: one loss costs a node.")] = 2
    random_phases: Annotated[bool, Doc("Leases begin at random within T_l. Off: pairs leave more often.")] = True
    announced: Annotated[bool, Doc("Who leaves says so. Off: leaving looks like a crash, as printed.")] = True
    partition: Annotated[Partition, Doc("Without a majority all leave, the larger part stays, or both.")] = "collapse"
    expected_size: Annotated[Count, Doc("For `majority`: half of this many is too few. 0: not known.")] = 0
    double_majority: Annotated[bool, Doc("A stale request asks the old group and the new. Off: it is rejected.")] = True
    abort_silent: Annotated[bool, Doc("An upgrade without a majority is given up. Off: its proposer leaves.")] = True
    early_upgrades: Annotated[bool, Doc("The first majority decides an upgrade. Off: all answers do, or T_a.")] = True
    slotted_join: Annotated[bool, Doc("Each phase of a join takes a whole T_l, as printed.")] = False
    rejoin: Annotated[bool, Doc("Who was forced out comes back, as somebody else.")] = True
    backoff_max: Annotated[int, Meta(ge=0, le=20), Doc("Joins wait up to 2^this · T_l/2 between attempts.")] = 4

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
