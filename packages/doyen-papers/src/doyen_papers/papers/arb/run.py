"""[ARB], reproduced: theorems, corollaries, and Figures 7 to 11."""

from typing import Final

from doyen_papers.papers.arb import figures, theorems
from doyen_papers.papers.arb.cells import run_task
from doyen_papers.papers.item import read_paper

PAPER: Final = read_paper("arb", theorems.MADE | figures.MADE, run_task, runs={"kernel": 200, "machine": 200})
