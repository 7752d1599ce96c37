"""The configuration of a ring: how members watch each other, and what they do when they disagree."""

from typing import Literal

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, ms
from doyen.errors import ConfigError

Partition = Literal["collapse", "majority", "split"]
Arbiters = Literal["pairwise", "central"]


class ArbitrationConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ring's configuration, the same on every member.

    The default is the practical mode; `paper()` is the protocol as printed.
    """

    lease: Duration = ms(1000)  #: T_l.  Short: more messages, and slow nodes are suspected.  Long: slow detection.
    arbitration: Duration = ms(500)  #: T_a.  Must exceed a round trip.  Long: losers stay longer, recovery waits.
    neighbours: int = 3  #: k, on each side.  More survive together; costs 4k messages per lease.
    arbiters: Arbiters = "pairwise"  #: Each pair has a group of its own, or one group serves all.
    drift: float = 0.0  #: r: no clock is faster or slower than 1 ± r.
    resends: int = 2  #: Times a request is repeated within its session.  0: one lost message costs a node.
    random_phases: bool = True  #: Leases begin at random within T_l.  Off: both of a pair leave more often.
    announced: bool = True  #: Who leaves says so.  Off: leaving looks like a crash, as printed.
    partition: Partition = "collapse"  #: Where a group has no majority: all leave; the larger part stays; both stay.
    expected_size: int = 0  #: For `majority`: half of so many is too few.  0: not known.
    double_majority: bool = True  #: A stale request asks the old group and the new.  Off: it is rejected, as printed.
    abort_silent: bool = True  #: An upgrade that gets no majority is given up.  Off: the proposer leaves, as printed.
    early_upgrades: bool = True  #: An upgrade is decided by the first majority.  Off: when all answered, or after T_a.
    slotted_join: bool = False  #: Each phase of a join takes a whole T_l, as printed.
    rejoin: bool = True  #: Who was forced out comes back, as somebody else.
    backoff_max: int = 4  #: Joins wait up to 2^this · T_l/2 between attempts.

    def __post_init__(self) -> None:
        for name in ("lease", "arbitration"):
            if not 0 < getattr(self, name) < FOREVER:
                raise ConfigError("must be positive and finite", field=name)
        for name, low, high in (("neighbours", 1, 16), ("resends", 0, 8), ("backoff_max", 0, 20)):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{getattr(self, name)} must be from {low} to {high}", field=name)
        if not 0 <= self.drift < 0.5:
            raise ConfigError(f"{self.drift} must be at least 0 and below 0.5", field="drift")
        if self.expected_size < 0:
            raise ConfigError(f"{self.expected_size} must be 0 or more", field="expected_size")
        if self.partition == "majority" and not self.expected_size:
            raise ConfigError("majority needs expected_size: of how many?", field="partition")

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

    @classmethod
    def lan(cls, n: int) -> "ArbitrationConfig":
        return cls.practical(n, lease=ms(500), arbitration=ms(250))

    @classmethod
    def wan(cls, n: int) -> "ArbitrationConfig":
        return cls.practical(n, lease=ms(3000), arbitration=ms(1500), drift=1e-4)

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
