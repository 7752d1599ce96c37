"""Drops what is on its way when a link fails, also if the link heals before it would have arrived."""

from typing import TYPE_CHECKING, Any

from doyen.sim.channel import Everybody

if TYPE_CHECKING:
    from doyen.sim.engine import Simulation


def lose_what_is_cut(sim: "Simulation") -> None:
    """Drop what is on cut links, just before something heals: nothing was sent over a link while it was cut, so all
    that is left there is older than the cut.  A multicast under way is drawn now, and goes on to whom it reaches."""
    if sim.network.unbroken:
        return
    kept: list[Any] = []
    for entry in [*sim.ordered, *sim.arrivals]:
        kept += _what_remains(sim, sim.complete(entry))
    kept.sort(key=lambda entry: entry[:2])
    sim.ordered.clear()
    sim.ordered.extend(kept)
    sim.arrivals.clear()


def _what_remains(sim: "Simulation", entry: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    at, _, inlet, sender, message, sent_at, path = entry
    network, source = sim.network, sim.by_name[sender]
    if not isinstance(inlet, Everybody):
        if network.cut_since(source.index, inlet.node.index, path):
            network.faults["cut in flight"] += 1
            return []
        return [entry]
    audience = inlet.channel.audience
    reached = [index for index in audience.positions if not network.cut_since(source.index, index, None)]
    lost = len(audience.positions) - len(reached)
    if not lost:
        return [entry]
    network.faults["cut in flight"] += lost
    size = len(audience.positions)
    position = audience.positions.get(source.index)
    mask = (
        network.mask(source.index, size, size + 1, sent_at)
        if position is None
        else network.mask(source.index, position, size, sent_at)
    )
    sim.trace.records.append(mask)
    return [
        (at, next(sim.sequence), inlet.channel.inlet(sim.nodes[index]), sender, message, sent_at, None)
        for index in reached
        if mask[audience.positions[index]]
    ]
