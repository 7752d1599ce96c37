"""Churn-tolerant elections, reproduced.  [CTOL]"""

from pathlib import Path
from typing import Final

from doyen_papers.papers.ctol import figures, tables
from doyen_papers.papers.ctol.cells import run_task
from doyen_papers.papers.item import Paper

PAPER: Final = Paper(
    key="ctol",
    folder=Path(__file__).parent,
    items=(*tables.ITEMS, *figures.ITEMS),
    study=run_task,
    runs={"kernel": 60, "machine": 60},
)
