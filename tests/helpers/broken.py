"""Machines that are broken on purpose, in place of those that a world builds: a checker that catches none is none."""

from typing import Any

from doyen.core.host import Port
from doyen.sim.node import SimNode
from doyen.sim.world import Tamper


def as_mutant(mutant: type[Any]) -> Tamper:
    """Return what `simulate(…, tamper=…)` wants: every machine of the class that `mutant` derives from becomes one.

    A mutant overrides methods, and `HEARS` with the handlers of facts among them; it has no slots and no `__init__` of
    its own, for the machine has been made already.
    """
    # What it hears of is as the sound class wrote it down; a mutant may have overridden it.
    mutant.HEARS = {kind: getattr(mutant, handle.__name__, handle) for kind, handle in mutant.HEARS.items()}

    def tamper(node: SimNode, channel: str, port: Port, machine: Any) -> Any:
        if issubclass(mutant, type(machine)):
            machine.__class__ = mutant
        return machine

    return tamper
