"""Elections by application scores, with a quorum.  [POLE]"""

from typing import TYPE_CHECKING

from doyen.core.lazy import lazy

if TYPE_CHECKING:
    from doyen.election.pole.config import PoleConfig as PoleConfig
    from doyen.election.pole.machine import Pole as Pole
    from doyen.election.pole.messages import EpochPromised as EpochPromised
    from doyen.election.pole.messages import NotVoting as NotVoting
    from doyen.election.pole.messages import QuorumProposed as QuorumProposed
    from doyen.election.pole.messages import Selected as Selected
    from doyen.election.pole.promise import VoterRecord as VoterRecord
    from doyen.election.pole.status import Status as Status

__getattr__ = lazy(
    __name__,
    {
        "PoleConfig": "config",
        "Pole": "machine",
        "EpochPromised": "messages",
        "NotVoting": "messages",
        "QuorumProposed": "messages",
        "Selected": "messages",
        "VoterRecord": "promise",
        "Status": "status",
    },
)
