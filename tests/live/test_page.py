"""The page of real agents in a real Chromium."""

import asyncio
import json
import re
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from browser import AXE, browser, needs_axe, needs_chromium, opened

import doyen
from doyen.core.ids import Address
from doyen.node.events import Event
from doyen.node.node import Node
from doyen.testing.processes import LocalCluster

pytestmark = [pytest.mark.live, needs_chromium]

PHONE = {"width": 390, "height": 844}  # Fewer pixels, fewer drawings a second.
TOKEN = "0123456789abcdef-token"
HOSTILE = "<img src=x onerror=alert(1)>"
FLAGS = ["--membership", "swim", "--election", "hybrid", "--preset", "local", "--http", "127.0.0.1:0"]
LEADS = "(name) => document.getElementById('who').textContent.startsWith(name)"
AGREE = "() => document.getElementById('sides').textContent.startsWith('All that answer agree: ')"
# When another leader than that one was first shown, by this machine's clock, and the sentences that were shown then.
WATCH = """(old) => { window.shown = null; const look = () => {
  const who = document.getElementById('who').textContent;
  if (window.shown || who.startsWith(old) || !/ has (led|been named leader) for/.test(who)) return;
  const change = document.querySelector('#changes .elected span')?.textContent ?? '';
  if (!change.startsWith(who.split(' ')[0])) return;
  window.shown = {at: Date.now() / 1000, who, why: document.getElementById('sentence').textContent, change};
}; new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true}); }"""


@asynccontextmanager
async def agents(*names: str, flags: list[str] = FLAGS) -> AsyncIterator[tuple[LocalCluster, dict[str, str]]]:
    """Start agents; yield them and where each serves its page."""
    urls: dict[str, str] = {}
    async with LocalCluster(
        "orders", None, flags=flags, on_told=lambda told: urls.update({told.name: told.http}) if told.http else None
    ) as cluster:
        for name in names:
            await cluster.start(name, "--meta", f"zone={HOSTILE}")
        await cluster.until_started()
        await cluster.agreement(30, unchanged_s=0.5)
        yield cluster, urls


async def killed(started: Any, cluster: LocalCluster, urls: dict[str, str]) -> tuple[float, dict[str, str], list[str]]:
    """Kill the leader; return after how long a page of another showed the next, what it showed, and complaints."""
    leader = cluster.agreed()
    assert leader is not None
    watcher = next(member.name for member in cluster.alive() if member.name != leader)
    page, complaints = await opened(started, urls[watcher])
    await page.wait_for_function(LEADS, arg=leader)
    await page.wait_for_function(AGREE)
    await page.evaluate(WATCH, leader)
    at = time.time()
    cluster.kill(leader)
    await page.wait_for_function("() => window.shown", timeout=20_000)
    shown = await page.evaluate("window.shown")
    await page.wait_for_function("() => document.querySelector('#matrix .failed')", timeout=20_000)
    await page.close()
    return shown["at"] - at, shown, complaints


def test_the_leader_is_killed_and_the_page_shows_the_next_and_why(tell: Callable[[str], None]) -> None:
    async def main() -> None:
        async with agents("ant", "bee", "cat") as (cluster, urls), browser() as started:
            took, shown, complaints = await killed(started, cluster, urls)
            tell(f"page: the next leader and the sentence why were shown {took:.2f} s after the kill")
            assert took < 5  # `make soak` asks for a second, without other tests beside it.
            assert "because it" in shown["why"]
            assert "leads (term" in shown["change"] and ": " in shown["change"]
            assert complaints == []

    asyncio.run(main())


