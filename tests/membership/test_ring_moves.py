"""A member of a ring whose address changes comes back at the new one; and what its news log must keep."""

from random import Random

import pytest

from doyen.core.clock import ms
from doyen.core.effects import Emit, Send, SetTimer
from doyen.core.ids import Address, NodeId
from doyen.core.seeds import OwnAddressChanged
from doyen.core.view import ViewChanged
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import POINTS, Roster, Seat
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import Discover, JoinAdvances, LeaveIsAnnounced, LeftRing, News, NewsKind
from doyen.membership.ring.neighbourhood import founding
from doyen.membership.ring.spread import LOG_MAX, Spread
from doyen.testing import RecordingOut

P, Q, R = (Seat(10 * i, NodeId(name), 1, f"10.0.0.{i}:7600") for i, name in enumerate("PQR", 1))
ELSEWHERE = Address("10.0.7.1", 7600)


CONFIG = ArbitrationConfig(neighbours=1)


def member(*seats: Seat, config: ArbitrationConfig = CONFIG) -> tuple[Arbitration, RecordingOut]:
    out = RecordingOut()
    machine = Arbitration(P, config, out, Random(1), founding=founding([P, *seats], 1))
    machine.start(0)
    out.take()
    return machine, out


def test_a_member_that_moved_leaves_and_comes_back_where_it_is() -> None:
    machine, out = member(Q, R)
    machine.on_own_address_changed(OwnAddressChanged(ELSEWHERE), ms(5))
    effects = out.take()
    (left,) = [effect.fact for effect in effects if isinstance(effect, Emit) and isinstance(effect.fact, LeftRing)]
    assert (left.seat, left.why) == (P, "moved")
    assert any(isinstance(effect, SetTimer) and isinstance(effect.timer, LeaveIsAnnounced) for effect in effects)
    assert machine.seat == Seat(P.point, P.node, 2, str(ELSEWHERE)) and not machine.is_member
    (waits,) = [e for e in effects if isinstance(e, SetTimer) and isinstance(e.timer, JoinAdvances)]
    machine.on_timer(waits.timer, waits.at)
    sent = [effect for effect in out.take() if isinstance(effect, Send)]
    assert [effect.message.joiner for effect in sent if isinstance(effect.message, Discover)] == [machine.seat]


def test_one_that_is_alone_founds_its_ring_anew_where_it_is() -> None:
    machine, out = member()
    machine.on_own_address_changed(OwnAddressChanged(ELSEWHERE), ms(5))
    assert machine.is_member and machine.seat == Seat(P.point, P.node, 2, str(ELSEWHERE))
    assert [*machine.roster] == [machine.seat]
    shown = [e.fact for e in out.take() if isinstance(e, Emit) and isinstance(e.fact, ViewChanged)][-1].view[P.node]
    assert (shown.address, shown.incarnation) == (ELSEWHERE, 2)


@pytest.mark.parametrize(
    "why", ["the address is the same", "it has none to say", "it may not come back", "it has left for good"]
)
def test_nothing_happens_where(why: str) -> None:
    machine, out = member(Q, R, config=ArbitrationConfig(neighbours=1, rejoin=why != "it may not come back"))
    seat, address = machine.seat, ELSEWHERE
    if why == "the address is the same":
        address = Address("10.0.0.1", 7600)
    if why == "it has none to say":
        nameless = Seat(P.point, P.node)
        machine = Arbitration(nameless, machine.config, out, Random(1), founding=founding([nameless, Q, R], 1))
        machine.start(0)
        seat = nameless
    if why == "it has left for good":
        machine.leave(ms(1))
    was_member = machine.is_member
    out.take()
    machine.on_own_address_changed(OwnAddressChanged(address), ms(5))
    assert out.take() == [] and machine.seat == seat and machine.is_member == was_member


def test_a_log_that_is_cut_counts_its_lines_on() -> None:
    """Else a neighbour would be told lines twice, or never."""
    spread = Spread(Roster(()), is_whole=True)
    count = LOG_MAX + LOG_MAX // 2 + 7
    for i in range(count):
        assert spread.learn(News(NewsKind.JOINED, Seat(i * (POINTS // count), NodeId(f"m{i}"))), P.name, 0)
    assert spread.length == count
