"""A postmortem of 3 hosts × 16 MB opens in five seconds; how long it takes to make is told."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import browser, needs_chromium, opened

from doyen.testing import Cluster

from .recordings import NAMES, Recorded

pytestmark = [pytest.mark.soak, needs_chromium]

SIZE = 16_000_000
WITHIN_S = 5.0


def folder_of(tmp_path: Path) -> Path:
    def play(cluster: Cluster) -> None:
        while sum(recorded(name) for name in NAMES) < 3 * SIZE:
            first = cluster.run_until_leader()
            cluster.run_for("200s")
            cluster.pause(first)
            cluster.run_for("3s")
            cluster.resume(first)
            cluster.run_for("3s")

    def recorded(name: str) -> int:
        return sum(path.stat().st_size for path in tmp_path.glob(f"{name}*"))

    return Recorded(tmp_path, record_max=20 << 20).run(play).folder / "kept"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return sorted(folder_of(tmp_path_factory.mktemp("large")).glob("*.rec"))


def made(files: list[Path], html: Path) -> float:
    began = time.monotonic()
    command = [sys.executable, "-m", "doyen", "postmortem", *map(str, files), "-o", str(html)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def test_sixteen_megabytes_of_each_of_three_hosts_open(
    files: list[Path], tmp_path: Path, tell: Callable[[str], None]
) -> None:
    making = made(files, tmp_path / "incident.html")
    opens = asyncio.run(opened_in(tmp_path / "incident.html"))
    tell(f"postmortem: {megabytes(files):.0f} MB of {len(files)} hosts made in {making:.1f} s, opened in {opens:.2f} s")
    assert opens < WITHIN_S


def megabytes(files: list[Path]) -> float:
    return sum(path.stat().st_size for path in files[0].parent.iterdir()) / 1e6


async def opened_in(html: Path) -> float:
    async with browser() as started:
        began = time.monotonic()
        page, complaints = await opened(started, f"file://{html}")
        await page.wait_for_selector("#lanes canvas")
        assert "two acted at once for" in await page.text_content("#verdicts")
        assert complaints == []
        return time.monotonic() - began
