"""Hellos between neighbours, and what a spanning election makes of starting without any."""

import pytest

from doyen.core.clock import ms, seconds
from doyen.core.effects import Emit, Send, SetTimer
from doyen.core.ids import Address, NodeId
from doyen.core.link import LinkChanged
from doyen.election.spanning.config import SpanningConfig
from doyen.election.spanning.machine import Spanning
from doyen.election.spanning.messages import Candidate, ElectionId, Enquire, EnquiryEnds, Phase, State
from doyen.errors import ConfigError
from doyen.testing import RecordingOut
from doyen_lab.hello import Greeting, GreetingDue, Hello, HelloConfig

A, B, C = (NodeId(n) for n in "123")
THERE = Address("198.18.0.2", 7700)
CONFIG = HelloConfig(interval=ms(100), silence=ms(350))


def hello() -> tuple[Hello, RecordingOut]:
    out = RecordingOut()
    machine = Hello(A, CONFIG, out, neighbours={B: THERE}, incarnation=5)
    machine.start(0)
    assert out.take() == [Send(THERE, Greeting(5, None)), SetTimer(GreetingDue(), ms(100))]
    return machine, out


def test_a_link_is_up_once_both_ends_hear_each_other() -> None:
    machine, out = hello()
    machine.on_message(B, Greeting(7, None), ms(10))  # It does not hear us yet.
    assert out.take() == []
    machine.on_timer(GreetingDue(), ms(100))
    assert out.take()[0] == Send(THERE, Greeting(5, 7))
    machine.on_message(B, Greeting(7, 5), ms(110))
    machine.on_message(B, Greeting(7, 5), ms(210))
    assert out.take() == [Emit(LinkChanged(B, True))]
    assert machine.up == [B]


def test_silence_a_deaf_neighbour_and_a_new_incarnation_are_a_link_down() -> None:
    for then in ("silence", "deaf", "new incarnation"):
        machine, out = hello()
        machine.on_message(B, Greeting(7, 5), ms(10))
        out.take()
        if then == "silence":
            machine.on_timer(GreetingDue(), ms(350))
            assert [e for e in out.take() if isinstance(e, Emit)] == []
            machine.on_timer(GreetingDue(), ms(360))
        elif then == "deaf":
            machine.on_message(B, Greeting(7, None), ms(60))
        else:
            machine.on_message(B, Greeting(8, 5), ms(60))
        told = [effect for effect in out.take() if isinstance(effect, Emit)]
        assert told[0] == Emit(LinkChanged(B, False)), then
        assert told[1:] == ([Emit(LinkChanged(B, True))] if then == "new incarnation" else [])


def test_strangers_are_not_greeted_back() -> None:
    machine, out = hello()
    machine.on_message(C, Greeting(1, 5), ms(10))
    assert (out.take(), machine.up) == ([], [])


def test_silence_must_be_longer_than_the_interval() -> None:
    with pytest.raises(ConfigError, match="silence"):
        HelloConfig(interval=ms(100), silence=ms(100))


S = seconds(1)
PATIENT = SpanningConfig(hop_delay=S, diameter_max=3, link_wait=10 * S)
LED = State(ElectionId(4, B), Candidate(0.1, B), "idle", False, 0, False)


def starting() -> tuple[Spanning, RecordingOut]:
    out = RecordingOut()
    machine = Spanning(A, PATIENT, out, standing=0.9, returning=True)
    machine.start(0)
    assert out.take() == [SetTimer(EnquiryEnds(), 10 * S)]
    return machine, out


def test_who_starts_without_links_waits_for_one_and_adopts_the_leader() -> None:
    machine, out = starting()
    machine.on_link_changed(LinkChanged(B, True), 9 * S)
    assert out.take() == [Send(B, Enquire(None)), SetTimer(EnquiryEnds(), 11 * S)]
    machine.on_timer(EnquiryEnds(), 10 * S)  # The answer is still under way.
    assert machine.phase is Phase.RETURNING
    machine.on_message(B, LED, 11 * S)
    assert machine.leader == LED.leader  # A better one than it does not start an election.


def test_who_finds_no_link_leads_itself_in_the_end() -> None:
    machine, _ = starting()
    machine.on_link_changed(LinkChanged(B, True), S)
    machine.on_link_changed(LinkChanged(B, False), 2 * S)
    assert machine.phase is Phase.RETURNING
    machine.on_timer(EnquiryEnds(), 10 * S)
    assert machine.leader == Candidate(0.9, A)
