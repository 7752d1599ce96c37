"""Recordings that were changed on purpose, each so that one rule of the specification is broken, and how."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from doyen.core.codec import Codec
from doyen.core.ids import Incarnation, NodeId, Term
from doyen.core.leadership import LeaderElected
from doyen.election.pole import messages as msg
from doyen.election.pole.promise import VoterRecord
from doyen.net.recording.format import MAGIC, Durable, Effect, Fired, Header, Heard, Input, encode, frame
from doyen.net.recording.reader import Reader

FIRST = "n2"  # Leads in the first term.
_sorted = msgspec.msgpack.Encoder(order="deterministic").encode


class Tape:
    """One recording in memory: its header and its inputs."""

    def __init__(self, path: Path) -> None:
        with Reader(path) as reader:
            assert reader.header.state is None
            self.path, self.header, self.inputs = path, reader.header, list(reader.inputs())

    def write(self, folder: Path) -> None:
        bodies: list[Header | Input] = [self.header, *self.inputs]
        (folder / self.path.name).write_bytes(MAGIC + b"".join(frame(encode(body)) for body in bodies))

    # Finding.

    def where(self, holds: Callable[[Input], Any], *, after: int = 0) -> int:
        return next(i for i, item in enumerate(self.inputs) if i >= after and holds(item))

    def last(self, holds: Callable[[Input], Any]) -> int:
        return max(i for i, item in enumerate(self.inputs) if holds(item))

    # Changing.

    def add(self, index: int, *effects: Effect, first: bool = False) -> None:
        item = self.inputs[index]
        self.inputs[index] = replace(item, effects=[*effects, *item.effects] if first else [*item.effects, *effects])

    def drop(self, index: int, holds: Callable[[Effect], Any]) -> list[Effect]:
        item = self.inputs[index]
        self.inputs[index] = replace(item, effects=[effect for effect in item.effects if not holds(effect)])
        return [effect for effect in item.effects if holds(effect)]

    def hear(self, index: int, sender: str, incarnation: int, message: Any) -> None:
        """Have the node hear a message, just after that input."""
        origin = self.header.origin
        codec = Codec(origin.group)
        codec.speak("election", msg.MESSAGES)
        data = codec.encode(NodeId(sender), Incarnation(incarnation), "election", message)
        self.inputs.insert(index + 1, Input(self.inputs[index].now, Heard(data), []))


def emits(name: str, leader: str | None = None) -> Callable[[Input], bool]:
    def holds(item: Input) -> bool:
        return any(is_fact(effect, name, leader) for effect in item.effects)

    return holds


def is_fact(effect: Effect, name: str, leader: str | None = None) -> bool:
    if (effect.verb, effect.channel, effect.what) != ("emit", "e", name):
        return False
    return leader is None or msgspec.msgpack.decode(effect.data)["term"]["leader"] == leader


def sends(tag: str, **fields: Any) -> Callable[[Input], bool]:
    def holds(item: Input) -> bool:
        return any(is_message(effect, tag, **fields) for effect in item.effects)

    return holds


def is_message(effect: Effect, tag: str, **fields: Any) -> bool:
    if effect.verb not in ("send", "multicast") or effect.channel != "e":
        return False
    message = msgspec.msgpack.decode(effect.data, type=msg.MESSAGES)
    named = type(message).__struct_config__.tag == tag
    return named and all(getattr(message, name) == value for name, value in fields.items())


def writes(item: Input) -> bool:
    return any((effect.verb, effect.channel) == ("persist", "e") for effect in item.effects)


def durable(item: Input) -> bool:
    return isinstance(item.given, Durable)


def multicast(message: Any) -> Effect:
    return Effect("multicast", "e", encode(message))


def persist(epoch: int, to: str) -> Effect:
    return Effect("persist", "e", _sorted(VoterRecord(epoch, epoch, NodeId(to))), "VoterRecord")


def fact(found: Any) -> Effect:
    return Effect("emit", "e", _sorted(found), type(found).__name__)


Tapes = dict[str, Tape]


class Doctored(NamedTuple):
    name: str
    rule: str
    change: Callable[[Tapes], str]  # Returns the file in which it is found.
    without: tuple[str, ...] = ()  # Nodes whose recordings are not given.


def _clock(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    place = tape.last(sends("A", granted=True))
    tape.inputs[place] = replace(tape.inputs[place], now=tape.inputs[place].now - 10**9)
    return "n0-1"


def slowed(tape: Tape, factor: float, first: int = 0) -> None:
    """Have the clock of a node run at another rate from that input on."""
    base = tape.inputs[first].now
    tape.inputs[first:] = [replace(item, now=base + int((item.now - base) * factor)) for item in tape.inputs[first:]]


def _fast_clock(tapes: Tapes) -> str:
    slowed(tapes["n0-1"], 10)
    return "n1-1"  # The slower one.


def _ack_of_nobody(tapes: Tapes) -> str:
    tape = tapes["n2-1"]
    place = tape.where(sends("H", acting=True))
    incarnation = tapes["n0-1"].header.origin.incarnation
    tape.hear(place, "n0", incarnation, msg.HeartbeatAck(1, 77, True))
    return "n2-1"


def _ack_of_no_heartbeat(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    place = tape.where(sends("A", granted=True))
    tape.add(place, Effect("send", "e", encode(msg.HeartbeatAck(1, 999_999, True)), FIRST))
    return "n0-1"


def _second_grant(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    tape.add(tape.where(sends("A", granted=True)), persist(1, "n1"))
    return "n0-1"


def _grant_while_bound(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    tape.add(tape.where(sends("A", granted=True)), persist(2, "n1"))
    return "n0-1"


def _unclaimed(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    tape.add(0, persist(1, "n1"))
    return "n0-1"


def _ack_before_the_disk(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    written = tape.where(durable)
    acks = tape.drop(written, lambda effect: is_message(effect, "A", granted=True))
    tape.add(tape.where(writes), *acks)
    return "n0-1"


def _another_disk(tapes: Tapes) -> str:
    tape = tapes["n2-2"]
    tape.header = replace(tape.header, restored={"election": encode(VoterRecord(0))})
    return "n2-2"


def _no_disk(tapes: Tapes) -> str:
    tape = tapes["n2-2"]
    tape.header = replace(tape.header, restored={})
    return "n2-2"


def _leads_too_soon(tapes: Tapes) -> str:
    tape = tapes["n2-1"]
    tape.drop(tape.where(emits("LeaderElected", FIRST)), lambda effect: is_fact(effect, "LeaderElected"))
    tape.add(tape.where(durable), fact(LeaderElected(Term(1, NodeId(FIRST)))))
    return "n2-1"


def _leads_after_its_lease(tapes: Tapes) -> str:
    tape = tapes["n2-1"]
    place = tape.where(emits("LeaderLost", FIRST))
    over = tape.inputs[place].now
    tape.drop(place, lambda effect: is_fact(effect, "LeaderLost") or is_message(effect, "R"))
    tape.add(tape.where(lambda item: item.now > over + 1_000_000), multicast(msg.Heartbeat(1, 10**6, True)))
    return "n2-1"


def _leads_on_while_it_hears_nobody(tapes: Tapes) -> str:
    """It is cut off, and stops only long after the next one leads: by its timers alone that can be seen."""
    tape = tapes["n2-1"]
    place = tape.where(emits("LeaderLost", FIRST))
    over = tape.inputs[place].now
    lost = tape.drop(place, lambda effect: effect.verb != "set timer")
    last = tape.where(lambda item: item.now > over + 2 * 10**9 and isinstance(item.given, Fired))
    for index in range(place + 1, last + 1):
        tape.drop(index, lambda effect: effect.channel == "e" and effect.verb != "set timer")
    tape.add(last, *(effect for effect in lost if is_fact(effect, "LeaderLost")))
    return "n2-1"


def _acts_without_leading(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    tape.add(tape.where(sends("A", granted=True)), multicast(msg.Heartbeat(1, 10**6, True)))
    return "n0-1"


def _claims_again(tapes: Tapes) -> str:
    tape = tapes["n2-1"]
    place = tape.where(sends("R"))
    tape.add(place, multicast(msg.Heartbeat(1, 10**6, False)))
    return "n2-1"


def _resigns_and_leads(tapes: Tapes) -> str:
    tape = tapes["n2-1"]
    tape.add(tape.where(sends("H", acting=True)), multicast(msg.Resigned(1)))
    return "n2-1"


def _names_another(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    place = tape.where(emits("LeaderElected"))
    tape.drop(place, lambda effect: is_fact(effect, "LeaderElected"))
    tape.add(place, fact(LeaderElected(Term(1, NodeId("n1")))))
    return "n0-1"


def _two_in_a_term(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    incarnation = tapes["n1-1"].header.origin.incarnation
    tape.hear(tape.where(sends("A", granted=True)) + 1, "n1", incarnation, msg.Heartbeat(1, 5, True))
    return "n0-1"


def _below_its_promise(tapes: Tapes) -> str:
    tape = tapes["n0-1"]
    tape.add(tape.last(sends("A", granted=True)), multicast(msg.Heartbeat(1, 10**6, False)))
    return "n0-1"


def _grants_and_leads(tapes: Tapes) -> str:
    """It frees itself, claims, and grants: without having stopped to lead."""
    tape = tapes["n2-1"]
    place = tape.where(sends("H", acting=True))
    incarnation = tapes["n1-1"].header.origin.incarnation
    tape.hear(place, "n1", incarnation, msg.Heartbeat(2, 5, False))
    tape.add(place + 1, persist(2, "n1"))
    return "n2-1"


ALL = [
    Doctored("a clock that goes back", "clock", _clock),
    Doctored("a clock ten times too fast", "rate", _fast_clock),
    Doctored("an ack that nobody sent", "unsent", _ack_of_nobody),
    Doctored("an ack of a heartbeat that nobody sent", "unsent", _ack_of_no_heartbeat),
    Doctored("an epoch granted twice", "back", _second_grant),
    Doctored("a grant while bound to another", "bound", _grant_while_bound),
    Doctored("a grant that nobody asked for", "unclaimed", _unclaimed),
    Doctored("an ack before the grant is durable", "undurable", _ack_before_the_disk),
    Doctored("a restart with an older record", "disk", _another_disk),
    Doctored("a vote after the record was lost", "disk", _no_disk),
    Doctored("a leader before its majority", "majority", _leads_too_soon),
    Doctored("a leader after its lease", "lease", _leads_after_its_lease),
    Doctored("a leader after its lease that hears nobody", "lease", _leads_on_while_it_hears_nobody),
    Doctored("a follower that says it acts", "lease", _acts_without_leading),
    Doctored("a claim after a resignation", "resigned", _claims_again),
    Doctored("a resignation of one that leads on", "leading", _resigns_and_leads),
    Doctored("a grant of one that leads on", "leading", _grants_and_leads, without=("n1",)),
    Doctored("a name that never led", "named", _names_another),
    Doctored("two leaders of one term", "shared", _two_in_a_term, without=("n1", "n2")),
    Doctored("a claim below its own promise", "claim", _below_its_promise),
]
