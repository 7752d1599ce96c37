"""Witnesses of nodes that are broken on purpose: `python mutants.py MUTANT PLAN`.  For tests only."""

import sys
from typing import Any

from doyen.core.clock import seconds
from doyen.lab.proving import witness

HOUR = seconds(3600)


def outlives_its_lease() -> None:
    """A leader's lease ends an hour later than the voters that granted it believe."""
    from doyen.election.pole.lease import Lease

    until: Any = Lease.until
    Lease.until = property(lambda self: until.fget(self) + HOUR)  # type: ignore[assignment,method-assign]


def never_yields() -> None:
    """An application that is not stopped, and does not ask: it acts on although its node leads no more."""
    from doyen.api.campaign import Term

    Term.lost = property(lambda self: False)  # type: ignore[assignment,method-assign]
    Term._stop = lambda self, reason: None  # type: ignore[method-assign]


MUTANTS: dict[str, Any] = {made.__name__: made for made in (outlives_its_lease, never_yields)}

if __name__ == "__main__":
    MUTANTS[sys.argv.pop(1)]()
    sys.exit(witness.main())
