"""`doyen.sync`: no call waits forever, whoever calls, whenever."""

import asyncio
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

import doyen
from doyen.errors import LeadershipLost, LocalProtocolError
from doyen.node.campaign import Campaign
from doyen.node.events import Event

pytestmark = pytest.mark.live


def alone(**fields: Any) -> doyen.sync.Node:
    return doyen.sync.join("sync", **{"name": "a", "preset": "local", "election": "le-a", **fields})


def never_elected() -> doyen.sync.Node:
    return alone(election="pole", voters=["a", "b", "c"], volatile=True)


def test_its_arguments_are_those_of_the_other() -> None:
    own, other = inspect.signature(doyen.sync.join), inspect.signature(doyen.join)
    assert own.parameters == other.parameters and own.return_annotation is doyen.sync.Node
    names = {name for name in dir(doyen.sync.Node) if not name.startswith("_")}
    assert names >= {"lead", "terms", "members", "leader", "is_leader", "events", "term", "resign", "leave", "election"}
    assert names >= {"explain", "tell", "failure", "running", "name", "group", "address"}


def test_a_node_that_has_not_joined_says_so_and_has_opened_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        node = alone()
        asks: list[Callable[[], Any]] = [
            node.members,
            node.explain,
            node.events,
            partial(getattr, node, "leader"),
            node.lead,
        ]
        for ask in asks:
            with pytest.raises(LocalProtocolError, match="not joined yet"):
                ask()
        with pytest.raises(LocalProtocolError, match="not joined yet"):
            print(node.leader)
        node.leave()
        del node, asks, ask
        gc.collect()


def test_a_node_that_has_left_answers_what_it_can_and_refuses_the_rest() -> None:
    with alone() as node, node.lead(timeout=5):
        pass
    assert [member.name for member in node.members()] == ["a"]
    assert "Nobody leads" in node.explain().sentence
    assert (list(node.events()), list(node.terms()), node.leave()) == ([], [], None)
    late: list[Callable[[], Any]] = [node.resign, node.lead().__enter__, lambda: node.tell({})]
    for ask in [*late, lambda: node.election("late")]:
        with pytest.raises(LocalProtocolError, match="has left"):
            ask()
    with pytest.raises(LocalProtocolError, match="joins once"):
        node.__enter__()


class Waiting:
    """How many tasks wait for an election to change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        original = Campaign.changed

        async def changed(campaign: Campaign) -> None:
            self.count += 1
            try:
                await original(campaign)
            finally:
                self.count -= 1

        monkeypatch.setattr(Campaign, "changed", changed)


def test_threads_that_wait_are_told_when_another_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    reading, campaigning = threading.Event(), Waiting(monkeypatch)

    def lead() -> None:
        try:
            node.lead().__enter__()
        except LocalProtocolError as error:
            said.append(str(error))

    def events() -> None:
        kinds = []
        for event in node.events():
            reading.set()  # It begins with what holds, and tells of the end from then on.
            kinds += [] if event.already else [event.kind]
        said.append(f"events ended, {kinds}")

    def terms() -> None:
        said.append(f"terms ended, {list(node.terms())}")

    with never_elected() as node:
        waiting = [threading.Thread(target=work) for work in (lead, events, terms)]
        for thread in waiting:
            thread.start()
        assert reading.wait(5)
        while campaigning.count < 2:
            threading.Event().wait(0.005)
    for thread in waiting:
        thread.join(5)
    left = "this node has left, it leads nothing any more: make another, doyen.join(…)"
    assert sorted(said) == ["events ended, ['stopped']", "terms ended, []", left]


def test_a_reader_ends_though_it_asks_while_the_loop_closes() -> None:
    def read(found: Iterator[Event]) -> None:
        for _ in found:
            pass

    for _ in range(30):
        with never_elected() as node:
            reader = threading.Thread(target=read, args=(node.events(),), daemon=True)
            reader.start()
        reader.join(10)
        assert not reader.is_alive()


def test_ctrl_c_ends_waiting_and_nothing_goes_on_waiting_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    campaigning = Waiting(monkeypatch)

    def interrupt() -> None:
        while not campaigning.count:
            threading.Event().wait(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    with never_elected() as node:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            node.lead().__enter__()
        node.members()  # A step of the loop later.
        assert campaigning.count == 0
    assert "doyen" not in {thread.name for thread in threading.enumerate()}


def test_a_score_function_may_look_at_its_node_but_not_wait_for_it() -> None:
    said: list[str] = []
    asked = threading.Event()

    def score() -> float:
        if not node.running:
            return 0.0
        try:
            node.resign()
        except LocalProtocolError as error:
            said.append(str(error))
        asked.set()
        return float(len(node.members()))

    node = alone(score=score, score_every="10ms")
    with node, node.lead(timeout=5):
        assert asked.wait(5)
    assert "wait for itself" in said[0]


def test_a_term_that_was_lost_before_anybody_looked_is_lost() -> None:
    async def main() -> None:
        async with doyen.join("late", name="a", preset="local", election="le-a", leave_on_sigterm=False) as node:
            term = await node.lead(5).win()
            await node.resign(cooldown="1s")
            late = doyen.sync.Term(term, cast(Any, None))  # Its loop is asked for nothing here.
            assert late.wait_lost(5)
            with pytest.raises(LeadershipLost):
                late.check()

    asyncio.run(main())


def test_what_nobody_closed_does_not_keep_the_interpreter_from_ending() -> None:
    code = (
        "import doyen\nnode = doyen.sync.join('end', name='a', preset='local', election='le-a').__enter__()\n"
        "terms, events = node.terms(), node.events()\nprint(next(terms).number)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr.startswith("a: leads 'end' alone: nobody was found") and done.stderr.count("\n") == 1


def test_a_thread_with_an_event_loop_of_its_own_may_use_it_too() -> None:
    async def main() -> int:
        with alone() as node, node.lead(timeout=20) as term:
            return term.number

    assert asyncio.run(main()) >= 1
