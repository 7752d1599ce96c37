"""A real Chromium, driven by Playwright; a test that needs it is skipped by name where it is missing."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).parents[2] / ".venv" / "npm" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--js-flags=--expose-gc",
    "--enable-precise-memory-info",
]

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="Chromium or the Python package playwright is not installed: make browser",
)
needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: make browser")


@asynccontextmanager
async def browser(*more: str, within_s: float = 600) -> AsyncIterator[Any]:
    """Start one.  What is done with it ends within that time: not every call of Playwright has a bound of its own."""
    from playwright.async_api import async_playwright

    async with asyncio.timeout(within_s), async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *more])
        try:
            yield started
        finally:
            await asyncio.wait_for(started.close(), 30)


async def opened(started: Any, url: str, *, made_up_time: str = "", **more: Any) -> tuple[Any, list[str]]:
    """Open a page; return it and the list in which its complaints gather: errors, refusals by its policy, dialogs.

    With `made_up_time`, a script that runs before all others, the page's clock can be moved (`page.clock`).
    """
    page = await started.new_page(**{"viewport": {"width": 1200, "height": 1000}} | more)
    if made_up_time:
        await page.add_init_script(made_up_time)
        await page.clock.install()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
    own = (url, f"blob:{url}")
    page.on("request", lambda asked: None if asked.url.startswith(own) else complaints.append(f"asks {asked.url}"))
    await page.goto(url if url.startswith("file:") else url + "/")
    return page, complaints
