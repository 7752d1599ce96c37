"""Chapter 6 on multi-attribute elections, reproduced.  [MADM]"""

from pathlib import Path
from typing import Final

from doyen_papers.papers.item import Paper
from doyen_papers.papers.madm import growth, tables
from doyen_papers.papers.madm.cells import run_task

PAPER: Final = Paper(
    key="madm",
    folder=Path(__file__).parent,
    items=(*tables.ITEMS, *growth.ITEMS),
    study=run_task,
    runs={"kernel": 50, "machine": 50},
)
