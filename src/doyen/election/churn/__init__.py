"""Churn-tolerant elections: base, optimistic, preferred, hybrid.  [CTOL]"""

from typing import TYPE_CHECKING

from doyen.core.lazy import lazy

if TYPE_CHECKING:
    from doyen.election.churn.config import CTolerantConfig as CTolerantConfig
    from doyen.election.churn.local import Local as Local
    from doyen.election.churn.machine import CTolerant as CTolerant
    from doyen.election.churn.messages import Memory as Memory
    from doyen.election.churn.standpoint import hash_rank as hash_rank

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
