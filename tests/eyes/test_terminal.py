"""Lanes as characters, and `doyen top` on a terminal that is made up."""

import asyncio
import subprocess
import sys
import time
from typing import Any

import msgspec
import pytest

import doyen
from doyen.errors import TransportError
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


def test_what_lasts_ends_where_nothing_is_known_any_more() -> None:
    made = picture({"kind": "elected", "at": 2.0, "leader": "bee", "term": 1}, now=10.0)
    shown = text(terminal.lanes(made, 0.0, 10.0, 25, lambda at, step: "", known=6.0))
    assert shown[1] == "bee  ────▲███████────────"


def test_what_is_of_an_earlier_look_is_not_counted_while_it_is_asked_for_anew() -> None:
    rows = [
        {"name": "ant", "age_s": 0.0, "leader": "bee", "asking": False, "seen": []},
        {"name": "bee", "age_s": 2.1, "leader": "bee", "asking": True, "seen": []},  # It has died meanwhile.
        {"name": "cat", "age_s": None, "leader": None, "asking": True, "seen": []},
    ]
    said, tone = terminal.sides(rows)
    assert (said, tone) == ("All that answer agree: bee leads. Asking bee, cat …", "care")
    assert [line.split()[1] for line in text(terminal.matrix(rows))[2:]] == ["…"] * 2


def test_a_hostile_name_moves_no_cursor() -> None:
    made = picture({"kind": "joined", "at": 0.0, "member": "\x1b[2Jant\n"}, now=1.0)
    assert all(line.isprintable() for line in text(terminal.lanes(made, 0.0, 1.0, 60, lambda at, step: "")))


def test_without_textual_one_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['textual'] = None; from doyen.cli import main; main(['top'])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr == ("doyen: doyen top draws with Textual, which is not installed: pip install 'doyen[top]'\n")


def shown_by_top(answers: list[Any], frames: list[str]) -> None:
    """Run `doyen top` on a node that gives these answers, one a look; add what each frame shows to `frames`."""
    pytest.importorskip("textual", reason="Textual is not installed: pip install 'doyen[top]'")
    from textual.widgets import Static

    from doyen.eyes import top

    left = list(answers)

    def asked(do: str, part: str = "", **fields: Any) -> Any:
        if isinstance(left[0], Exception):
            raise left[0]
        told = left[0][part]
        if part == "views" and len(left) > 1:
            left.pop(0)
        return told

    async def main() -> None:
        app = top.Top(asked)
        async with app.run_test(size=(100, 40)) as pilot, asyncio.timeout(60):
            last = ""
            while (isinstance(left[0], dict) and len(left) > 1) or len(frames) < len(answers):
                await pilot.pause(0.02)
                parts = [app.screen_stack[0].query_one(f"#{name}", Static) for name in ("now", "lanes", "matrix")]
                shown = "\n".join(str(part.render()) for part in parts)
                if "term 1" in shown and shown != last:
                    frames.append(shown)
                    last = shown

    asyncio.run(main())


def answer_of_a_node(rows: list[dict[str, Any]]) -> dict[str, Any]:
    at = time.time()
    lanes = picture({"kind": "elected", "at": at - 20.0, "leader": "bee", "term": 1}, now=at)
    now = {"group": "web", "node": "ant", "at": at, "leader": "bee", "term": 1, "since": at - 20.0, "waits_for": ""}
    now |= {"sentence": "", "promise": "", "unseats": [], "lease_left_s": None, "mine": False}
    return {"now": now, "lanes": {"number": 1, "lanes": lanes}, "views": {"asked": True, "rows": rows}}


OWN = {"name": "ant", "age_s": 0.0, "leader": "bee", "acts": None, "asking": False, "lease_left_s": None, "seen": []}


def test_the_first_frame_of_top_says_what_is_asked_for_and_not_what_was_seen_before() -> None:
    frames: list[str] = []
    old = OWN | {"name": "bee", "age_s": 2.1, "asking": True, "acts": True}
    new = old | {"age_s": 0.1, "asking": False}
    shown_by_top([answer_of_a_node([OWN, old]), answer_of_a_node([OWN, new])], frames)
    assert "bee has been named leader for 20 s" in frames[0] and "has not said whether it acts" in frames[0]
    assert "Asking bee …" in frames[0]
    assert "bee has led for" in frames[-1] and "All that answer agree: bee leads." in frames[-1]


def test_top_counts_on_nothing_that_a_silent_node_said() -> None:
    frames: list[str] = []
    shown_by_top(
        [answer_of_a_node([OWN, OWN | {"name": "bee", "acts": True}]), TransportError("ant does not answer")], frames
    )
    assert "bee has led for 20 s" in frames[0] and "All that answer agree" in frames[0]
    assert "bee led · term 1 · as ant last said" in frames[-1] and "ant does not answer" in frames[-1]
    assert "has led" not in frames[-1] and "agree:" not in frames[-1]


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
