"""Whatever a message can carry, a machine survives, and goes on saying only what others can read.

Decoders stop what is malformed; what is well formed and extreme (numbers at the ends of their types, names of nobody,
the same thing twice) reaches the machines, from members and from strangers, in any order and between any timers.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from doyen.core.clock import FOREVER, NEVER, ms, seconds
from doyen.core.commands import DescribeLeader
from doyen.core.effects import Multicast, Out, Persist, Send, SetTimer
from doyen.core.ids import Address, Incarnation, NodeId, Term
from doyen.core.leadership import LeaderElected
from doyen.core.link import LinkChanged
from doyen.core.view import Member, ViewChanged, ViewEditor
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.by_key.config import ByKeyConfig
from doyen.election.by_key.machine import LeaderByKey
from doyen.election.churn.config import CTolerantConfig
from doyen.election.churn.machine import CTolerant
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.machine import Pole
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.machine import Spanning
from doyen.membership.heartbeat.config import HeartbeatConfig
from doyen.membership.heartbeat.machine import Heartbeat
from doyen.membership.leadernote import LeaderNote
from doyen.membership.medley.config import MedleyConfig
from doyen.membership.medley.machine import Medley
from doyen.membership.missing import MissingConfig, MissingEstimator
from doyen.membership.notes import Note, Notes
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.neighbourhood import founding
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.machine import Swim
from doyen.score.pingpong import PingPong, PingPongConfig
from doyen.testing import RecordingOut
from doyen_lab.hello import Hello, HelloConfig

ME = NodeId("b")
NAMES = tuple(NodeId(name) for name in "abcd")
STRANGER = NodeId("stranger")
INTEGERS = (0, 1, 2, 7, 2**31 - 1, 2**31, 2**31 + 1, 2**53 - 2, 2**53 - 1, 2**53, 2**62, 2**63 - 2**32 - 1, 2**63 - 1)
EDGES = (*INTEGERS, 2**63, 2**64 - 1, -1, -(2**53), -(2**62), -(2**63))
FLOATS = (0.0, -0.0, 0.5, 1e300, -1e300, 2.0**62, float("inf"), float("-inf"), float("nan"))
STEPS, SOAK_STEPS = 3_000, 50_000

Build = Callable[[Out, Random], Any]


def _view() -> ViewChanged:
    editor = ViewEditor()
    for name in NAMES:
        editor.put(Member(node=name))
    return ViewChanged(editor.view, NAMES)


def _spanning(out: Out, rng: Random) -> Spanning:
    config = SpanningConfig(pulse_interval=seconds(1))
    return Spanning(ME, config, out, standing=0.5, neighbours=NAMES, restored=0)


def _announce(leader_is: Any, **more: Any) -> Build:
    return lambda out, rng: Announce(ME, AnnounceConfig(leader_is=leader_is, **more), out, rng, restored=0)


def _ctolerant(variant: Any, **more: Any) -> Build:
    config = CTolerantConfig(variant=variant, missing_max=1, **more)
    return lambda out, rng: CTolerant(ME, Incarnation(1), config, out, rng)


def _leader_note(out: Out, rng: Random) -> LeaderNote:
    machine = LeaderNote(ME, Incarnation(1), Address("h", 1), {"zone": "eu"}, out, rng)
    machine.on_elected(LeaderElected(Term(1, ME)), 1)
    machine.on_describe(DescribeLeader(since=5.0), 1)
    machine.on_elected(LeaderElected(Term(2, NAMES[0])), 1)  # It has not heard that it lost.
    return machine


MACHINES: dict[str, Build] = {
    "announce": _announce("best"),
    "announce, k leaders": _announce("best", leader_count=3, query_timeout=ms(400), ageing_after=seconds(2)),
    "announce, earliest": _announce("earliest", query_timeout=ms(400)),
    "pole": lambda out, rng: Pole(
        ME, PoleConfig(), out, rng, voters=NAMES, score=lambda epoch, gone: (rng.random(),), newcomer=True
    ),
    "pole, observing": lambda out, rng: Pole(ME, PoleConfig(), out, rng, voters=NAMES),
    "ctolerant": _ctolerant("hybrid"),
    "ctolerant, gossip": _ctolerant("base", fan_out=2),
    "spanning": _spanning,
    "hello": lambda out, rng: Hello(ME, HelloConfig(), out, neighbours=dict.fromkeys(NAMES), incarnation=1),
    "swim": lambda out, rng: Swim(ME, SwimConfig(), out, rng, seeds=[Address("h", 1)]),
    "medley": lambda out, rng: Medley(ME, MedleyConfig(), out, rng, distance=lambda node: 1.0),
    "heartbeat": lambda out, rng: Heartbeat(ME, HeartbeatConfig(), out, rng, seeds=[Address("h", 1)]),
    "missing": lambda out, rng: MissingEstimator(ME, MissingConfig(), out, rng),
    "leader note": _leader_note,
    "notes": lambda out, rng: Notes(Note(ME, Incarnation(1), 1), out, rng),
    "ring": lambda out, rng: Arbitration(
        seat(ME), ArbitrationConfig(), out, rng, founding=founding((seat(name) for name in NAMES), 2)
    ),
    "ring, joining": lambda out, rng: Arbitration(seat(ME), ArbitrationConfig(), out, rng, contacts=NAMES[2:]),
    "by key": lambda out, rng: LeaderByKey(ME, ByKeyConfig(), out),
    "pings": lambda out, rng: PingPong(ME, PingPongConfig(), out, rng, voters=NAMES),
}


class Speaker:
    """Makes up messages of a machine's own kinds: as a decoder would see them, extreme ones rather than likely ones."""

    def __init__(self, kinds: Any, rng: Random) -> None:
        self._decoder = msgspec.msgpack.Decoder(kinds)
        found = inspect.type_info(kinds)
        self._kinds = found.types if isinstance(found, inspect.UnionType) else (found,)
        self._rng = rng

    def message(self) -> Any:
        """None where it is refused as malformed."""
        try:
            return self.read(self._value(self._rng.choice(self._kinds)))
        except msgspec.ValidationError:
            return None

    def read(self, plain: Any) -> Any:
        return self._decoder.decode(msgspec.msgpack.encode(plain))

    def _value(self, kind: Any) -> Any:
        rng = self._rng
        match kind:
            case inspect.StructType():
                tag = [] if kind.tag is None else [kind.tag]
                return tag + [self._value(field.type) for field in kind.fields]
            case inspect.UnionType():
                return self._value(rng.choice(kind.types))
            case inspect.IntType():
                return rng.choice(INTEGERS if rng.random() < 0.8 else EDGES)
            case inspect.FloatType():
                return rng.choice(FLOATS)
            case inspect.StrType():
                return rng.choice((*NAMES, *NAMES, STRANGER, "", "x" * 64))
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.BytesType():
                return rng.randbytes(rng.choice((0, 4, 8, 400)))
            case inspect.LiteralType():
                return rng.choice(kind.values)
            case inspect.NoneType():
                return None
            case inspect.EnumType():
                return rng.choice(list(kind.cls)).value
            case inspect.DictType():
                return {self._value(kind.key_type): self._value(kind.value_type) for _ in range(rng.choice((0, 1, 3)))}
            case inspect.VarTupleType() | inspect.FrozenSetType() | inspect.SetType():
                return [self._value(kind.item_type) for _ in range(rng.choice((0, 1, 2, 5)))]
            case inspect.TupleType():
                return [self._value(item) for item in kind.item_types]
        raise AssertionError(f"no idea how to make up a {kind}")


