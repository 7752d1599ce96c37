"""The playground in a real Chromium, offline: its runs are those of `doyen sim run`, to the hash of the trace."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from browser import AXE, browser, needs_axe, needs_chromium, opened
from playground import SCRIPT, needs_playground, served

from doyen.cli import main
from doyen.sim.scenario import simulate
from doyen.sim.scenario.text import read_file

pytestmark = [pytest.mark.live, needs_chromium, needs_playground]

OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
DONE = "() => document.getElementById('state').textContent.startsWith('Done')"
SHOWN = """([election, seed]) => {
  const said = new URLSearchParams(document.getElementById('hash').dataset.of?.slice(1));
  return said.get('election') === election && said.get('seed') === seed; }"""
HOSTILE = "<img src=x onerror=alert(1)>"
LONG_MS = 180_000  # Python is loaded into a browser on a machine that does other things.


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site") / "playground"
    SCRIPT.build(folder)
    with served(folder) as address:
        yield address


@asynccontextmanager
async def page_at(url: str, link: str = "", **more: Any) -> AsyncIterator[Any]:
    """Open the playground, wait for its first run, and see in the end that it asked nobody but its own server."""
    async with browser(OFFLINE, within_s=1800) as started:
        page, complaints = await opened(started, url, **more)
        if link:
            await page.goto("about:blank")
            await page.goto(f"{url}/{link}")
        await page.wait_for_function(DONE, timeout=LONG_MS)
        yield page
        assert complaints == []


async def shown(page: Any, election: str, seed: int) -> tuple[str, str]:
    """Return the hash and the scenario file of that run, once it is shown."""
    await page.wait_for_function(SHOWN, arg=[election, str(seed)], timeout=LONG_MS)
    return await page.text_content("#hash"), await page.text_content("#scenario")


def native(text: str, folder: Path) -> str:
    """Return the hash of the trace of that scenario file, run by this Python."""
    file = folder / "scenario.toml"
    file.write_text(text)
    return simulate(read_file(file)).trace_hash


def link(**said: object) -> str:
    return "#" + urlencode(said)


def test_a_run_is_the_native_one_and_its_link_makes_it_again(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def look() -> tuple[str, str]:
        async with page_at(url) as page:
            usual = await shown(page, "quorum", 1)
            assert native(usual[1], tmp_path) == usual[0]
            assert "two acted at once for 0.00 s" in await page.inner_text("#verdicts")
            assert "leads" in await page.inner_text("#explain")
            await page.fill("#at", "30")
            await page.keyboard.press("Tab")
            await page.click("#do-return")  # Whoever was killed at 10 s.
            await page.wait_for_function("() => document.querySelectorAll('#events li').length === 2")
            await page.wait_for_function(
                "(old) => document.getElementById('hash').textContent !== old", arg=usual[0], timeout=LONG_MS
            )
            again = await shown(page, "quorum", 1)
            assert '[[churn.events]]\ndo = "restart"\nat = "30s"\nwho = [4]\n' in again[1]
            held = await page.input_value("#link")
            await page.goto("about:blank")
            await page.goto(held)
            await page.wait_for_function(DONE, timeout=LONG_MS)
            assert await shown(page, "quorum", 1) == again
            return again

    found, text = asyncio.run(look())
    (tmp_path / "scenario.toml").write_text(text)
    with pytest.raises(SystemExit, match="0"):
        main(["sim", "run", str(tmp_path / "scenario.toml"), "--json"])
    assert json.loads(capsys.readouterr().out)["trace_hash"] == found


# ── make soak ───────────────────────────────────────────────────────────────────────────────────────────────

EVENTS = "kill@6:leader,cut@12:0+1,heal@20,pause@22:leader,resume@25:0+1+2+3+4"
STACKS = [  # Election, membership, preset, nodes, loss in percent, delay.
    ("quorum", "auto", "lan", 5, 5, "1ms"),
    ("gossip", "auto", "lan", 5, 0, "1ms"),
    ("gossip", "medley", "lan", 6, 5, "2ms"),
    ("fast", "auto", "lan", 5, 10, "1ms"),
    ("base", "heartbeat", "lan", 5, 2, "1ms"),
    ("spanning", "auto", "local", 5, 2, "1ms"),
    ("by-key", "auto", "lan", 5, 0, "1ms"),
    ("directory", "swim", "lan", 5, 2, "1ms"),  # Without a membership it draws nothing: all seeds are one run.
    ("local", "auto", "lan", 5, 2, "1ms"),
    ("quorum", "swim", "wan", 7, 20, "150ms"),
]
SEEDS = range(100)


@pytest.mark.soak
def test_100_seeds_have_the_hashes_of_native_runs(url: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    async def look() -> int:
        hashes = {}
        async with page_at(url) as page:
            for seed in SEEDS:
                election, membership, preset, nodes, loss, delay = STACKS[seed % len(STACKS)]
                said = {"election": election, "membership": membership, "preset": preset, "nodes": nodes, "seed": seed}
                said |= {"loss": loss, "delay": delay, "seconds": 30, "do": EVENTS}
                await page.evaluate("link => { location.hash = link; }", link(**said))
                found, text = await shown(page, election, seed)
                assert native(text, tmp_path) == found, said
                hashes[seed] = found
                assert await page.text_content("#complaint") == ""
        return len({*hashes.values()})

    different = asyncio.run(look())
    tell(f"playground: {len(SEEDS)} seeds, {different} different hashes, each equal to the native one")
    assert different == len(SEEDS)


@pytest.mark.soak
def test_a_link_that_is_wrong_is_refused_as_text(url: str) -> None:
    async def look() -> None:
        async with page_at(url) as page:
            for wrong, culprit in (
                (link(election=HOSTILE), f"election={HOSTILE}"),
                (link(nodes="999"), "nodes=999"),
                (link(seed="-1"), "seed=-1"),
                (link(do="kill@5:9"), "node 9"),
                (link(do=HOSTILE), HOSTILE),
                (link(election="by-key", membership="swim"), "membership=swim"),
                (link(**{HOSTILE: 1}), HOSTILE),
            ):
                before = await page.text_content("#hash")
                await page.evaluate("link => { location.hash = link; }", wrong)
                await page.wait_for_function(
                    "(culprit) => document.getElementById('complaint').textContent.includes(culprit)", arg=culprit
                )
                await page.wait_for_function(DONE, timeout=LONG_MS)
                assert await page.text_content("#hash") == before
            assert await page.locator("img").count() == 0

    asyncio.run(look())


@pytest.mark.soak
def test_buttons_that_cannot_act_say_why_and_plans_can_be_taken_back(url: str) -> None:
    async def look() -> None:
        async with page_at(url, link(seed=3, do="kill@10:leader")) as page:
            await page.fill("#at", "5")
            await page.keyboard.press("Tab")
            await page.click("#do-resume")
            assert "nobody is paused at 5.000 s" in await page.inner_text("#complaint")
            await page.fill("#at", "65")
            await page.keyboard.press("Tab")
            await page.click("#do-kill")
            assert "quiet time" in await page.inner_text("#complaint")
            await page.fill("#nodes", "99")
            await page.keyboard.press("Tab")
            assert "give a whole number from 1 to 16" in await page.inner_text("#complaint")
            assert await page.input_value("#nodes") == "5"
            await page.click("#events button")
            await page.wait_for_function("() => !document.querySelector('#events li')")
            await page.wait_for_function(  # The run before it is shown until then.
                "() => !document.getElementById('scenario').textContent.includes('churn')", timeout=LONG_MS
            )

    asyncio.run(look())


@pytest.mark.soak
@needs_axe
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_axe_finds_nothing_serious_in_the_playground(url: str, scheme: str, width: int) -> None:
    async def look() -> None:
        async with page_at(url, color_scheme=scheme, viewport={"width": width, "height": 844}) as page:
            wide = await page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            assert wide[0] <= wide[1]
            await page.click("summary")
            await page.evaluate(f"{AXE.read_text()}; 0")
            found = await page.evaluate("axe.run()")
            bad = [(f["id"], f["impact"], [n["html"] for n in f["nodes"]][:3]) for f in found["violations"]]
            assert not [one for one in bad if one[1] in ("serious", "critical")], json.dumps(bad, indent=1)

    asyncio.run(look())
