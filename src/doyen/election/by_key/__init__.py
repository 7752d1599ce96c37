"""The owner of a well-known key leads: a leader that costs no election.  Begin with `machine.py`."""

from typing import TYPE_CHECKING

from doyen.core.lazy import lazy

if TYPE_CHECKING:
    from doyen.election.by_key.config import ByKeyConfig as ByKeyConfig
    from doyen.election.by_key.machine import LeaderByKey as LeaderByKey
    from doyen.election.by_key.messages import Answer as Answer
    from doyen.election.by_key.messages import Claim as Claim
    from doyen.election.by_key.messages import Reign as Reign

__getattr__ = lazy(
    __name__,
    {
        "ByKeyConfig": "config",
        "LeaderByKey": "machine",
        "Answer": "messages",
        "Claim": "messages",
        "Reign": "messages",
    },
)
