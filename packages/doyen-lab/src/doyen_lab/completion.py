"""The four churn-tolerant elections on one mesh in one run: how long they take, how often they change their minds.
[CTOL Fig. 13, 14]

Each group loses its leader by SIGKILL, which its members learn by the end of their connections.  An election lasts from
the first survivor's word that the leader is lost until the last survivor came to hold the leader that all of them end
with; tentative leaders count for it, as in the simulation.  Leader changes: different leaders that anybody named on
the way, the last one included.

Deviation [CTOL §VII-A]: whoever misses the leader begins within `begin_spread`, so that wait is part of the time.
"""

from collections.abc import Callable, Sequence
from statistics import fmean, median, stdev

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.node.told import Told
from doyen_lab.beside import PATIENCE_S
from doyen_lab.ours import MeshGroup


class Election(Struct, frozen=True, kw_only=True):
    """One of them."""

    killed: str
    leader: str
    completion_s: float
    leader_changes: int


class Completion(Struct, frozen=True, kw_only=True):
    """One protocol's."""

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
            median_s=median(times) if times else None,
            mean_s=fmean(times) if times else None,
            sd_s=stdev(times) if len(times) > 1 else None,
            leader_changes=fmean(election.leader_changes for election in elections) if elections else None,
        )


class Scribe:
    """Keeps what the members of one group say of leaders."""

    def __init__(self) -> None:
        self.lines: list[Told] = []

    def __call__(self, told: Told) -> None:
        if told.event in ("elected", "lost"):
            self.lines.append(told)


async def elections(
    groups: dict[str, tuple[MeshGroup, Scribe]],
    kills: int,
    on_step: Callable[[str], None] = lambda text: None,
) -> dict[str, Completion]:
    for group, _ in groups.values():
        await group.start()
    for group, _ in groups.values():
        await group.agreement(PATIENCE_S, unchanged_s=5.0)
    found: dict[str, list[Election | None]] = {name: [] for name in groups}
    for number in range(kills):
        for name, (group, scribe) in groups.items():
            try:
                election = await _elect(group, scribe)
                shown = f"{election.completion_s * 1e3:.0f} ms, {election.leader_changes} leader(s)"
            except TransportError as error:
                election, shown = None, str(error)
            found[name].append(election)
            on_step(f"{number + 1} of {kills}, {name}: {shown}")
    return {name: Completion.of(each) for name, each in found.items()}


async def _elect(group: MeshGroup, scribe: Scribe) -> Election:
    _, killed = await group.agreement(PATIENCE_S, unchanged_s=2.0)
    scribe.lines.clear()
    group.cluster.kill(killed)
    await group.cluster.members[killed].process.wait()
    since, leader = await group.agreement(PATIENCE_S, unchanged_s=2.0)
    election = judge(scribe.lines, killed, leader, since)
    await group.start_one(group.names.index(killed))
    await group.cluster.until_started(PATIENCE_S)
    await group.agreement(PATIENCE_S, unchanged_s=2.0)
    return election


def judge(lines: Sequence[Told], killed: str, leader: str, since: Instant) -> Election:
    """From what the survivors said until the last of them held the leader that all end with."""
    said = [line for line in lines if line.name != killed and line.clock <= since]
    began_at = min(line.clock for line in said)
    named = {line.leader for line in said if line.event == "elected" and line.leader != killed}
    return Election(
        killed=killed, leader=leader, completion_s=(since - began_at) / 1e9, leader_changes=len(named | {leader})
    )
