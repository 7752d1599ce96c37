"""Churn-tolerant elections: base, optimistic, preferred, hybrid.  [CTOL]"""

from typing import TYPE_CHECKING

from doyen.core.lazy import lazy

if TYPE_CHECKING:
    from doyen.election.ctolerant.config import CTolerantConfig as CTolerantConfig
    from doyen.election.ctolerant.local import Local as Local
    from doyen.election.ctolerant.machine import CTolerant as CTolerant
    from doyen.election.ctolerant.messages import Memory as Memory
    from doyen.election.ctolerant.standpoint import hash_rank as hash_rank

__getattr__ = lazy(
    __name__,
    {
        "CTolerantConfig": "config",
        "Local": "local",
        "CTolerant": "machine",
        "Memory": "messages",
        "hash_rank": "standpoint",
    },
)
