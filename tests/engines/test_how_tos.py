"""The `py` blocks of the how-tos need a store: they are run against a real one, with its address put in."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from doyen_lab.servers import Server

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESSES = {
    "postgresql": re.compile(r"postgresql://\S*?db\.internal/\w+"),
    "redis": re.compile(r"redis://\S*?internal"),
}
PAGES = {page.stem: BLOCK.findall(page.read_text()) for page in sorted((ROOT / "docs").rglob("*.md"))}


def test_pages_have_snippets_for_stores() -> None:
    assert {stem for stem, blocks in PAGES.items() if blocks} >= {"fence", "engine"}


@pytest.mark.parametrize(
    "stem",
    # A first election waits for a lease, three times, and Celery starts slowly: those pages are for `make soak`.
    [
        pytest.param(stem, marks=[pytest.mark.soak] * (stem in ("engine", "schedulers")))
        for stem, blocks in PAGES.items()
        if blocks
    ],
)
def test_the_snippets_run_on_a_real_store(stem: str, server_of: Callable[[str], Server], tmp_path: Path) -> None:
    for body in PAGES[stem]:
        text = body
        for kind, address in ADDRESSES.items():
            if address.search(text):
                text = address.sub(server_of(kind).url, text)
        assert "internal" not in text
        command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", text]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{stem}\n{done.stderr[-2000:]}"
