"""The gate before a node's first act, one instant at a time."""

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from doyen.core.clock import FOREVER, Duration, ms, seconds
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId, Term
from doyen.core.leadership import LeaderElected
from doyen.net.keys import Keyring, new_key, write_keys
from doyen.net.sealed import Seal
from doyen.node.agent import Agent
from doyen.node.config import NodeConfig
from doyen.node.gate import Gate, Seen
from doyen.node.gatekeeper import WARN_AFTER, Gatekeeper
from doyen.node.registry import find_election
from doyen.node.reign import Reign

SETTLE, NOTICE, ALONE = ms(200), seconds(3), seconds(10)
TWO = Seen(present_count=2)


def gate(*, alone_after: Duration = ALONE, expect: int = 0, quorum: bool = False) -> Gate:
    return Gate(0, settle=SETTLE, notice=NOTICE, alone_after=alone_after, expect=expect, quorum=quorum)


def test_whoever_knows_of_nobody_acts_as_soon_as_it_is_named_and_is_said_to_be_alone() -> None:
    made = gate()
    assert not made.look(seconds(2), Seen())  # Nobody is named.
    made.named(seconds(2), leader=True)
    assert made.look(seconds(2), Seen()) and made.open
    assert made.alone == "nobody was found"
    assert not made.look(seconds(3), Seen(silent_seeds=("host",)))  # It opens once, for good.
    assert made.open


def test_what_a_person_can_mend_has_advice_and_what_passes_by_itself_has_none() -> None:
    made = gate(expect=3)
    made.named(0, leader=True)
    made.look(0, TWO)
    assert made.why == "2 of the 3 members expected answer" and "--expect" in made.advice
    made.look(0, Seen(present_count=3, silent_seeds=("host",)))
    assert "seed host" in made.why and "--seed HOST" in made.advice
    made.look(0, Seen(present_count=3))
    assert made.calms and not made.advice
    made.look(NOTICE, TWO)
    assert made.open and not made.why + made.advice


def test_a_leader_that_waits_for_long_is_warned_about_once() -> None:
    said: list[str] = []
    driver: Any = SimpleNamespace(on_close=lambda closer: None, running=False)
    gates = Gatekeeper(
        driver,
        NodeConfig(group="g", expect=3),
        lambda election: TWO,
        on_open=lambda reign, gate, now: None,
        on_wait=lambda reign, why, now: said.append(why),
        on_long_wait=lambda reign, gate: said.append(gate.advice),
    )
    reign = Reign("", "election", find_election("gossip"), NodeId("ant"))
    stack: Any = SimpleNamespace(reigns={"": reign})
    gates.look(stack, 0)
    assert said == [] and reign.acts(0) is None
    reign.note(LeaderElected(Term(1, NodeId("ant"))), 0)
    for now in (0, WARN_AFTER - 1, WARN_AFTER, 2 * WARN_AFTER):
        gates.look(stack, now)
        assert len(said) == 1 + (now >= WARN_AFTER)
    assert "2 of the 3" in said[0] and "--expect" in said[1] and reign.acts(0) is False


def test_a_follower_counts_the_members_expected_and_warns_once() -> None:
    said: list[str] = []
    seen = [TWO]
    driver: Any = SimpleNamespace(on_close=lambda closer: None, running=False)
    gates = Gatekeeper(
        driver,
        NodeConfig(group="g", expect=3),
        lambda election: seen[0],
        on_open=lambda reign, gate, now: None,
        on_wait=lambda reign, why, now: said.append(why),
        on_long_wait=lambda reign, gate: said.append(gate.why),
    )
    reign = Reign("", "election", find_election("gossip"), NodeId("ant"))
    stack: Any = SimpleNamespace(reigns={"": reign})
    reign.note(LeaderElected(Term(1, NodeId("bee"))), 0)
    for now in (0, WARN_AFTER, 2 * WARN_AFTER):
        gates.look(stack, now)
    assert said == ["2 of the 3 members expected answer"]
    seen[0] = Seen(present_count=3)
    gates.look(stack, 3 * WARN_AFTER)
    seen[0] = Seen()
    reign.note(LeaderElected(Term(2, NodeId("ant"))), 4 * WARN_AFTER)
    assert reign.gate is not None
    reign.gate.named(4 * WARN_AFTER, leader=True)
    gates.look(stack, 5 * WARN_AFTER)
    assert reign.gate.open, "three answered at the same time, and it followed then"


