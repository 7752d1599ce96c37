"""A node's life on real sockets: what it says before and after, what stays when something fails, who may stop it."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import pytest

import doyen
from doyen.core.machine import Hears
from doyen.election.announce.messages import Bye
from doyen.errors import ConfigError, LeadershipLost, LocalProtocolError, TransportError
from doyen.node import scoring
from doyen.node.events import Subscription

pytestmark = pytest.mark.live


def alone(name: str = "a", **fields: Any) -> doyen.Node:
    """Elected at once, without a lease."""
    given = {"name": name, "preset": "local", "election": "le-a", "leave_on_sigterm": False, **fields}
    return doyen.join("life", **given)


def leased(name: str = "a", voters: tuple[str, ...] = ("a",), **fields: Any) -> doyen.Node:
    return alone(name, election="pole", voters=voters, volatile=True, **fields)


def overrun(node: doyen.Node) -> None:
    """Nothing runs until the lease is over."""
    until = node.own_election.lease_until()
    assert until is not None
    time.sleep((until - node.clock()) / 1e9 + 0.02)


def test_the_package_is_marked_as_typed() -> None:
    assert files("doyen").joinpath("py.typed").is_file()


# Before, twice, after.


def test_a_node_that_has_not_joined_says_so() -> None:
    node = alone()
    asks: list[Callable[[], Any]] = [
        node.members,
        lambda: node.leader,
        node.lead,
        node.events,
        lambda: node.election("x"),
    ]
    for ask in asks:
        with pytest.raises(LocalProtocolError, match="not joined yet: async with"):
            ask()
    assert not node.is_leader
    assert not node.running
    asyncio.run(node.leave())


def test_a_node_joins_once() -> None:
    async def main() -> None:
        async with alone() as node:
            with pytest.raises(LocalProtocolError, match="joins once"):
                await node.__aenter__()
        with pytest.raises(LocalProtocolError, match="joins once"):
            await node.__aenter__()

    asyncio.run(main())


def test_who_asks_a_node_that_has_left_does_not_wait_for_ever() -> None:
    async def main() -> None:
        async with alone() as node, node.lead(timeout=5):
            pass
        async with asyncio.timeout(5):
            assert [event async for event in node.events()] == []
            assert [term async for term in node.terms()] == []
            with pytest.raises(LocalProtocolError, match="has left"):
                await node.lead().__aenter__()
            with pytest.raises(LocalProtocolError, match="has left"):
                await node.resign()
            with pytest.raises(LocalProtocolError, match="has left"):
                node.election("late")

    asyncio.run(main())


class Failing:
    """A machine whose first step fails."""

    MESSAGES = Bye
    HEARS: ClassVar[Hears] = {}

    def on_message(self, sender: str, message: Any, now: int) -> None: ...

    def on_timer(self, timer: Any, now: int) -> None: ...

    def start(self, now: int) -> None:
        raise OSError("the disk is gone")


def test_whoever_waits_on_a_node_that_fails_is_told() -> None:
    async def main() -> None:
        async with leased("b", voters=("a", "b", "c")) as node:

            async def events() -> list[str]:
                return [event.reason async for event in node.events() if not event.already]

            async def terms() -> None:
                async for _ in node.terms():
                    pass

            waiting = [asyncio.create_task(work) for work in (events(), terms(), node.lead().__aenter__())]
            await asyncio.sleep(0.01)
            node.agent.driver.add("failing", lambda port: Failing())
            async with asyncio.timeout(5):
                said, *raised = await asyncio.gather(*waiting, return_exceptions=True)
            assert said == ["failed: the disk is gone"]
            for error in raised:
                assert isinstance(error, TransportError)
                assert "the disk is gone" in str(error)

    asyncio.run(main())


def test_a_reader_of_events_that_goes_away_is_forgotten() -> None:
    async def main() -> None:
        async with alone() as node:
            node.events()  # Never begun.
            events = node.events()

            async def read(events: AsyncIterator[Any]) -> None:
                async for _ in events:
                    pass

            reading = asyncio.create_task(read(events))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            del events, reading
            await asyncio.sleep(0)  # The loop closes generators that are collected.
            gc.collect()
            assert not [found for found in gc.get_objects() if isinstance(found, Subscription)]

    asyncio.run(main())


def test_another_loop_is_refused() -> None:
    async def main() -> None:
        async with leased("b", voters=("a", "b", "c")) as node:
            with pytest.raises(LocalProtocolError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, node.lead().__aenter__())

    asyncio.run(main())


# What does not come to be leaves nothing.


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"interface": "nope0", "multicast": "239.9.9.9:7699"}, "no interface 'nope0'"),
        ({"bind": "203.0.113.9:7600"}, "no such address"),
        ({"key": "/nonexistent"}, "doyen keys new"),
        ({"bind": "taken"}, "the port is taken"),
    ],
)
def test_a_node_that_cannot_join_leaves_nothing_open(fields: dict[str, Any], said: str) -> None:
    async def main() -> None:
        async with alone("other") as other:
            given = {"bind": other.address} if fields.get("bind") == "taken" else fields
            with pytest.raises(doyen.DoyenError, match=said):
                await alone(**given).__aenter__()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
        asyncio.run(main())
        gc.collect()
        assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, files)


def test_a_join_that_is_cancelled_leaves_nothing_open() -> None:
    async def never() -> float:
        await asyncio.sleep(60)
        return 1.0

    async def main() -> None:
        node = alone(score=never)
        joining = asyncio.create_task(node.__aenter__())
        while not node.running:
            await asyncio.sleep(0.005)
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        assert not node.running
        assert not node.agent.driver.transport.is_open
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_join_may_be_cancelled_at_any_step() -> None:
    async def cancelled_after(steps: int) -> bool:
        """Whether the join was still under way."""
        node = alone(http="127.0.0.1:0")
        joining = asyncio.create_task(node.__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        if joining.done():
            await node.leave()
            return False
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        assert not node.running
        return True

    steps = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # What was left open says so when it is collected.
        while asyncio.run(cancelled_after(steps)):
            gc.collect()
            steps += 1
    assert steps > 3


def test_a_score_that_never_comes_does_not_keep_a_node_from_leading(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "FIRST_PATIENCE_S", 0.05)
    asked = []

    async def never() -> float:
        asked.append(1)
        await asyncio.sleep(60)
        return 1.0

    async def main() -> None:
        async with alone(score=never, score_every="10ms") as node, node.lead(timeout=5):
            await asyncio.sleep(0.05)

    asyncio.run(main())
    assert len(asked) == 1  # Never twice at once.
    assert "no score within" in caplog.text


def test_a_score_that_is_no_number_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with alone(score=lambda: float("nan"), score_every="5ms") as node, node.lead(timeout=5):
            await asyncio.sleep(0.05)

    asyncio.run(main())
    assert caplog.text.count("a score is a finite number, not nan") == 1


# Bodies.


def test_what_ends_a_body_does_not_cancel_what_comes_after_it() -> None:
    async def main() -> None:
        async with alone() as node:
            async with node.lead(timeout=5) as term:
                await node.resign(cooldown="1ms")
            await asyncio.sleep(0)
            assert term.lost
            with pytest.raises(LeadershipLost):  # noqa: PT012
                async with node.lead(timeout=5):
                    await node.resign(cooldown="1ms")
                    await asyncio.sleep(60)  # No longer its business.
            async for late in node.terms():
                await node.resign(cooldown="1ms")
                async with late:
                    pass
                await asyncio.sleep(0)
                break

    asyncio.run(main())


def test_a_body_that_never_pauses_beyond_its_lease_is_told_so() -> None:
    async def main() -> None:
        async with leased() as node:
            with pytest.raises(LeadershipLost, match="lease over"):  # noqa: PT012
                async with node.lead(timeout=5):
                    overrun(node)
                    assert not node.is_leader

    asyncio.run(main())


def test_a_cancellation_from_outside_wins_over_the_loss_of_leadership() -> None:
    async def main() -> None:
        async with alone() as node:
            acting = asyncio.Event()

            async def work() -> None:
                async with node.lead(timeout=5):
                    acting.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await acting.wait()
            task.cancel()
            await node.resign(cooldown="1s")
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_nested_bodies_end_together() -> None:
    async def main() -> None:
        async with alone() as node:
            with pytest.raises(LeadershipLost):  # noqa: PT012
                async with node.lead(timeout=5), node.lead(timeout=5):
                    resigning = asyncio.create_task(node.resign(cooldown="1s"))
                    await asyncio.sleep(60)
            await resigning

    asyncio.run(main())


def test_bodies_have_ended_before_the_others_are_told() -> None:
    async def main() -> None:
        order: list[str] = []
        async with leased() as node:
            acting = asyncio.Event()

            async def work() -> None:
                async with node.lead(timeout=5):
                    try:
                        acting.set()
                        await asyncio.sleep(60)
                    finally:
                        await asyncio.sleep(0.05)
                        order.append("cleaned")

            task = asyncio.create_task(work())
            await acting.wait()
            node.agent.driver.on_close(lambda: order.append("silent"))
            await node.leave()
            assert order == ["cleaned", "silent"]
            with pytest.raises(LeadershipLost, match="left"):
                await task

    asyncio.run(main())


def test_who_resigns_has_stopped_before_the_next_begins_and_a_mistaken_heir_stops_nobody() -> None:
    order: list[str] = []

    async def lead(node: doyen.Node) -> None:
        async for term in node.terms():
            async with term:
                order.append(f"{node.name} begins")
                try:
                    await asyncio.sleep(60)
                finally:
                    await asyncio.sleep(0.05)
                    order.append(f"{node.name} has ended")

    async def main() -> None:
        voters = ("a", "b")
        async with leased(voters=voters) as a, leased("b", voters=voters, seeds=[a.address]) as b:
            bodies = [asyncio.create_task(lead(node)) for node in (a, b)]
            while not order:
                await asyncio.sleep(0.005)
            first, second = (a, b) if a.is_leader else (b, a)
            with pytest.raises(LocalProtocolError, match="not another voter"):
                await first.resign(to="nobody")
            await asyncio.gather(first.resign(), first.resign())
            while len(order) < 3:
                await asyncio.sleep(0.005)
            assert order == [f"{first.name} begins", f"{first.name} has ended", f"{second.name} begins"]
            for body in bodies:
                body.cancel()
            await asyncio.gather(*bodies, return_exceptions=True)

    asyncio.run(main())


def test_a_part_of_a_body_may_resign() -> None:
    async def main() -> None:
        async with alone() as node:
            with pytest.raises(LeadershipLost):  # noqa: PT012
                async with node.lead(timeout=5), asyncio.TaskGroup() as group:
                    group.create_task(node.resign(cooldown="10s"))
                    await asyncio.sleep(60)
            while node.leader is not None:
                await asyncio.sleep(0.005)
            assert not node.is_leader

    asyncio.run(main())


def test_a_body_that_leaves_while_it_is_stopped_is_not_waited_for() -> None:
    async def main() -> None:
        async with leased() as node:
            acting = asyncio.Event()

            async def work() -> None:
                async with node.lead(timeout=5):
                    try:
                        acting.set()
                        await asyncio.sleep(60)
                    finally:
                        await node.leave()

            task = asyncio.create_task(work())
            await acting.wait()
            async with asyncio.timeout(2):
                await node.leave()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_the_last_cooldown_counts() -> None:
    async def main() -> None:
        async with alone() as node:
            for cooldown in ("20ms", "inf"):
                async with node.lead(timeout=5):
                    await node.resign(cooldown=cooldown)
            with pytest.raises(TimeoutError):
                await node.lead(timeout="100ms").__aenter__()
            for bad in ("soon", None):
                with pytest.raises(ConfigError, match="not a duration"):
                    await node.resign(cooldown=bad)  # type: ignore[arg-type]

    asyncio.run(main())


# Elections that begin later.


def test_an_election_that_begins_later_is_checked_and_hears_the_score() -> None:
    async def main() -> None:
        async with alone(score=7.0) as node:
            late = node.election("late", doyen.Announce())
            assert node.agent.stack.reigns["late"].machine.standing == 7.0
            assert node.election("late") is late
            with pytest.raises(LocalProtocolError, match=r"is fast \(announce\) here, not le-m"):
                node.election("late", doyen.AnnounceEarliest())
            with pytest.raises(ConfigError, match="'democracy' is not installed"):
                node.election("mail", "democracy")
            with pytest.raises(ConfigError, match="voters"):
                node.election("mail", "pole")
            with pytest.raises(ConfigError, match="1 to 32 bytes"):
                node.election("x" * 33)
            with pytest.raises(ConfigError, match="given when it joins"):
                node.election("mail", doyen.Announce(announce_interval="1s"))

    asyncio.run(main())


def test_what_a_file_says_holds_unless_something_else_is_given(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(
        'preset = "wan"\nelection = "pole"\nmembership = "swim"\nvoters = ["a", "b"]\nvolatile = true\n'
        'seeds = ["10.0.0.2:7600"]\neligible = false\nelections = ["mail=le-s"]\nnewcomer = true\n'
    )
    said = doyen.join("orders", config=file).config
    assert (said.preset, said.election, said.membership, said.voters) == ("wan", "pole", "swim", ("a", "b"))
    assert (said.seeds, said.eligible, said.elections, said.newcomer) == (
        ("10.0.0.2:7600",),
        False,
        ("mail=le-s",),
        True,
    )
    given = doyen.join("orders", config=file, election="hybrid", eligible=True, seeds=["10.0.0.3"]).config
    assert (given.election, given.eligible, given.seeds, given.preset) == ("hybrid", True, ("10.0.0.3",), "wan")
    plain = doyen.join("orders").config
    assert (plain.election, plain.eligible, plain.preset, plain.membership) == ("hybrid", True, "lan", "auto")


def test_what_two_choices_say_of_one_table_must_agree_and_is_taken_from_nobody() -> None:
    mine = {"announce_interval": "1s"}
    node = doyen.join("g", preset="local", announce=mine, election=doyen.Announce(group_size=3))
    assert mine == {"announce_interval": "1s"}
    assert node.config.tables["announce"].announce_interval == 1_000_000_000
    slow, quick = doyen.Announce(announce_interval="2s"), doyen.Announce(announce_interval="1s")
    with pytest.raises(ConfigError, match="announce_interval is '2s' already"):
        doyen.join("g", preset="local", elections={"a": slow, "b": quick})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"seeds": "10.0.0.2"}, "seeds must be several: give \\['10.0.0.2'\\]"),
        ({"seeds": None}, "seeds must be several"),
        ({"voters": "abc"}, "voters must be several"),
        ({"elections": "mail"}, "elections must be several"),
        ({"score": "fast"}, "score 'fast' is not a score"),
        ({"score": float("nan")}, "score nan is not a score"),
        ({"score": [3]}, "3 is no part of a score"),
        ({"score_every": 0}, "score_every 0 is too often"),
        ({"meta": {"cores": 8}}, "meta must have words for words"),
        ({"meta": ["zone=eu"]}, "meta must have words for words"),
        ({"meta": {"a=b": "c"}}, "meta has a key"),
        ({"state": 3}, "state must be a path"),
    ],
)
def test_arguments_that_make_no_sense_are_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        doyen.join("g", **fields)


# SIGTERM and forks, in processes of their own.

PROGRAM = """
import asyncio, multiprocessing, os, signal, sys, threading, time, warnings
import doyen
warnings.simplefilter("ignore")  # Of forks in programs of threads.
def join(name="a"):
    return doyen.join(f"of-{name}", name=name, preset="local", election="le-a")
