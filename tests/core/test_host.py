"""One node, several machines: channels, facts, the persistence barrier, questions to the world."""

from typing import Any, ClassVar

import pytest
from msgspec import Struct

from doyen.core import Host, Instant, NodeId, Out, Port, ScoreGiven, ScoreWanted, ms
from doyen.core.clock import FOREVER
from doyen.core.commands import Command, Resign, Stand
from doyen.core.host import Verbs
from doyen.core.ids import Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Hears, hears
from doyen.errors import ConfigError, LocalProtocolError
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology

A, B = NodeId("a"), NodeId("b")


class Note(Struct, frozen=True, array_like=True, tag=True):
    text: str


class Tick(Struct, frozen=True): ...


class NeighbourHeard(Struct, frozen=True):
    node: NodeId


class Greeter:
    """Greets everybody once, and tells its node whom it heard."""

    MESSAGES: ClassVar[Any] = Note
    HEARS: ClassVar[Hears] = {}

    def __init__(self, out: Out) -> None:
        self._out = out

    def start(self, now: Instant) -> None:
        self._out.multicast(Note("hello"))

    def on_message(self, sender: NodeId, message: Note, now: Instant) -> None:
        self._out.emit(NeighbourHeard(sender))

    def on_timer(self, timer: object, now: Instant) -> None: ...


class Diary:
    """Writes down whom its node heard, and answers each."""

    MESSAGES: ClassVar[Any] = Note

    def __init__(self, out: Out) -> None:
        self._out = out
        self.pages: list[tuple[NodeId, Instant]] = []
        self.got: list[str] = []

    def start(self, now: Instant) -> None: ...

    def on_message(self, sender: NodeId, message: Note, now: Instant) -> None:
        self.got.append(message.text)

    def on_timer(self, timer: object, now: Instant) -> None: ...

    def on_neighbour_heard(self, fact: NeighbourHeard, now: Instant) -> None:
        self.pages.append((fact.node, now))
        self._out.send(fact.node, Note("dear"))

    HEARS: ClassVar[Hears] = hears(NeighbourHeard, on_neighbour_heard)


class Voter:
    """Promises to one candidate, durably, before it says so."""

    MESSAGES: ClassVar[Any] = Note
    HEARS: ClassVar[Hears] = {}

    def __init__(self, out: Out, restored: str | None) -> None:
        self._out = out
        self.promise = restored
        self.told: list[str] = []

    def start(self, now: Instant) -> None: ...

    def on_timer(self, timer: object, now: Instant) -> None: ...

    def on_message(self, sender: NodeId, message: Note, now: Instant) -> None:
        if message.text == "your vote?" and self.promise is None:
            self.promise = sender
            self._out.persist(sender)
            self._out.send(sender, Note("granted"))
            self._out.emit(NeighbourHeard(sender))
        else:
            self.told.append(message.text)


class Candidate:
    """Asks the world what it is worth, and waits for the answer no longer than a second."""

    MESSAGES: ClassVar[Any] = Note

    def __init__(self, out: Out) -> None:
        self._out = out
        self.score: float | None = None
        self.waiting = False

    def start(self, now: Instant) -> None:
        self.waiting = True
        self._out.emit(ScoreWanted(1))
        self._out.set_timer(Tick(), now + ms(1000))

    def on_message(self, sender: NodeId, message: Note, now: Instant) -> None: ...

    def on_timer(self, timer: Tick, now: Instant) -> None:
        if self.waiting:
            self.waiting, self.score = False, float("-inf")

    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        if fact.number == 1 and self.waiting:
            self.waiting, self.score = False, fact.value

    HEARS: ClassVar[Hears] = hears(ScoreGiven, on_score_given)


def simulation(*, disk_delay: int = 0) -> Simulation:
    streams = Streams(1)
    network = Network(NetworkConfig(delay=Delay(mean=ms(10))), Topology(2, None), streams)
    return Simulation(network, streams, disk_delay=disk_delay)


def machine(node: SimNode, channel: str) -> Any:
    assert node.host is not None
    return node.host.ports[channel].machine


