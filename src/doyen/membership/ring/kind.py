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
    arbitration: Time = PRESET
    neighbours: int = PRESET
    arbiters: Arbiters = PRESET
    drift: float = PRESET
    resends: int = PRESET
    random_phases: bool = PRESET
    announced: bool = PRESET
    partition: Partition = PRESET
    expected_size: int = PRESET
    double_majority: bool = PRESET
    abort_silent: bool = PRESET
    early_upgrades: bool = PRESET
    slotted_join: bool = PRESET
    rejoin: bool = PRESET
    backoff_max: int = PRESET


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

    mine = seat(place.node, place.incarnation, str(place.address or ""))
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
