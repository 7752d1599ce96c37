"""An idle connection to the leader: its end is suspicion at once, of that life of that member, and no more."""

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from net_nodes import PATIENT, Node, until

from doyen.core.clock import ms, seconds
from doyen.core.commands import LeaveGroup, Resign
from doyen.core.effects import Emit, Multicast, Out, Send, SetTimer
from doyen.core.ids import Address, Incarnation, NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkBroken
from doyen.core.machine import Hears, hears
from doyen.core.view import Member, Status, ViewChanged
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import Announcement
from doyen.election.announce.messages import Status as Stance
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import Heartbeat
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.machine import Swim
from doyen.membership.swim.messages import Ping, SuspicionExpires, Word
from doyen.membership.swim.roster import Acquaintances
from doyen.net import leaderlink
from doyen.net.keys import Keyring, key_text, new_key
from doyen.net.leaderlink import LeaderLink, LinkConfig
from doyen.testing import RecordingOut

SOON = LinkConfig(settle=ms(10), retry=ms(100), hello_timeout=ms(500))
LEADER, MEMBER, THIRD = NodeId("leader"), NodeId("member"), NodeId("third")


class Told:
    """The `LinkBroken`s that reached a node's machines."""

    MESSAGES: Any = Announcement

    def __init__(self, out: Out) -> None:
        self.facts: list[LinkBroken] = []

    def start(self, now: int) -> None: ...
    def on_message(self, sender: NodeId, message: Any, now: int) -> None: ...
    def on_timer(self, timer: Any, now: int) -> None: ...

    def on_link_broken(self, fact: LinkBroken, now: int) -> None:
        self.facts.append(fact)

    HEARS: ClassVar[Hears] = hears(LinkBroken, on_link_broken)


async def pair(
    keys: tuple[Keyring | None, Keyring | None] = (None, None), config: LinkConfig = SOON
) -> tuple[Node, LeaderLink, Node, LeaderLink, Told]:
    """A leader, and a member that follows it and is connected to it if it can be."""
    member = Node("member")
    told: Told = member.driver.add("told", Told)
    await member.driver.start()
    link = await LeaderLink.attach(member.driver, config, keys[1])  # Before anybody leads: it must not miss who does.
    leader = Node("leader", standing=9, seeds=(member.address,), incarnation=5)
    await leader.driver.start()
    its = await LeaderLink.attach(leader.driver, config, keys[0])
    await until(lambda: member.election.leader == LEADER)
    return leader, its, member, link, told


def lost(node: Node) -> list[str]:
    return [fact.reason for fact in node.facts if isinstance(fact, LeaderLost) and fact.term.leader == LEADER]


def close(*nodes: Node) -> None:
    for node in nodes:
        node.driver.close()


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="doyen")


@pytest.mark.parametrize("sealed", [False, True])
def test_a_killed_leader_is_lost_long_before_its_silence_is_noticed(sealed: bool) -> None:
    key = new_key()

    async def main() -> None:
        member = Node("member")
        await member.driver.start()
        link = await LeaderLink.attach(member.driver, SOON, Keyring([key]) if sealed else None)
        script = Path(__file__).with_name("leader_process.py")
        arguments = [member.address.host, str(member.address.port), *([key_text(key)] if sealed else [])]
        process = await asyncio.create_subprocess_exec(sys.executable, str(script), *arguments)
        try:
            await until(lambda: link.connected() == (LEADER,), 20)
            assert member.election.leader == LEADER
            os.kill(process.pid, signal.SIGKILL)
            killed_at = time.monotonic()
            await member.until(lambda: member.election.is_leader, 5)
            took_s = time.monotonic() - killed_at
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        assert lost(member) == ["gone"]
        assert link.broken == {"lost": 1, "gone": 1}
        assert took_s < PATIENT.listen_timeout / 1e9 / 10, took_s
        close(member)

    asyncio.run(main())


def test_a_connection_that_dies_alone_costs_the_leader_nothing() -> None:
    async def main() -> None:
        leader, its, member, link, told = await pair()
        await until(lambda: link.connected() == (LEADER,) and MEMBER in its.accepted)
        its.accepted[MEMBER].abort()
        await until(lambda: link.broken["back"] == 1 and link.connected() == (LEADER,))
        assert told.facts == [LinkBroken(LEADER, Incarnation(5))]  # Suspicion; and it was found again.
        assert not lost(member)
        close(leader, member)

    asyncio.run(main())


