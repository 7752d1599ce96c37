"""doyen: a membership list and a leader for any set of processes, without a coordination cluster.

Names load when they are used: `import doyen` alone costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from doyen import sync as sync
    from doyen.election.announce.kind import Announce as Announce
    from doyen.election.announce.kind import AnnounceAtOnce as AnnounceAtOnce
    from doyen.election.announce.kind import AnnounceEarliest as AnnounceEarliest
    from doyen.election.by_key.kind import ByKey as ByKey
    from doyen.election.churn.kind import Base as Base
    from doyen.election.churn.kind import Hybrid as Hybrid
    from doyen.election.churn.kind import Local as Local
    from doyen.election.churn.kind import Optimistic as Optimistic
    from doyen.election.churn.kind import Preferred as Preferred
    from doyen.election.directory.kind import Directory as Directory
    from doyen.election.engine.kind import Engine as Engine
    from doyen.election.pole.kind import Pole as Pole
    from doyen.election.spanning.kind import Spanning as Spanning
    from doyen.errors import ConfigError as ConfigError
    from doyen.errors import DoyenError as DoyenError
    from doyen.errors import InvariantViolated as InvariantViolated
    from doyen.errors import LeadershipLost as LeadershipLost
    from doyen.errors import LocalProtocolError as LocalProtocolError
    from doyen.errors import RemoteProtocolError as RemoteProtocolError
    from doyen.errors import TransportError as TransportError
    from doyen.membership.heartbeat.kind import Heartbeat as Heartbeat
    from doyen.membership.medley.kind import Medley as Medley
    from doyen.membership.ring.kind import Ring as Ring
    from doyen.membership.swim.kind import Swim as Swim
    from doyen.node.campaign import Campaign as Campaign
    from doyen.node.events import Event as Event
    from doyen.node.events import LeaderInfo as LeaderInfo
    from doyen.node.events import MemberInfo as MemberInfo
    from doyen.node.events import View as View
    from doyen.node.join import join as join
    from doyen.node.node import Node as Node
    from doyen.node.scoring import composite as composite
    from doyen.node.term import Term as Term
    from doyen.singletons import current_term as current_term
    from doyen.singletons import singleton as singleton

_WHERE = {
    "doyen.node.join": ("join",),
    "doyen.node.node": ("Node",),
    "doyen.node.campaign": ("Campaign", "Term"),
    "doyen.election.announce.kind": ("Announce", "AnnounceAtOnce", "AnnounceEarliest"),
    "doyen.election.churn.kind": ("Base", "Hybrid", "Local", "Optimistic", "Preferred"),
    "doyen.election.by_key.kind": ("ByKey",),
    "doyen.election.directory.kind": ("Directory",),
    "doyen.election.engine.kind": ("Engine",),
    "doyen.election.pole.kind": ("Pole",),
    "doyen.election.spanning.kind": ("Spanning",),
    "doyen.membership.heartbeat.kind": ("Heartbeat",),
    "doyen.membership.medley.kind": ("Medley",),
    "doyen.membership.ring.kind": ("Ring",),
    "doyen.membership.swim.kind": ("Swim",),
    "doyen.node.events": ("Event", "LeaderInfo", "MemberInfo", "View"),
    "doyen.node.scoring": ("composite",),
    "doyen.singletons": ("current_term", "singleton"),
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
