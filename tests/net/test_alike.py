"""Members that run something else find out, both of them, and go on; what strangers make up about it is bounded."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise, product
from random import Random
from typing import Any, get_args

import pytest
from net_nodes import until
from test_bad_input import NoSocket, hear

from doyen.core.clock import Instant, ms, seconds
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId, Term
from doyen.core.kinds import title_of
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import Announcement
from doyen.errors import ConfigError
from doyen.net.alike import (
    ALL_APART,
    ASK_EVERY,
    CARRIED_ALWAYS,
    DIFFERENCES_MAX,
    OVER_AFTER,
    Alike,
    MemberDiffers,
    Runs,
    digest_of,
)
from doyen.net.driver import Driver
from doyen.net.sealed import packed, unpacked
from doyen.net.udp import UdpConfig
from doyen.node.agent import Agent
from doyen.node.config import NodeConfig, RankKind
from doyen.node.events import Event
from doyen.node.gate import Gate
from doyen.node.registry import ELECTIONS, MEMBERSHIPS, find_election
from doyen.node.reign import Reign

BEE, LIFE = NodeId("bee"), Incarnation(1)
OURS = {"election": "announce", "membership": "none"}
THEIRS = {"election": "hybrid", "membership": "swim", "rank": "hash"}
VOTES: dict[str, Any] = {"voters": ("ant", "bee"), "volatile": True, "newcomer": True}
GATE: dict[str, Any] = {"settle": 0, "notice": 0, "alone_after": 0, "expect": 0, "quorum": False}
START: Instant = seconds(100)


def declared(words: dict[str, str] = OURS) -> Alike:
    alike = Alike(Random(1))
    alike.declare("", words, START)
    return alike


def differ(alike: Alike, member: NodeId, now: Instant) -> Runs | None:
    return alike.on_digest(member, LIFE, "m", digest_of(THEIRS), now)


# Digests.


def test_no_two_configurations_of_ours_have_the_same_digest() -> None:
    words: set[tuple[tuple[str, str], ...]] = set()
    for election, membership in product((*ELECTIONS, "none"), (*MEMBERSHIPS, "none")):
        for rank in get_args(RankKind):
            with suppress(ConfigError):  # Not every membership can carry every election.
                config = NodeConfig(group="g", election=election, membership=membership, rank=rank, **VOTES)
                words.add(tuple(config.must_be_alike(config.election_kind()).items()))
    assert len(words) > 50
    digests = {digest_of(dict(each)) for each in words}
    assert len(digests) == len(words)
    assert all(0 < digest < 65_536 for digest in digests)
    assert digest_of(THEIRS) == digest_of(dict(reversed(THEIRS.items())))


def test_every_packet_carries_it_at_first_and_a_quarter_later() -> None:
    alike = declared()
    carried = lambda now: sum(alike.carried("m", now) is not None for _ in range(1_000))  # noqa: E731
    assert carried(START + CARRIED_ALWAYS - 1) == 1_000
    assert 180 < carried(START + CARRIED_ALWAYS) < 320
    alike.declare("mail", THEIRS, START + seconds(60))  # An election that begins later.
    assert carried(START + seconds(61)) == 1_000
    assert alike.carried("election/mail", START + seconds(61)) == digest_of(THEIRS)
    assert alike.carried("election/other", START + seconds(61)) is None
    assert Alike(Random(1)).carried("m", START) is None  # A node that has declared nothing.


# Who differs.


def test_a_difference_is_asked_about_until_it_is_answered_and_is_news_once() -> None:
    alike = declared()
    assert differ(alike, BEE, START) == Runs("", OURS, answer=True)
    assert differ(alike, BEE, START + ms(500)) is None
    assert alike.differing(START + ms(500)) == []  # It has not said what it runs.
    assert differ(alike, BEE, START + ASK_EVERY) == Runs("", OURS, answer=True)
    found, answer = alike.on_runs(BEE, LIFE, Runs("", THEIRS), START + seconds(2))
    assert (found, answer) == (MemberDiffers(BEE, "", THEIRS, OURS), None)
    assert str(found) == "bee runs gossip (hybrid), this node runs fast (announce): give both the same"
    assert alike.differing(START + seconds(2)) == [found]
    assert differ(alike, BEE, START + seconds(5)) is None
    again, answer = alike.on_runs(BEE, LIFE, Runs("", THEIRS, answer=True), START + seconds(6))
    assert (again, answer) == (None, Runs("", OURS))
    changed, _ = alike.on_runs(BEE, LIFE, Runs("", THEIRS | {"election": "base"}), START + seconds(7))
    assert str(changed) == "bee runs base, this node runs fast (announce): give both the same"
    assert alike.differing(START + seconds(7) + OVER_AFTER) == []


def test_a_member_that_was_mended_differs_no_more_and_one_that_only_restarted_is_asked_again() -> None:
    alike = declared()
    differ(alike, BEE, START)
    alike.on_runs(BEE, LIFE, Runs("", THEIRS), START)
    asked = alike.on_digest(BEE, Incarnation(2), "m", digest_of(THEIRS), START + seconds(3))
    assert asked == Runs("", OURS, answer=True)
    assert alike.on_runs(BEE, Incarnation(2), Runs("", THEIRS), START + seconds(3)) == (None, None)  # No news.
    assert len(alike.differing(START + seconds(3))) == 1
    assert alike.on_digest(BEE, Incarnation(3), "m", digest_of(OURS), START + seconds(4)) is None
    assert alike.differing(START + seconds(4)) == []


def test_those_that_may_act_and_those_that_started_earlier_go_first_while_they_are_heard() -> None:
    alike, me = declared(), Incarnation(5)

    def ahead(now: Instant) -> tuple[list[str], list[str]]:
        acting, earlier = alike.ahead("", me, seconds(10), now)
        return [found.member for found in acting], [found.member for found in earlier]

    for i, (name, life) in enumerate((("old", 1), ("young", 9), ("none", 1))):
        words = {"election": "none"} if name == "none" else THEIRS
        alike.on_runs(NodeId(name), Incarnation(life), Runs("", words), START + i * ALL_APART)
    now = START + seconds(1)
    assert ahead(now) == ([], ["old"])  # Who elects nobody never acts.
    alike.on_runs(NodeId("young"), Incarnation(9), Runs("", THEIRS, may_act=True), now)
    assert ahead(now) == (["young"], ["old"])
    alike.on_digest(NodeId("young"), Incarnation(10), "m", digest_of(THEIRS), now)  # It has restarted.
    assert ahead(now) == ([], ["old"])
    asked = [member for i in range(30) for member, _ in alike.questions("", now + i * ALL_APART)]
    assert sorted(asked[:3]) == ["none", "old", "young"] and 8 <= len(asked) <= 9  # Each once a second.
    assert ahead(START + seconds(10)) == ([], []) != ahead(START + seconds(10) - 1)


def test_a_node_says_whether_it_may_act() -> None:
    alike = Alike(Random(1), lambda election: election == "")
    alike.declare("", OURS, START)
    assert differ(alike, BEE, START) == Runs("", OURS, answer=True, may_act=True)


def test_what_differs_is_said_and_nothing_else() -> None:
    def text(theirs: dict[str, str], ours: dict[str, str], election: str = "") -> str:
        return str(MemberDiffers(BEE, election, theirs, ours))

    assert text(THEIRS, THEIRS | {"rank": "score"}).startswith("bee runs rank hash, this node runs rank score:")
    both = text(THEIRS | {"membership": "medley", "rank": "score"}, THEIRS)
    assert both.startswith("bee runs membership medley and rank score, this node runs membership swim and rank hash:")
    assert "in the election 'mail', this" in text(THEIRS, OURS, "mail")
    assert text(THEIRS | {"new": "x"}, THEIRS).startswith("bee runs new x, this node runs new none:")


def test_an_election_that_this_node_has_no_part_in_says_nothing() -> None:
    alike = declared()
    assert alike.on_digest(BEE, LIFE, "election/mail", 7, START) is None
    assert alike.on_runs(BEE, LIFE, Runs("mail", THEIRS, answer=True), START) == (None, None)


def test_strangers_can_make_it_neither_speak_often_nor_remember_much() -> None:
    alike = declared()
    said = [i for i in range(100_000) if differ(alike, NodeId(f"x{i}"), START + i * ms(1))]
    assert all(later - earlier >= ALL_APART // ms(1) for earlier, later in pairwise(said))
    for i in range(2 * DIFFERENCES_MAX):
        alike.on_runs(NodeId(f"y{i}"), LIFE, Runs("", THEIRS, answer=True), START + i * ALL_APART)
    assert len(alike.differing(START)) <= DIFFERENCES_MAX


# On a driver.

AT = Address("127.0.0.1", 9)


class Deaf(NoSocket):
    """Keeps what was sent."""

    def __init__(self) -> None:
        super().__init__(UdpConfig())
        self.sent: list[tuple[bytes, Address]] = []

    def send(self, data: bytes, to: Address) -> None:
        self.sent.append((data, to))


def test_a_packet_that_cannot_be_read_here_is_compared_and_a_flood_of_bad_digests_harms_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="doyen")
    theirs, transport, rng = Codec("group"), Deaf(), Random(3)
    theirs.speak("alike", Runs)
    node = Driver(NodeId("me"), LIFE, Codec("group"), transport)
    node.add("election", lambda port: Announce(NodeId("me"), AnnounceConfig(), port, Random(1)))
    node.declare("", OURS)

    async def main() -> None:
        await node.start()
        hear(node, theirs.encode(BEE, LIFE, "membership", ["whatever"], digest_of(THEIRS)), AT)
        assert [(theirs.decode(data).message, to) for data, to in transport.sent] == [(Runs("", OURS, True), AT)]
        assert node.refused["channel"] == 1
        assert "no machine here listens" not in caplog.text  # It differs: that is complained about instead.
        for i in range(3_000):
            sender = NodeId(f"n{i % 400}")
            plain = theirs.encode(sender, LIFE, "election", Announcement(1, 1))
            hear(node, b"\x97" + plain[1:] + rng.randbytes(rng.randrange(6)), AT)
            bent = bytearray(theirs.encode(sender, LIFE, "alike", Runs("", {"election": f"e{i}"})))
            bent[rng.randrange(len(bent))] = rng.randrange(256)
            hear(node, bytes(bent), AT)
        node.close()

    asyncio.run(main())
    assert node.failure is None
    assert len(node.differing()) <= DIFFERENCES_MAX


# On real sockets: whoever knows the other, in every election, with a membership and without.

PAIRS: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"election": "announce"}, {"election": "hybrid"}, "announce", "hybrid"),
    ({"election": "hybrid"}, {"election": "announce"}, "hybrid", "announce"),
    ({"election": "le-a"}, {"election": "le-s"}, "le-a", "le-s"),
    ({"election": "le-m"}, {"election": "local"}, "le-m", "local"),
    ({"election": "base"}, {"election": "preferred"}, "base", "preferred"),
    ({"election": "spanning"}, {"election": "optimistic"}, "spanning", "optimistic"),
    ({"election": "pole", **VOTES}, {"election": "hybrid"}, "pole", "hybrid"),
    ({"election": "hybrid"}, {"election": "pole", **VOTES}, "hybrid", "pole"),
    ({"election": "by-key"}, {"election": "hybrid"}, "by-key", "hybrid"),
    ({"election": "none", "membership": "swim"}, {"election": "hybrid"}, "none", "hybrid"),
    (
        {"election": "hybrid"},
        {"election": "hybrid", "membership": "heartbeat"},
        "membership swim",
        "membership heartbeat",
    ),
    ({"election": "hybrid", "rank": "hash"}, {"election": "hybrid", "rank": "score"}, "rank hash", "rank score"),
    (
        {"election": "hybrid", "elections": ("mail=base",)},
        {"election": "hybrid", "elections": ("mail=announce",)},
        "base in the election 'mail'",
        "fast (announce) in the election 'mail'",
    ),
]


def test_both_of_a_pair_learn_within_seconds_what_the_other_runs() -> None:
    async def pair(number: int, first: dict[str, Any], second: dict[str, Any], runs: str, other: str) -> None:
        events: dict[str, list[Event]] = {"ant": [], "bee": []}
        ant = Agent(NodeConfig(group=f"g{number}", name="ant", **first), events["ant"].append)
        await ant.start()
        seeds = (str(ant.address),)
        bee = Agent(NodeConfig(group=f"g{number}", name="bee", seeds=seeds, **second), events["bee"].append)
        await bee.start()
        told = lambda name: [event for event in events[name] if event.kind == "differs"]  # noqa: E731
        await until(lambda: bool(told("ant") and told("bee")), 15)
        for name, theirs in (("ant", other), ("bee", runs)):
            (event,) = told(name)
            assert event.member != name
            assert event.reason.startswith(f"{event.member} runs {title_of(theirs)}, this node runs ")
        await ant.leave()
        await bee.leave()

    async def main() -> None:
        await asyncio.gather(*(pair(number, *each) for number, each in enumerate(PAIRS)))

    asyncio.run(main())


def test_members_that_run_the_same_hear_nothing_of_it_and_a_later_election_is_compared() -> None:
    async def main() -> None:
        events: list[Event] = []
        listen: Callable[[Event], None] = lambda event: events.append(event) if event.kind == "differs" else None  # noqa: E731
        config = {"group": "same", "election": "hybrid"}
        ant = Agent(NodeConfig(name="ant", **config), listen)
        await ant.start()
        bee = Agent(NodeConfig(name="bee", seeds=(str(ant.address),), **config), listen)
        await bee.start()
        await until(lambda: all(len(agent.stack.members()) == 2 for agent in (ant, bee)), 15)
        assert events == []
        ant.add_election("mail", find_election("announce"))
        bee.add_election("mail", find_election("le-s"))
        await until(lambda: len(events) == 2, 15)
        assert {event.election for event in events} == {"mail"}
        assert [found.member for found in ant.driver.differing()] == ["bee"]
        await ant.leave()
        await bee.leave()

    asyncio.run(main())


@pytest.mark.parametrize("found", [[], [MemberDiffers(BEE, "", THEIRS, OURS)]])
def test_whoever_has_found_a_member_that_differs_is_not_said_to_have_found_nobody(
    found: list[MemberDiffers], monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    agent = Agent(NodeConfig(group="g", name="ant"), lambda event: events.append(event.kind))
    monkeypatch.setattr(agent.driver, "differing", lambda: found)
    reign, gate = Reign("", "election", find_election("gossip"), NodeId("ant")), Gate(0, **GATE)
    reign.mine, gate.alone = Term(1, NodeId("ant")), "nobody was found"
    agent.on_open(reign, gate, 0)
    assert events == ([] if found else ["alone"])


def test_sealed_packets_carry_it_where_version_0_1_0_has_padding() -> None:
    codec, named = Codec("group"), b"\xa5group"

    def unpacked_by_0_1_0(plain: bytes) -> bytes:
        if plain[:1] == b"\x94":
            plain = plain[2 : 2 + int.from_bytes(plain[1:2], "big")]
        return b"\x96" + plain[1:2] + named + plain[2:] if plain[:1] == b"\x95" else plain

    for size in (0, 1, 50, 200, 240, 250, 300, 1_000):
        bare = codec.encode(BEE, LIFE, "c", "x" * size)
        data = codec.encode(BEE, LIFE, "c", "x" * size, digest_of(OURS))
        small = packed(data, named)
        assert unpacked_by_0_1_0(small) == bare
        assert unpacked(small, named) == (data if len(small) <= 259 else bare)
        assert unpacked(packed(bare, named), named) == bare  # And from 0.1.0.
        assert len(small) <= max(len(packed(bare, named)) + 4, 17)
    for plain in (b"", b"\x94", b"\x94\x05", b"\x94\x00\x00\x01", b"\x94\x01\x95\x07"):
        unpacked(plain, named)


def test_one_that_has_not_said_what_it_runs_hides_none_that_is_ahead() -> None:
    alike = declared()
    differ(alike, NodeId("quiet"), START)
    alike.on_runs(BEE, LIFE, Runs("", THEIRS, may_act=True), START + ALL_APART)
    acting, _ = alike.ahead("", Incarnation(5), seconds(10), START + ALL_APART)
    assert [found.member for found in acting] == [BEE]
