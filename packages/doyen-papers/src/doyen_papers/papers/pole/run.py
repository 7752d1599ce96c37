"""Elections by application score, reproduced.  [POLE]"""

from typing import Final

from doyen_papers.papers.item import read_paper
from doyen_papers.papers.pole import formulas, latencies, recovery
from doyen_papers.papers.pole.cells import run_task

PAPER: Final = read_paper(
    "pole", formulas.MADE | latencies.MADE | recovery.MADE, run_task, runs={"kernel": 5, "machine": 5}
)
