"""Multi-attribute election over an arbitrary graph.  [MADM §6.2.2]

config.py      how patient it is
messages.py    what it says and waits for: the whole interface
gathering.py   what one node knows of one election
watch.py       what neighbours last said of themselves
hello.py       who of the neighbours is there
patience.py    when answers come too late
machine.py     the machine, with orphan.py, healing.py, returning.py, pulse.py
comparators.py what it is compared with
"""

from typing import TYPE_CHECKING

from doyen.core.lazy import lazy

if TYPE_CHECKING:
    from doyen.election.spanning.config import SpanningConfig as SpanningConfig
    from doyen.election.spanning.machine import Spanning as Spanning
    from doyen.election.spanning.messages import Candidate as Candidate
    from doyen.election.spanning.messages import ElectionId as ElectionId
    from doyen.election.spanning.messages import LeaderUnreachable as LeaderUnreachable
    from doyen.election.spanning.phase import Phase as Phase
    from doyen.election.spanning.phase import Status as Status

__getattr__ = lazy(
    __name__,
    {
        "SpanningConfig": "config",
        "Spanning": "machine",
        "Candidate": "messages",
        "ElectionId": "messages",
        "LeaderUnreachable": "messages",
        "Phase": "phase",
        "Status": "phase",
    },
)
