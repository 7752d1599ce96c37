"""Draw docs/pictures/postmortem.png from a real run: three agents that record, a leader that is stopped, Chromium.

python scripts/incident_picture.py        what it needs: make browser
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.async_api import async_playwright

from doyen.postmortem.document import document
from doyen.postmortem.gather import postmortem

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "postmortem.png"
NAMES = ("ant", "bee", "cat")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def started(place: Path, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "doyen", "agent", "--group", "orders", "--name", name, "--preset", "local"]
    command += ["--election", "quorum", "--voters", ",".join(NAMES), "--newcomer", "--membership", "swim"]
    command += ["--state", str(place / "state"), "--record", str(place / f"{name}.rec")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


async def main() -> None:
    place = Path(tempfile.mkdtemp())
    os.environ["DOYEN_RUNTIME_DIR"] = str(place / "run")
    running = {name: started(place, name) for name in NAMES}
    try:
        time.sleep(4)
        first = subprocess.run(
            [sys.executable, "-m", "doyen", "leader", "--group", "orders"], capture_output=True, text=True, check=True
        ).stdout.split()[0]
        running[first].send_signal(signal.SIGSTOP)
        time.sleep(3)
        running[first].send_signal(signal.SIGCONT)
        time.sleep(2)
    finally:
        for process in running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in running.values():
            process.wait()
    os.chdir(place)
    file = place / "incident.html"
    file.write_text(document(postmortem([Path(f"{name}.rec") for name in NAMES])), encoding="utf-8")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = await browser.new_page(viewport={"width": 1100, "height": 760})
        await page.goto(file.as_uri())
        await page.screenshot(path=PICTURE)
        await browser.close()
    shutil.rmtree(place)


asyncio.run(main())
