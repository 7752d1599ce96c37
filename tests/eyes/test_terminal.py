"""Lanes as characters, and `doyen top` on a terminal that is made up."""

import asyncio
import subprocess
import sys
from typing import Any

import msgspec
import pytest

import doyen
from doyen.eyes import terminal
from doyen.eyes.lanes import Fold
from doyen.node.control import ask, find_node


def text(lines: list[terminal.Line]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def picture(*events: dict[str, Any], now: float) -> Any:
    fold = Fold("orders")
    for each in events:
        fold.add(each)
    return msgspec.to_builtins(fold.whole(now))


def test_lanes_show_reigns_a_failure_and_the_clock() -> None:
    made = picture(
        {"kind": "joined", "at": 0.0, "member": "ant"},
        {"kind": "elected", "at": 2.0, "leader": "bee", "term": 1},
        {"kind": "lost", "at": 6.0, "leader": "bee", "term": 1, "reason": "gone"},
        {"kind": "failed", "at": 6.1, "member": "bee"},
        {"kind": "elected", "at": 7.0, "leader": "ant", "term": 2},
        now=10.0,
    )
    shown = text(terminal.lanes(made, 0.0, 10.0, 25, lambda at, step: f"{at:.0f}"))
    assert shown == [
        "     0                   ",
        "ant  ●─────────────▲█████",
        "bee  ────▲███████╳┄┄┄┄┄┄┄",
    ]


def test_the_matrix_says_who_sees_whom_and_what_is_old() -> None:
    seen = [
        {"name": "ant", "state": "alive", "rtt_s": None},
        {"name": "bee", "state": "alive", "rtt_s": 0.0004},
        {"name": "cat", "state": "failed", "rtt_s": None},
    ]
    rows = [
        {"name": "ant", "age_s": 0.0, "leader": "ant", "seen": seen},
        {"name": "bee", "age_s": 0.5, "leader": "ant", "seen": seen},
        {"name": "cat", "age_s": 9.0, "leader": "cat", "seen": seen},
    ]
    assert text(terminal.matrix(rows)) == [
        "          ant      bee      cat      ",
        "ant  ant  ·        0.4 ms   failed   ",
        "bee  ant  ok       ·        failed   ",
        "cat  9 s  ok       0.4 ms   ·        ",
    ]
    said, tone = terminal.sides(rows)
    assert said == (
        "All that answer agree: ant leads. Cannot be asked now: cat (9 s ago) last named cat; "
        "members there may see another leader."
    )
    assert tone == "care"
    asked = [rows[0], {**rows[2], "age_s": None}]
    assert terminal.sides(asked, strong=True)[0].endswith(
        " Cannot be asked now: cat never answered; only a side with a majority of the voters has a leader."
    )
    assert terminal.sides([{**rows[2], "age_s": 0.1}, rows[0]])[1] == "bad"
    dead = {**rows[2], "age_s": 0.1, "gone": True}  # It answered just before it died.
    assert terminal.sides([dead, rows[0]])[0].startswith("All that answer agree: ant leads. Cannot be asked now: cat (")


def test_a_hostile_name_moves_no_cursor() -> None:
    made = picture({"kind": "joined", "at": 0.0, "member": "\x1b[2Jant\n"}, now=1.0)
    assert all(line.isprintable() for line in text(terminal.lanes(made, 0.0, 1.0, 60, lambda at, step: "")))


def test_without_textual_one_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['textual'] = None; from doyen.cli import main; main(['top'])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr == ("doyen: doyen top draws with Textual, which is not installed: pip install 'doyen[top]'\n")


@pytest.mark.live
def test_top_shows_the_leader_scrolls_and_asks_before_it_resigns() -> None:
    pytest.importorskip("textual", reason="Textual is not installed: pip install 'doyen[top]'")
    from textual.widgets import Static

    from doyen.eyes.top import Top

    async def main() -> None:
        given: dict[str, Any] = {"membership": "swim", "election": "hybrid", "preset": "local", "bind": "127.0.0.1:0"}
        async with doyen.join("web", name="ant", **given) as ant, doyen.join("web", name="bee", **given) as bee:
            await ant.wait_for_members(2, "20s")

            def settled() -> bool:
                leaders = {node.leader and node.leader.name for node in (ant, bee)}
                return len(leaders) == 1 and None not in leaders and (ant.is_leader or bee.is_leader)

            async with asyncio.timeout(20):
                while not settled():
                    await asyncio.sleep(0.02)
            leader = ant if ant.is_leader else bee
            path = find_node("web", leader.name)
            app = Top(lambda do, timeout_s=5.0, **fields: ask(path, do, timeout_s=timeout_s, **fields))

            def shows(part: str, words: str) -> bool:
                return words in str(app.screen_stack[0].query_one(f"#{part}", Static).render())

            async with app.run_test(size=(100, 40)) as pilot, asyncio.timeout(60):

                async def until(part: str, words: str) -> None:
                    while not shows(part, words):
                        await pilot.pause(0.05)

                await until("now", f"web · {leader.name} has led for")
                await until("now", "promised: one leader per connected region")
                await until("lanes", "█")
                await until("matrix", f"All that answer agree: {leader.name} leads.")
                await until("changes", f"{leader.name} leads (term")
                await pilot.press("left", "plus", "minus", "f")
                await pilot.press("R")
                await pilot.press("n", "o", "enter")
                await until("now", "nothing was done")
                assert leader.is_leader
                await pilot.press("R", *leader.name, "enter")
                await until("now", f"{leader.name} resigned")
                assert not leader.is_leader

    asyncio.run(main())
