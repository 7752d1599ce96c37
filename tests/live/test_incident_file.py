"""The file of a postmortem in a real Chromium: it asks for nothing, and an instant shows what was explained then."""

import asyncio
from pathlib import Path

import pytest
from browser import browser, needs_chromium, opened
from msgspec.structs import replace

from doyen.postmortem.document import document
from doyen.postmortem.picture import ClockOf
from doyen.postmortem.simulated import Simulated
from doyen.testing import Cluster

pytestmark = [pytest.mark.live, needs_chromium]

HOSTILE = "<img src=x onerror=alert(1)>"


def test_the_file_opens_alone_and_explains_an_instant(tmp_path: Path) -> None:
    cluster = Cluster(["ant", "bee", "cat"], seed=3)
    cluster.film()
    first = cluster.run_until_leader()
    cluster.run_for("1s")
    cluster.mark(first, HOSTILE)
    cluster.crash(first)
    second = cluster.run_until_leader()
    cluster.run_for("1s")
    path = tmp_path / "incident.html"
    path.write_text(cluster.html(), encoding="utf-8")

    async def look() -> None:
        async with browser() as started:
            page, complaints = await opened(started, path.as_uri())
            assert "two acted at once for 0.00 s" in await page.inner_text("#verdicts")
            assert f"{second} leads" in await page.inner_text("#explain")
            box = await page.locator("#lanes canvas").bounding_box()
            await page.mouse.click(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.6)
            assert "As of 0." in await page.inner_text("#explain h2")
            assert f"{first} leads" in await page.inner_text("#explain")
            assert await page.locator("img").count() == 0
            assert complaints == []

    asyncio.run(look())


@pytest.mark.parametrize("width", [390, 1200])
def test_long_names_leave_the_table_of_clocks_in_view(tmp_path: Path, width: int) -> None:
    name = "b" * 64
    cluster = Cluster(["ant", name], seed=3)
    film = Simulated(cluster.world)
    cluster.run_until_leader()
    clock = ClockOf(
        node=name, path=f"flights/{name}.rec", doyen="0.1", inputs=9, begin=0, end=1, error_s=0.001, wall_off_s=0.0
    )
    path = tmp_path / "incident.html"
    path.write_text(document(replace(film.incident(name), clocks=(clock,))), encoding="utf-8")

    async def look() -> None:
        async with browser() as started:
            page, complaints = await opened(started, path.as_uri(), viewport={"width": width, "height": 844})
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            cells = await page.locator("#clocks td").evaluate_all(
                "(all) => all.map(one => [one.title, one.getBoundingClientRect().right])"
            )
            assert cells[0][0] == name and cells[2 if width == 390 else -1][1] <= width
            assert complaints == []

    asyncio.run(look())
