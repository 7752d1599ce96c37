"""The file of a postmortem in a real Chromium: it asks for nothing, and an instant shows what was explained then."""

import asyncio
from pathlib import Path

import pytest
from browser import browser, needs_chromium, opened

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
