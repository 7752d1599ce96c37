"""Chapter 5 on announce-listen elections, reproduced.  [LE]"""

from typing import Final

from doyen_papers.papers.item import read_paper
from doyen_papers.papers.le import figures, orderings, tables
from doyen_papers.papers.le.cells import run_task

PAPER: Final = read_paper(
    "le", figures.MADE | orderings.MADE | tables.MADE, run_task, runs={"kernel": 10_000, "machine": 200}
)
