"""Arbitrated membership on a ring.  [ARB]

config.py          both modes, and every bound that follows
messages.py        what is said, waited for and told: the whole interface
arbitrator.py      one arbitrator's memory and judgement; central.py: one that does nothing else
pair.py, lease.py  what is kept of a neighbour, and how it is watched
request.py         arbitration on the asker's side
upgrade.py         a pair's group in a new version
neighbourhood.py   whom to watch: repair, release, recovery
join.py            the four phases of joining
spread.py          what rides on the leases
machine.py         the machine
"""

from typing import TYPE_CHECKING

from doyen.core.lazy import lazy

if TYPE_CHECKING:
    from doyen.membership.arbitration.central import CentralArbitrator as CentralArbitrator
    from doyen.membership.arbitration.config import ArbitrationConfig as ArbitrationConfig
    from doyen.membership.arbitration.machine import Arbitration as Arbitration
    from doyen.membership.arbitration.machine import Founding as Founding
    from doyen.membership.arbitration.machine import founding as founding

__getattr__ = lazy(
    __name__,
    {
        "CentralArbitrator": "central",
        "ArbitrationConfig": "config",
        "Arbitration": "machine",
        "Founding": "machine",
        "founding": "machine",
    },
)