def test_two_machines_in_one_node_meet_only_through_facts() -> None:
    sim = simulation()

    def setup(node: SimNode, host: Host) -> None:
        host.add("greet", Greeter)
        host.add("diary", Diary)

    a, b = sim.add(A, setup), sim.add(B, setup)
    sim.start(a)
    sim.start(b)
    sim.run()
    assert machine(a, "diary").pages == [(B, ms(10))]  # At the very instant of the message that caused it.
    assert machine(b, "diary").pages == [(A, ms(10))]
    assert machine(a, "diary").got == machine(b, "diary").got == ["dear"]


def ask_for_a_vote(sim: Simulation) -> tuple[SimNode, SimNode]:
    def voter(node: SimNode, host: Host) -> None:
        host.add("vote", lambda out: Voter(out, node.restored("vote", str)))

    a, b = sim.add(A, voter), sim.add(B, voter)
    sim.start(a)
    sim.start(b)
    assert a.host is not None
    a.host.ports["vote"].send(B, Note("your vote?"))
    return a, b


def test_a_promise_leaves_only_after_it_is_durable() -> None:
    sim = simulation(disk_delay=ms(5))
    a, b = ask_for_a_vote(sim)
    facts = []
    sim.watchers.append(lambda node, channel, fact, now: facts.append((now, fact)))
    sim.run(until=ms(14))
    assert b.disk == {} and facts == []
    sim.run()
    assert b.restored("vote", str) == A
    assert machine(a, "vote").told == ["granted"]
    assert facts == [(ms(15), NeighbourHeard(A))]
    assert sim.now == ms(25)  # 10 there, 5 to the disk, 10 back.


def test_a_crash_before_that_loses_the_record_and_what_waited_for_it() -> None:
    sim = simulation(disk_delay=ms(5))
    a, b = ask_for_a_vote(sim)
    sim.at(ms(12), lambda: sim.crash(b), "b crashes")
    sim.at(ms(20), lambda: sim.start(b), "b restarts")
    sim.run()
    assert machine(a, "vote").told == []
    assert machine(b, "vote").promise is None


@pytest.mark.parametrize(("disk", "promise"), [("kept", A), ("lost", None)])
def test_a_restart_restores_what_was_durable_unless_the_disk_is_lost(disk: Any, promise: str | None) -> None:
    sim = simulation()
    _, b = ask_for_a_vote(sim)
    sim.at(ms(50), lambda: sim.crash(b, disk=disk), "b crashes")
    sim.at(ms(60), lambda: sim.start(b), "b restarts")
    sim.run()
    assert machine(b, "vote").promise == promise
    assert b.incarnation == 2


@pytest.mark.parametrize(("answer", "score"), [(0.7, 0.7), (None, float("-inf"))])
def test_a_question_to_the_world_is_answered_or_times_out(answer: float | None, score: float) -> None:
    sim = simulation()

    def setup(node: SimNode, host: Host) -> None:
        host.add("election/a", Candidate)
        host.add("election/b", Candidate)

    def world(node: SimNode, channel: str, fact: object, now: Instant) -> None:
        if isinstance(fact, ScoreWanted) and answer is not None and node.host and channel == "election/a":
            host = node.host
            sim.at(
                now + ms(3), lambda: host.tell(ScoreGiven(fact.number, answer), now + ms(3), channel=channel), "answer"
            )

    sim.watchers.append(world)
    a = sim.add(A, setup)
    sim.start(a)
    sim.run()
    assert machine(a, "election/a").score == score
    assert machine(a, "election/b").score == float("-inf")  # Nobody answered this one.


class FakeWorld:
    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []

    def verbs(self, port: Port) -> Verbs:
        return Verbs(
            lambda to, message: self.log.append(("send", to, message)),
            lambda message: self.log.append(("multicast", message)),
            lambda timer, at: self.log.append(("timer", timer, at)),
        )

    def persist(self, port: Port, record: Any) -> None:
        self.log.append(("persist", record))

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        self.log.append(("fact", fact))


