"""[ARB], reproduced: Figures 7 to 11."""

from pathlib import Path
from typing import Final

from doyen_papers.papers.arb.cells import run_task
from doyen_papers.papers.arb.figures import ITEMS
from doyen_papers.papers.item import Paper

PAPER: Final = Paper(
    key="arb",
    folder=Path(__file__).parent,
    items=ITEMS,
    study=run_task,
    runs={"kernel": 200, "machine": 200},
)
