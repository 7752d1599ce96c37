"""News of links, for protocols of neighbours and of leaders."""

from msgspec import Struct

from doyen.core.ids import Incarnation, NodeId


class LinkChanged(Struct, frozen=True):
    """A neighbour can be reached directly, or no longer.  Told by a hello machine, or by the simulator."""

    peer: NodeId
    up: bool


class LinkBroken(Struct, frozen=True):
    """A standing connection with that life of a member ended without a goodbye: the kernel of its machine said so.

    Suspicion, never more: it may be the connection that died.  `gone` says that a look again found nobody at its
    address, or another life of it.  Told once with `gone` false, at once, and again if the look finds it gone.
    """

    member: NodeId
    incarnation: Incarnation
    gone: bool = False