def test_everything_after_a_persist_waits_in_order_and_a_second_persist_waits_too() -> None:
    world = FakeWorld()
    host = Host(A, world)
    port = host.add("x", Greeter)
    port.send(B, 1)
    port.persist("first")
    port.send(B, 2)
    port.set_timer("t", 5)
    port.persist("second")
    port.multicast(3)
    assert world.log == [("send", B, 1), ("persist", "first"), ("timer", "t", 5)]  # A timer reaches only the machine.
    port.durable(0)
    assert world.log[3:] == [("send", B, 2), ("persist", "second")]
    port.durable(0)
    assert world.log[5:] == [("multicast", 3)]
    with pytest.raises(LocalProtocolError, match="was not waiting"):
        port.durable(0)


def test_losing_leadership_passes_the_barrier_and_is_told_again_in_its_turn() -> None:
    world = FakeWorld()
    host = Host(A, world)
    port = host.add("x", Greeter)
    elected, lost = LeaderElected(Term(1, A)), LeaderLost(Term(1, A), "silent")
    port.persist("record")
    port.emit(elected)
    port.emit(lost)
    host.settle(0)
    assert world.log == [("persist", "record"), ("fact", lost)]
    port.durable(0)
    assert world.log[2:] == [("fact", elected), ("fact", lost)]


def test_what_an_observer_does_waits_for_the_facts_it_reacts_to() -> None:
    world = FakeWorld()
    host = Host(A, world)
    host.add("one", Candidate)
    host.add("two", Candidate)
    answers = []

    def observe(port: Port, fact: Any, now: Instant) -> None:
        world.log.append((port.channel, fact))
        if isinstance(fact, ScoreWanted):
            host.tell(ScoreGiven(fact.number, 5.0), now, channel=port.channel)
            answers.append(port.channel)

    world.observe = observe  # type: ignore[method-assign]
    host.start(0)
    assert answers == ["one", "two"]
    assert [host.ports[c].machine.score for c in ("one", "two")] == [5.0, 5.0]  # type: ignore[attr-defined]


def test_a_machine_hears_only_whom_it_follows() -> None:
    host = Host(A, FakeWorld())
    greeters = [host.add(channel, Greeter) for channel in ("g1", "g2")]
    diary = host.add("diary", Diary, follows=["g2"])
    for greeter in greeters:
        greeter.hear(NodeId(greeter.channel), Note("hi"), 7)
        host.settle(7)
    assert diary.machine.pages == [(NodeId("g2"), 7)]  # type: ignore[attr-defined]


def test_unknown_channels_are_counted_and_taken_ones_refused() -> None:
    host = Host(A, FakeWorld())
    host.add("x", Greeter)
    host.on_message("y", B, Note("?"), 0)
    assert host.unknown_channel_count == 1
    with pytest.raises(ConfigError, match="channel 'x' is taken"):
        host.add("x", Greeter)


class Officer(Greeter):
    def __init__(self, out: Out) -> None:
        super().__init__(out)
        self.taken: list[tuple[Command, Instant]] = []

    def resign(self, command: Resign, now: Instant) -> None:
        self.taken.append((command, now))

    HEARS: ClassVar[Hears] = hears(Resign, resign)


def test_a_command_reaches_a_machine_that_takes_it_or_is_refused() -> None:
    host = Host(A, FakeWorld())
    officer: Any = host.add("x", Officer).machine
    host.tell(Resign(B), 3, channel="x")
    assert officer.taken == [(Resign(B), 3)]
    with pytest.raises(LocalProtocolError, match=r"on channel 'x' of a cannot take Stand\(\)"):
        host.tell(Stand(), 4, channel="x")
    with pytest.raises(LocalProtocolError, match="no machine on channel 'y': one of x"):
        host.tell(Resign(), 4, channel="y")
    host.tell(ScoreGiven(1, 2.0), 5, channel="x")  # News may go unheard.


def test_a_timer_for_ever_is_never_scheduled() -> None:
    sim = simulation()
    a = sim.add(A, lambda node, host: host.add("greet", Greeter) and None)
    sim.start(a)
    assert a.host is not None
    a.host.ports["greet"].set_timer(Tick(), FOREVER)
    sim.run()
    assert sim.now < ms(1000)