def test_a_hostile_name_metadata_or_reason_is_text() -> None:
    async def main() -> None:
        given: dict[str, Any] = {"membership": "swim", "election": "hybrid", "preset": "local", "http": "127.0.0.1:0"}
        async with AsyncExitStack() as stack, browser() as started:
            found = [
                await stack.enter_async_context(doyen.join("web", name=name, meta={"zone": HOSTILE}, **given))
                for name in (HOSTILE, "ant")
            ]
            await found[1].wait_for_members(2, "60s")
            await until(lambda: found[0].leader is not None and found[1].leader is not None)
            for node in found:
                page, complaints = await opened(started, node.agent.attached.http.url)
                await page.wait_for_function(AGREE)
                for event in (
                    Event(kind="differs", at=time.time(), member=HOSTILE, reason=HOSTILE),
                    Event(kind="suspected", at=time.time(), member=HOSTILE, by=(HOSTILE,)),
                    Event(kind="lost", at=time.time(), leader=HOSTILE, term=1, reason=HOSTILE),
                ):
                    for listen in node.agent.listeners:
                        listen(event)
                for shown in (
                    f"{HOSTILE} runs something else: {HOSTILE}",
                    f"{HOSTILE} is suspected by {HOSTILE}",
                    f"{HOSTILE} no longer leads (term 1): {HOSTILE}",
                ):
                    await page.wait_for_function(
                        "(text) => document.getElementById('changes').textContent.includes(text)", arg=shown
                    )
                heads = await page.locator("#matrix tbody th").all_text_contents()
                assert heads == [HOSTILE, "ant"]
                for button in await page.locator("#matrix td button").all():
                    await button.click()
                await page.locator("#lanes canvas").focus()
                await page.keyboard.press("ArrowUp")
                assert HOSTILE in await page.inner_text(".lanes-said")
                assert await page.locator("img").count() == 0
                assert complaints == []  # A dialog, an image that is asked for, and a refusal would be there.

    asyncio.run(main())


def test_long_names_leave_the_matrix_in_view_on_a_phone() -> None:
    names = [(letter * 32 + "ß" * 16) for letter in "ab"]  # 64 bytes.

    async def main() -> None:
        given: dict[str, Any] = {"membership": "swim", "election": "hybrid", "preset": "local", "http": "127.0.0.1:0"}
        async with AsyncExitStack() as stack, browser() as started:
            found = [await stack.enter_async_context(doyen.join("web", name=name, **given)) for name in names]
            await found[0].wait_for_members(2, "60s")
            await until(lambda: found[0].leader is not None and found[1].leader is not None)
            page, complaints = await opened(started, found[0].agent.attached.http.url, viewport=PHONE)
            await page.wait_for_function(AGREE)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            right = "(all) => all[1].getBoundingClientRect().right"
            assert await page.locator("#matrix tbody td button").evaluate_all(right) <= PHONE["width"]
            for at in ("#matrix tbody th", "#matrix tbody td:nth-child(2)"):
                titles = await page.locator(at).evaluate_all("(all) => all.map(one => one.title)")
                assert set(titles) <= {*names, "itself"} and set(titles) & set(names)
            assert complaints == []

    asyncio.run(main())


# ── make soak ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.soak
def test_within_a_second_three_times(tell: Callable[[str], None]) -> None:
    async def main() -> None:
        async with browser() as started:
            times = []
            for _ in range(3):
                async with agents("ant", "bee", "cat") as (cluster, urls):
                    took, _, complaints = await killed(started, cluster, urls)
                    assert complaints == []
                    times.append(took)
            tell(f"page: shown after {', '.join(f'{took:.2f}' for took in times)} s")
            assert max(times) < 1

    asyncio.run(main())


@asynccontextmanager
async def nodes(count: int, **more: Any) -> AsyncIterator[list[Node]]:
    """Nodes of this process, with real sockets."""
    given: dict[str, Any] = {"membership": "swim", "election": "hybrid", "preset": "local", "http": "127.0.0.1:0"}
    async with AsyncExitStack() as stack:
        found: list[Node] = []
        for number in range(count):
            served = {} if number in (0, count - 1) else {"http": ""}
            join = doyen.join("web", name=f"m{number:02d}", bind="127.0.0.1:0", **given | more | served)
            found.append(await stack.enter_async_context(join))
        await found[0].wait_for_members(count, "120s")
        yield found


def cut(sides: list[list[Node]]) -> None:
    """Drop all datagrams between the sides; with one side, none."""
    for side in sides:
        near = {str(node.agent.address) for node in side}
        for node in side:
            transport = node.agent.driver.transport
            whole = getattr(transport, "whole", transport.send)

            def send(data: bytes, to: Address, near: set[str] = near, whole: Any = whole) -> None:
                if str(to) in near:
                    whole(data, to)

            transport.whole, transport.send = whole, send  # type: ignore[attr-defined,method-assign]


