"""The output of an agent: one JSON line per event."""

import msgspec
from msgspec import Struct

from doyen.core.plain import plain_json


class AgentLine(Struct, frozen=True, omit_defaults=True):
    """One line of an agent's output."""

    event: str  # started, elected, lost, member, cannot elect, waiting, alone, status, stopped
    name: str
    at: float  # Wall clock, in seconds.
    clock: int  # CLOCK_BOOTTIME in nanoseconds: the same for all processes of one machine.
    pid: int | None = None
    leader: str | None = None
    term: int | None = None
    reason: str | None = None  # elected: what decided; lost: how it ended.
    compared: dict[str, str] = {}  # elected: who was weighed against whom, as far as this node knows.
    address: str | None = None
    http: str | None = None  # started: where HTTP is served.
    sent: int = 0
    received: int = 0
    refused: dict[str, int] = {}
    status: str = ""
    election: str = ""  # Which, where a node has several; "" is the group's own.
    member: str | None = None  # member: who changed, and to what.
    member_status: str | None = None  # alive, suspected, failed, left, forgotten
    by: tuple[str, ...] = ()  # suspected: who accuses it, as far as is known here.
    incarnation: int | None = None
    members: dict[str, int] = {}  # How many are alive, suspected, failed, left; where there is a membership.


def encode_line(line: AgentLine) -> bytes:
    return plain_json(msgspec.json.encode(line)) + b"\n"
