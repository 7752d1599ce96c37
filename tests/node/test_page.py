"""The page of a node over HTTP: what it shows, what it refuses, what it costs; and members that ask each other."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import doyen
from doyen.core.clock import seconds
from doyen.core.codec import DATAGRAM_MAX, Codec
from doyen.core.ids import Incarnation, NodeId
from doyen.core.view import Member, ViewEditor
from doyen.errors import RemoteProtocolError
from doyen.node import shown
from doyen.node.node import Node
from doyen.node.page import page_of
from doyen.node.views import ANSWERS_MAX, ROWS_MAX, SEEN_MAX, Ask, Row, Seen, Told, Views

TOKEN = "0123456789abcdef-token"
HOSTILE = "<img src=x onerror=alert(1)>\"'&"
HTML = "accept: text/html,application/xhtml+xml\r\n"


class Reply:
    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *headers = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in headers)}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(node: Node, target: str, *, method: str = "GET", headers: str = "", host: str = "localhost") -> Reply:
    where, _, port = node.agent.attached.http.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(where, int(port))
    writer.write(f"{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n".encode())
    async with asyncio.timeout(10):
        raw = await reader.read()
    writer.close()
    return Reply(raw)


def joined(name: str, **more: Any) -> Node:
    given: dict[str, Any] = {"membership": "swim", "election": "hybrid", "preset": "local", "http": "127.0.0.1:0"}
    return doyen.join("web", name=name, bind="127.0.0.1:0", **given | more)


async def until(holds: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(20):
        while not (found := await holds()):
            await asyncio.sleep(0.02)
        return found


def auth(token: str = TOKEN) -> str:
    return f"authorization: Bearer {token}\r\n"


def test_a_browser_gets_the_page_and_a_program_the_paths() -> None:
    async def main() -> None:
        async with joined("ant") as node:
            page = await ask(node, "/", headers=HTML)
            assert page.status == 200
            assert page.headers["content-type"].startswith("text/html")
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert "see" in (await ask(node, "/")).json  # As before there was a page.
            script = await ask(node, "/page/page.js")
            assert script.headers["content-type"].startswith("text/javascript")
            assert script.headers["x-content-type-options"] == "nosniff"
            for bad in ("/page/../http.py", "/page/%2e%2e/lanes.py", "/page/nothing.js", "/page/nothing", "/page/"):
                assert (await ask(node, bad)).status == 404, bad
            assert (await ask(node, "/page/now", host="evil.example")).status == 403
            assert (await ask(node, "/page/now?election=none")).status == 404

    asyncio.run(main())


def test_now_says_who_leads_why_what_is_promised_and_what_would_unseat_it() -> None:
    async def main() -> None:
        async with joined("ant", meta={"zone": HOSTILE}) as node:
            await node.wait_for_leader("20s")
            now = (await ask(node, "/page/now")).json
            assert now["leader"] == "ant" and now["term"] >= 1 and now["since"] <= now["at"]
            assert now["sentence"] == node.explain().sentence
            assert "two may lead across a partition" in now["promise"]
            assert any(text.startswith("Silence: ant is given up within") for text in now["unseats"])
            assert now["may_act"] is False
            assert [member["meta"] for member in now["members"]] == [{"zone": HOSTILE}]
            lanes = (await ask(node, "/page/lanes")).json["lanes"]
            assert [span["label"] for span in lanes["spans"]] == [f"ant leads (term {now['term']})"]
            assert any(mark["kind"] == "elected" and mark["why"] for mark in lanes["marks"])

    asyncio.run(main())


def test_a_leader_leads_since_it_began_and_not_since_it_was_heard_of() -> None:
    async def main() -> None:
        async with joined("ant", standing=5) as ant:
            led = await ant.wait_for_leader("20s")
            async with joined("bee") as bee:

                async def told() -> Any:
                    now = (await ask(bee, "/page/now")).json
                    named = bee.agent.stack.reigns[""].since_wall
                    return now if now["leader"] == "ant" and now["since"] < named else None

                now = await until(told)
                assert now["since"] == pytest.approx(led.since, abs=1e-3)

    asyncio.run(main())


def test_the_scripts_write_text_and_never_markup() -> None:
    """So whatever a member calls itself, or says of itself, is shown and not run."""
    scripts = sorted((Path(doyen.__file__).parent / "eyes/static").glob("*.js"))
    assert len(scripts) >= 3
    for script in scripts:
        text = script.read_text()
        found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc", text)
        assert not found, f"{script.name}: {found}"


def test_with_a_token_the_files_are_open_and_all_that_they_show_is_not() -> None:
    async def main() -> None:
        async with joined("ant", http_token=TOKEN) as node:
            await node.wait_for_leader("20s")
            assert (await ask(node, "/", headers=HTML)).status == 200
            assert (await ask(node, "/page/lanes.js")).status == 200
            for path in ("/page/now", "/page/lanes", "/page/views", "/", "/events?lanes"):
                assert (await ask(node, path)).status == 401, path
                assert (await ask(node, f"{path}{'&' if '?' in path else '?'}token={TOKEN}")).status == 401, path
            assert (await ask(node, "/page/now", headers=auth())).json["may_act"] is True

    asyncio.run(main())


def test_actions_need_the_token_and_the_name_of_the_node() -> None:
    async def main() -> None:
        async with joined("ant") as node:
            refused = await ask(node, "/resign", method="POST", headers="doyen-confirm: ant\r\n")
            assert refused.status == 403 and "http-token" in refused.json["error"]
        async with joined("ant", http_token=TOKEN) as ant, joined("bee", http_token=TOKEN) as bee:
            await ant.wait_for_members(2, "20s")

            async def settled() -> Node | None:
                both = {ant.leader and ant.leader.name, bee.leader and bee.leader.name}
                return next((node for node in (ant, bee) if both == {node.name} and node.is_leader), None)

            node = await until(settled)
            other = bee if node is ant else ant
            confirm = f"doyen-confirm: {node.name}\r\n"
            assert (await ask(node, "/resign", method="POST", headers=confirm)).status == 401
            assert (await ask(node, "/resign", method="POST", headers=auth("wrong") + confirm)).status == 401
            assert (await ask(node, "/resign", method="POST", headers=auth())).status == 409
            assert (await ask(node, "/resign", method="POST", headers=auth() + "doyen-confirm: x\r\n")).status == 409
            assert (await ask(node, "/resign", headers=auth() + confirm)).status == 405
            assert (await ask(node, "/page/now", method="POST", headers=auth() + confirm)).status == 405
            not_leader = await ask(other, "/resign", method="POST", headers=auth() + f"doyen-confirm: {other.name}\r\n")
            assert not_leader.status == 409 and "does not lead" in not_leader.json["error"]
            assert node.is_leader  # Nothing has happened so far.
            done = await ask(node, "/resign", method="POST", headers=auth() + confirm)
            assert done.json == {"done": f"{node.name} resigned"}
            assert not node.is_leader
            drained = await ask(node, "/drain", method="POST", headers=auth() + confirm)
            assert drained.status == 202
            async with asyncio.timeout(10):
                await node.ended.wait()

    asyncio.run(main())


def test_the_stream_tells_what_the_lanes_gain() -> None:
    async def main() -> None:
        async with joined("ant") as node:
            await node.wait_for_leader("20s")
            where, _, port = node.agent.attached.http.url.removeprefix("http://").rpartition(":")
            reader, writer = await asyncio.open_connection(where, int(port))
            writer.write(b"GET /events?lanes HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await reader.readuntil(b"event: elected\n")
            before = (await ask(node, "/page/lanes")).json
            async with asyncio.timeout(20), joined("bee", http=""):
                await reader.readuntil(b"event: lanes\ndata: ")
                told = json.loads(await reader.readline())
            assert told["number"] == before["number"] + 1
            assert {"lane": {"id": "bee", "note": told["changes"][0]["lane"]["note"]}} in told["changes"]
            writer.close()

    asyncio.run(main())


def test_members_are_asked_for_their_view_through_this_node() -> None:
    async def main() -> None:
        async with joined("ant") as node, joined("bee", http=""), joined("cat", http=""):
            await node.wait_for_members(3, "20s")

            async def answered() -> Any:
                rows = {row["name"]: row for row in (await ask(node, "/page/views")).json["rows"]}
                full = rows.keys() == {"ant", "bee", "cat"} and all(len(row["seen"]) == 3 for row in rows.values())
                agreed = len({row["leader"] for row in rows.values()}) == 1
                return rows if full and agreed and any(row["acts"] for row in rows.values()) else None

            rows = await until(answered)
            assert rows["bee"]["age_s"] is not None
            assert {seen["name"]: seen["state"] for seen in rows["cat"]["seen"]} == dict.fromkeys(rows, "alive")
            assert [name for name, row in rows.items() if row["acts"]] == [rows["ant"]["leader"]]
            assert not {"channel", "message"} & node.agent.driver.refused.keys()

    asyncio.run(main())


def test_a_node_pays_nothing_before_its_page_is_opened() -> None:
    program = """