def test_among_others_a_leader_settles_and_every_change_begins_it_anew() -> None:
    made = gate()
    made.named(0, leader=True)
    assert not made.look(SETTLE - 1, TWO) and made.calms
    made.joined(SETTLE - 1)
    assert not made.look(SETTLE, TWO)
    made.named(SETTLE + 1, leader=True)
    assert not made.look(2 * SETTLE, TWO)
    assert made.look(2 * SETTLE + 1, TWO) and not made.alone


def test_a_leader_that_meets_its_seeds_late_waits_until_they_must_have_met_it() -> None:
    """Three hosts whose network came up late: one heard the others .7 s before they put it on their lists."""
    late, soon = gate(), gate()
    late.named(0, leader=True)
    for made in (late, soon):
        made.look(0, Seen(silent_seeds=("host",)))
        made.look(seconds(1), TWO)
    soon.named(seconds(1), leader=True)
    assert not late.look(seconds(1) + NOTICE - 1, TWO) and late.calms
    assert late.look(seconds(1) + NOTICE, TWO)
    assert soon.look(seconds(1) + SETTLE, TWO), "nobody was named before they met"


def test_where_others_may_hear_a_multicast_the_first_leader_settles_too() -> None:
    made = gate()
    made.named(0, leader=True)
    assert not made.look(1, Seen(calls=True))
    assert made.look(SETTLE, Seen(calls=True))


def test_a_follower_that_was_in_for_long_enough_takes_over_at_once() -> None:
    made = gate()
    made.named(0, leader=True)
    assert made.look(SETTLE, TWO)  # Before the fact that the leader is gone.
    made.named(SETTLE, leader=False)
    made.named(SETTLE, leader=True)
    assert made.open


def test_a_follower_whose_leader_was_lost_too_soon_settles_again() -> None:
    made = gate()
    made.named(0, leader=True)
    assert not made.look(1, TWO)
    made.named(1, leader=False)
    assert not made.look(SETTLE + 1, TWO)
    made.named(SETTLE + 2, leader=True)
    assert not made.look(SETTLE + 3, TWO)
    assert made.look(2 * SETTLE + 2, TWO)


def test_silent_seeds_are_waited_for_and_named() -> None:
    made = gate()
    silent = Seen(silent_seeds=("host-a", "host-b:7600"))
    made.named(seconds(1), leader=True)
    assert not made.look(ALONE - 1, silent) and not made.calms
    assert made.why == "no answer yet from seed host-a, host-b:7600; it waits up to 10s (alone_after)"
    assert made.look(ALONE, silent)
    assert made.alone == "seed host-a, host-b:7600 did not answer within 10s"


def test_an_answer_ends_the_wait() -> None:
    made = gate(alone_after=FOREVER)
    made.named(0, leader=True)
    assert not made.look(seconds(3600), Seen(silent_seeds=("host",))) and "forever" in made.why
    assert not made.look(seconds(3600), TWO) and made.calms  # It may have begun an election of its own.
    assert made.look(seconds(3600) + NOTICE, TWO) and not made.alone


def test_whoever_answers_late_may_be_a_rival() -> None:
    made = gate()
    made.named(0, leader=True)
    assert not made.look(seconds(3), Seen(silent_seeds=("host",)))
    heard = Seen(met_others=True)  # Its first datagram has come, and it is on no list yet.
    assert not made.look(seconds(3) + 1, heard) and made.calms
    assert made.look(seconds(3) + 1 + NOTICE, TWO)


def test_a_process_of_this_machine_that_has_not_answered_is_waited_for_too() -> None:
    made = gate()
    made.named(0, leader=True)
    assert not made.look(SETTLE, Seen(present_count=2, silent_here=("cat",)))
    assert made.why.startswith("no answer yet from cat on this machine")
    assert not made.look(SETTLE + 1, Seen(present_count=3)) and made.calms
    assert made.look(2 * SETTLE + 1, Seen(present_count=3))


