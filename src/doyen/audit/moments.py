"""Reads recordings as moments: what came into a voter's election, and what the voter did about it.

Only the group's own election counts, and of it only what the specification speaks of.
"""

from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from doyen.audit.spec import NO_ONE, Answer, Record
from doyen.core.clock import NEVER, Instant
from doyen.core.codec import SHORT, Header
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost, VotersChanged
from doyen.election.pole import messages as msg
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.promise import VoterRecord
from doyen.election.pole.reign import Lease
from doyen.errors import ConfigError, RemoteProtocolError, TransportError
from doyen.net.recording.format import Durable, Effect, Fired, Heard, Input, Started
from doyen.net.recording.format import Header as SegmentHeader
from doyen.net.recording.reader import Reader, segments
from doyen.net.recording.replay import loaded
from doyen.node.rebuilt import Rebuilt
from doyen.node.registry import find_election
from doyen.node.stack import ELECTION

SHORT_ELECTION: Final = SHORT[ELECTION]
_DATAGRAMS: Final = msgspec.msgpack.Decoder(Header)
_MESSAGES: Final = msgspec.msgpack.Decoder(msg.MESSAGES)
_FACTS: Final[dict[str, Any]] = {
    "LeaderElected": LeaderElected,
    "LeaderLost": LeaderLost,
    "VotersChanged": VotersChanged,
}


class Message(Struct, frozen=True):
    """A message to one node, or to all (None), as it is and as it was on the wire."""

    sender: str
    incarnation: int
    to: str | None
    message: Any
    data: bytes


class Begin(Struct, frozen=True):
    """A process begins, with what it read from its disk; None: nothing was there."""

    record: Record | None
    newcomer: bool
    electorate: Electorate
    stamp: tuple[int, int] = (0, 0)  # Of the charter that names the electorate; (0, 0): the configuration does.


class Resume(Struct, frozen=True):
    """A segment begins in the middle of a process whose earlier segments are not there."""

    record: Record
    bound: Instant
    lead: int
    answers: dict[str, Answer]  # To its lease, and to a claim that it may have besides.
    electorate: Electorate
    stamp: tuple[int, int] = (0, 0)


class End(Struct, frozen=True):
    """A process has ended, or its recording has."""


class Persist(Struct, frozen=True):
    record: Record


Deed = Message | Persist | LeaderElected | LeaderLost | VotersChanged


class Moment(Struct, frozen=True, kw_only=True):
    """One input of one node, and what came of it."""

    path: str
    line: int  # The number of the input in its file; 0: the beginning of it.
    node: str
    incarnation: int
    now: Instant  # The node's own clock.
    at_s: float  # Wall clock.
    came: Message | Begin | Resume | End | Durable | Fired | None = None
    deeds: tuple[Deed, ...] = ()


class Life(Struct, kw_only=True):
    """One process: as much of it as there is in the files."""

    node: str
    incarnation: int
    is_whole: bool  # Its beginning is there.
    moments: list[Moment]


class Log(Struct, kw_only=True):
    """All recordings of one node."""

    node: str
    group: str
    config: PoleConfig
    voters: frozenset[NodeId]
    lives: list[Life]
    paths: list[str]


def read(path: Path) -> Log:
    """Read the recording of one node, both segments of it."""
    log: Log | None = None
    for segment in segments(path):
        with Reader(segment) as reader:
            header = reader.header
            found = _log(segment, header)
            if log is None:
                log = found
            elif (log.node, log.group) != (found.node, found.group):
                raise ConfigError(f"{segment} is of {found.node} in {found.group!r}, and {path} is of another")
            life = log.lives[-1] if log.lives else None
            if life is None or life.incarnation != header.origin.incarnation:
                life = Life(
                    node=log.node, incarnation=header.origin.incarnation, is_whole=header.state is None, moments=[]
                )
                log.lives.append(life)
                life.moments.append(_first(segment, header, log.voters))
            log.paths.append(str(segment))
            for _ in reader.state():
                pass
            timers = _Timers(header)
            for number, item in enumerate(reader.inputs(), start=1):
                found_moment = _moment(segment, number, item, header, timers)
                if found_moment is not None:
                    life.moments.append(found_moment)
    assert log is not None
    return log


def _log(path: Path, header: SegmentHeader) -> Log:
    origin = header.origin
    try:
        kind = find_election(str(origin.config["election"]))
        config = msgspec.convert(origin.config["tables"]["pole"], PoleConfig)
        voters = frozenset(msgspec.convert(origin.config.get("voters", ()), list[NodeId]))
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise TransportError(f"{path} does not say how its node elects: {error}") from None
    if kind.table.config is not PoleConfig:
        raise ConfigError(f"{path} is of a node that elects by {kind.name}: only pole (quorum) has a specification")
    if not origin.durable:
        raise ConfigError(
            f"{path} is of a node that keeps its promises in memory alone: there is nothing to hold it to"
        )
    return Log(node=origin.node, group=origin.group, config=config, voters=voters, lives=[], paths=[])


