"""doyen: a membership list and a leader for any set of processes, without a coordination cluster.

Names load when they are used: `import doyen` alone costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from doyen import sync as sync
    from doyen.api.campaign import Campaign as Campaign
    from doyen.api.campaign import Term as Term
    from doyen.api.choices import Announce as Announce
    from doyen.api.choices import AnnounceAtOnce as AnnounceAtOnce
    from doyen.api.choices import AnnounceEarliest as AnnounceEarliest
    from doyen.api.choices import Base as Base
    from doyen.api.choices import ByKey as ByKey
    from doyen.api.choices import Heartbeat as Heartbeat
    from doyen.api.choices import Hybrid as Hybrid
    from doyen.api.choices import Local as Local
    from doyen.api.choices import Medley as Medley
    from doyen.api.choices import Optimistic as Optimistic
    from doyen.api.choices import Pole as Pole
    from doyen.api.choices import Preferred as Preferred
    from doyen.api.choices import Ring as Ring
    from doyen.api.choices import Spanning as Spanning
    from doyen.api.choices import Swim as Swim
    from doyen.api.events import Event as Event
    from doyen.api.events import MemberInfo as MemberInfo
    from doyen.api.node import Node as Node
    from doyen.api.node import join as join
    from doyen.api.scoring import composite as composite
    from doyen.errors import ConfigError as ConfigError
    from doyen.errors import DoyenError as DoyenError
    from doyen.errors import InvariantViolated as InvariantViolated
    from doyen.errors import LeadershipLost as LeadershipLost
    from doyen.errors import LocalProtocolError as LocalProtocolError
    from doyen.errors import RemoteProtocolError as RemoteProtocolError
    from doyen.errors import TransportError as TransportError

_WHERE = {
    "doyen.api.node": ("Node", "join"),
    "doyen.api.campaign": ("Campaign", "Term"),
    "doyen.api.choices": (
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
    "doyen.api.events": ("Event", "MemberInfo"),
    "doyen.api.scoring": ("composite",),
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