def test_so_many_members_must_answer_at_the_same_time_once() -> None:
    made = gate(expect=3)
    made.named(0, leader=True)
    assert not made.look(seconds(60), TWO)
    assert made.why == "2 of the 3 members expected answer"
    assert made.look(seconds(61), Seen(present_count=3))
    met = gate(expect=3)
    assert not met.look(1, Seen(present_count=3))  # Nobody is named.
    met.named(2, leader=True)
    assert met.look(2 + SETTLE, TWO)  # Once is enough: it is no quorum.


def test_a_quorum_needs_no_gate_but_the_number_expected() -> None:
    assert gate(quorum=True).open
    made = gate(quorum=True, expect=2)
    made.named(0, leader=True)
    assert not made.look(1, Seen(silent_seeds=("host",)))
    assert made.look(2, Seen(present_count=2, silent_seeds=("host",))) and not made.alone


def test_whoever_hears_an_earlier_process_of_its_name_does_not_act() -> None:
    made = gate()
    made.named(0, leader=True)
    assert not made.look(SETTLE, Seen(namesake=True)) and "another process has its name" in made.why
    assert made.look(2 * SETTLE, Seen())


def test_without_a_list_of_members_only_those_count_that_were_heard_lately() -> None:
    async def main() -> None:
        agent = Agent(NodeConfig(group="g", name="ant", election="announce", expect=3, find_local=False))
        await agent.start()
        try:
            now, book = agent.driver.clock(), agent.driver.addresses
            book.heard(NodeId("bee"), Incarnation(1), Address("127.0.0.1", 9), now - seconds(60))
            book.heard(NodeId("cat"), Incarnation(1), Address("127.0.0.1", 10), now)
            assert agent.reign is not None
            gate = agent.awaited(agent.reign)
            assert gate is not None and gate.why == "2 of the 3 members expected answer"
            book.heard(NodeId("bee"), Incarnation(1), Address("127.0.0.1", 9), now)
            gate = agent.awaited(agent.reign)
            assert gate is not None and gate.met
        finally:
            agent.driver.close()

    asyncio.run(main())


def test_whoever_runs_something_else_and_may_act_is_let_act_and_an_earlier_one_up_to_alone_after() -> None:
    made, differs = gate(), "bee runs fast, this node runs gossip: give both the same"
    made.named(0, leader=True)
    for now in (0, ALONE, 9 * ALONE):
        assert not made.look(now, Seen(acting=(differs,)))
        assert (
            made.defers and made.why == "bee runs fast, this node runs gossip" and made.advice == "give both the same"
        )
    assert not made.look(9 * ALONE, Seen(present_count=2, met_others=True)) and made.calms and not made.defers
    assert made.look(9 * ALONE + SETTLE, TWO)
    younger = gate()
    younger.named(0, leader=True)
    assert not younger.look(ALONE - 1, Seen(earlier=(differs, differs))) and "1 more" in younger.why
    assert not younger.look(ALONE, Seen(earlier=(differs,), met_others=True)) and younger.calms
    assert younger.look(ALONE + SETTLE, Seen(earlier=(differs,), met_others=True))
    assert gate(quorum=True).open, "a quorum has a majority behind it, whoever else is there"


def test_nobody_can_keep_a_node_that_has_a_key_from_acting_by_packets_that_it_cannot_read(tmp_path: Path) -> None:
    write_keys(tmp_path / "key", [new_key()])
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stranger.bind(("127.0.0.1", 0))
    seed = Address(*stranger.getsockname())
    clear = Codec("g").encode(NodeId("bee"), Incarnation(1), "m", ["whatever"])
    sealed = Seal(Keyring([new_key()]), "g").seal(clear, seed)

    async def main(key_file: str) -> tuple[str, ...]:
        agent = Agent(NodeConfig(group="g", name="ant", seeds=(str(seed),), key_file=key_file, find_local=False))
        await agent.start()
        try:
            here = agent.driver.transport.address
            for data in (clear, sealed):
                stranger.sendto(data, (here.host, here.port))
            while not agent.driver.refused["key"]:
                await asyncio.sleep(0.001)
            assert set(agent.driver.addresses.unread) == {seed}
            return agent.sight.seen().acting
        finally:
            agent.driver.close()

    assert asyncio.run(main(str(tmp_path / "key"))) == ()
    (found,) = asyncio.run(main(""))
    assert found.startswith(f"seed {seed} has a key, this node has none: give all")
    stranger.close()
