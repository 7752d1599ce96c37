"""Nodes broken on purpose, for tests only: `python mutants.py MUTANT PLAN`, or `MUTANT run …` as `doyen run`."""

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


def sleeping_watchdog() -> None:
    """`doyen run`: the guard of a command is never told of the lease."""
    from doyen.agent.ward import Ward

    start = Ward.start

    async def start_unwatched(self: Ward, term: int, until: object) -> None:
        await start(self, term, None)

    Ward.start = start_unwatched  # type: ignore[assignment,method-assign]


MUTANTS: dict[str, Any] = {made.__name__: made for made in (outlives_its_lease, never_yields, sleeping_watchdog)}

if __name__ == "__main__":
    MUTANTS[sys.argv.pop(1)]()
    if sys.argv[1] == "run":
        from doyen.cli import main

        main()
    sys.exit(witness.main())