class Ordeal:
    def __init__(self, build: Build, seed: int) -> None:
        self.rng, self.out, self.now = Random(seed), RecordingOut(), 1_000
        self.machine = build(self.out, self.rng)
        self.speaker = Speaker(self.machine.MESSAGES, self.rng)
        self.timers: list[SetTimer] = []
        self.said = self.heard = 0

    def run(self, steps: int) -> None:
        self.machine.start(self.now)
        if hasattr(self.machine, "on_view_changed"):
            self.machine.on_view_changed(_view(), self.now)
        self._check()
        for _ in range(steps):
            self._step()
            self._check()

    def _step(self) -> None:
        rng = self.rng
        if self.timers and rng.random() < 0.3:
            timer = self.timers.pop(rng.randrange(len(self.timers)))
            self.now = max(self.now, timer.at)
            self.machine.on_timer(timer.timer, self.now)
        elif rng.random() < 0.02 and hasattr(self.machine, "on_link_changed"):
            self.machine.on_link_changed(LinkChanged(rng.choice(NAMES), rng.random() < 0.7), self.now)
        else:
            self.now += rng.choice((0, 1, ms(10)))
            message = self.speaker.message()
            if message is not None:
                self.heard += 1
                self.machine.on_message(rng.choice((*NAMES, STRANGER)), message, self.now)

    def _check(self) -> None:
        """What it says can be read by another of its kind; what it keeps, by itself."""
        for effect in self.out.take():
            match effect:
                case Send(_, message) | Multicast(message):
                    self.said += 1
                    assert self.speaker.read(message) == message
                case Persist(record):
                    msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=self.machine.RECORD)
                case SetTimer(_, at):
                    assert at < 2**64 and at <= self.now + FOREVER
                    if at < NEVER:
                        self.timers.append(effect)
                        del self.timers[:-400]
                case _:
                    pass


def _run(name: str, seeds: Iterable[int], steps: int) -> None:
    for seed in seeds:
        ordeal = Ordeal(MACHINES[name], seed)
        ordeal.run(steps)
        assert ordeal.heard > steps // 100
        assert ordeal.said > 0 or name == "pole, observing"


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_survives_any_well_formed_message(name: str) -> None:
    _run(name, range(3), STEPS)


@pytest.mark.soak
@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_survives_many_well_formed_messages(name: str) -> None:
    _run(name, range(100, 104), SOAK_STEPS)
