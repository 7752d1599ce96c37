"""Gossiped heartbeats one step at a time, and as a group."""

from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from doyen.core import Address, Codec, Emit, NodeId, Send, SetTimer, Status, ms, seconds
from doyen.core.commands import LeaveGroup
from doyen.core.ids import Incarnation
from doyen.core.seeds import OwnAddressChanged, SeedsChanged
from doyen.core.view import Member, ViewChanged, ViewEditor
from doyen.errors import ConfigError
from doyen.membership.fading import CountsAreHalved, Fading
from doyen.membership.heartbeat import machine as heartbeat
from doyen.membership.heartbeat.config import HeartbeatConfig
from doyen.membership.heartbeat.machine import Heartbeat
from doyen.membership.heartbeat.messages import Beat, Beats, PeriodBegins
from doyen.membership.swim.messages import INCARNATION_MAX
from doyen.testing import RecordingOut
from doyen_papers.studies.membership import Group, builder
from doyen_papers.studies.underlay import MEMBERSHIP

A, B, C, D = (NodeId(name) for name in "abcd")
CONFIG = HeartbeatConfig(period=seconds(1), fail_periods=8.0, fail_periods_log=0.0, reconnect_periods=0)
FAIL = CONFIG.fail_after(4)


class FixedChance(Random):
    def random(self) -> float:
        return 0.0

    def shuffle(self, x: Any) -> None:
        pass


def beat(node: NodeId, count: int, incarnation: int = 1, *, left: bool = False) -> Beat:
    return Beat(node, incarnation, count, left)  # type: ignore[arg-type]


@pytest.fixture
def out() -> RecordingOut:
    return RecordingOut()


def member(out: RecordingOut, config: HeartbeatConfig = CONFIG, *, known: str = "bc", **given: Any) -> Heartbeat:
    machine = Heartbeat(A, config, out, FixedChance(), **given)
    machine.start(0)
    for name in known:
        machine.on_message(NodeId(name), Beats((beat(NodeId(name), 1),)), 0)
    out.take()
    return machine


def changed(machine: Heartbeat, *nodes: NodeId) -> Emit:
    return Emit(ViewChanged(machine.view, nodes))


