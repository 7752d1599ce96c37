"""Chapter 5 on announce-listen elections, reproduced.  [LE]"""

from typing import Final

from doyen_papers.papers.item import read_paper
from doyen_papers.papers.le import extensions, figures, observed, orderings, recurrences, tables
from doyen_papers.papers.le.cells import run_task

MADE: Final = figures.MADE | orderings.MADE | tables.MADE | recurrences.MADE | extensions.MADE | observed.MADE
PAPER: Final = read_paper("le", MADE, run_task, runs={"kernel": 10_000, "machine": 200})
