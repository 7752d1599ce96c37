"""Systems that keep a list of members and no leader: the customary rule makes one, the lowest name that is there.

serf's agents write what they learn to their standard output; the rule is applied to that from outside, so it costs
them nothing.  swim-protocol is a library: a small program of ours carries it and applies the rule itself.
"""

import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant
from doyen_lab.contest.group import Group

SERF_PORT, SWIM_PORT = 7946, 7947
PROGRAM = Path(__file__).parent.parent / "peers" / "swim_member.py"
COMES, GOES = "EventMemberJoin: ", ("EventMemberFailed: ", "EventMemberLeave: ", "EventMemberReap: ")


class Serf(Group):
    """Agents at their defaults for a LAN; they retry joining every second, so that a start is not a matter of luck."""

    prefix = "s"

    def __init__(self, label: str, size: int, folder: Path) -> None:
        super().__init__(label, size, folder)
        self._there: dict[str, set[str]] = {}

    def command(self, name: str) -> list[str]:
        self._there[name] = {name}
        hosts = {other: peer.host.ipv4 for other, peer in self.members.items()}
        seeds = [f"-retry-join={hosts[other]}" for other in (self.names[0], self.names[-1]) if other != name]
        bind = f"-bind={hosts[name]}:{SERF_PORT}"
        return ["serf", "agent", f"-node={name}", bind, "-rpc-addr=127.0.0.1:7373", "-retry-interval=1s", *seeds]

    def hear(self, name: str, line: str, at: Instant) -> None:
        there = self._there[name]
        if COMES in line:
            there.add(line.partition(COMES)[2].split()[0])
        for what in GOES:
            if what in line:
                there.discard(line.partition(what)[2].split()[0])
        there.add(name)
        self.ledger.say(name, min(there), at)


class Said(Struct, frozen=True):
    leader: str
    clock: Instant


_SAID = msgspec.json.Decoder(Said)


class SwimProtocol(Group):
    prefix = "w"

    def command(self, name: str) -> list[str]:
        addresses = {other: f"{peer.host.ipv4}:{SWIM_PORT}" for other, peer in self.members.items()}
        seeds = [addresses[other] for other in (self.names[0], self.names[-1]) if other != name]
        return [sys.executable, "-P", str(PROGRAM), addresses[name], *seeds]

    def hear(self, name: str, line: str, at: Instant) -> None:
        said = _SAID.decode(line)
        named = {f"{peer.host.ipv4}:{SWIM_PORT}": other for other, peer in self.members.items()}
        self.ledger.say(name, named.get(said.leader), said.clock)
