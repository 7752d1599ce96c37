"""Machines that are broken on purpose, in place of those that a world builds: a checker that catches none is none."""

from types import MethodType
from typing import Any

from doyen.core.host import Port
from doyen.sim.node import SimNode
from doyen.sim.world import Tamper


def as_mutant(mutant: type[Any]) -> Tamper:
    """Return what `simulate(…, tamper=…)` wants: every machine of the class that `mutant` derives from becomes one.

    A mutant overrides methods; it has no slots and no `__init__` of its own, for the machine has been made already.
    """

    def tamper(node: SimNode, channel: str, port: Port, machine: Any) -> Any:
        if issubclass(mutant, type(machine)):
            machine.__class__ = mutant
            for kind, handle in tuple(port.handlers.items()):  # Bound while it was sound.
                if isinstance(handle, MethodType) and handle.__self__ is machine:
                    port.subscribe(kind, getattr(machine, handle.__func__.__name__))
        return machine

    return tamper
