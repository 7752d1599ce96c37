"""Chapter 5 on announce-listen elections, reproduced.  [LE]"""

from pathlib import Path
from typing import Final

from doyen_papers.papers.item import Paper
from doyen_papers.papers.le.cells import run_task
from doyen_papers.papers.le.figures import FIGURES
from doyen_papers.papers.le.orderings import ORDERINGS
from doyen_papers.papers.le.tables import TABLES

PAPER: Final = Paper(
    key="le",
    folder=Path(__file__).parent,
    items=(*FIGURES, TABLES[0], ORDERINGS, *TABLES[1:]),
    study=run_task,
    runs={"kernel": 10_000, "machine": 200},
)