def sync_join(name="a"):
    return doyen.sync.join(f"of-{name}", name=name, preset="local", election="le-a")
def tell(node):
    getattr(node, "_node", node).agent.driver.on_close(lambda: print("left", node.name, flush=True))
"""
ASYNC = """
async def main():
{}
asyncio.run(main())
"""


def run(body: str, *, of_async: bool, sends: bool = True) -> tuple[int, list[str]]:
    """The program's end and what it said; it is sent SIGTERM once it says so."""
    code = PROGRAM + (ASYNC.format(body) if of_async else "if True:\n" + body)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if sends:
            assert process.stdout.readline() == "in\n"
            process.send_signal(signal.SIGTERM)
        try:
            said = process.communicate(timeout=60)[0].split("\n")[:-1]
            return process.returncode, said
        finally:
            process.kill()


def test_every_node_of_a_process_leaves_on_sigterm_and_bodies_come_to_their_end() -> None:
    body = """
    async with join("b") as b:
        async with join("c"):
            pass  # It takes no handler along when it goes.
        async with join("a") as a, a.lead():
            tell(a), tell(b)
            print("in", flush=True)
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.05)
                print("cleaned", flush=True)
    """
    code, said = run(body, of_async=True)
    assert (code, said[0], sorted(said)) == (-signal.SIGTERM, "left b", ["cleaned", "left a", "left b"])
    assert said.index("cleaned") < said.index("left a")


