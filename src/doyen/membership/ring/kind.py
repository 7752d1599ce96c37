"""The arbitrated ring as a kind of membership.  [ARB]"""

from collections.abc import Callable
from typing import Any

from doyen.core.clock import Duration, ms, seconds
from doyen.core.effects import Out
from doyen.core.kinds import PRESET, Detection, MembershipChoice, MembershipKind, Network, Place, Table, Time
from doyen.membership.ring.config import Arbiters, ArbitrationConfig, Partition
from doyen.membership.ring.geometry import hop_bound


class Ring(MembershipChoice, frozen=True, kw_only=True):
    """Leases and arbitrators: time-bounded.  [ARB]"""

    kind = "ring"

    lease: Time = PRESET
    """How long a lease between neighbours lasts (T_l). Shorter costs traffic, longer detects late."""
    arbitration: Time = PRESET
    """How long arbitrators' answers are waited for, above a round trip (T_a)."""
    neighbours: int = PRESET
    """How many neighbours each watches on each side (k). More survive together."""
    arbiters: Arbiters = PRESET
    """Whether each pair has a group of arbitrators of its own, or one group serves all."""
    drift: float = PRESET
    """How far clocks may be off: none is faster or slower than 1 ± this (r)."""
    resends: int = PRESET
    """How often a request is repeated. With 0 a single lost message costs a node its place."""
    random_phases: bool = PRESET
    """Whether leases begin at random times. If not, pairs leave together more often."""
    announced: bool = PRESET
    """Whether a member that leaves says so. If not, leaving looks like a crash."""
    partition: Partition = PRESET
    """What happens without a majority: all leave, the larger part stays, or both parts stay."""
    expected_size: int = PRESET
    """For `majority`: the size of the whole group, half of which is too few; 0: not known."""
    double_majority: bool = PRESET
    """Whether a stale request asks the old group and the new one. If not, it is rejected."""
    abort_silent: bool = PRESET
    """Whether an upgrade without a majority is given up. If not, its proposer leaves."""
    early_upgrades: bool = PRESET
    """Whether the first majority decides an upgrade. If not, all answers are waited for."""
    slotted_join: bool = PRESET
    """Whether each phase of a join takes a whole lease, as in the paper."""
    rejoin: bool = PRESET
    """Whether a member that was forced out comes back, as a new member."""
    backoff_max: int = PRESET
    """Joins wait up to 2^this half leases between two attempts."""


def preset(network: Network, group_size: int) -> ArbitrationConfig:
    match network:
        case "local" | "lan":
            return ArbitrationConfig(lease=ms(500), arbitration=ms(250))
        case "wan":
            return ArbitrationConfig(lease=ms(3000), arbitration=ms(1500), drift=1e-4)
        case "iot":
            return ArbitrationConfig(lease=seconds(15), arbitration=seconds(6), drift=1e-4, resends=4)


def build(place: Place) -> Callable[[Out], Any]:
    """A node that knows of nobody founds the ring; every other joins it."""
    from doyen.membership.ring.geometry import seat
    from doyen.membership.ring.machine import Arbitration
    from doyen.membership.ring.neighbourhood import founding
    from doyen.membership.ring.room import check_seat

    mine = seat(place.node, place.incarnation, str(place.address or ""))
    check_seat(mine, place.config.neighbours)
    begun = None if place.seeds else founding([mine], place.config.neighbours)
    rng = place.rng(place.channel)
    return lambda out: Arbitration(mine, place.config, out, rng, founding=begun, contacts=place.seeds)


def voted_out(config: ArbitrationConfig) -> Duration:
    """Return how long a dead member stays: 2·T_l + T_a until it is voted out, T_arb until it must have left."""
    return 2 * config.lease + config.arbitration + config.recent


def detection(config: ArbitrationConfig, group_size: int) -> Detection:
    known = voted_out(config) + config.lease * hop_bound(group_size, config.neighbours)  # News ride on leases.
    backoff = int(config.lease * 2**config.backoff_max)  # Who was forced out tries again, ever later, and is let in.
    joining = (group_size - 1) * (backoff + config.lease)  # One is let in at a time.
    return Detection(
        known,
        "2·T_l + T_a, T_arb [ARB Cor. 3], T_l per hop of news",
        merging=joining,  # A part without a majority has left.
        joining=joining,
    )


TABLE = Table(name="ring", about="Ring membership", config=ArbitrationConfig, preset=preset)

RING = MembershipKind(
    name="ring",
    about="Leases and arbitrators on a ring: time-bounded.",
    table=TABLE,
    choice=Ring,
    build=build,
    detection=detection,
)
