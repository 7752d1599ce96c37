"""What is reproduced of [POLE]."""

from pathlib import Path
from typing import Final

from doyen.papers.item import Paper
from doyen.papers.pole import formulas, latencies, recovery
from doyen.papers.pole.cells import run_task

PAPER: Final = Paper(
    key="pole",
    folder=Path(__file__).parent,
    items=(*formulas.ITEMS, *latencies.ITEMS, *recovery.ITEMS),
    study=run_task,
    runs={"kernel": 5, "machine": 5},
)
