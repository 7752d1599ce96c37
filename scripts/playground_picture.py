"""Draw docs/pictures/playground.png: the playground in a real Chromium, with a run that it makes itself.

python scripts/playground_picture.py        what it needs: make browser
"""

import asyncio
import shutil
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import playground  # Beside this file.
from playwright.async_api import async_playwright

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "playground.png"
LINK = "#election=quorum&nodes=5&seed=7&loss=5&do=kill@10:leader,return@20:4,cut@30:leader,heal@42"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None: ...


async def draw(url: str) -> None:
    """Open the playground, wait for its run, and take the picture."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = await browser.new_page(viewport={"width": 1100, "height": 1250})
        await page.goto(f"{url}/{LINK}")
        await page.wait_for_function(
            "() => document.getElementById('state').textContent.startsWith('Done')", timeout=120_000
        )
        await page.screenshot(path=PICTURE)
        await browser.close()


def main() -> None:
    """Build the playground into a folder of its own, and serve it on loopback."""
    with tempfile.TemporaryDirectory() as folder:
        playground.build(Path(folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
        Thread(target=server.serve_forever).start()
        try:
            asyncio.run(draw(f"http://127.0.0.1:{server.server_port}"))
        finally:
            server.shutdown()
            server.server_close()
    print("docs/pictures/playground.png")


if __name__ == "__main__":
    main()
