"""`doyen bench zookeeper`: ours beside a ZooKeeper ensemble on one mesh in one run.

All are started together and left alone for the measured time; then, turn by turn, each loses its leader by SIGKILL
and by a silent cut of the leader's host, and gets it back.  A takeover lasts from the fault until every other process
of that system names, or serves under, one leader of those left.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.figures import (
    Fault,
    IdleOnMesh,
    MeasuredProcess,
    Ratio,
    Takeovers,
    block_ratio,
    takeover_ratio,
)
from doyen_lab.contest.trial import Trial, count_on_mesh, rob_in_turn
from doyen_lab.mesh import Mesh
from doyen_lab.usage import Sample

PATIENCE_S = 90.0
SETTLED_S = 3.0
QUANTITIES = ("bytes_per_s", "cpu_percent", "rss_each", "pss_each")


class Figures(Struct, frozen=True, kw_only=True):
    """The figures of one system."""

    nodes: int
    early: IdleOnMesh | None  # The first part of the time, while everything starts; apart.
    steady: IdleOnMesh
    samples: list[Sample]
    kill: Takeovers
    cut: Takeovers


class Beside(Struct, frozen=True, kw_only=True):
    processes: list[MeasuredProcess]
    systems: dict[str, Figures]
    ratios: dict[str, dict[str, Ratio]]  # By system of ours, then by quantity: ours by theirs; below 1 is less.
    holds: bool  # All settled, every ratio is below 1, and every takeover of ours came.
    unsettled: dict[str, str] = {}  # Which systems had no agreed leader when the counting began, and why.


async def measure(
    mesh: Mesh,
    ours: Sequence[Entrant],
    theirs: Entrant,
    *,
    seconds: float,
    early_s: float,
    every_s: float,
    takeovers: int,
    on_step: Callable[[str], None] = lambda text: None,
) -> Beside:
    trials = {
        entrant.label: Trial(entrant, patience_s=PATIENCE_S, settled_s=SETTLED_S, on_step=on_step)
        for entrant in (*ours, theirs)
    }
    began_at = boot_time_ns()
    for trial in trials.values():
        await trial.entrant.start_all()
        trial.begin_counting(began_at)
    process_count = sum(len(trial.entrant.entries()) for trial in trials.values())
    on_step(f"{process_count} processes started; counting for {seconds:g} s")
    each = [*trials.values()]
    early = await count_on_mesh(mesh, each, early_s, every_s) if early_s > 0 else {}
    unsettled = await settle(trials)
    skipped = {name: len(trial.samples) for name, trial in trials.items()}
    steady = await count_on_mesh(mesh, each, seconds - early_s, every_s)
    for trial in each:
        trial.look()
    fell = await rob_in_turn(each, takeovers, _takeover, on_step)
    figures = {
        name: Figures(
            nodes=trial.entrant.size,
            early=early.get(name),
            steady=steady[name],
            samples=trial.samples,
            kill=Takeovers.of(fell[name]["kill"]),
            cut=Takeovers.of(fell[name]["cut"]),
        )
        for name, trial in trials.items()
    }
    measured = {name: trial.samples[skipped[name] :] for name, trial in trials.items()}
    other = theirs.label
    ratios = {
        name: _ratios(figures[name], figures[other], measured[name], measured[other])
        for name in figures
        if name != other and not {name, other} & unsettled.keys()
    }
    came = all(figures[name].kill.never == figures[name].cut.never == 0 for name in ratios)
    less = all(ratio.ratio < 1 for found in ratios.values() for ratio in found.values())
    processes = [process for trial in trials.values() for process in trial.processes]
    holds = came and less and not unsettled
    return Beside(processes=processes, systems=figures, ratios=ratios, holds=holds, unsettled=unsettled)


async def settle(trials: Mapping[str, Trial]) -> dict[str, str]:
    """Wait until every system has settled; return those that do not, and why.  If all do not, raise TransportError."""
    found: dict[str, str] = {}
    for name, trial in trials.items():
        try:
            await trial.settled()
        except TransportError as error:
            found[name] = f"{name}: {error}"
            trial.step(found[name])
        trial.sample()
    if len(found) == len(trials):
        raise TransportError("; ".join(found.values()))
    return found


async def _takeover(trial: Trial, fault: Fault) -> tuple[float | None, str]:
    """Return how long a takeover lasted, None without agreement or recovery in time; and the same in words."""
    try:
        await trial.settled()
        lost = await trial.lose_leader(fault)
    except TransportError as error:
        return None, f"never ({error})"
    taken = lost.after_s(lost.known_at if lost.settled_at is not None else None)
    return taken, "never" if taken is None else f"{taken:.2f} s"


def _ratios(
    ours: Figures, theirs: Figures, our_samples: Sequence[Sample], their_samples: Sequence[Sample]
) -> dict[str, Ratio]:
    found = {name: block_ratio(our_samples, their_samples, name) for name in QUANTITIES}
    if theirs.steady.hop_bytes_per_s:
        hop = ours.steady.hop_bytes_per_s / theirs.steady.hop_bytes_per_s
        found["hop_bytes_per_s"] = Ratio(hop, hop, hop)
    for name, mine, other in (("kill_s", ours.kill, theirs.kill), ("cut_s", ours.cut, theirs.cut)):
        if mine.seconds and other.seconds:
            found[name] = takeover_ratio(mine.seconds, other.seconds)
    return found
