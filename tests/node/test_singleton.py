"""`@doyen.singleton`, and the callbacks `on_elected` and `on_lost`."""

import asyncio
import inspect
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import doyen
from doyen.errors import ConfigError, DoyenError, LeadershipLost, LocalProtocolError
from doyen.node.control import ask, find_node, local_nodes

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def _own_runtime_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))


def of_one(group: str = "one", election: str = "le-a") -> Any:
    return doyen.singleton(group, preset="local", election=election, leave_on_sigterm=False)


def resign(group: str) -> None:
    ask(find_node(group, None), "resign", cooldown="50ms")


# A function.


def test_it_keeps_its_name_and_returns_and_raises_what_the_function_does() -> None:
    @of_one()
    async def double(number: int, *, plus: int = 0) -> int:
        """Twice."""
        return 2 * number + plus + 0 * doyen.current_term().number

    @of_one()
    def fail(why: str) -> int:
        raise ValueError(why)

    assert asyncio.run(double(3, plus=1)) == 7
    assert (double.__name__, double.__doc__, inspect.iscoroutinefunction(double)) == ("double", "Twice.", True)
    with pytest.raises(ValueError, match="because"):
        fail("because")
    with pytest.raises(LocalProtocolError, match="no singleton runs here"):
        doyen.current_term()


def test_an_async_function_that_is_stopped_runs_again_from_its_beginning() -> None:
    numbers: list[int] = []
    begun = asyncio.Event()

    @of_one()
    async def work() -> str:
        numbers.append(doyen.current_term().number)
        begun.set()
        if len(numbers) == 1:
            await asyncio.sleep(60)
        return "done"

    async def main() -> str:
        working = asyncio.create_task(work())
        await begun.wait()
        await asyncio.to_thread(resign, "one")
        return await working

    assert asyncio.run(main()) == "done"
    assert len(numbers) == 2 and numbers[0] < numbers[1]


def test_a_plain_function_that_asks_runs_again_and_one_that_does_not_is_told_in_the_end() -> None:
    runs: list[str] = []

    def lose(times: int) -> None:
        if len(runs) <= times:
            resign("plain")  # Returns once this node no longer leads.

    @of_one("plain")
    def asks() -> int:
        runs.append("asks")
        lose(1)
        doyen.current_term().check()
        return len(runs)

    @of_one("plain")
    def does_not() -> None:
        runs.append("does not")
        lose(3)

    assert asks() == 2
    with pytest.raises(LeadershipLost):
        does_not()
    assert runs == ["asks", "asks", "does not"]


def test_calls_that_run_side_by_side_in_one_process_are_members_with_names_of_their_own() -> None:
    names: list[str] = []
    go = threading.Event()

    @of_one("pair", "le-m")  # Whoever leads before the other has come is not outranked by it.
    def work() -> None:
        names.append(doyen.current_term().leader)
        go.wait(20)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(local_nodes("pair")) == 2)
    go.set()
    for thread in threads:
        thread.join(20)
    work()
    first, second, third = names
    assert {second, first} == {third, f"{third}-2"}, "the name is free again"


