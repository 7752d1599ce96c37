"""What members say of themselves: newest wins, everybody hears, sizes are bounded."""

from random import Random
from typing import Any

import msgspec
import pytest

from doyen.core import Emit, Member, NodeId, Send, SetTimer, ViewChanged
from doyen.core.clock import seconds
from doyen.core.commands import ChangeNote
from doyen.core.ids import Incarnation
from doyen.core.view import ViewEditor
from doyen.errors import ConfigError
from doyen.membership.notes import META_BYTES_MAX, News, Note, Notes, NotesChanged, Sum, SumIsSent, check_words
from doyen.testing import Cluster, RecordingOut

A, B = NodeId("a"), NodeId("b")


def notes(*others: NodeId) -> tuple[Notes, RecordingOut]:
    out = RecordingOut()
    machine = Notes(Note(A, Incarnation(1), 0), out, Random(1))
    editor = ViewEditor()
    for node in (A, *others):
        editor.put(Member(node=node))
    machine.start(now=0)
    machine.on_view_changed(ViewChanged(editor.view, (A, *others)), now=0)
    out.take()
    return machine, out


def test_what_is_said_goes_to_the_others_and_is_a_fact() -> None:
    machine, out = notes(B)
    machine.on_change_note(ChangeNote(score=2.0, words={"zone": "eu"}), 5)
    said = Note(A, Incarnation(1), 1, 2.0, True, "", {"zone": "eu"})
    assert out.take() == [Send(B, News((said,))), Emit(NotesChanged((A,)))]
    machine.on_change_note(ChangeNote(eligible=False), 6)  # What is not given stays.
    assert machine.own == Note(A, Incarnation(1), 2, 2.0, False, "", {"zone": "eu"})


def test_the_newest_wins_also_over_a_greater_version_of_an_earlier_life() -> None:
    machine, _ = notes(B)
    machine.on_message(B, News((Note(B, Incarnation(1), 9, 1.0),)), 1)
    machine.on_message(B, News((Note(B, Incarnation(2), 0, 3.0),)), 2)
    machine.on_message(B, News((Note(B, Incarnation(1), 10, 5.0),)), 3)
    assert machine.notes[B].score == 3.0


def test_nobody_else_knows_better_what_i_say() -> None:
    machine, out = notes(B)
    machine.on_message(B, News((Note(A, Incarnation(9), 9, 1.0),)), 1)
    assert machine.own.score is None
    assert out.take() == []


def test_equal_sums_cost_one_small_message_and_different_ones_are_mended() -> None:
    machine, out = notes(B)
    machine.on_timer(SumIsSent(), 1)
    (asked, again) = out.take()
    assert isinstance(asked, Send) and isinstance(asked.message, Sum)
    assert again == SetTimer(SumIsSent(), 1 + seconds(5))
    machine.on_message(B, asked.message, 2)
    assert out.take() == []
    machine.on_message(B, Sum(4711), 3)
    assert out.take() == [Send(B, News((machine.own,), True))]
    machine.on_message(B, News((Note(A, Incarnation(1), -0, None),), True), 4)  # It knows my present one.
    assert out.take() == []


def test_words_are_bounded_here_and_on_the_wire() -> None:
    machine, _ = notes(B)
    with pytest.raises(ConfigError, match="at most 512"):
        machine.on_change_note(ChangeNote(words={"k": "v" * META_BYTES_MAX}), 1)
    assert machine.own.version == 0
    wild = msgspec.msgpack.encode(News((Note(B, Incarnation(1), 1),)))
    assert msgspec.msgpack.decode(wild, type=Notes.MESSAGES)
    body = msgspec.msgpack.decode(wild)
    body[1][0] = [*body[1][0][:6], {"k": "v" * 600}]
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(body), type=Notes.MESSAGES)


def test_words_may_fill_their_room_to_the_byte() -> None:
    machine, _ = notes(B)
    machine.on_change_note(ChangeNote(words={"k": "v" * (META_BYTES_MAX - 3)}), 1)
    assert machine.own.version == 1
    with pytest.raises(ConfigError, match="at most 512"):
        machine.on_change_note(ChangeNote(words={"k": "v" * (META_BYTES_MAX - 2)}), 1)


def test_the_sum_is_of_the_notes_that_are_kept_in_whatever_order_they_came() -> None:
    def asked(machine: Notes, out: RecordingOut) -> int:
        out.take()
        machine.on_timer(SumIsSent(), 1)
        (sent,) = [effect.message for effect in out.take() if isinstance(effect, Send)]
        assert isinstance(sent, Sum)
        return sent.sum

    of_b, of_c = Note(B, Incarnation(1), 3), Note(NodeId("c"), Incarnation(1), 1)
    one, other, fewer = notes(B), notes(B), notes(B)
    one[0].on_message(B, News((of_b, of_c)), 1)
    other[0].on_message(B, News((Note(B, Incarnation(1), 1), of_c)), 1)
    other[0].on_message(B, News((of_b,)), 1)
    fewer[0].on_message(B, News((of_c,)), 1)
    assert asked(*one) == asked(*other) != asked(*fewer)


def test_while_nothing_is_new_members_are_asked_ever_more_rarely() -> None:
    machine, out = notes(B)
    waits, now = [], 0
    for _ in range(6):
        machine.on_timer(SumIsSent(), now)
        (again,) = [effect for effect in out.take() if isinstance(effect, SetTimer)]
        waits.append((again.at - now) // seconds(1))
        now = again.at
    assert waits == [5, 10, 20, 30, 30, 30]


@pytest.mark.parametrize("seed", range(2))
def test_everybody_hears_everybody_also_over_a_lossy_network(seed: int) -> None:
    cluster = Cluster(12, election="hybrid", rank="score", loss=0.2, seed=seed)
    for i, name in enumerate(cluster.names):
        cluster.set_score(name, float(i))
    wanted = {name: float(i) for i, name in enumerate(cluster.names)}

    def heard(name: str) -> dict[str, float | None]:
        stack = cluster.stack(name)
        return {other: note.score for other in cluster.names if (note := stack.note(NodeId(other))) is not None}

    cluster.run_until(lambda: all(heard(name) == wanted for name in cluster.names), within="120s")


@pytest.mark.parametrize("words", [{"": "x"}, {"a=b": "x"}, {"a": 1}, {1: "a"}, ["a"], "a"], ids=repr)
def test_words_that_nobody_could_read_back_are_refused(words: Any) -> None:
    with pytest.raises(ConfigError, match="meta"):
        check_words(words)
    check_words({"a": "=", "b": ""})
