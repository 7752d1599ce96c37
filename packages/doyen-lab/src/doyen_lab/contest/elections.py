"""`doyen bench mesh`: the four churn-tolerant elections on one mesh in one run.  [CTOL Fig. 13, 14]

Each group loses its leader by SIGKILL, which its members learn by the end of their connections.  An election lasts from
the first survivor's line that the leader is lost until the last survivor came to hold the leader that all of them end
with; tentative leaders count for it, as in the simulation.  Leader changes: different leaders that anybody named on
the way, the last one included.

Deviation [CTOL §VII-A]: whoever misses the leader begins within `begin_spread`, so that wait is part of the time.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.figures import Fault, median_of
from doyen_lab.contest.trial import Trial, rob_in_turn

PATIENCE_S = 90.0
FORMING_S, FORMED_S, STEADY_S = 300.0, 5.0, 2.0  # At drop .2, Base alone takes half a minute for one election.


class Election(Struct, frozen=True, kw_only=True):
    """One election after a kill."""

    killed: str
    leader: str
    completion_s: float
    leader_changes: int


class Completion(Struct, frozen=True, kw_only=True):
    """The elections of one protocol."""

    elections: list[Election]
    never: int  # Kills after which the survivors did not agree in time.
    median_s: float | None
    mean_s: float | None
    sd_s: float | None
    leader_changes: float | None  # Mean.

    @classmethod
    def of(cls, found: Sequence[Election | None]) -> "Completion":
        elections = [election for election in found if election is not None]
        times = [election.completion_s for election in elections]
        return cls(
            elections=elections,
            never=len(found) - len(elections),
            median_s=median_of(times),
            mean_s=fmean(times) if times else None,
            sd_s=stdev(times) if len(times) > 1 else None,
            leader_changes=fmean(election.leader_changes for election in elections) if elections else None,
        )


async def elections(
    entrants: Sequence[Entrant], kills: int, on_step: Callable[[str], None] = lambda text: None
) -> dict[str, Completion]:
    trials = [Trial(entrant, patience_s=PATIENCE_S, settled_s=STEADY_S, steady_s=STEADY_S) for entrant in entrants]
    for entrant in entrants:
        await entrant.start_all()
    for entrant in entrants:
        await entrant.settled(FORMING_S, FORMED_S)
    found = await rob_in_turn(trials, kills, _elect, on_step, ("kill",))
    return {name: Completion.of(each["kill"]) for name, each in found.items()}


async def _elect(trial: Trial, fault: Fault) -> tuple[Election | None, str]:
    log = trial.entrant.ledger.log
    try:
        await trial.settled()
        before = len(log)
        lost = await trial.lose_leader(fault)
    except TransportError as error:
        return None, str(error)
    if lost.known_at is None or lost.known is None or lost.settled_at is None:
        return None, f"not agreed within {PATIENCE_S:g} s: {trial.entrant.who_names_whom()}"
    found = judge(log[before:], lost.member, lost.known, lost.known_at)
    return found, f"{found.completion_s * 1e3:.0f} ms, {found.leader_changes} leader(s)"


def judge(log: Iterable[tuple[str, str | None, Instant]], killed: str, leader: str, known_at: Instant) -> Election:
    """Judge by what the survivors said until the last of them held the leader that all end with."""
    said = [(named, at) for member, named, at in log if member != killed and at <= known_at]
    named = {name for name, _ in said if name not in (None, killed)}
    return Election(
        killed=killed,
        leader=leader,
        completion_s=(known_at - min(at for _, at in said)) / 1e9,
        leader_changes=len(named | {leader}),
    )
