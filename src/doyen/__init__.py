"""doyen: a membership list and a leader for any set of processes, without a coordination cluster.

Names load when they are used: `import doyen` alone costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from doyen import sync as sync
    from doyen.errors import ConfigError as ConfigError
    from doyen.errors import DoyenError as DoyenError
    from doyen.errors import InvariantViolated as InvariantViolated
    from doyen.errors import LeadershipLost as LeadershipLost
    from doyen.errors import LocalProtocolError as LocalProtocolError
    from doyen.errors import RemoteProtocolError as RemoteProtocolError
    from doyen.errors import TransportError as TransportError
    from doyen.node.campaign import Campaign as Campaign
    from doyen.node.campaign import Term as Term
    from doyen.node.choices import Announce as Announce
    from doyen.node.choices import AnnounceAtOnce as AnnounceAtOnce
    from doyen.node.choices import AnnounceEarliest as AnnounceEarliest
    from doyen.node.choices import Base as Base
    from doyen.node.choices import ByKey as ByKey
    from doyen.node.choices import Heartbeat as Heartbeat
    from doyen.node.choices import Hybrid as Hybrid
    from doyen.node.choices import Local as Local
    from doyen.node.choices import Medley as Medley
    from doyen.node.choices import Optimistic as Optimistic
    from doyen.node.choices import Pole as Pole
    from doyen.node.choices import Preferred as Preferred
    from doyen.node.choices import Ring as Ring
    from doyen.node.choices import Spanning as Spanning
    from doyen.node.choices import Swim as Swim
    from doyen.node.events import Event as Event
    from doyen.node.events import MemberInfo as MemberInfo
    from doyen.node.node import Node as Node
    from doyen.node.node import join as join
    from doyen.node.scoring import composite as composite

_WHERE = {
    "doyen.node.node": ("Node", "join"),
    "doyen.node.campaign": ("Campaign", "Term"),
    "doyen.node.choices": (
        "Announce",
        "AnnounceAtOnce",
        "AnnounceEarliest",
        "Base",
        "ByKey",
        "Heartbeat",
        "Hybrid",
        "Local",
        "Medley",
        "Optimistic",
        "Pole",
        "Preferred",
        "Ring",
        "Spanning",
        "Swim",
    ),
    "doyen.node.events": ("Event", "MemberInfo"),
    "doyen.node.scoring": ("composite",),
    "doyen.errors": (
        "ConfigError",
        "DoyenError",
        "InvariantViolated",
        "LeadershipLost",
        "LocalProtocolError",
        "RemoteProtocolError",
        "TransportError",
    ),
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}

__all__ = ["__version__", "sync", *sorted(_MODULE)]


def __getattr__(name: str) -> Any:
    if name == "sync":
        return import_module("doyen.sync")
    if name not in _MODULE:
        raise AttributeError(f"module 'doyen' has no attribute {name!r}")
    value = getattr(import_module(_MODULE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