def test_a_reset_alone_does_not_mean_that_the_leader_is_gone() -> None:
    """A firewall, or somebody on the way, ends the connection and refuses every further one; datagrams come through."""

    async def main() -> None:
        leader, its, member, link, told = await pair()
        await until(lambda: link.connected() == (LEADER,) and MEMBER in its.accepted)
        assert its.server is not None
        its.server.close()  # From here on the kernel resets.
        its.accepted[MEMBER].abort()
        await until(lambda: link.broken["lost"] == 1)
        await asyncio.sleep(1.2)  # Four looks, each with a question to the kernel.
        assert told.facts == [LinkBroken(LEADER, Incarnation(5))]
        assert not lost(member) and set(leader.driver.refused) == {"empty"}  # The questions.
        close(leader, member)

    asyncio.run(main())


def test_a_leader_that_dies_after_its_connection_was_reset_is_found_at_a_later_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leaderlink, "LOOKS_S", (0.0, 0.6, 0.6, 0.6))

    async def main() -> None:
        leader, its, member, link, told = await pair()
        await until(lambda: link.connected() == (LEADER,) and MEMBER in its.accepted)
        assert its.server is not None
        its.server.close()
        its.accepted[MEMBER].abort()
        await until(lambda: "empty" in leader.driver.refused)  # The question of the first look: it takes datagrams.
        leader.driver.close()
        await until(lambda: len(told.facts) == 2)
        assert told.facts == [LinkBroken(LEADER, Incarnation(5)), LinkBroken(LEADER, Incarnation(5), gone=True)]
        close(member)

    asyncio.run(main())


def test_a_leader_that_goes_in_order_is_not_suspected() -> None:
    async def main() -> None:
        leader, its, member, link, told = await pair()
        await until(lambda: link.connected() == (LEADER,) and MEMBER in its.accepted)
        leader.driver.tell(LeaveGroup(), channel="election")
        leader.driver.close()
        await member.until(lambda: member.election.is_leader)
        await until(lambda: not link.connected())
        assert lost(member) == ["left"]
        assert told.facts == [] and not link.broken
        close(member)

    asyncio.run(main())


class Herald:
    """Emits what it is told to, at each `Resign`."""

    MESSAGES: Any = Announcement

    def __init__(self, out: Out) -> None:
        self.out, self.next = out, list[Any]()

    def start(self, now: int) -> None: ...
    def on_message(self, sender: NodeId, message: Any, now: int) -> None: ...
    def on_timer(self, timer: Any, now: int) -> None: ...

    def say(self, command: Resign, now: int) -> None:
        self.out.emit(self.next.pop(0))

    HEARS: ClassVar[Hears] = hears(Resign, say)


def test_a_link_lasts_until_the_leader_that_it_leads_to_is_lost() -> None:
    async def main() -> None:
        leader, its, member, _, _ = await pair()
        third = Node("third", seeds=(leader.address,))
        await third.driver.start()
        await LeaderLink.attach(third.driver, SOON)
        await until(lambda: leader.driver.addresses.of(THIRD) is not None)
        herald: Herald = leader.driver.add("says", Herald)
        named, other = Term(1, THIRD), Term(1, NodeId("other"))
        herald.next += [LeaderElected(named), LeaderLost(other, "silent"), LeaderLost(named, "silent")]
        leader.driver.tell(Resign(None), channel="says")
        await until(lambda: its.connected() == (THIRD,))
        link = its.linked[THIRD]
        leader.driver.tell(Resign(None), channel="says")
        await asyncio.sleep(0.2)
        assert its.linked[THIRD] is link
        leader.driver.tell(Resign(None), channel="says")
        await until(lambda: not its.connected())
        close(leader, member, third)

    asyncio.run(main())


