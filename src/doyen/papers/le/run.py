"""Chapter 5 on announce-listen elections, reproduced.  [LE]"""

from pathlib import Path
from typing import Final

from doyen.papers.item import Paper
from doyen.papers.le.cells import run_task
from doyen.papers.le.figures import FIGURES
from doyen.papers.le.orderings import ORDERINGS
from doyen.papers.le.tables import TABLES

PAPER: Final = Paper(
    key="le",
    folder=Path(__file__).parent,
    items=(*FIGURES, TABLES[0], ORDERINGS, *TABLES[1:]),
    study=run_task,
    runs={"kernel": 10_000, "machine": 200},
)