def _first(path: Path, header: SegmentHeader, voters: frozenset[NodeId]) -> Moment:
    """Return the beginning of a process, or of what is left of it."""
    origin, came = header.origin, Begin(None, False, Electorate(0, voters))
    if header.state is not None:
        machine: Any = loaded(path, Rebuilt).ports[ELECTION].machine
        lead = machine.term.number if machine.is_leader else 0
        resumed = Resume(
            record_of(machine.voter.promise),
            machine.voter.bound_until,
            lead,
            _answers(machine.reign.lease if lead else None, lead) | _answers(machine.reign.claim, machine.reign.epoch),
            machine.electorate,
            machine.voter.stamp,
        )
        return _made(path, 0, header.now, header, came=resumed)
    data = header.restored.get(ELECTION)
    newcomer = origin.config.get("newcomer") is True
    if data is None:
        return _made(path, 0, header.now, header, came=msgspec.structs.replace(came, newcomer=newcomer))
    record = _decoded(path, 0, data, VoterRecord)
    charter = record.charter
    if charter is None:
        begun = Begin(record_of(record), newcomer, came.electorate)
    else:
        begun = Begin(record_of(record), newcomer, charter.electorate, charter.stamp)
    return _made(path, 0, header.now, header, came=begun)


def _answers(lease: Lease | None, epoch: int) -> dict[str, Answer]:
    """Return the acks that a claim or a lease has."""
    if lease is None:
        return {}
    last = {str(name): lease.last_answered(name) for name in lease.electorate.names}
    return {name: Answer(epoch, at) for name, at in last.items() if at >= 0}


def record_of(record: VoterRecord) -> Record:
    return Record(record.epoch, record.granted_epoch, record.granted_to or NO_ONE)


def _made(path: Path, line: int, now: Instant, header: SegmentHeader, **given: Any) -> Moment:
    origin = header.origin
    at_s = header.at + (now - header.now) / 1e9
    return Moment(
        path=str(path), line=line, node=origin.node, incarnation=origin.incarnation, now=now, at_s=at_s, **given
    )


class _Timers:
    """Tells which of a node's timers are the election's; a recording numbers them as they are set."""

    def __init__(self, header: SegmentHeader) -> None:
        state = header.state
        self._next = 0 if state is None else state.next_timer
        timers = () if state is None else state.timers
        self._ours = {number for number, _, channel, _ in timers if channel in (ELECTION, SHORT_ELECTION)}

    def is_ours(self, item: Input) -> bool:
        """Take an input; return whether it is a timer of the election."""
        given = item.given
        ours = isinstance(given, Fired) and given.number in self._ours
        if isinstance(given, Fired):
            self._ours.discard(given.number)
        for effect in item.effects:
            if effect.verb == "set timer" and effect.at < NEVER:
                if effect.channel == SHORT_ELECTION:
                    self._ours.add(self._next)
                self._next += 1
        return ours


def _moment(path: Path, line: int, item: Input, header: SegmentHeader, timers: _Timers) -> Moment | None:
    """Return a moment, if the election had part in it."""
    came: Message | Durable | Fired | None = None
    given = item.given
    is_timer = timers.is_ours(item)
    if isinstance(given, Heard):
        came = _heard(path, line, given.data, header.origin.node)
    elif (isinstance(given, Fired) and is_timer) or (isinstance(given, Durable) and given.channel == ELECTION):
        came = given
    found = [deed for effect in item.effects if (deed := _deed(path, line, effect, header)) is not None]
    if came is None and not found and not isinstance(given, Started):
        return None
    return _made(path, line, item.now, header, came=came, deeds=_ordered(found, header.origin.node))


def _ordered(found: list[Deed], node: str) -> tuple[Deed, ...]:
    """Return what a node did in the order in which it did it: a recording has all facts of a step at its end.

    A node stops leading before it sends or writes anything, and begins to lead before it says that it acts.
    """
    stops = [deed for deed in found if isinstance(deed, LeaderLost)]
    begun = [deed for deed in found if isinstance(deed, LeaderElected) and deed.term.leader == node]
    rest = [deed for deed in found if deed not in stops and deed not in begun]
    for deed in begun:
        acting = [
            place
            for place, other in enumerate(rest)
            if isinstance(other, Message) and isinstance(other.message, msg.Heartbeat) and other.message.acting
        ]
        rest.insert(min(acting, default=len(rest)), deed)
        if any(stop.term == deed.term for stop in stops):
            stops = [stop for stop in stops if stop.term != deed.term]
            rest.append(LeaderLost(deed.term, ""))
    return (*stops, *rest)


def _heard(path: Path, line: int, data: bytes, to: str) -> Message | None:
    try:
        envelope = _DATAGRAMS.decode(data)
        if envelope.channel != SHORT_ELECTION:
            return None
        raw = bytes(envelope.message)
        return Message(envelope.sender, envelope.incarnation, to, _MESSAGES.decode(raw), raw)
    except (msgspec.DecodeError, ValueError, RemoteProtocolError) as error:
        raise TransportError(f"{path}, input {line}: {error}") from None


def _deed(path: Path, line: int, effect: Effect, header: SegmentHeader) -> Deed | None:
    if effect.channel != SHORT_ELECTION:
        return None
    origin = header.origin
    match effect.verb:
        case "send" | "multicast":
            to = effect.what if effect.verb == "send" else None
            return Message(
                origin.node, origin.incarnation, to, _decoded(path, line, effect.data, msg.MESSAGES), effect.data
            )
        case "persist":
            return Persist(record_of(_decoded(path, line, effect.data, VoterRecord)))
        case "emit" if effect.what in _FACTS:
            fact: Deed = _decoded(path, line, effect.data, _FACTS[effect.what])
            return fact
    return None


def _decoded(path: Path, line: int, data: bytes, kind: Any) -> Any:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise TransportError(f"{path}, input {line}: {error}") from None
