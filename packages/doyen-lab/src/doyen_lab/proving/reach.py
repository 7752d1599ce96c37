"""Says what is owed to the processes that run, by who of them hears whom."""

from collections.abc import Collection

from doyen.sim.links import Links
from doyen_lab.proving.combination import Combination
from doyen_lab.proving.judge import Truth
from doyen_lab.proving.running import Running, lives_of


def regions_of(links: Links[Running]) -> tuple[frozenset[str], ...]:
    """Return the processes that hang together by two-way links, in groups; the greatest first."""
    found = [lives_of(component) for component in links.components()]
    return tuple(sorted(found, key=lambda region: (-len(region), sorted(region))))


def is_clear(links: Links[Running], *, one_way_too: bool) -> bool:
    """Return whether those who run fall into regions: two reach each other both ways only within one.

    Where announcements are not answered, a link that carries one way only is one more.
    """
    region_of = {running: i for i, region in enumerate(links.components()) for running in region}
    return all(
        (links.two_way(a, b) or (one_way_too and links.reaches(a, b))) == (region_of[a] == region_of[b])
        for a in links.nodes
        for b in links.nodes
    )


def note_overheard(truth: Truth, links: Links[Running]) -> None:
    """Note whom a region hears that does not hear it: of a weak election it may follow a leader there."""
    for part in links.components():
        heard = lives_of(a for a in links.nodes if a not in part and any(links.reaches(a, b) for b in part))
        if heard:
            truth.overheard[lives_of(part)] = heard


def note_links(
    truth: Truth,
    links: Links[Running],
    possible: Links[Running],
    voters: Collection[str],
    combination: Combination,
) -> None:
    """Note what is owed where links are cut one by one.

    A ring owes nothing, announcements are not relayed, and what members ask for each other is relayed once.
    """
    voting = [running for running in possible.nodes if running.life.label in voters]
    connected = possible.quorum_connected(voting, lambda nodes: 2 * len(nodes) > len(voters))
    truth.minority = lives_of(running for running in possible.nodes if running not in connected)
    if combination.multicast:
        truth.earshots = tuple(lives_of(a for a in links.nodes if a is b or links.reaches(a, b)) for b in links.nodes)
    elif combination.relays:
        truth.stretched = tuple(lives_of(part) for part in links.components() if not links.is_close(part))
    truth.quiet = truth.quiet and not combination.timed
