"""News of where other members may be found."""

from msgspec import Struct

from doyen.core.ids import Address


class SeedsChanged(Struct, frozen=True):
    """All addresses at which somebody of the group may listen, as known now.  Told by discovery."""

    seeds: tuple[Address, ...]


class PeerHeard(Struct, frozen=True):
    """Somebody of the group listens there: it said so to all."""

    address: Address


class OwnAddressChanged(Struct, frozen=True):
    """Others reach this node there from now on.  Told by the node, which has lost the address that it had."""

    address: Address