def test_the_leader_hears_of_a_member_that_dies_and_not_of_one_that_goes() -> None:
    async def main() -> None:
        leader, its, member, link, _ = await pair()
        told: Told = leader.driver.add("told", Told)
        await until(lambda: link.connected() == (LEADER,) and MEMBER in its.accepted)
        link.linked[LEADER].abort()
        await until(lambda: bool(told.facts))
        assert told.facts == [LinkBroken(MEMBER, Incarnation(1))]
        await until(lambda: MEMBER in its.accepted)
        member.driver.close()
        await until(lambda: MEMBER not in its.accepted)
        assert len(told.facts) == 1
        close(leader)

    asyncio.run(main())


def test_the_end_of_an_old_life_says_nothing_of_a_new_one() -> None:
    async def main() -> None:
        leader, its, member, link, told = await pair()
        await until(lambda: link.connected() == (LEADER,) and MEMBER in its.accepted)
        again = Node("leader", standing=9, seeds=(member.address,), incarnation=6)
        await again.driver.start()
        await until(lambda: member.driver.addresses.incarnation_of(LEADER) == 6)
        its.accepted[MEMBER].abort()  # Dies without a goodbye: what it says from here on does not arrive.
        leader.driver.close()
        await until(lambda: not link.connected())
        await asyncio.sleep(0.2)
        assert told.facts == [] and not lost(member)
        close(member, again)

    asyncio.run(main())


def test_another_life_at_the_address_means_that_the_old_one_is_gone() -> None:
    async def main() -> None:
        leader, its, member, link, told = await pair()
        await until(lambda: link.connected() == (LEADER,) and MEMBER in its.accepted)
        its.driver.incarnation = Incarnation(6)  # What a restart at the same port looks like to a caller.
        its.accepted[MEMBER].abort()
        await until(lambda: len(told.facts) == 2)
        assert told.facts == [LinkBroken(LEADER, Incarnation(5)), LinkBroken(LEADER, Incarnation(5), gone=True)]
        close(leader, member)

    asyncio.run(main())


@pytest.mark.parametrize("which", ["leader has none", "member has none", "another"])
def test_without_the_groups_key_there_is_no_link_and_no_suspicion(which: str) -> None:
    ring, other = Keyring([new_key()]), Keyring([new_key()])
    keys = {"leader has none": (None, ring), "member has none": (ring, None), "another": (ring, other)}[which]

    async def main() -> None:
        leader, its, member, link, told = await pair(keys)
        await until(lambda: sum(n for r, n in member.driver.refused.items() if r.startswith("link ")) >= 2)
        assert not link.connected() and not its.accepted and told.facts == []
        assert any(reason.startswith("link ") for reason in member.driver.refused)
        close(leader, member)

    asyncio.run(main())


@pytest.mark.parametrize("told", ["leader", "member"])
def test_a_link_ends_when_its_key_is_removed_and_comes_back_with_the_new_one(told: str) -> None:
    old, new = new_key(), new_key()
    rings = {"leader": Keyring([old, new]), "member": Keyring([old, new])}

    async def play() -> None:
        leader, its, member, link, facts = await pair((rings["leader"], rings["member"]))
        await until(lambda: MEMBER in its.accepted and LEADER in link.linked)
        before = its.accepted[MEMBER]
        for ring in rings.values():
            ring.replace(Keyring([new, old]))
        await asyncio.sleep(0.05)
        assert its.accepted[MEMBER] is before  # The old key still opens.
        rings[told].replace(Keyring([new]))
        await until(lambda: its.accepted.get(MEMBER) not in (None, before))
        assert its.accepted[MEMBER].key == link.linked[LEADER].key == rings[told].primary
        assert not facts.facts and not lost(member)  # It was no news.
        close(leader, member)

    asyncio.run(play())


def test_connections_are_bounded_and_strangers_are_cut_off() -> None:
    config = LinkConfig(settle=ms(10), retry=ms(100), hello_timeout=ms(1500), pending_max=3)

    async def main() -> None:
        leader, its, member, link, told = await pair(config=config)
        await until(lambda: link.connected() == (LEADER,))
        strangers = [await asyncio.open_connection(leader.address.host, leader.address.port) for _ in range(8)]
        await until(lambda: its.turned_away_count == 5)
        assert len(its.pending) == 3
        for reader, _ in strangers:  # Those who say nothing are cut off, too.
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                continue
        assert len(its.pending) == 0 and link.connected() == (LEADER,) and told.facts == []
        for _, writer in strangers:
            writer.close()
        close(leader, member)

    asyncio.run(main())


