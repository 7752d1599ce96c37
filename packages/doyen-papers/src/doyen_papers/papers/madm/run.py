"""Chapter 6 on multi-attribute elections, reproduced.  [MADM]"""

from typing import Final

from doyen_papers.papers.item import read_paper
from doyen_papers.papers.madm import growth, tables
from doyen_papers.papers.madm.cells import run_task

PAPER: Final = read_paper("madm", tables.MADE | growth.MADE, run_task, runs={"kernel": 50, "machine": 50})