@pytest.mark.parametrize(
    ("decorate", "complaint"),
    [
        (lambda: doyen.singleton(print), "give it in brackets"),  # type: ignore[arg-type]
        (lambda: doyen.singleton("g")(3), "cannot be a singleton"),  # type: ignore[arg-type]
        (lambda: doyen.singleton("g")(yields), "that returns"),
        (lambda: doyen.singleton("g", seed=["host"]), "do you mean seeds"),  # type: ignore[call-arg]
        (lambda: doyen.singleton("g", config="later.toml", nam="ant"), "do you mean name"),  # type: ignore[call-arg]
        (lambda: doyen.singleton("g", election="quorum"), "must name all members that vote"),
        (lambda: doyen.join("g", on_elected=3), "on_elected must be a function"),  # type: ignore[arg-type]
        (lambda: doyen.join("g", election="none", membership="swim", on_lost=print), "on_lost would never be called"),
    ],
)
def test_what_cannot_be_called_is_refused(decorate: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        decorate()


def yields() -> Iterator[int]:
    yield 1


# Callbacks.


def test_callbacks_are_called_in_turn_and_their_failures_do_not_kill_the_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: list[str] = []
    lost = asyncio.Event()

    async def on_elected(term: doyen.Term) -> None:
        said.append(f"elected {term.number} {node.is_leader}")
        await asyncio.sleep(60)  # Cancelled when leadership is lost.

    def on_lost(term: doyen.Term) -> None:
        said.append(f"lost {term.number} {term.lost}")
        lost.set()
        raise ValueError("a bug")

    node = doyen.join(
        "back", preset="local", election="le-a", leave_on_sigterm=False, on_elected=on_elected, on_lost=on_lost
    )

    async def main() -> None:
        async with node:
            async with asyncio.timeout(20):
                while len(said) < 1:
                    await asyncio.sleep(0.01)
                await node.resign(cooldown="50ms")
                while len(said) < 3:
                    await asyncio.sleep(0.01)
                assert node.running and node.failure is None
                said.append("leaves")

    with caplog.at_level(logging.ERROR, "doyen"):
        asyncio.run(main())
    first, second = (int(line.split()[1]) for line in (said[0], said[2]))
    assert first < second
    wanted = [f"elected {first} True", f"lost {first} True", f"elected {second} True", "leaves", f"lost {second} True"]
    assert said == wanted
    assert [record.message for record in caplog.records if "on_lost failed" in record.message]


def test_callbacks_of_threads_may_wait_for_their_node() -> None:
    said: list[Any] = []
    lost = threading.Event()

    def on_elected(term: doyen.sync.Term) -> None:
        said.append([member.name for member in node.members()])
        term.wait_lost(20)
        lost.set()

    node = doyen.sync.join(
        "threads", name="a", preset="local", election="le-a", leave_on_sigterm=False, on_elected=on_elected
    )
    with node:
        until(lambda: said)
    assert said == [["a"]]
    assert lost.wait(5)


# Processes.

PROGRAM = """
import asyncio, sys, time
import doyen
name, seed = sys.argv[1:]
fields = dict(name=name, preset="local", election="hybrid", bind=seed if name == "ant" else "127.0.0.1:0", seeds=[seed])
def say(*words):
    print(name, *words, flush=True)
"""
DECORATED = """
@doyen.singleton("programs", **fields)
def work():
    say("works")
    try:
        time.sleep(60)
    finally:
        say("cleans up")
work()
"""
CALLED_BACK = """
def on_elected(term):
    say("elected")
    raise ValueError("a bug")
async def on_lost(term):
    await asyncio.sleep(0.1)
    say("lost")
async def main():
    async with doyen.join("programs", on_elected=on_elected, on_lost=on_lost, **fields):
        await asyncio.sleep(60)
asyncio.run(main())
"""


@contextmanager
def program(body: str, name: str, seed: str, said: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with said.open("a") as out:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM + body, name, seed], stdout=out)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def until(holds: Callable[[], Any], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def member_count(name: str) -> int:
    try:
        return len(ask(find_node("programs", name), "members")["members"])
    except DoyenError:  # It has not begun yet.
        return 0


@pytest.mark.parametrize(
    ("body", "begins", "ends"), [(DECORATED, "works", "cleans up"), (CALLED_BACK, "elected", "lost")]
)
def test_of_two_programs_one_works_and_on_sigterm_the_other_begins_after_it_has_ended(
    tmp_path: Path, body: str, begins: str, ends: str
) -> None:
    said = tmp_path / "said"
    seed = f"127.0.0.1:{20_000 + os.getpid() % 10_000}"

    def lines() -> list[str]:
        return said.read_text().splitlines()

    with program(body, "ant", seed, said) as ant:
        until(lambda: lines() == [f"ant {begins}"])
        with program(body, "bee", seed, said) as bee:
            until(lambda: all(member_count(name) == 2 for name in ("ant", "bee")))
            ant.send_signal(signal.SIGTERM)
            assert ant.wait(20) == -signal.SIGTERM
            until(lambda: len(lines()) == 3)
            assert lines() == [f"ant {begins}", f"ant {ends}", f"bee {begins}"]
            bee.kill()