def test_renesse_3_each_period_it_raises_its_counter_and_tells_one(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_timer(PeriodBegins(), ms(10))
    assert out.take() == [
        Send(B, Beats((beat(A, 1), beat(C, 1)))),
        SetTimer(PeriodBegins(), at=ms(10) + seconds(1)),
    ]
    machine.on_timer(PeriodBegins(), ms(1010))
    assert out.take()[0] == Send(B, Beats((beat(A, 2), beat(C, 1))))


def test_renesse_3_the_greater_counter_is_kept(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Beats((beat(B, 5), beat(B, 3))), 10)
    assert out.take() == []
    machine.on_timer(PeriodBegins(), 20)
    assert Send(B, Beats((beat(A, 1), beat(C, 1)))) in out.take()
    machine.on_message(C, Beats((beat(B, 4), beat(C, 2))), FAIL)
    machine.on_timer(PeriodBegins(), FAIL + 10)
    assert machine.view[B].status is Status.FAILED, "a lesser counter is no sign of life"
    machine.on_message(C, Beats((beat(B, 5),)), FAIL + 11)
    assert machine.view[B].status is Status.FAILED
    machine.on_message(C, Beats((beat(B, 6),)), FAIL + 12)
    assert machine.view[B].status is Status.ALIVE


def test_renesse_3_a_counter_that_stands_still_means_failed(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(C, Beats((beat(C, 2),)), FAIL // 2)
    machine.on_timer(PeriodBegins(), FAIL // 2)
    assert machine.view[B].status is Status.SUSPECTED and machine.view[B].present
    machine.on_timer(PeriodBegins(), FAIL - 1)
    assert machine.view[B].status is Status.SUSPECTED
    out.take()
    machine.on_timer(PeriodBegins(), FAIL)
    assert machine.view[B].status is Status.FAILED
    assert out.take()[-1] == changed(machine, B, C)
    assert machine.view[C].status is Status.SUSPECTED


def test_renesse_3_stale_gossip_does_not_bring_the_dead_back(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_timer(PeriodBegins(), FAIL)
    machine.on_message(D, Beats((beat(B, 1),)), FAIL + 1)
    assert machine.view[B].status is Status.FAILED
    machine.on_message(D, Beats((beat(B, 2),)), FAIL + 2)
    assert machine.view[B].status is Status.ALIVE
    assert machine.view[B].suspicion_count == 1, "it had been held for failed falsely"


def test_a_restart_is_no_false_positive(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_timer(PeriodBegins(), FAIL)
    machine.on_message(D, Beats((beat(B, 0, 2),)), FAIL + 2)
    assert machine.view[B].status is Status.ALIVE
    assert machine.view[B].suspicion_count == 0


def test_false_positives_fade(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_timer(PeriodBegins(), FAIL)
    machine.on_message(D, Beats((beat(B, 2),)), FAIL + 2)
    assert SetTimer(CountsAreHalved(), at=FAIL + 2 + CONFIG.unhealthy_half_life) in out.take()
    machine.on_timer(CountsAreHalved(), FAIL)
    assert machine.view[B].suspicion_count == 0


def test_the_dead_are_forgotten_in_time(out: RecordingOut) -> None:
    machine = member(out, HeartbeatConfig(period=seconds(1), fail_periods=8, fail_periods_log=0, failed_kept=0))
    machine.on_timer(PeriodBegins(), FAIL)
    assert B in machine.view
    machine.on_timer(PeriodBegins(), FAIL + 2 * FAIL)
    assert B not in machine.view


def test_leaving_is_no_failure(out: RecordingOut) -> None:
    machine = member(out)
    machine.leave(0)
    sent = [effect for effect in out.take() if isinstance(effect, Send)]
    assert sent == [Send(B, Beats((beat(A, 1, left=True),))), Send(C, Beats((beat(A, 1, left=True),)))]
    other = member(out)
    other.on_message(B, Beats((beat(B, 2, left=True),)), 1)
    assert other.view[B].status is Status.LEFT
    other.on_timer(PeriodBegins(), 100 * FAIL)
    assert other.view[B].status is Status.LEFT


def test_a_newborn_counts_on_above_its_earlier_life(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, Beats((beat(A, 77, 4),)), 1)
    assert machine.incarnation == 5


def test_nobody_is_believed_to_be_at_the_end_of_all_incarnations(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, Beats((beat(A, 9, INCARNATION_MAX - 1),)), 0)
    assert machine.incarnation == 1  # There would be nothing above it.


def test_made_up_members_are_bounded(out: RecordingOut, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "PRESENT_MAX", 5)
    machine = member(out)
    machine.on_message(B, Beats(tuple(beat(NodeId(f"x{i}"), 1) for i in range(50))), 0)
    assert len(machine.view) == 5


def test_seeds_are_tried_while_alone_and_who_knows_nobody_is_answered(out: RecordingOut) -> None:
    seed = Address("10.0.0.1", 7600)
    machine = Heartbeat(A, CONFIG, out, FixedChance(), seeds=[seed])
    machine.start(0)
    assert out.take()[1] == Send(seed, Beats((beat(A, 0),), True))
    for period in range(1, 50):
        machine.on_timer(PeriodBegins(), seconds(period))
        assert out.take()[0] == Send(seed, Beats((beat(A, period),), True))
    other = member(out)
    other.on_message(D, Beats((beat(D, 1),), True), 5)
    assert out.take() == [Send(D, Beats((beat(A, 0), beat(C, 1), beat(B, 1)))), changed(other, D)]


def test_messages_do_not_grow_with_the_group(out: RecordingOut) -> None:
    machine = member(out)
    many = [NodeId(f"a-longer-name-{i:04}") for i in range(2000)]
    for first in range(0, 2000, 20):
        machine.on_message(B, Beats(tuple(beat(name, 1) for name in many[first : first + 20])), 1)
    out.take()
    codec, told = Codec("g" * 64), set()
    for period in range(300):
        machine.on_timer(PeriodBegins(), 2 + period)
        message = next(effect.message for effect in out.take() if isinstance(effect, Send))
        assert len(message.beats) <= CONFIG.entries_max
        codec.encode(NodeId("n" * 64), 2**62, "c" * 48, message)  # type: ignore[arg-type]
        told.update(b.node for b in message.beats)
    assert told >= set(many), "everybody has its turn"


def test_members_beyond_one_message_do_not_hold_each_other_for_failed() -> None:
    world = Group(100, builder(HeartbeatConfig.lan(100)), seed=1)
    world.start()
    world.run(seconds(40))
    assert not world.false_positives
    world.crash(world.sim.nodes[0])
    world.run(seconds(60))
    assert len(world.failed_at["n000"]) == 99  # type: ignore[index]


def test_it_joins_by_seeds_and_a_leave_spreads() -> None:
    build = builder(HeartbeatConfig.lan(12), seeds=[Address("n000", 0)])
    world = Group(12, build, seed=1, acquainted=False, wire=True)
    world.start()
    assert world.run_until(world.agreed, seconds(30))
    world.sim.tell(world.sim.nodes[5], LeaveGroup(), channel=MEMBERSHIP)
    world.run(seconds(30))
    statuses = {world.view(node)["n005"].status for node in world.live() if node.name != "n005"}  # type: ignore[index]
    assert statuses == {Status.LEFT}


@pytest.mark.parametrize("wrong", [{"period": 0}, {"fail_periods": 1}, {"entries_max": 0}, {"failed_kept": -1}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        HeartbeatConfig(**wrong)


def test_turns_end_where_no_name_is_present() -> None:
    turns = heartbeat.Turns(FixedChance())
    assert turns.first([B, C], {B}) == B
    assert turns.first([C], {B}) == B, "the round goes on"
    turns.end()
    assert turns.first([C], {B}) is None, "a recording may hold such names; the search must not go on forever"


def test_the_patience_for_a_counter_grows_with_the_logarithm_of_the_group_and_with_the_messages_of_a_list() -> None:
    config = HeartbeatConfig(period=seconds(1), fail_periods=8.0, fail_periods_log=2.0, entries_max=16)
    assert [config.fail_after(size) for size in (0, 1, 2, 16)] == [seconds(s) for s in (8, 8, 10, 16)]
    assert config.fail_after(32) == seconds(2 * 18)


@pytest.mark.parametrize(("known", "left"), [("", False), ("b", False), ("", True)])
def test_new_seeds_are_tried_at_once_by_who_is_alone(out: RecordingOut, known: str, left: bool) -> None:
    old, new, own = Address("h", 1), Address("h", 2), Address("h", 3)
    machine = member(out, known=known, address=own, seeds=[old])
    if left:
        machine.leave(1)
        out.take()
    machine.on_seeds_changed(SeedsChanged((old, new, own)), 2)
    tried = [effect.to for effect in out.take() if isinstance(effect, Send)]
    assert tried == ([new] if not known and not left else [])
    machine.on_seeds_changed(SeedsChanged(()), 3)
    assert out.take() == []


def test_a_message_keeps_within_its_bytes_and_its_entries(out: RecordingOut) -> None:
    for room, most in ((400, 32), (1200, 8)):
        machine = member(out, replace(CONFIG, entries_max=most), known="", payload_max=room)
        for i in range(60):
            node = NodeId(f"n{i}" * (1 + i % 7))
            machine.on_message(node, Beats((beat(node, 1),)), i)
        out.take()
        told = set()
        for _ in range(60):
            machine.on_timer(PeriodBegins(), ms(10))
            (sent,) = [effect for effect in out.take() if isinstance(effect, Send)]
            names = [one.node for one in sent.message.beats]
            assert names[0] == A and len(names) == len(set(names)) <= most
            assert sent.to not in names
            assert len(msgspec.msgpack.encode(sent.message)) <= room
            told |= set(names)
        assert len(told) >= 60  # Each has its turn; the one that all messages went to was told to nobody.


def test_news_of_oneself_counts_only_if_it_is_of_a_later_count_than_ones_own(out: RecordingOut) -> None:
    machine = member(out, incarnation=5)
    for count, incarnation in ((0, 5), (99, 4)):
        machine.on_message(B, Beats((beat(A, count, incarnation),)), ms(1))
    assert machine.incarnation == 5
    machine.on_message(B, Beats((beat(A, 99, 5),)), ms(2))
    assert machine.incarnation == 6
    machine.leave(ms(3))
    machine.on_message(B, Beats((beat(A, 99, 9),)), ms(4))
    assert machine.incarnation == 6


def test_a_member_that_was_held_for_failed_and_came_back_is_not_forgotten(out: RecordingOut) -> None:
    machine = member(out, replace(CONFIG, failed_kept=seconds(60)))
    machine.on_timer(PeriodBegins(), FAIL)
    machine.on_message(D, Beats((beat(B, 2),)), FAIL + 1)
    assert machine.view[B].status is Status.ALIVE
    for i in range(70):
        machine.on_message(D, Beats((beat(B, 3 + i),)), FAIL + seconds(i))
        machine.on_timer(PeriodBegins(), FAIL + seconds(i) + 2)
    assert machine.view[B].status is Status.ALIVE and C not in machine.view


def test_a_member_that_failed_twice_is_shown_until_its_second_failure_is_old(out: RecordingOut) -> None:
    machine = member(out, replace(CONFIG, failed_kept=seconds(60)))
    machine.on_timer(PeriodBegins(), FAIL)
    machine.on_message(D, Beats((beat(B, 2),)), FAIL + 1)
    machine.on_timer(PeriodBegins(), 3 * FAIL)
    assert machine.view[B].status is Status.FAILED
    machine.on_timer(PeriodBegins(), FAIL + seconds(60))
    assert B in machine.view
    machine.on_timer(PeriodBegins(), 3 * FAIL + seconds(60))
    assert B not in machine.view


def test_a_farewell_is_passed_on_some_times_and_then_no_more(out: RecordingOut) -> None:
    machine = member(out)
    machine.on_message(B, Beats((beat(B, 2, left=True),)), 1)
    out.take()
    carried = []
    for i in range(12):
        machine.on_message(C, Beats((beat(C, 2 + i),)), seconds(i))
        machine.on_timer(PeriodBegins(), seconds(i) + 1)
        carried += [any(one.left for one in e.message.beats) for e in out.take() if isinstance(e, Send)]
    assert carried == [True] * (2 + 5) + [False] * 5  # ⌈3·log2(2 present + 1)⌉ = 5.


def test_where_a_seed_is_a_member_seeds_are_not_tried_and_else_they_are(out: RecordingOut) -> None:
    seed, config = Address("h", 1), replace(CONFIG, reconnect_periods=1)
    for host, tried in (("h", False), ("other", True)):
        machine = member(out, config, known="", seeds=[seed])
        machine.on_message(B, Beats((Beat(B, 1, 1, False, host, 1),)), 1)  # type: ignore[arg-type]
        assert machine.view[B].address == Address(host, 1)  # Where it said that it is.
        out.take()
        machine.on_timer(PeriodBegins(), 2)
        sent = [e for e in out.take() if isinstance(e, Send)]
        assert any(e.message.reply and e.to == seed for e in sent) is tried


def test_what_a_beat_does_not_say_is_that_it_lives_and_asks_for_nothing() -> None:
    told = msgspec.msgpack.encode(["b", [["b", 1, 7]]])  # As an earlier version may have it.
    assert msgspec.msgpack.decode(told, type=Beats) == Beats((Beat(B, 1, 7, False, "", 0),), False)  # type: ignore[arg-type]


def test_counts_are_halved_again_and_again_until_none_is_left(out: RecordingOut) -> None:
    editor = ViewEditor()
    editor.put(Member(node=B, incarnation=Incarnation(1), suspicion_count=3))
    fading = Fading(editor, seconds(10))
    fading.nodes.add(B)
    fading.begin(0, out)
    fading.begin(1, out)
    assert out.take() == [SetTimer(CountsAreHalved(), seconds(10))]
    assert fading.halve(seconds(10), out) == [B] and editor.view[B].suspicion_count == 1
    assert out.take() == [SetTimer(CountsAreHalved(), seconds(20))]
    assert fading.halve(seconds(20), out) == [B] and editor.view[B].suspicion_count == 0
    assert out.take() == [] and fading.halve(seconds(30), out) == []


def test_farewells_of_many_with_long_names_fit_the_datagram_and_all_are_passed_on(out: RecordingOut) -> None:
    names = [NodeId(f"{i:02}" + "x" * 62) for i in range(30)]
    machine, host = member(out, known="b", payload_max=1200), "2001:db8:1111:2222:3333:4444:5555:6666"
    for count, left in ((1, False), (2, True)):
        for name in names:
            machine.on_message(name, Beats((Beat(name, 1, count, left, host, 7600),)), count)  # type: ignore[arg-type]
    out.take()
    told = set()
    for i in range(60):
        machine.on_message(B, Beats((beat(B, 2 + i),)), seconds(i))
        machine.on_timer(PeriodBegins(), seconds(i) + 1)
        for sent in out.take():
            if isinstance(sent, Send):
                assert len(msgspec.msgpack.encode(sent.message)) <= 1200
                told |= {one.node for one in sent.message.beats if one.left}
    assert told == set(names)


def test_a_member_that_moves_is_a_new_incarnation_at_its_new_address(out: RecordingOut) -> None:
    here, there = Address("10.0.0.1", 1), Address("10.0.0.2", 1)
    machine = member(out, address=here)
    before = machine.incarnation
    machine.on_own_address_changed(OwnAddressChanged(here), 0)
    assert machine.incarnation == before and out.take() == []
    machine.on_own_address_changed(OwnAddressChanged(there), 0)
    assert machine.incarnation == before + 1 and machine.view.members[A].address == there
    assert out.take() == [changed(machine, A)]