def test_silent_strangers_do_not_shut_members_out() -> None:
    """As many as may wait, all the time: a member says hello at once, and so is never the one that waits longest."""
    config = LinkConfig(settle=ms(10), retry=ms(50), hello_timeout=seconds(5), pending_max=4)

    async def main() -> None:
        leader, its, member, link, told = await pair(config=config)
        await until(lambda: link.connected() == (LEADER,))
        strangers = [await asyncio.open_connection(leader.address.host, leader.address.port) for _ in range(12)]
        await until(lambda: its.turned_away_count == 8 and len(its.pending) == 4)
        link.linked[LEADER].end()
        await until(lambda: not link.connected())
        await until(lambda: link.connected() == (LEADER,), 2)
        assert told.facts == []
        for _, writer in strangers:
            writer.close()
        close(leader, member)

    asyncio.run(main())


def test_any_bytes_at_the_port_leave_the_links_as_they_are() -> None:
    rng = Random(5)

    async def main() -> None:
        leader, its, member, link, _ = await pair((Keyring([bytes(32)]), Keyring([bytes(32)])))
        await until(lambda: link.connected() == (LEADER,))
        for i in range(200):
            said = (b"DYN1" if i % 2 else b"") + rng.randbytes(rng.randrange(700))
            reader, writer = await asyncio.open_connection(leader.address.host, leader.address.port)
            try:
                writer.write(said)
                writer.write_eof()
                async with asyncio.timeout(2):
                    await reader.read()
            except ConnectionError:
                pass
            finally:
                writer.close()
        assert link.connected() == (LEADER,) and list(its.accepted) == [MEMBER]
        assert leader.driver.failure is None and len(its.pending) == 0
        close(leader, member)

    asyncio.run(main())


# ── What machines make of it ────────────────────────────────────────────────────────────────────────────────


def test_announce_listen_takes_back_leadership_from_one_who_is_gone_only() -> None:
    out = RecordingOut()
    machine = Announce(MEMBER, PATIENT, out, Random(1))
    machine.start(0)
    machine.on_message(LEADER, Announcement(3, 9), ms(1))
    before = len(out.effects)
    machine.on_link_broken(LinkBroken(LEADER, Incarnation(5)), ms(2))
    machine.on_link_broken(LinkBroken(NodeId("somebody"), Incarnation(5), gone=True), ms(2))
    assert machine.leader == LEADER and len(out.effects) == before
    machine.on_link_broken(LinkBroken(LEADER, Incarnation(5), gone=True), ms(3))
    lost, timer = out.effects[before:]
    assert lost.fact.reason == "gone" and lost.fact.term.leader == LEADER  # type: ignore[union-attr]
    assert isinstance(timer, SetTimer) and timer.at <= ms(3) + PATIENT.suppress_interval
    machine.on_message(LEADER, Announcement(3, 9), ms(4))  # It lives after all.
    assert machine.leader == LEADER
    assert [e.fact for e in out.effects if hasattr(e, "fact")][-1] == LeaderElected(lost.fact.term)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("my_standing", "claimed_before", "leader", "status"),
    [
        (1, ms(15), NodeId("third"), Stance.FOLLOWING),  # T_S is 20 ms: it saw the end before I did.
        (5, ms(15), MEMBER, Stance.WAITING),  # I am better, and contend.
        (1, ms(25), MEMBER, Stance.WAITING),  # Long ago: whoever it was has yielded since.
    ],
)
def test_whoever_claimed_just_before_i_saw_the_leader_gone_is_heard(
    my_standing: int, claimed_before: int, leader: NodeId, status: Stance
) -> None:
    machine = Announce(MEMBER, PATIENT, RecordingOut(), Random(1), standing=my_standing)
    machine.start(0)
    machine.on_message(LEADER, Announcement(3, 9), ms(1))
    gone_at = ms(100)
    machine.on_message(NodeId("second"), Announcement(4, 2), gone_at - claimed_before)
    machine.on_message(NodeId("third"), Announcement(4, 3), gone_at - claimed_before)
    machine.on_message(NodeId("fourth"), Announcement(4, 2), gone_at - claimed_before)
    assert machine.leader == LEADER
    machine.on_link_broken(LinkBroken(LEADER, Incarnation(5), gone=True), gone_at)
    assert (machine.leader, machine.status) == (leader, status)


