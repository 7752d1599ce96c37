"""Which occasions were done: asked for before, told to all after, kept for a while, and bounded."""

from typing import Any

import msgspec
import pytest

from doyen.core import Emit, Member, NodeId, Persist, Send, SetTimer, ViewChanged
from doyen.core.clock import Instant, ms, seconds
from doyen.core.commands import Conclude, Inquire, Kept, Recall
from doyen.core.host import Host
from doyen.core.ids import Incarnation
from doyen.core.view import Status, ViewEditor
from doyen.errors import ConfigError
from doyen.membership.occasions import (
    KEY_BYTES_MAX,
    OCCASIONS_MAX,
    PATIENCE,
    RETRY,
    Concluded,
    Done,
    Inquired,
    Memory,
    Noted,
    OccasionDone,
    Occasions,
    Question,
    RetryIsDue,
    Undone,
    check_key,
)
from doyen.sim.engine import Simulation
from doyen.sim.network import Loss, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.testing import RecordingOut

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
DAY = "2026-11-17"
EPOCH = seconds(1_000_000)
HOUR = seconds(3600)


class Here:
    """A machine, what it wrote, and the view that it is given."""

    def __init__(self, *others: NodeId, key: str = DAY, restored: Memory | None = None, now: Instant = 0) -> None:
        self.out = RecordingOut()
        self.machine = Occasions(A, "g", key, self.out, epoch=EPOCH, restored=restored)
        self.editor = ViewEditor()
        self.editor.put(Member(node=A))
        self.machine.start(now)
        for node in others:
            self.see(node, now=now)

    def see(self, node: NodeId, status: Status = Status.ALIVE, *, incarnation: int = 1, now: Instant = 0) -> None:
        self.editor.put(Member(node=node, status=status, incarnation=Incarnation(incarnation)))
        self.machine.on_view_changed(ViewChanged(self.editor.view, (node,)), now)


def kept(at: Instant, lasts: int = HOUR, by: NodeId = A, key: str = DAY) -> Kept:
    return Kept(key, by, EPOCH + at, EPOCH + at + lasts)


def test_a_late_starter_asks_everybody_it_meets() -> None:
    here = Here(B)
    assert here.out.take() == [Send(B, Question(DAY)), SetTimer(RetryIsDue(), RETRY)]
    here.see(B, incarnation=2, now=ms(1))  # It restarted meanwhile: it may know more, or less.
    assert here.out.take() == [Send(B, Question(DAY))]
    here.machine.on_message(B, Undone(DAY), ms(2))
    here.machine.on_timer(RetryIsDue(), RETRY)
    assert here.out.take() == []


def test_before_it_acts_it_asks_all_that_are_present_and_those_that_spoke_before_they_were_known() -> None:
    here = Here(B)
    here.machine.on_message(C, Question(DAY), ms(1))
    here.out.take()
    here.machine.on_inquire(Inquire(), ms(10))
    assert here.out.take() == [Send(B, Question(DAY)), Send(C, Question(DAY))]
    here.machine.on_message(B, Undone(DAY), ms(11))
    here.machine.on_message(C, Undone("another day"), ms(12))
    assert here.out.take() == []
    here.machine.on_message(C, Undone(DAY), ms(13))
    assert here.out.take() == [Emit(Inquired(()))]


def test_alone_there_is_nobody_to_ask_or_to_tell() -> None:
    here = Here()
    here.machine.on_inquire(Inquire(), ms(1))
    assert here.out.take() == [Emit(Inquired(()))]
    here.machine.on_conclude(Conclude(HOUR), ms(2))
    assert here.out.take() == [Persist(Memory("g", (kept(ms(2)),))), Emit(Concluded((), ()))]


def test_a_member_that_stays_silent_is_asked_again_and_then_named() -> None:
    here = Here(B, C)
    here.out.take()
    here.machine.on_inquire(Inquire(), ms(10))
    here.machine.on_message(B, Undone(DAY), ms(11))
    here.out.take()
    here.machine.on_timer(RetryIsDue(), RETRY)
    assert here.out.take() == [Send(C, Question(DAY)), SetTimer(RetryIsDue(), 2 * RETRY)]
    here.machine.on_timer(RetryIsDue(), ms(10) + PATIENCE)
    assert here.out.take() == [Emit(Inquired((C,)))]


def test_a_member_that_fails_or_leaves_is_not_waited_for() -> None:
    here = Here(B, C)
    here.machine.on_inquire(Inquire(), ms(10))
    here.machine.on_message(B, Undone(DAY), ms(11))
    here.out.take()
    here.see(C, Status.SUSPECTED, now=ms(12))
    assert here.out.take() == []
    here.see(C, Status.FAILED, now=ms(13))
    assert here.out.take() == [Emit(Inquired(()))]


