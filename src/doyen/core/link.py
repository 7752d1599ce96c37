"""News of links, for protocols of neighbours."""

from msgspec import Struct

from doyen.core.ids import NodeId


class LinkChanged(Struct, frozen=True):
    """A neighbour can be reached directly, or no longer.  Told by a hello machine, or by the simulator."""

    peer: NodeId
    up: bool
