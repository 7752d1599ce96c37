"""The `py` blocks of the how-tos need a store: they are run against a real one, with its address put in."""

import subprocess
import sys
from pathlib import Path

import pytest
from stores import SNIPPET, ServerOf, snippets

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page for page in sorted((ROOT / "docs").rglob("*.md")) if SNIPPET.search(page.read_text())}


def test_pages_have_snippets_for_stores() -> None:
    assert PAGES.keys() >= {"fence", "engine"}


@pytest.mark.parametrize(
    "stem",
    # A first election waits for a lease, three times, and Celery starts slowly: those pages are for `make soak`.
    [pytest.param(stem, marks=[pytest.mark.soak] * (stem in ("engine", "schedulers"))) for stem in PAGES],
)
def test_the_snippets_run_on_a_real_store(stem: str, server_of: ServerOf, tmp_path: Path) -> None:
    for text in snippets(PAGES[stem], server_of):
        command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", text]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{stem}\n{done.stderr[-2000:]}"