def test_swim_suspects_and_pings_at_once_and_hears_the_refutation() -> None:
    out = RecordingOut()
    known = Acquaintances([Member(node=LEADER, incarnation=Incarnation(5), address=Address("127.0.0.1", 9))])
    machine = Swim(MEMBER, SwimConfig(), out, Random(1), known=known)
    machine.start(0)
    before = len(out.effects)
    machine.on_link_broken(LinkBroken(LEADER, Incarnation(5)), ms(2))
    told = out.effects[before:]
    pings = [effect.message for effect in told if isinstance(effect, Send)]
    assert [type(ping) for ping in pings] == [Ping]
    assert [(u.node, u.word) for u in pings[0].updates if u.node == LEADER] == [(LEADER, Word.SUSPECTED)]
    assert machine.view[LEADER].status is Status.SUSPECTED
    assert isinstance(told[-1].fact, ViewChanged)  # type: ignore[union-attr]
    before = len(out.effects)
    machine.on_link_broken(LinkBroken(NodeId("stranger"), Incarnation(5), gone=True), ms(2))
    assert len(out.effects) == before


def test_swim_gives_one_who_is_gone_no_longer_than_an_ack_takes() -> None:
    def suspect_after(fact: LinkBroken, wait: int) -> Status:
        out = RecordingOut()
        known = Acquaintances([Member(node=LEADER, incarnation=Incarnation(7), address=Address("127.0.0.1", 9))])
        machine = Swim(MEMBER, SwimConfig(), out, Random(1), known=known)
        machine.start(0)
        machine.on_link_broken(fact, ms(2))
        overdue = [e for e in out.effects if isinstance(e, SetTimer) and isinstance(e.timer, SuspicionExpires)]
        for effect in overdue:
            if effect.at <= ms(2) + wait:
                machine.on_timer(effect.timer, effect.at)
        return machine.view[LEADER].status

    patience = SwimConfig().ack_timeout
    assert (
        suspect_after(LinkBroken(LEADER, Incarnation(5), gone=True), patience) is Status.FAILED
    )  # 7: it refuted twice.
    assert suspect_after(LinkBroken(LEADER, Incarnation(5), gone=True), patience - 1) is Status.SUSPECTED
    assert suspect_after(LinkBroken(LEADER, Incarnation(5)), patience) is Status.SUSPECTED
    assert suspect_after(LinkBroken(LEADER, Incarnation(8), gone=True), patience) is Status.SUSPECTED  # Another life.


def test_pole_elects_at_once_when_its_leader_is_gone_and_grants_nobody_before_the_lease_is_over() -> None:
    config = PoleConfig()
    out = RecordingOut()
    voters = (LEADER, MEMBER, NodeId("third"))
    machine = Pole(
        MEMBER, config, out, Random(1), voters=voters, newcomer=True, durable=False, score=lambda epoch, gone: (1.0,)
    )
    machine.start(0)
    beat = Heartbeat(epoch=5, number=1, acting=True)
    machine.on_message(LEADER, beat, seconds(30))
    assert machine.leader == LEADER
    before = len(out.effects)
    machine.on_link_broken(LinkBroken(LEADER, Incarnation(5)), seconds(31))
    assert len(out.effects) == before  # The connection alone may have died.
    bound_until = machine.voter.bound_until
    assert bound_until > seconds(31)
    machine.on_link_broken(LinkBroken(LEADER, Incarnation(5), gone=True), seconds(31))
    facts = [effect.fact for effect in out.effects[before:] if isinstance(effect, Emit)]
    assert [fact.reason for fact in facts if isinstance(fact, LeaderLost)] == ["gone"]
    assert any(isinstance(effect, Multicast) for effect in out.effects[before:])  # It proposes.
    assert machine.voter.bound_until == bound_until and machine.voter.free_at(NodeId("third")) >= bound_until
