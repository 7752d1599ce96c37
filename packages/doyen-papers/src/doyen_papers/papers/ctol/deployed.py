"""Real processes on a mesh of this machine, for Figures 13 to 17: what was measured, as columns.  [CTOL §VII]"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from doyen.election.churn.config import Variant
from doyen.errors import TransportError
from doyen.sim.runs import Figure, figure
from doyen_papers.papers.cells import Outcomes, outcomes

if TYPE_CHECKING:
    from doyen_lab.contest.beside_zookeeper import Beside
    from doyen_lab.contest.elections import Completion

DEVICE_BYTES: Final = 2e9  # [CTOL §VII-A] A Raspberry Pi's memory.
SYSTEMS: Final = ("doyen", "zookeeper")
VARIANTS: Final[tuple[Variant, ...]] = ("base", "optimistic", "preferred", "hybrid")


def deployed(question: str, drop: float, effort: int) -> Outcomes:
    """Run real processes: that many kills of each protocol's leader, or that many minutes beside ZooKeeper."""
    from doyen_lab.deployment import check_premises, elect_on_mesh, run_beside_zookeeper  # Only these need the lab.

    check_premises(zookeeper=question == "beside")
    try:
        if question == "mesh":
            return of_elections(elect_on_mesh(drop, effort), effort)
        return of_minutes(run_beside_zookeeper(drop, effort))
    except (
        TransportError
    ) as error:  # A group that did not settle, mostly for want of processors: misses, with a reason.
        return nothing(str(error))


def nothing(why: str) -> Outcomes:
    """Return that nothing was measured."""
    names = [f"{variant}: {what}" for variant in VARIANTS for what in ("completion", "leader_changes", "sd", "never")]
    sampled = [f"{name}: {what}" for name in SYSTEMS for what in ("cpu", "memory", "kbit")]
    more = [f"{name}: {what}" for name in SYSTEMS for what in ("early peak", "hop kbit")]
    return Outcomes(0, dict.fromkeys((*names, *sampled, *more)), {name: [] for name in sampled}, why)


def of_elections(found: "Mapping[str, Completion]", kills: int) -> Outcomes:
    of: dict[str, Figure | None] = {}
    for variant, one in found.items():
        of[f"{variant}: completion"] = figure(election.completion_s for election in one.elections)
        of[f"{variant}: leader_changes"] = figure(float(election.leader_changes) for election in one.elections)
        of[f"{variant}: sd"] = None if one.sd_s is None else Figure(one.sd_s, None)
        of[f"{variant}: never"] = Figure(float(one.never), 0.0)
    return Outcomes(kills, of)


def of_minutes(found: "Beside") -> Outcomes:
    """Return a row per sample of the stable state, and the peak of memory before it.

    A system that did not settle is not in them: what it uses without a leader is not what it uses with one.
    """
    parts, peaks = {}, {}
    for name in SYSTEMS:
        one = found.systems[name]
        begins = one.samples[-1].t_s - one.steady.seconds
        parts[name] = [sample for sample in one.samples if sample.t_s > begins + 0.01]
        early = [sample.rss_each for sample in one.samples if sample.t_s <= begins + 0.01]
        peaks[name] = Figure(max(early), 0.0) if early else None
    rows = [
        {
            f"{name}: {what}": None if name in found.unsettled else value
            for name, sample in zip(SYSTEMS, both, strict=True)
            for what, value in (
                ("cpu", sample.cpu_percent),
                ("memory", sample.rss_each),
                ("kbit", sample.bytes_per_s * 8 / 1000),
            )
        }
        for both in zip(*parts.values(), strict=False)
    ]
    known = outcomes(rows)
    more: dict[str, Figure | None] = {}
    for name in SYSTEMS:
        hops = Figure(found.systems[name].steady.hop_bytes_per_s * 8 / 1000, None)
        more[f"{name}: early peak"] = None if name in found.unsettled else peaks[name]
        more[f"{name}: hop kbit"] = None if name in found.unsettled else hops
    return Outcomes(len(rows), known.of | more, known.columns, "; ".join(found.unsettled.values()))