def test_what_surrounds_a_node_of_an_event_loop_unwinds_on_sigterm() -> None:
    body = """
    try:
        async with join("a") as a:
            tell(a)
            try:
                print("in", flush=True)
                await asyncio.sleep(60)
            finally:
                print("cleaned")
    finally:
        print("closed")
    """
    assert run(body, of_async=True) == (-signal.SIGTERM, ["left a", "cleaned", "closed"])


def test_a_body_of_threads_unwinds_on_sigterm_and_then_its_nodes_leave() -> None:
    body = """
    try:
        with sync_join("a") as a, sync_join("b") as b, a.lead():
            tell(a), tell(b)
            try:
                print("in", flush=True)
                time.sleep(60)
            finally:
                time.sleep(0.05)
                print("cleaned", a.is_leader)
    finally:
        print("closed")
    """
    assert run(body, of_async=False) == (-signal.SIGTERM, ["cleaned True", "left b", "left a", "closed"])


def test_a_node_of_threads_that_no_with_surrounds_leaves_when_the_interpreter_ends() -> None:
    body = """
    node = sync_join("a").__enter__()
    tell(node)
    worker = threading.Thread(target=lambda: [term.wait_lost() for term in node.terms()], daemon=True)
    worker.start()
    try:
        print("in", flush=True)
        while True:  # Python overlooks a signal that comes between its last look and a wait without an end.
            worker.join(0.1)
    except SystemExit as end:
        print("ending", end.code)
        raise
    """
    assert run(body, of_async=False) == (-signal.SIGTERM, ["ending 143", "left a"])


