"""Multi-attribute election over an arbitrary graph.  [MADM §6.2.2]

messages.py    what nodes say and wait for: the whole interface
config.py      how long they wait
machine.py     the machine: elections one after the other, and what neighbours compare
gathering.py   one election at one node: its place in the tree, and the best candidate gathered
links.py       the neighbours, and what each last said of itself
returning.py   what a node that returns makes of its neighbours' answers
patience.py    when answers come too late
quality.py     what a node enters into an election
"""

from typing import TYPE_CHECKING

from doyen.core.lazy import lazy

if TYPE_CHECKING:
    from doyen.election.spanning.config import SpanningConfig as SpanningConfig
    from doyen.election.spanning.machine import Spanning as Spanning
    from doyen.election.spanning.messages import Candidate as Candidate
    from doyen.election.spanning.messages import ElectionId as ElectionId
    from doyen.election.spanning.messages import LeaderUnreachable as LeaderUnreachable
    from doyen.election.spanning.messages import Phase as Phase
    from doyen.election.spanning.messages import Status as Status

__getattr__ = lazy(
    __name__,
    {
        "SpanningConfig": "config",
        "Spanning": "machine",
        "Candidate": "messages",
        "ElectionId": "messages",
        "LeaderUnreachable": "messages",
        "Phase": "messages",
        "Status": "messages",
    },
)
