"""Churn-tolerant elections, reproduced.  [CTOL]"""

from typing import Final

from doyen_papers.papers.ctol import deployment, figures, tables
from doyen_papers.papers.ctol.cells import run_task
from doyen_papers.papers.item import read_paper

MADE: Final = tables.MADE | figures.MADE | deployment.MADE
PAPER: Final = read_paper("ctol", MADE, run_task, runs={"kernel": 100, "machine": 100})
