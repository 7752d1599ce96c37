"""The charter: what a leader writes when, and what a voter keeps."""

import msgspec
import pytest

from doyen.core.ids import NodeId
from doyen.election.pole.charter import Register
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.messages import MESSAGES, Charter, HeartbeatAck
from doyen.election.pole.promise import Voter, VoterRecord
from doyen.testing import RecordingOut

A, B, C, D = (NodeId(name) for name in "abcd")
ABC = frozenset((A, B, C))
BLANK = Charter(0, 0, b"", 0, (A, B, C))


def leads(epoch: int = 5, found: Charter = BLANK) -> tuple[Register, Charter]:
    """Return a register whose leader has written (epoch, 0), and that charter, which is committed."""
    register = Register()
    register.begin(epoch)
    if found.stamp == (0, 0):
        register.pass_on(0, b"")
    first = register.next(found, bound=ABC)
    assert first is not None and first.stamp == (epoch, 0)
    commit(register, first)
    return register, first


def commit(register: Register, charter: Charter) -> tuple[int, ...]:
    passed = None
    for voter in sorted(charter.electorate.names):
        assert passed is None
        passed = register.stored(voter, charter.stamp)
        if passed is not None:
            return passed
    pytest.fail("all voters have it, and it is not committed")


def test_a_group_that_never_wrote_one_pays_nothing() -> None:
    register = Register()
    register.begin(5)
    assert register.may_act(BLANK) and register.next(BLANK, bound=ABC) is None


def test_what_was_found_is_committed_again_before_the_leader_acts() -> None:
    register, found = Register(), Charter(3, 7, b"x", 0, (A, B, C))
    register.begin(5)
    assert not register.may_act(found)
    again = register.next(found, bound=ABC)
    assert again == Charter(5, 0, b"x", 0, (A, B, C))
    assert not register.may_act(again) and register.next(again, bound=ABC) is None
    assert register.stored(A, (5, 0)) is None and register.stored(A, (5, 0)) is None
    assert register.stored(B, (3, 7)) is None and not register.may_act(again)
    assert register.stored(B, (5, 0)) == () and register.may_act(again)


def test_the_first_baton_of_a_group_comes_after_an_empty_one_that_is_committed() -> None:
    """Else it could be at one voter only, when a leader finds a majority that never had any, and acts at once."""
    register = Register()
    register.begin(5)
    register.pass_on(1, b"x")
    first = register.next(BLANK, bound=ABC)
    assert first == Charter(5, 0, b"", 0, (A, B, C))
    assert commit(register, first) == ()
    second = register.next(first, bound=ABC)
    assert second == Charter(5, 1, b"x", 0, (A, B, C))
    assert commit(register, second) == (1,)


def test_batons_that_wait_are_written_together_and_the_last_one_counts() -> None:
    register, newest = leads(found=Charter(1, 1, b"", 0, (A, B, C)))
    register.pass_on(1, b"one")
    first = register.next(newest, bound=ABC)
    assert first is not None and first.baton == b"one"
    register.pass_on(2, b"two")
    register.pass_on(3, b"three")
    assert register.next(first, bound=ABC) is None
    assert commit(register, first) == (1,)
    last = register.next(first, bound=ABC)
    assert last is not None and (last.baton, last.stamp) == (b"three", (5, 2))
    assert commit(register, last) == (2, 3)
    assert register.next(last, bound=ABC) is None


def test_a_baton_on_its_way_outlives_a_higher_epoch_of_the_same_leader_and_ends_with_its_reign() -> None:
    register, newest = leads(found=Charter(1, 1, b"", 0, (A, B, C)))
    register.pass_on(1, b"one")
    written = register.next(newest, bound=ABC)
    assert written is not None
    register.begin(6)
    again = register.next(written, bound=ABC)
    assert again == Charter(6, 0, b"one", 0, (A, B, C))
    assert register.stored(B, written.stamp) is None
    assert commit(register, again) == (1,)
    register.pass_on(2, b"two")
    register.end()
    assert register.next(again, bound=ABC) == Charter(0, 0, b"one", 0, (A, B, C))  # Of no epoch: nobody takes it.


def test_voters_are_changed_in_two_steps_and_both_majorities_count_in_between() -> None:
    register, newest = leads(found=Charter(1, 1, b"x", 4, (A, B, C)))
    register.change(frozenset((B, C, D)))
    assert register.is_changing(newest)
    both = register.next(newest, bound=ABC)
    assert both == Charter(5, 1, b"x", 5, (B, C, D), (D,), (A,))
    assert both.electorate == Electorate(5, frozenset((B, C, D)), ABC)
    assert register.stored(A, (5, 1)) is None and register.stored(B, (5, 1)) is None  # Two of a, b, c; one of b, c, d.
    assert register.stored(D, (5, 1)) == ()
    assert register.is_changing(both)
    assert register.next(both, bound=(A, B)) is None  # Its lease must hold among the new ones first.
    after = register.next(both, bound=(A, B, D))
    assert after == Charter(5, 2, b"x", 6, (B, C, D))
    assert not register.is_changing(after)
    assert register.stored(A, (5, 2)) is None and register.stored(B, (5, 2)) is None  # a counts no more.
    assert register.stored(D, (5, 2)) == ()


def test_the_next_leader_ends_a_change_that_the_last_one_began() -> None:
    both = Charter(5, 1, b"x", 5, (B, C, D), (D,), (A,))
    register = Register()
    register.begin(7)
    again = register.next(both, bound=(B, C))
    assert again is not None and again.electorate == both.electorate
    commit(register, again)
    assert register.next(again, bound=(B, C)) == Charter(7, 1, b"x", 6, (B, C, D))


@pytest.mark.parametrize(
    "electorate",
    [
        Electorate(0, ABC),
        Electorate(3, ABC, frozenset((A, B))),
        Electorate(3, frozenset((A, B)), ABC),
        Electorate(3, frozenset((B, C, D)), ABC),
    ],
)
def test_a_charter_is_sent_and_kept_as_it_is(electorate: Electorate) -> None:
    charter = Charter.of(7, 3, bytes(range(256)) * 2, electorate)
    assert charter.electorate == electorate
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(charter), type=MESSAGES) == charter
    record = VoterRecord(9, 7, A, charter)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=VoterRecord) == record


def test_a_record_of_an_earlier_version_is_read() -> None:
    earlier = msgspec.msgpack.encode({"epoch": 9, "granted_epoch": 7, "granted_to": "a"})
    assert msgspec.msgpack.decode(earlier, type=VoterRecord) == VoterRecord(9, 7, A)


def test_a_baton_that_is_too_long_is_refused_by_the_decoder() -> None:
    data = msgspec.msgpack.encode(Charter(1, 1, bytes(513), 0, (A,)))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(data, type=MESSAGES)


def test_a_voter_keeps_the_newest_charter_and_its_promise_beside_it() -> None:
    out = RecordingOut()
    voter = Voter(A, VoterRecord(3, 3, B), out, durable=True)
    assert voter.store(Charter(3, 1, b"x", 0, (A, B, C)))
    assert not voter.store(Charter(3, 1, b"y", 0, (A, B, C))) and not voter.store(Charter(2, 9, b"y", 0, (A, B, C)))
    voter.advance(4)
    voter.advance(4, C)
    assert voter.promise == VoterRecord(4, 4, C, Charter(3, 1, b"x", 0, (A, B, C)))
    out.send(B, HeartbeatAck(4, 1, True))
    assert len(out.take()) == 3 + 1 + 1  # Three records, one epoch, the message.
