"""Draw docs/pictures/page-*.png and top.svg from a real run: agents, a killed leader, a resignation, a real Chromium.

    python scripts/page_pictures.py        what it needs: make browser

Nothing is drawn by hand: the page and `doyen top` show what the agents did while this ran.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
from playwright.async_api import async_playwright

from doyen.eyes.top import Top
from doyen.node.control import ask, find_node

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
NAMES = ("ant", "bee", "cat", "dog", "elk")
TOKEN = "only-for-this-picture"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Group:
    """Five voters on loopback, sealed, each with a page."""

    def __init__(self, place: Path) -> None:
        self.place, self.running = place, dict[str, subprocess.Popen[bytes]]()
        self.ports = {name: free_port() for name in NAMES}
        subprocess.run([sys.executable, "-m", "doyen", "keys", "new", "--file", str(place / "key")], check=True)

    def start(self, name: str, *flags: str) -> None:
        command = [sys.executable, "-m", "doyen", "agent", "--group", "orders", "--name", name, "--preset", "local"]
        command += ["--election", "quorum", "--voters", ",".join(NAMES), "--membership", "swim"]
        command += ["--state", str(self.place / "state"), "--key-file", str(self.place / "key"), *flags]
        command += ["--http", f"127.0.0.1:{self.ports[name]}"]
        self.running[name] = subprocess.Popen(
            command, env=os.environ | {"DOYEN_HTTP_TOKEN": TOKEN}, stdout=subprocess.DEVNULL
        )

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def asked(self, name: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}", "doyen-confirm": name}
        with urlopen(Request(self.url(name) + path, headers=headers, **more), timeout=10) as reply:
            return msgspec.json.decode(reply.read())

    async def leader(self, other_than: str = "") -> str:
        """Wait until all that run name one leader, and return it."""
        while True:
            try:
                living = [name for name, process in self.running.items() if process.poll() is None]
                named = {self.asked(name, "/page/now")["leader"] for name in living}
                if len(named) == 1 and None not in named | {other_than} and other_than not in named:
                    return str(named.pop())
            except OSError:
                pass
            await asyncio.sleep(0.1)


async def main() -> None:
    place = Path(tempfile.mkdtemp())
    os.environ["DOYEN_RUNTIME_DIR"] = str(place / "run")
    group = Group(place)
    try:
        for name in NAMES:
            group.start(name, "--newcomer")
        first = await group.leader()
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            sees = next(name for name in NAMES if name != first)
            light = await browser.new_page(viewport={"width": 1100, "height": 1280})
            dark = await browser.new_page(viewport={"width": 390, "height": 1000}, color_scheme="dark")
            for page in (light, dark):
                await page.goto(group.url(sees) + "/")
                await page.fill("#token", TOKEN)
                await page.keyboard.press("Enter")
            await asyncio.sleep(8)
            group.running[first].send_signal(signal.SIGKILL)
            second = await group.leader(first)
            await asyncio.sleep(10)
            group.start(first)
            await asyncio.sleep(8)
            group.asked(second, "/resign", method="POST")
            await group.leader(second)
            await asyncio.sleep(8)
            last = next(
                name for name in reversed(NAMES) if name != sees and group.asked(sees, "/page/now")["leader"] != name
            )
            group.running[last].send_signal(signal.SIGKILL)
            await asyncio.sleep(6)
            await light.screenshot(path=PICTURES / "page.png", full_page=True)
            await dark.screenshot(path=PICTURES / "page-phone.png")
            path = find_node("orders", sees)
            app = Top(lambda do, timeout_s=5.0, **fields: ask(path, do, timeout_s=timeout_s, **fields))
            async with app.run_test(size=(110, 36)) as pilot:
                await pilot.pause(3)
                drawn = re.sub(r"@font-face \{.*?\}", "", app.export_screenshot(title="doyen top"), flags=re.DOTALL)
                (PICTURES / "top.svg").write_text(re.sub(r"<!--.*?-->", "", drawn))  # It fetches nothing.
            await browser.close()
    finally:
        for process in group.running.values():
            process.kill()
            process.wait()
        shutil.rmtree(place)
    for name in ("page.png", "page-phone.png", "top.svg"):
        print(f"docs/pictures/{name}")


if __name__ == "__main__":
    asyncio.run(main())