def test_what_another_has_done_is_durable_before_it_is_acknowledged_and_told() -> None:
    here = Here(B)
    here.out.take()
    here.machine.on_message(B, Done(DAY, B, EPOCH, HOUR), ms(5))
    durable = Persist(Memory("g", (Kept(DAY, B, EPOCH, EPOCH + ms(5) + HOUR),)))
    assert here.out.take() == [durable, Send(B, Noted(DAY)), Emit(OccasionDone(DAY, B, EPOCH))]
    here.machine.on_message(B, Done(DAY, B, EPOCH, HOUR), ms(6))  # The acknowledgement was lost.
    assert Send(B, Noted(DAY)) in here.out.effects and not any(isinstance(e, Persist) for e in here.out.take())
    here.machine.on_message(B, Done("another day", B, EPOCH, HOUR), ms(7))
    assert not any(isinstance(effect, Emit) for effect in here.out.take())
    here.machine.on_message(C, Question("another day"), ms(8))
    assert here.out.take() == [Send(C, Done("another day", B, EPOCH, HOUR - ms(1)))]


def test_a_success_is_told_to_all_until_each_has_acknowledged() -> None:
    here = Here(B, C)
    here.out.take()
    here.machine.on_conclude(Conclude(HOUR), ms(5))
    done = Done(DAY, A, EPOCH + ms(5), HOUR)
    assert here.out.take() == [Persist(Memory("g", (kept(ms(5)),))), Send(B, done), Send(C, done)]
    here.machine.on_message(B, Noted(DAY), ms(6))
    assert here.out.take() == []
    here.machine.on_timer(RetryIsDue(), RETRY)
    again = Done(DAY, A, EPOCH + ms(5), HOUR - RETRY + ms(5))
    assert here.out.take() == [Send(C, again), SetTimer(RetryIsDue(), 2 * RETRY)]
    here.see(NodeId("d"), now=ms(300))  # One that comes meanwhile is told, too.
    assert here.out.effects[0] == Send(NodeId("d"), Done(DAY, A, EPOCH + ms(5), HOUR - ms(295)))
    here.out.take()
    here.machine.on_message(NodeId("d"), Noted(DAY), ms(301))
    here.machine.on_timer(RetryIsDue(), ms(5) + PATIENCE)
    assert here.out.take() == [Emit(Concluded((B, NodeId("d")), (C,)))]


def test_a_member_that_has_failed_is_named_among_those_that_do_not_know() -> None:
    here = Here(B, C)
    here.see(C, Status.FAILED)
    here.see(B, Status.LEFT)
    here.out.take()
    here.machine.on_conclude(Conclude(HOUR), ms(5))
    assert here.out.take()[-1] == Emit(Concluded((), (C,)))


def test_a_restart_remembers_and_what_is_over_is_forgotten() -> None:
    memory = Memory("g", (kept(0, by=B), kept(0, seconds(1), key="short")))
    here = Here(B, restored=memory, now=ms(1))
    assert here.out.take() == [Emit(OccasionDone(DAY, B, EPOCH))]
    here = Here(key="short", restored=memory, now=ms(999))
    assert here.out.take() == [Emit(OccasionDone("short", A, EPOCH))]
    here = Here(key="short", restored=memory, now=seconds(1))
    assert here.out.take() == []
    here.machine.on_conclude(Conclude(HOUR), seconds(2))  # What is over leaves the disk, too.
    assert here.out.take()[0] == Persist(Memory("g", (kept(seconds(2), key="short"), kept(0, by=B))))


def test_what_another_group_has_done_in_the_same_directory_is_nothing_to_this_one() -> None:
    assert Here(restored=Memory("another", (kept(0),))).out.take() == []


def test_what_others_kept_beside_counts() -> None:
    here = Here()
    here.machine.on_recall(Recall((kept(0, by=B), kept(0, key="another day"))), ms(1))
    assert here.out.take() == [Emit(OccasionDone(DAY, B, EPOCH))]


def test_without_a_key_nothing_goes_to_the_disk() -> None:
    here = Here(B, key="")
    here.out.take()
    here.machine.on_conclude(Conclude(HOUR), ms(5))
    assert here.out.take() == [Send(B, Done("", A, EPOCH + ms(5), HOUR))]
    here.machine.on_message(B, Done(DAY, B, EPOCH, HOUR), ms(6))
    assert here.out.effects[0] == Persist(Memory("g", (Kept(DAY, B, EPOCH, EPOCH + ms(6) + HOUR),)))


