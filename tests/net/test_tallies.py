"""A node counts what its traffic shows, within bounds, and tells it in one datagram."""

import msgspec

from doyen.core.clock import ms, seconds
from doyen.core.codec import payload_max
from doyen.core.ids import NodeId
from doyen.core.kinds import Membership
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import Announcement
from doyen.membership.swim.machine import Swim
from doyen.membership.swim.messages import Ack, Ping
from doyen.net.tallies import BOUNDS, BUCKETS, QUESTIONS_MAX, SENDERS_MAX, Histogram, Snapshot, Spread, Tallies
from doyen.node.measured import CHANNEL, Told

ANT, BEE = NodeId("ant"), NodeId("bee")


class Pings(Membership):
    MEASURED = Swim.MEASURED


class Announcements(Membership):
    MEASURED = Announce.MEASURED
    config = AnnounceConfig(announce_interval=seconds(1))


def pinging() -> Tallies:
    tallies = Tallies()
    tallies.watch("m", Pings())
    return tallies


def test_a_ping_without_an_answer_is_lost_once_its_target_answers_a_later_one() -> None:
    tallies = pinging()
    for number in (1, 2, 3):
        tallies.on_sent("m", Ping(number, ANT), seconds(3 * number))
    tallies.on_sent("m", Ping(4, BEE), seconds(10))  # It never answers, so it may be dead.
    assert (tallies.answered, tallies.unanswered) == (0, 0)
    tallies.on_heard("m", ANT, Ack(3), seconds(9) + ms(40))
    assert (tallies.answered, tallies.unanswered) == (1, 2)
    found = tallies.round_trips.spread()
    assert found.sum_us == 40_000 and found.squares_us == 40_000**2
    ((bucket, count),) = found.buckets.items()
    assert count == 1 and BOUNDS[bucket - 1] < ms(40) <= BOUNDS[bucket]


def test_an_answer_of_another_or_a_second_one_counts_for_nothing() -> None:
    tallies = pinging()
    tallies.on_sent("m", Ping(1, ANT), 0)
    tallies.on_heard("m", BEE, Ack(1), ms(1))
    tallies.on_heard("n", ANT, Ack(1), ms(1))
    assert tallies.answered == 0
    tallies.on_heard("m", ANT, Ack(1), ms(2))
    tallies.on_heard("m", ANT, Ack(1), ms(3))
    assert tallies.answered == 1 and tallies.round_trips.spread().sum_us == 2000


def test_questions_to_the_dead_do_not_pile_up() -> None:
    tallies = pinging()
    for number in range(10 * QUESTIONS_MAX):
        tallies.on_sent("m", Ping(number, NodeId(f"n{number}")), number)
    assert tallies.open_count == QUESTIONS_MAX


def test_announcements_that_are_missing_are_counted_and_those_outside_their_turn_are_not() -> None:
    tallies = Tallies()
    tallies.watch("e", Announcements())
    for at in (0, 1.01, 1.99, 2.3, 3.0, 6.0, 6.98, 100.0):  # 4 and 5 are lost; at 100 the leader had been away.
        tallies.on_heard("e", ANT, Announcement(1, 1.0), seconds(at))
    assert (tallies.came, tallies.missing) == (5, 2)


def test_as_many_senders_as_there_is_room_for_are_all_remembered_and_no_more() -> None:
    for senders in (SENDERS_MAX, SENDERS_MAX + 1):
        tallies = Tallies()
        tallies.watch("e", Announcements())
        for at in range(3):
            for number in range(senders):
                tallies.on_heard("e", NodeId(f"n{number}"), Announcement(1, 1.0), seconds(at))
        assert (tallies.came == 2 * SENDERS_MAX) == (senders == SENDERS_MAX)


def test_an_answer_fits_a_datagram_whatever_was_counted() -> None:
    full = Spread(dict.fromkeys(range(BUCKETS), 2**31), 2**60, 2**62)
    told = Told(2**40, Snapshot(2**60, 2**40, 2**40, 2**40, 2**40, full, full, full, 2**60))
    assert len(msgspec.msgpack.encode(told)) <= payload_max("g" * 64, NodeId("n" * 64), CHANNEL)


def test_a_histogram_takes_anything() -> None:
    histogram = Histogram()
    for took in (-5, 0, BOUNDS[0], BOUNDS[0] + 1, seconds(10**6)):
        histogram.note(took)
    assert histogram.spread().buckets == {0: 3, 1: 1, BUCKETS - 1: 1}


def test_a_snapshot_has_the_writes_of_a_node_that_writes_and_none_of_one_that_does_not() -> None:
    writes = Histogram()
    writes.note(ms(3))
    assert Tallies().snapshot(0, writes, 7).writes == writes.spread() != Histogram().spread()
    assert Tallies().snapshot(0, None, 7).writes == Histogram().spread()
