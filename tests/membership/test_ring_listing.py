"""A newcomer comes to know all members and who acts, whatever is lost; and nobody takes it in who is not in place."""

from random import Random
from typing import Any

import pytest

from doyen.core.clock import Duration, ms
from doyen.core.codec import Codec
from doyen.core.effects import Send
from doyen.core.ids import Incarnation, NodeId
from doyen.membership.ring.arbitrator import Version
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Roster, Seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import (
    Discover,
    Discovered,
    LeaseRequest,
    Leave,
    News,
    NewsKind,
    ReignHeard,
    RosterPart,
    RosterWanted,
)
from doyen.membership.ring.neighbourhood import founding
from doyen.membership.ring.pair import Pair
from doyen.membership.ring.spread import PART_MAX, Spread
from doyen.sim.engine import DROP
from doyen.sim.node import SimNode
from doyen.testing import RecordingOut
from doyen_papers.studies.arbitration import ArbitrationSetting, Ring

P, Q, R, S, T = (Seat(10 * i, NodeId(name)) for i, name in enumerate("PQRST", 1))


@pytest.mark.parametrize("lost", [RosterWanted, RosterPart])
@pytest.mark.parametrize("nodes", [16, 3 * PART_MAX])  # One piece, and several.
def test_the_list_is_asked_for_again_until_it_is_whole(lost: type[Any], nodes: int) -> None:
    ring = Ring(ArbitrationSetting(nodes=nodes, delay=ms(1)), 1)
    left = 3
    asked: list[str] = []

    def drop(sender: SimNode, channel: str, receiver: SimNode, message: Any) -> Duration:
        nonlocal left
        if isinstance(message, RosterWanted):
            asked.append(receiver.name)
        if left and isinstance(message, lost):
            left -= 1
            return DROP
        return 0

    ring.sim.filters.append(drop)
    ring.sim.network_changed()
    ring.run(2 * ring.config.lease)
    joiner = ring.join()
    ring.run(7 * ring.config.lease)
    assert len(ring.machine(joiner.name).roster) == nodes  # All but itself.
    assert len({*asked}) > 1  # Another one each time: the first may be gone.
    count = len(asked)
    ring.run(5 * ring.config.lease)
    assert len(asked) == count  # Once it is whole nobody asks.


def test_the_first_piece_tells_the_latest_term_of_each_key() -> None:
    spread = Spread(Roster((P, Q, R)), is_whole=True)
    for number, seat in ((3, Q), (5, R), (4, P)):
        spread.learn(News(NewsKind.REIGN, seat, number, 99), P.name, ms(number))
    spread.learn(News(NewsKind.REIGN, Q, 1, 7), P.name, ms(9))
    assert spread.part(RosterWanted(1, 1, -1), P).reigns == (
        News(NewsKind.REIGN, R, 5, 99),
        News(NewsKind.REIGN, Q, 1, 7),
    )
    assert spread.part(RosterWanted(1, 1, P.point), P).reigns == ()


def test_of_two_reigns_in_one_term_the_nearer_to_the_key_is_passed_on() -> None:
    spread = Spread(Roster((P, Q, R)), is_whole=True)
    told = [News(NewsKind.REIGN, seat, number, 21) for seat, number in ((P, 4), (R, 4), (Q, 4), (R, 4), (R, 5))]
    assert [spread.learn(line, P.name, 1) for line in told] == [True, True, True, False, True]


def test_of_the_terms_that_come_with_a_list_only_terms_are_believed() -> None:
    machine, out = member()
    lines = (News(NewsKind.REIGN, Q, 5, 99), News(NewsKind.DEAD, P), News(NewsKind.DEAD, R))
    machine.on_message(Q.node, RosterPart(1, 1, (), (), False, lines), ms(1))
    assert machine.is_member and R in machine.roster
    assert [effect.fact for effect in out.take() if hasattr(effect, "fact")] == [ReignHeard(99, 5, Q)]


def member() -> tuple[Arbitration, RecordingOut]:
    out = RecordingOut()
    config = ArbitrationConfig(neighbours=1)
    machine = Arbitration(P, config, out, Random(1), founding=founding([P, Q, R, S, T], 1))
    machine.start(0)
    out.take()
    return machine, out


@pytest.mark.parametrize("gone", [(), (Q,), (Q, T)])
def test_a_member_that_lacks_a_neighbour_takes_nobody_in(gone: tuple[Seat, ...]) -> None:
    """A joiner would have taken P for its only neighbour, and for a ring of two, with all keys theirs."""
    machine, out = member()
    for seat in gone:
        machine.on_message(seat.node, Leave(seat), ms(1))
    out.take()
    joiner = Seat(P.point + 1, NodeId("J"))
    machine.on_message(joiner.node, Discover(joiner, 1), ms(2))
    (answer,) = [effect.message for effect in out.take() if isinstance(effect, Send)]
    assert isinstance(answer, Discovered) and answer.accepted == (not gone)


@pytest.mark.parametrize("address", ["", "10.0.0.1:7946", "[2001:db8::1234:5678]:7946"])
@pytest.mark.parametrize("length", [6, 12, 24, 64])
def test_the_list_and_the_news_fit_datagrams_whatever_names_are(length: int, address: str) -> None:
    """An answer that does not fit never leaves: a newcomer would ask for ever."""
    seats = [Seat(2**63 + i, NodeId(f"{i:0{length}}"), 2**41, address) for i in range(80)]
    spread = Spread(Roster(seats[:60]), is_whole=True)
    for seat in seats[40:60]:
        spread.learn(News(NewsKind.LEFT, seat), seats[0].name, 1)
    for key in range(12):
        spread.learn(News(NewsKind.REIGN, seats[3], 5, 2**63 + key), seats[0].name, 1)
    for seat in seats[60:]:
        spread.learn(News(NewsKind.JOINED, seat), seats[0].name, 1)
    codec = Codec("g" * 64)
    mine = Version(10**6, frozenset(seats[:6]))
    pair = Pair(seats[1], mine, 0)
    said, lines = spread.for_pair(pair), 0
    while said is not None and said.news:
        codec.encode(seats[0].node, Incarnation(2**62), "membership", LeaseRequest(2**41, 2**41, 10**6, 10**6, said))
        lines += len(said.news)
        pair.told = said.first + len(said.news)
        said = spread.for_pair(pair)
    assert lines == spread.length
    found: list[Seat] = []
    after, more = -1, True
    while more:
        part = spread.part(RosterWanted(2**41, 2**41, after), seats[0])
        codec.encode(seats[0].node, Incarnation(2**62), "membership", part)
        assert (len(part.reigns) > 0) == (len(part.gone) > 0) == (after < 0)
        found += part.seats
        after, more = part.seats[-1].point, part.more
    assert found == [*seats[:40], *seats[60:]]
