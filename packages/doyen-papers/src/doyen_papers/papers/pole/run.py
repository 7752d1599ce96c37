"""What is reproduced of [POLE]."""

from pathlib import Path
from typing import Final

from doyen_papers.papers.item import Paper
from doyen_papers.papers.pole import formulas, latencies, recovery
from doyen_papers.papers.pole.cells import run_task

PAPER: Final = Paper(
    key="pole",
    folder=Path(__file__).parent,
    items=(*formulas.ITEMS, *latencies.ITEMS, *recovery.ITEMS),
    study=run_task,
    runs={"kernel": 5, "machine": 5},
)
