"""Nodes broken on purpose, for tests only: `python mutants.py MUTANT PLAN`, or `MUTANT run …` as `doyen run`.

`MUTANT sim …` is `doyen sim` with such nodes.

Each has one deliberate bug, and the lab must catch every one: `test_mutants` says by which scenario.
"""

import os
import sys
from pathlib import Path
from typing import Any

from doyen.core.clock import seconds
from doyen_lab.proving import witness

HOUR = seconds(3600)


# Elections and applications.


def outlives_its_lease() -> None:
    """A leader's lease ends an hour later than the voters that granted it believe."""
    from doyen.election.pole.reign import Lease

    until: Any = Lease.until
    Lease.until = property(lambda self: until.fget(self) + HOUR)  # type: ignore[assignment,method-assign]


def counts_its_lease_from_the_answer() -> None:
    """And not from when it had asked: by a round trip too long."""
    from doyen.election.pole.machine import Pole
    from doyen.election.pole.reign import Beats

    answered_at, on_message, sent_at = [0], Pole.on_message, Beats.sent_at

    def note_when(self: Pole, sender: Any, message: Any, now: int) -> None:
        answered_at[0] = now
        on_message(self, sender, message, now)

    Pole.on_message = note_when  # type: ignore[method-assign]
    Beats.sent_at = (  # type: ignore[method-assign]
        lambda self, number: None if sent_at(self, number) is None else answered_at[0]
    )


def needs_no_majority() -> None:
    """Its own word is enough for a lease."""
    from doyen.election.pole.electorate import Electorate

    Electorate.reached = lambda self, instants: max(instants.values(), default=None)  # type: ignore[method-assign]


def forgets_its_promise() -> None:
    """A voter that restarts knows nothing of what it granted, and votes as a newcomer."""
    from doyen.election.pole import machine

    begin = machine.Pole.__init__

    def forget(self: Any, *positional: Any, **named: Any) -> None:
        begin(self, *positional, **named | {"restored": None, "newcomer": True})

    machine.Pole.__init__ = forget  # type: ignore[method-assign]


def never_yields() -> None:
    """An application that is not stopped, and does not ask: it acts on although its node no longer leads."""
    from doyen.node.term import Term

    Term.lost = property(lambda self: False)  # type: ignore[assignment,method-assign]
    Term.end = lambda self, reason: None  # type: ignore[method-assign]


# `doyen run`.


def sleeping_watchdog() -> None:
    """The guard of a command is never told of the lease."""
    from doyen.runner.ward import Ward

    start = Ward.start

    async def start_unwatched(self: Ward, term: int, until: object, baton: bytes | None = None) -> None:
        await start(self, term, None, baton)

    Ward.start = start_unwatched  # type: ignore[assignment,method-assign]


def forgets_its_reign() -> None:
    """A runner that restarts leads again at once, although its former life's command has until the lease ends."""
    from doyen.election.pole.promise import Voter

    Voter.wake = lambda self, now, guard: None  # type: ignore[method-assign]


def tells_before_it_stops() -> None:
    """The others are told that it no longer leads while its command still ends."""
    from doyen.node.campaign import Campaign

    async def do_nothing(self: Campaign) -> None:
        pass

    Campaign.stop_acting = do_nothing  # type: ignore[method-assign]


def without_the_kernels_word() -> None:
    """Nobody learns that a guard was killed: neither its command, by PR_SET_PDEATHSIG, nor its shadow."""
    _guards("without_the_kernels_word")


def follows_the_group_only() -> None:
    """What leaves the command's process group is not followed."""
    from doyen.runner import guard

    guard.adopt_orphans = lambda: None
    _guards("follows_the_group_only")


def _guards(mutant: str) -> None:
    """Its guards are those of `mutant_guards.py`."""
    from doyen.runner import guard

    os.environ |= {"DOYEN_SOUND_GUARD": str(guard.__file__), "DOYEN_MUTANT": mutant}
    guard.__file__ = str(Path(__file__).with_name("mutant_guards.py"))


NODES: dict[str, Any] = {
    made.__name__: made
    for made in (
        outlives_its_lease,
        counts_its_lease_from_the_answer,
        needs_no_majority,
        forgets_its_promise,
        never_yields,
    )
}
RUNNERS: dict[str, Any] = {
    made.__name__: made
    for made in (
        sleeping_watchdog,
        forgets_its_reign,
        tells_before_it_stops,
        without_the_kernels_word,
        follows_the_group_only,
    )
}

if __name__ == "__main__":
    (NODES | RUNNERS)[sys.argv.pop(1)]()
    if sys.argv[1] in ("run", "sim"):
        from doyen.cli import main

        main(sys.argv[1:])  # In this process: the command's own would become a fresh interpreter, without the bug.
    sys.exit(witness.main())