@pytest.mark.soak
def test_two_sides_of_a_partition_are_seen_as_two() -> None:
    async def main() -> None:
        async with nodes(4) as found, browser() as started:
            await until(lambda: len({node.leader and node.leader.name for node in found}) == 1)
            one, other = found[:2], found[2:]
            pages = [
                (await opened(started, side[at].agent.attached.http.url))[0] for side, at in ((one, 0), (other, 1))
            ]
            for page in pages:
                await page.wait_for_function(AGREE)
            before = found[0].leader
            assert before is not None
            cut([one, other])
            await until(lambda: len({node.leader and node.leader.name for node in found}) == 2)
            for page, near, far in zip(pages, (one, other), (other, one), strict=True):
                await page.wait_for_function(LEADS, arg=near[0].leader.name, timeout=30_000)  # type: ignore[union-attr]
                await page.wait_for_function(
                    "(names) => names.every(name => document.getElementById('sides').textContent.includes(name))"
                    " && document.getElementById('sides').textContent.includes('may see another leader')",
                    arg=[node.name for node in far],
                    timeout=30_000,
                )
                await page.wait_for_function(  # Two of this side hold two of the other to have failed.
                    "() => document.querySelectorAll('#matrix tr:not(.stale) .failed').length === 4", timeout=30_000
                )
                sides = await page.text_content("#sides")  # Of the other side: what was last known, and since when.
                assert re.search(rf"Cannot be asked now: .*\d+ s ago.* last named {before.name};", sides), sides
                for node in far:
                    named = "itself" if node.name == before.name else before.name
                    row = page.locator("#matrix tr.stale", has=page.locator(f'th[title="{node.name}"]'))
                    assert re.fullmatch(rf"{named}, \d+ s ago", await row.locator("td").first.text_content())
                    cells = await row.locator("td button").evaluate_all("all => all.map(cell => cell.dataset.why)")
                    assert [why for why in cells if "cannot be asked now" not in why] == []
            cut([found])
            await until(lambda: len({node.leader and node.leader.name for node in found}) == 1)
            for page in pages:
                await page.wait_for_function(AGREE, timeout=30_000)

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.mark.soak
def test_64_members(tell: Callable[[str], None]) -> None:
    async def main() -> None:
        async with nodes(64, preset="lan", expect=0) as found, browser() as started:
            began = time.monotonic()
            page, complaints = await opened(started, found[0].agent.attached.http.url)
            await page.wait_for_function(
                "() => document.querySelectorAll('#matrix tbody tr').length === 64"
                " && document.querySelectorAll('#matrix tbody tr.stale').length < 8",
                timeout=120_000,
            )
            wide = await page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            assert wide[0] <= wide[1]  # The matrix scrolls in its own box.
            assert complaints == []
            cells = await page.eval_on_selector_all("td button", "all => all.length")
            tell(f"page: 64 members, {cells} cells, open {time.monotonic() - began:.1f} s after it was asked for")

    asyncio.run(main())


@pytest.mark.soak
def test_a_hundred_thousand_events_in_a_lane_scroll_at_30_frames_a_second(tell: Callable[[str], None]) -> None:
    async def main() -> None:
        async with nodes(1) as found, browser() as started:
            page, _ = await opened(started, found[0].agent.attached.http.url)
            await page.wait_for_function("() => window.doyenLanes")
            frames, drawn = await page.evaluate("""async () => {
                const kinds = ['elected', 'lost', 'suspected', 'alive', 'failed', 'joined'], marks = [], spans = [];
                const lane = 'ant', lanes = window.doyenLanes;
                for (let i = 0; i < 100000; i++) marks.push({lane, at: i / 10, kind: kinds[i % 6], label: 'n ' + i});
                for (let i = 0; i < 1000; i++) spans.push({lane, begin: i * 10, end: i * 10 + 5, kind: 'leads'});
                lanes.update({title: 'many', epoch: 0, begin: 0, end: 10000, lanes: [{id: lane}], spans, marks});
                lanes.show(0, 10000); await new Promise(done => setTimeout(done, 500));
                let frames = 0; const before = lanes.drawn, end = performance.now() + 3000;
                await new Promise(done => { const go = () => {
                    frames += 1; const by = frames % 200; lanes.show(by, 10000 + by);
                    performance.now() < end ? requestAnimationFrame(go) : done(); };
                  requestAnimationFrame(go); });
                return [frames / 3, (lanes.drawn - before) / 3]; }""")
            tell(f"page: 100,000 events in a lane, {drawn:.0f} drawings and {frames:.0f} frames a second")
            assert drawn >= 30

    asyncio.run(main())