import asyncio, json, resource, sys
from urllib.request import Request, urlopen
import doyen
def loaded():
    return sorted(n for n in sys.modules if n.startswith("doyen.eyes") or n in ("doyen.node.page", "doyen.node.views"))
def rss_kb():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() // 1024
async def main():
    async with doyen.join("web", name="ant", membership="swim", election="hybrid", preset="local",
                          bind="127.0.0.1:0", http="127.0.0.1:0") as node:
        await node.wait_for_leader("20s")
        url = node.agent.attached.http.url
        get = lambda path, **h: asyncio.to_thread(lambda: urlopen(Request(url + path, headers=h)).read())
        for path in ("/leader", "/members", "/metrics", "/"):
            await get(path)
        before, kb = loaded(), rss_kb()
        await get("/", Accept="text/html")
        for path in ("/page/page.js", "/page/now", "/page/lanes", "/page/views"):
            await get(path)
        print(json.dumps([before, loaded(), rss_kb() - kb]))
asyncio.run(main())
"""
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60, env=os.environ
    ).stdout
    before, after, grown_kb = json.loads(said)
    assert before == []
    assert "doyen.node.page" in after
    assert grown_kb < 4096


# Questions and answers, without a network.


def test_the_last_word_of_a_member_that_has_failed_is_marked_however_new_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(views: Views, node: Node) -> None:
        seen = {"since_s": 1.0, "rtt_s": None, "health": 1.0, "suspected_by": ()}
        states = {"dog": "alive", "eve": "failed", "fox": "left"}
        members = [SimpleNamespace(name=name, state=state, **seen) for name, state in states.items()]
        monkeypatch.setattr(shown, "members", lambda stack, now: members)
        views.rows[""] = {NodeId(name): Row(heard_at=node.clock(), leader="eve", seen={}) for name in states}
        rows = page_of(node).views("")
        assert [(row["name"], row.get("gone")) for row in rows] == [("ant", None), ("dog", False), ("eve", True)]

    with_views(check)


def with_views(check: Callable[[Views, Node], None], **more: Any) -> None:
    async def main() -> None:
        async with joined("ant", http="", **more) as node:
            await node.wait_for_leader("20s")
            check(node.agent.views, node)

    asyncio.run(main())


def test_nonsense_is_refused_and_changes_nothing() -> None:
    def check(views: Views, node: Node) -> None:
        for bad in (
            b"",
            b"\xc1",
            msgspec.msgpack.encode(["?", -1]),
            msgspec.msgpack.encode(["!", 1]),
            msgspec.msgpack.encode(["?", 1, "x" * 65]),
            msgspec.msgpack.encode(["!", 1, "", None, None, None, None, 1, 0, [["", "alive", 0]]]),
        ):
            with pytest.raises(RemoteProtocolError):
                views.on_message(NodeId("eve"), bad, 0)
        unasked = msgspec.msgpack.encode(Told(1, "", "eve", 9, True, None, 1, 0, (Seen(NodeId("eve"), "alive", 0),)))
        assert views.on_message(NodeId("eve"), unasked, 0) == []
        assert views.rows == {}
        assert views.on_message(NodeId("eve"), msgspec.msgpack.encode(Ask(1, "no such election")), 0) == []

    with_views(check)


def test_answers_are_bounded_and_a_silent_member_is_asked_rarely() -> None:
    def check(views: Views, node: Node) -> None:
        question = msgspec.msgpack.encode(Ask(1))
        now = seconds(1000)
        told = [views.on_message(NodeId("eve"), question, now) for _ in range(ANSWERS_MAX + 50)]
        assert sum(map(len, told)) == ANSWERS_MAX
        asked = [
            at
            for at in range(20)
            if views.questions("", [NodeId("old")], now + seconds(at))  # Once a second.
        ]
        assert asked == [0, 1, 2, 7, 12, 17]

    with_views(check)


def test_a_member_that_tells_without_end_fills_no_memory() -> None:
    def check(views: Views, node: Node) -> None:
        eve, now = NodeId("eve"), seconds(1000)
        views.questions("", [eve], now)
        for i in range(300):
            names = tuple(Seen(NodeId(f"x{i}-{j}"), "alive", 0) for j in range(100))
            for first in (i, 100 * i, 7):
                told = Told(1, "", "eve", 9, True, None, 10**6, first, names)
                views.on_message(eve, msgspec.msgpack.encode(told), now)
        assert 100 <= len(views.rows[""][eve].seen) <= 2 * SEEN_MAX

    with_views(check)


def test_members_that_are_gone_leave_their_place_to_those_that_come() -> None:
    def check(views: Views, node: Node) -> None:
        for i in range(3 * ROWS_MAX):
            (asked,) = views.questions("", [NodeId(f"pod{i}")], seconds(i))
            assert asked[0] == f"pod{i}"
        assert list(views.rows[""]) == [f"pod{3 * ROWS_MAX - 1}"]

    with_views(check)


def test_a_long_view_comes_in_parts_that_fit_a_datagram() -> None:
    def check(views: Views, node: Node) -> None:
        members = [NodeId(f"member-{n:03d}-" + "x" * 40) for n in range(200)]
        editor, stack = ViewEditor(), node.agent.stack
        for name in members:
            editor.put(Member(node=name))
        stack.view = editor.view
        asker, now, parts = Views(stack), seconds(5), 0
        ((_, question),) = asker.questions("", [NodeId("ant")], now)
        while question is not None:
            (told,) = views.on_message(NodeId("eve"), msgspec.msgpack.encode(question), now)
            assert len(Codec("web").encode(NodeId("ant"), Incarnation(2**62), "views", told)) <= DATAGRAM_MAX
            question = next(iter(asker.on_message(NodeId("ant"), msgspec.msgpack.encode(told), now)), None)
            parts += 1
        assert asker.rows[""][NodeId("ant")].seen.keys() == {*members}
        assert parts > 5

    with_views(check)
