"""The spanning election as a kind: the greatest quality of a connected graph.  [MADM Ch. 6]"""

from collections.abc import Callable
from typing import Any, Final

from doyen.core import kinds
from doyen.core.clock import ms, seconds
from doyen.core.effects import Out
from doyen.core.ids import Term
from doyen.core.kinds import PRESET, Place, Time, presets, weak
from doyen.core.rank import STANDING_MAX
from doyen.core.reasons import Account, Reasons
from doyen.election.spanning.config import SpanningConfig

LINKS: Final = "links"  # The channel of the machine that knows the neighbours.


class Spanning(kinds.ElectionChoice, frozen=True, kw_only=True):
    """The greatest quality of a connected graph.  [MADM]"""

    kind = "spanning"

    hop_delay: Time = PRESET
    """The longest delay between neighbours (δ). Too short: living ones are given up."""
    diameter_max: int = PRESET
    """The longest branch of the tree, in hops (D). Too small: needless requests."""
    co_parent_hops: int = PRESET
    """For how many hop delays co-parents are waited for (c). Below 3 Figure 6.1's order changes."""
    link_wait: Time = PRESET
    """How long a node that starts without links waits before it leads itself."""
    pulse_interval: Time = PRESET
    """The time between two comparisons of neighbours, which heal differences; inf: none."""


preset = presets(
    SpanningConfig,
    local=lambda size: SpanningConfig(hop_delay=ms(20), diameter_max=max(1, min(size, 64)), pulse_interval=ms(500)),
    iot=lambda size: SpanningConfig(hop_delay=seconds(1), diameter_max=max(1, size - 1), pulse_interval=seconds(10)),
)


class Measured(Account):
    """The best quality is known at each node, and so is its own."""

    def reasons(self, machine: Any, term: Term) -> Reasons:
        best = machine.leader
        found = {} if best is None else {best.node: f"{best.quality:g}"}
        return Reasons("greatest quality in reach", found | {machine.me: f"{machine.quality.value:g}"} | found)


def build(place: Place) -> Callable[[Out], Any]:
    from doyen.election.spanning.machine import Spanning as Machine
    from doyen.membership.neighbours import Neighbours

    place.companion(LINKS, lambda out: Neighbours(place.node, out, each_side=place.links_each_side))
    restored = (place.restore(Machine.RECORD) or 0) if place.durable else None
    return lambda out: Machine(
        place.node,
        place.config,
        out,
        standing=place.standing if place.eligible else -STANDING_MAX,
        incarnation=place.incarnation,
        returning=True,
        restored=restored,
    )


def worst_case(config: SpanningConfig, around: kinds.Around) -> kinds.WorstCase:
    found = around.detection
    detection, because = found.of_leader_by_all()
    return kinds.WorstCase(
        detection=detection,
        failover=detection + config.declaration_wait,
        settling=found.merging + found.duration + config.stabilisation_max,
        because=f"{because}; then R(0) + (D+2)·δ",
    )


SPANNING = kinds.ElectionKind(
    name="spanning",
    about="The greatest quality of a connected graph.",
    table=kinds.Table(name="spanning", about="Spanning elections", config=SpanningConfig, preset=preset),
    choice=Spanning,
    needs=kinds.Needs(
        members=True,
        why="it speaks to its neighbours, and somebody must find them; give swim, medley or heartbeat",
    ),
    build=build,
    promise=lambda config, rank: weak("it has the greatest quality of those that took part (ties: the lowest name)"),
    worst_case=worst_case,
    account=Measured,
    stands_again=True,
)
