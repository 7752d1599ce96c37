"""The invariants of every run, each watched by a small class that counts how often it really looked.

base        what a checker is
reigns      of any election: terms, reigns, and where it is promised never two who act
links       of quorum elections: who can reach a majority leads, whatever other links are cut
members     of any membership: the dead stay dead
settled     of any election: what the quiet time must come to
announce, churn_tolerant, pole, ring, spanning      of one protocol alone

A violation raises `InvariantViolated` out of the event that caused it; the run stops there.  A checker that does not
apply to a stack is left out; one that applies and never looked is reported.
"""

from typing import Final

from doyen.sim.checkers import announce, churn_tolerant, links, members, pole, reigns, ring, settled, spanning
from doyen.sim.checkers.base import Checker as Checker
from doyen.sim.checkers.base import Violation as Violation

MODULES: Final = (reigns, links, members, announce, churn_tolerant, pole, ring, spanning, settled)
CHECKERS: Final[dict[str, type[Checker]]] = {kind.name: kind for module in MODULES for kind in module.CHECKERS}