@pytest.mark.soak
def test_a_page_left_open_leaks_nothing(tell: Callable[[str], None]) -> None:
    """As many events as a busy day has, through the same entrance as those of the stream."""

    async def main() -> None:
        async with nodes(1) as found, browser() as started:
            page, _ = await opened(started, found[0].agent.attached.http.url)
            await page.wait_for_function("() => window.doyenLanes")
            sizes = await page.evaluate("""async () => {
                const lanes = window.doyenLanes, sizes = [];
                for (let round = 0; round < 6; round++) {
                  for (let i = 0; i < 200000; i++) {
                    const at = round * 200000 + i;
                    lanes.add({marks: [{lane: 'ant', at, kind: 'suspected', label: 'suspected ' + at}]});
                    if (i % 10 === 0) { lanes.add({spans: [{lane: 'ant', begin: at, kind: 'leads', label: 'l'}]});
                      lanes.add({ended: [{lane: 'ant', begin: at, end: at + 5, kind: 'leads', label: 'l'}]}); }
                    if (i % 1000 === 0) lanes.add({marks: [{lane: 'passing-' + at, at, kind: 'joined', label: 'x'}]});
                  }
                  gc(); sizes.push(performance.memory.usedJSHeapSize);
                }
                return sizes; }""")
            tell(f"page: {', '.join(f'{size / 1e6:.0f}' for size in sizes)} MB after each 200,000 events")
            assert max(sizes[3:]) < 1.3 * sizes[2]

    asyncio.run(main())


ROUND = 40_000  # Of 150,000 marks that a lane keeps: the fourth round reaches them, the fifth adds nothing.


@pytest.mark.soak
def test_two_days_of_events_through_the_stream_leave_heap_and_nodes_flat(tell: Callable[[str], None]) -> None:
    async def main() -> None:
        async with nodes(1) as found, browser(within_s=1200) as started:
            node = found[0]
            page, complaints = await opened(started, node.agent.attached.http.url)
            await page.wait_for_function("() => window.doyenLanes")
            devtools = await page.context.new_cdp_session(page)
            await devtools.send("Performance.enable")
            measured: list[dict[str, float]] = []
            began, kinds = time.time(), ("suspected", "alive", "failed", "joined")
            for count in range(1, 5 * ROUND + 1):
                event = Event(kind=kinds[count % 4], at=began + count, member="passing", reason=f"event {count}")
                for listen in node.agent.listeners:
                    listen(event)
                if count % 500 == 0:  # As fast as the page takes them.
                    await page.wait_for_function(
                        "(text) => window.doyenLanes.marks(-Infinity, Infinity, 1)[0].why === text",
                        arg=f"event {count}" if kinds[count % 4] != "suspected" else "it did not answer in time",
                        timeout=120_000,
                    )
                if count % ROUND == 0:
                    await devtools.send("HeapProfiler.collectGarbage")
                    metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
                    measured.append({metric["name"]: metric["value"] for metric in metrics})
            took = time.time() - began
            shown = {
                name: [round(one[name] / scale, 1) for one in measured]
                for name, scale in (("JSHeapUsedSize", 1e6), ("Nodes", 1), ("JSEventListeners", 1))
            }
            tell(f"page: {5 * ROUND:,} events by /events, {5 * ROUND / took:.0f} a second: {shown}")
            assert shown["JSHeapUsedSize"][4] < 1.15 * shown["JSHeapUsedSize"][3]
            for name in ("Nodes", "JSEventListeners"):
                assert max(shown[name][1:]) <= 1.1 * shown[name][0] + 50, shown
            assert complaints == []

    asyncio.run(main())


DAY_S, STEP_S = 86_400, 60
FULL = 150_000  # Marks that a lane keeps: a page that was open for two days has them.
# Counts the questions of the page and those that wait for an answer.  Every twentieth goes to the node, the others get
# a copy of the last answer: what is tried is the page, not the way to it.  `/events` never ends.
COUNT = """const ask = window.fetch, last = new Map(); window.asked = window.waiting = 0;
window.fetch = async (path, ...more) => {
  if (path.startsWith('/events')) return ask(path, ...more);
  window.asked += 1;
  if (window.asked % 20 && last.has(path)) return new Response(last.get(path));
  window.waiting += 1;
  try { const reply = await ask(path, ...more); last.set(path, await reply.clone().text()); return reply; }
  finally { window.waiting -= 1; } };"""
