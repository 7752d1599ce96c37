"""What is told of voters, of batons and of a datagram's room."""

import pytest

from doyen.core.clock import parse_duration, seconds
from doyen.core.codec import Codec, payload_max
from doyen.core.ids import TERM_LEAP_MAX, Incarnation, NodeId
from doyen.core.kinds import Election
from doyen.core.leadership import Electors
from doyen.core.view import Member, ViewEditor
from doyen.errors import LocalProtocolError

A, B, C, D, E = (NodeId(name) for name in "abcde")


@pytest.mark.parametrize(
    ("voters", "earlier", "answering", "may_fail"),
    [
        ((A, B, C), (), None, None),  # This node does not lead.
        ((A, B, C), (), (A, B, C), 1),
        ((A, B, C), (), (A, B), 0),
        ((A, B, C), (), (A,), -1),
        ((A, B, C, D, E), (), (A, B, C, D, E), 2),
        ((A, B, D), (A, B, C), (A, B, D), 0),  # While voters are changed, both majorities are needed.
        ((A, B, C), (A, D, E), (A, B, C), -1),
    ],
)
def test_as_many_voters_may_fail_as_leave_every_majority(
    voters: tuple[NodeId, ...],
    earlier: tuple[NodeId, ...],
    answering: tuple[NodeId, ...] | None,
    may_fail: int | None,
) -> None:
    assert Electors(1, voters, earlier, answering).may_fail == may_fail


def test_an_election_that_keeps_no_baton_says_so() -> None:
    with pytest.raises(LocalProtocolError, match="hands nothing on"):
        Election().check_baton(b"x")


def test_a_message_that_takes_all_its_room_fills_the_datagram_to_the_byte() -> None:
    room = payload_max("group", A, "swim", incarnation=7, datagram_max=500)
    message = b"x" * (room - 2)  # A binary of up to 255 bytes has a head of two, above it of three.
    message = message[:-1] if room - 2 > 255 else message
    codec = Codec("group", datagram_max=65_507)
    assert len(codec.encode(A, Incarnation(7), "swim", message)) == 500


def test_units_of_time() -> None:
    told = {"1us": 1000, "1ms": 10**6, "1s": 10**9, "1min": seconds(60), "1h": seconds(3600)}
    assert {text: parse_duration(text) for text in told} == told


def test_a_view_has_a_new_version_whenever_it_says_something_else() -> None:
    editor = ViewEditor()
    versions = [editor.view.version]
    for change in (
        lambda: editor.put(Member(node=A, incarnation=Incarnation(1))),
        lambda: editor.put(Member(node=A, incarnation=Incarnation(2))),
        lambda: editor.put_new({B: Member(node=B, incarnation=Incarnation(1))}),
        lambda: editor.drop(A),
    ):
        change()
        versions.append(editor.view.version)
    assert versions == sorted(set(versions))
    editor.drop(A)
    assert not editor.put(Member(node=B, incarnation=Incarnation(1))) and editor.view.version == versions[-1]


def test_a_group_may_be_ahead_by_all_terms_of_a_century_and_not_by_all_there_are() -> None:
    terms_of_a_century = 100 * 366 * 24 * 3600
    assert terms_of_a_century < TERM_LEAP_MAX < 2**53 // 1000
