"""Systems that keep a list of members and no leader: the customary rule makes one, the lowest name that is there.

serf's agents write what they learn to their standard output; the rule is applied to that from outside, so it costs
them nothing.  swim-protocol is a library: a small program of ours carries it and applies the rule itself.
"""

import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant
from doyen_lab.contest.entrant import Entrant

PACKAGES = {"serf": "serf"}
SERF_PORT, SWIM_PORT = 7946, 7947
PROGRAM = Path(__file__).with_name("swim_member.py")
COMES, GOES = "EventMemberJoin: ", ("EventMemberFailed: ", "EventMemberLeave: ", "EventMemberReap: ")


class Serf(Entrant):
    """Agents at their defaults for a LAN; they retry joining every second, so that a start is not a matter of luck."""

    prefix = "s"

    def command(self, name: str) -> list[str]:
        seeds = [f"-retry-join={self.hosts[other].ipv4}" for other in (self.names[0], self.names[-1]) if other != name]
        bind = f"-bind={self.hosts[name].ipv4}:{SERF_PORT}"
        return ["serf", "agent", f"-node={name}", bind, "-rpc-addr=127.0.0.1:7373", "-retry-interval=1s", *seeds]

    def hear(self, name: str, line: str, at: Instant) -> None:
        for what in (COMES, *GOES):
            if what in line:
                self.roster.say(name, line.partition(what)[2].split()[0], at, present=what == COMES)
        self.ledger.say(name, min(self.roster.held_by(name)), at)


class Said(Struct, frozen=True):
    leader: str
    clock: Instant


_SAID = msgspec.json.Decoder(Said)


class SwimProtocol(Entrant):
    prefix = "w"

    def command(self, name: str) -> list[str]:
        seeds = [self._address(other) for other in (self.names[0], self.names[-1]) if other != name]
        return [sys.executable, "-P", str(PROGRAM), self._address(name), *seeds]

    def hear(self, name: str, line: str, at: Instant) -> None:
        said = _SAID.decode(line)
        named = next((other for other in self.names if self._address(other) == said.leader), None)
        self.ledger.say(name, named, said.clock)

    def _address(self, name: str) -> str:
        return f"{self.hosts[name].ipv4}:{SWIM_PORT}"