# Marks and spans as the stream would bring them, each read from JSON.
FILL = """(count) => { const read = told => window.doyenLanes.add(JSON.parse(JSON.stringify(told)));
for (let i = 0; i < count; i++) { const at = Date.now() / 1000 - count + i, lane = 'passing', begin = at;
  read({marks: [{lane, at, kind: 'failed', label: 'passing is held to have failed', why: `event ${i}`}]});
  if (i % 10) continue;
  read({spans: [{lane, begin, kind: 'down', label: 'passing is held to have failed'}]});
  read({ended: [{lane, begin, end: at + 1, kind: 'down', label: 'passing is held to have failed'}]}); } }"""
CALM = "(text) => !window.waiting && window.doyenLanes.marks(-Infinity, Infinity, 1)[0].why === text"


@pytest.mark.soak
def test_a_day_with_its_events_ticks_and_polls_leaves_heap_and_nodes_flat(tell: Callable[[str], None]) -> None:
    """One event a second by /events, and the page's own timers by a clock that is moved on: all that a day has."""

    async def main() -> None:
        async with nodes(2) as found, browser(within_s=2400) as started:
            node = found[0]
            page, complaints = await opened(started, node.agent.attached.http.url, made_up_time=COUNT, viewport=PHONE)
            await page.wait_for_function(AGREE, polling=50)
            await page.evaluate(FILL, FULL)
            devtools = await page.context.new_cdp_session(page)
            await devtools.send("Performance.enable")
            measured: list[dict[str, float]] = []
            asked, drawn = await page.evaluate("[window.asked, window.doyenLanes.drawn]")
            real, began = time.monotonic(), time.time()
            for second in range(STEP_S, DAY_S + 1, STEP_S):
                for count in range(second - STEP_S + 1, second + 1):
                    kind = ("failed", "joined")[count % 2]
                    event = Event(kind=kind, at=began + count, member="passing", reason=f"event {count}")
                    for listen in node.agent.listeners:
                        listen(event)
                await page.clock.run_for(1000 * STEP_S)
                await page.wait_for_function(CALM, arg=f"event {second}", polling=20, timeout=120_000)
                if second % (DAY_S // 10) == 0:
                    await devtools.send("HeapProfiler.collectGarbage")
                    metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
                    measured.append({metric["name"]: metric["value"] for metric in metrics})
            polls, drawings = await page.evaluate("[window.asked, window.doyenLanes.drawn]")
            shown = {
                name: [round(one[name] / scale, 2) for one in measured]
                for name, scale in (("JSHeapUsedSize", 1e6), ("Nodes", 1), ("JSEventListeners", 1))
            }
            tell(
                f"page: a day in {time.monotonic() - real:.0f} s: {DAY_S:,} events, {polls - asked:,} polls, "
                f"{drawings - drawn:,} drawings: {shown}"
            )
            assert polls - asked > 1.8 * DAY_S, "two questions a second"
            for name, most in (("JSHeapUsedSize", 1.05), ("Nodes", 1.02), ("JSEventListeners", 1.02)):
                assert max(shown[name]) <= most * shown[name][0], shown
            assert complaints == []

    asyncio.run(main())


@pytest.mark.soak
def test_the_page_of_a_stopped_node_counts_on_nothing_that_it_said() -> None:
    says = "(words) => document.getElementById('state').textContent.includes(words)"

    async def main() -> None:
        async with agents("ant", "bee") as (cluster, urls), browser() as started:
            leader = cluster.agreed()
            page, _ = await opened(started, urls["ant"])
            await page.wait_for_function(AGREE)
            cluster.members["ant"].process.send_signal(signal.SIGSTOP)
            await page.wait_for_function(says, arg="no answer from this node for", timeout=15_000)
            assert f"{leader} led, as ant last said" in await page.text_content("#who")
            assert await page.is_hidden("#lease")
            assert "ant last said: " in await page.text_content("#sentence")
            assert "ant does not answer, so nothing is known here" in await page.text_content("#sides")
            assert "All here is what ant said until" in await page.text_content("#warnings")
            ends = await page.evaluate("window.doyenLanes.goesOn")  # Of a bar that has no end.
            await asyncio.sleep(1.5)
            assert await page.evaluate("window.doyenLanes.goesOn") == ends < time.time() - 1.5
            cluster.members["ant"].process.send_signal(signal.SIGCONT)
            await page.wait_for_function(says, arg="live", timeout=30_000)
            await page.wait_for_function(AGREE)
            assert await page.evaluate("window.doyenLanes.goesOn") > time.time() - 5
            assert "ant last said" not in await page.text_content("#sentence")
            changes = "(text) => document.getElementById('changes').textContent.includes(text)"
            await page.wait_for_function(changes, arg="ant did not run for")

    asyncio.run(main())


@pytest.mark.soak
def test_a_leader_that_does_not_act_yet_is_not_said_to_lead_on_the_page_of_another() -> None:
    async def main() -> None:
        flags = [*FLAGS, "--expect", "3"]
        async with agents("ant", "bee", flags=flags) as (cluster, urls), browser() as started:
            leader = cluster.agreed()
            follower = next(name for name in urls if name != leader)
            page, complaints = await opened(started, urls[follower])
            warned = "(text) => document.getElementById('warnings').textContent.includes(text)"
            await page.wait_for_function(warned, arg=f"{leader} is named leader, but does not act yet, as it says")
            assert f"{leader} has been named leader for" in await page.text_content("#who")
            assert f"{leader} is named leader, and does not act yet." in await page.text_content("#sentence")
            await cluster.start("cat")
            await page.wait_for_function("() => / has led for/.test(document.getElementById('who').textContent)")
            assert complaints == []

    asyncio.run(main())


@pytest.mark.soak
def test_the_page_finds_its_node_again_after_a_restart() -> None:
    async def main() -> None:
        async with agents("ant", "bee") as (cluster, urls), browser() as started:
            page, _ = await opened(started, urls["ant"])
            await page.wait_for_function(AGREE)
            where = urls["ant"].removeprefix("http://")
            cluster.kill("ant")
            await page.wait_for_function("() => document.getElementById('state').className === 'bad'")
            await cluster.start("ant", "--http", where)
            await cluster.until_started()
            await page.wait_for_function(
                "() => document.getElementById('state').textContent === 'live'", timeout=30_000
            )

    asyncio.run(main())


@pytest.mark.soak
def test_the_token_is_asked_for_kept_out_of_addresses_and_actions_are_confirmed() -> None:
    async def main() -> None:
        async with agents("ant", "bee", flags=[*FLAGS, "--http-token", TOKEN]) as (cluster, urls), browser() as started:
            leader = cluster.agreed()
            assert leader is not None
            page, _ = await opened(started, urls[leader])
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            await page.fill("#token", "käse")
            await page.keyboard.press("Enter")
            await page.wait_for_function(
                "() => document.getElementById('token-said').textContent.includes('cannot be the token')"
            )
            await page.fill("#token", "wrong-wrong-wrong-wrong")
            await page.keyboard.press("Enter")
            await page.wait_for_function(
                "() => document.getElementById('token-said').textContent.includes('not the token')"
            )
            await page.fill("#token", TOKEN)
            await page.keyboard.press("Enter")
            await page.wait_for_function(LEADS, arg=leader)
            await page.click("#resign")
            assert await page.is_disabled("#confirm-yes")
            await page.fill("#confirm-name", leader)
            await page.click("#confirm-yes")
            await page.wait_for_function("() => document.getElementById('acted').textContent.endsWith('resigned')")
            await page.wait_for_function(
                "(old) => !document.getElementById('who').textContent.startsWith(old)", arg=leader
            )
            assert not any("token" in url or "0123456789" in url for url in asked), asked

    asyncio.run(main())


@pytest.mark.soak
@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_axe_finds_nothing_serious_and_a_keyboard_can_do_all(scheme: str, width: int) -> None:
    async def main() -> None:
        async with agents("ant", "bee", "cat") as (_, urls), browser() as started:
            page, _ = await opened(started, urls["ant"], color_scheme=scheme, viewport={"width": width, "height": 844})
            await page.wait_for_function(AGREE)
            for summary in await page.query_selector_all("summary"):
                await summary.click()
            await page.evaluate(AXE.read_text())
            found = await page.evaluate("axe.run()")
            bad = [(f["id"], f["impact"], [n["html"] for n in f["nodes"]][:3]) for f in found["violations"]]
            assert not [one for one in bad if one[1] in ("serious", "critical")], json.dumps(bad, indent=1)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # Nothing hangs over.
            await page.focus("canvas")
            before = await page.evaluate("window.doyenLanes.shown")
            for key in ("ArrowLeft", "+", "f", "ArrowUp"):
                await page.keyboard.press(key)
            assert await page.evaluate("window.doyenLanes.shown") != before
            assert "·" in await page.inner_text(".lanes-said")  # The event that it went to, in words.
            await page.focus("#matrix td button")
            await page.keyboard.press("ArrowRight")
            await page.keyboard.press("Enter")
            assert "ant has held bee alive for" in await page.inner_text("#cell")

    asyncio.run(main())
