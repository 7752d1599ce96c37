"""What an election or a membership is, unless it says otherwise."""

import pytest

import doyen
from doyen.core.ids import NodeId
from doyen.core.kinds import Election
from doyen.errors import LocalProtocolError

A = NodeId("a")


def test_an_election_that_says_nothing_has_no_lease_no_voters_and_nothing_to_hand_on() -> None:
    election = Election()
    assert (election.waits_for, election.lease_until(), election.electors(0), election.will()) == ("", None, None, None)
    assert (election.heir, election.baton, election.round_trip(A)) == (None, None, None)
    assert election.voters == election.will_goes_to == frozenset()
    election.check_heir(A)
    with pytest.raises(LocalProtocolError, match="hands nothing on: only a quorum's does"):
        election.check_baton(b"baton")
    with pytest.raises(LocalProtocolError, match="has no voters: only a quorum's has"):
        election.check_voters(frozenset({A}))


def test_a_field_that_a_choice_does_not_have_is_refused_with_what_was_meant() -> None:
    with pytest.raises(TypeError, match=r"Pole has no field 'leese': do you mean lease\?"):
        doyen.Pole(leese="2s")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Pole has no field 'qqqq': one of .*; voters, seeds, keys and state are"):
        doyen.Pole(qqqq=1)  # type: ignore[call-arg]