def test_a_handler_that_the_program_sets_later_stays_its_own() -> None:
    body = """
    asked = asyncio.Event()
    async with join() as node:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        await node.leave()
        print("in", flush=True)
        await asked.wait()
        print("mine", flush=True)
    """
    assert run(body, of_async=True) == (0, ["mine"])


@pytest.mark.parametrize("of_async", [True, False])
def test_a_fork_is_no_member_and_ends_on_sigterm_alone(of_async: bool) -> None:
    body = """
    {with_} as node:
        {lead} as term: pass
        fork = multiprocessing.get_context("fork")
        begun = fork.Event()
        child = fork.Process(target=lambda: (begun.set(), time.sleep(60)))
        child.start()
        begun.wait()
        child.terminate()
        child.join(20)
        print(child.exitcode, node.is_leader, flush=True)
        if os.fork() == 0:
            print(node.is_leader, node.running, flush=True)
            os._exit(0)
        os.wait()
        print(node.is_leader, flush=True)
    """
    words = (
        {"with_": "async with join()", "lead": "async with node.lead()"}
        if of_async
        else {"with_": "with sync_join()", "lead": "with node.lead()"}
    )
    code, said = run(body.format(**words), of_async=of_async, sends=False)
    assert (code, said) == (0, [f"{-signal.SIGTERM} True", "False False", "True"])
