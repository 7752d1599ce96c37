"""Churn-tolerant elections, reproduced.  [CTOL]"""

from typing import Final

from doyen_papers.papers.ctol import figures, tables
from doyen_papers.papers.ctol.cells import run_task
from doyen_papers.papers.item import read_paper

PAPER: Final = read_paper("ctol", tables.MADE | figures.MADE, run_task, runs={"kernel": 60, "machine": 60})
