"""[ARB], reproduced: Figures 7 to 11."""

from typing import Final

from doyen_papers.papers.arb.cells import run_task
from doyen_papers.papers.arb.figures import MADE
from doyen_papers.papers.item import read_paper

PAPER: Final = read_paper("arb", MADE, run_task, runs={"kernel": 200, "machine": 200})