def test_memory_is_bounded_those_that_end_soonest_make_room() -> None:
    here = Here()
    for i in range(OCCASIONS_MAX):
        here.machine.on_message(B, Done(f"day {i}", B, EPOCH, HOUR + i), 0)
    here.machine.on_message(B, Done("one more", B, EPOCH, 1), 0)
    assert len(here.machine.done) == OCCASIONS_MAX
    assert "one more" in here.machine.done and "day 0" not in here.machine.done and "day 1" in here.machine.done
    record = next(effect for effect in reversed(here.out.effects) if isinstance(effect, Persist)).record
    longest = [Kept("k" * KEY_BYTES_MAX, NodeId("n" * 64), 2**62, 2**62)] * OCCASIONS_MAX
    assert len(msgspec.msgpack.encode(record)) < len(msgspec.msgpack.encode(Memory("g", tuple(longest)))) < 1 << 20


@pytest.mark.parametrize(
    "wild", [["q", "k" * (KEY_BYTES_MAX + 1)], ["d", DAY, "b", 0, 0], ["d", DAY, "", 0, 1], ["d", DAY, "b", 0, 2**62]]
)
def test_what_is_too_long_is_refused_on_the_wire(wild: list[Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(wild), type=Occasions.MESSAGES)


@pytest.mark.parametrize("key", ["", "k" * 101, "é" * 51, "a\nb", "\x1b[2J", "\udc80"])
def test_a_key_is_short_and_printable(key: str) -> None:
    with pytest.raises(ConfigError, match="cannot name an occasion"):
        check_key(key)


@pytest.mark.parametrize("seed", range(20))
def test_over_a_lossy_network_all_learn_of_it_and_still_know_after_a_restart(seed: int) -> None:
    """One member acts and falls silent as soon as it was told that all know; the others restart and ask each other."""
    streams = Streams(seed)
    network = NetworkConfig(loss=Loss(model="uncorrelated", prob=0.3))
    sim = Simulation(Network(network, Topology(5, None), streams), streams)

    def setup(node: SimNode, host: Host) -> None:
        restored = node.restored("occasions", Memory)
        host.add(
            "occasions",
            lambda out: Occasions(node.name, "g", DAY, out, epoch=EPOCH, restored=restored),
        )

    facts: dict[NodeId, list[Any]] = {}
    sim.watchers.append(lambda node, channel, fact, now: facts.setdefault(node.name, []).append(fact))
    editor = ViewEditor()
    nodes = [sim.add(NodeId(f"n{i}"), setup) for i in range(5)]
    for node in nodes:
        editor.put(Member(node=node.name))
    everybody = ViewChanged(editor.view, tuple(editor.view.members))
    for node in nodes:
        sim.start(node)
        sim.tell(node, everybody)
    first, *others = nodes
    sim.tell(first, Inquire())
    sim.run(until=seconds(5))
    assert [type(fact) for fact in facts[first.name]] == [Inquired]
    assert not facts[first.name][0].silent
    sim.tell(first, Conclude(HOUR))
    sim.run(until=seconds(10))
    told = facts[first.name][1]
    knowing = {NodeId(name) for name, seen in facts.items() if any(isinstance(fact, OccasionDone) for fact in seen)}
    assert told == Concluded(tuple(sorted(told.told)), ()) and set(told.told) == knowing == {
        node.name for node in others
    }
    sim.crash(first)
    for node in others:
        sim.crash(node)
        facts[node.name].clear()
        sim.start(node)
    sim.run(until=seconds(11))
    assert all(isinstance(facts[node.name][0], OccasionDone) for node in others)


def test_all_that_a_view_changed_are_met_whoever_is_named_first() -> None:
    out = RecordingOut()
    machine = Occasions(A, "g", DAY, out, epoch=EPOCH, restored=None)
    machine.start(0)
    editor = ViewEditor()
    for node in (A, B):
        editor.put(Member(node=node, incarnation=Incarnation(1)))
    gone = NodeId("gone")
    machine.on_view_changed(ViewChanged(editor.view, (A, gone, B)), 1)
    machine.on_inquire(Inquire(), 2)
    assert Send(B, Question(DAY)) in out.take()


def test_whoever_fails_while_it_is_told_is_not_waited_for_and_does_not_know() -> None:
    here = Here(B, C)
    here.machine.on_conclude(Conclude(HOUR), ms(5))
    here.machine.on_message(B, Noted(DAY), ms(6))
    here.out.take()
    here.see(C, Status.FAILED, now=ms(7))
    assert here.out.take() == [Emit(Concluded((B,), (C,)))]


def test_members_that_are_forgotten_do_not_hide_those_that_come_with_them() -> None:
    here = Here(B)
    here.out.take()
    here.editor.put(Member(node=C))
    here.machine.on_view_changed(ViewChanged(here.editor.view, (NodeId("forgotten"), A, C)), ms(1))
    assert Send(C, Question(DAY)) in here.out.take()
