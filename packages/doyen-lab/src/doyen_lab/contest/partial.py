"""`doyen bench partial`: links are cut one by one; who leads, how soon after that, and for what share of the time?

    star                  everybody reaches one hub that does not lead, and nobody else
    chain                 each reaches its neighbours in a line; the hub is in the middle
    one-way-star          a star; of two that are not the hub the earlier hears the later, and not the reverse
    leader-dead-star      the leader is killed, and those left are a star at the same instant

Each member is a process in a namespace of its own; a pair is cut by a route to nowhere in the one that must not reach
the other.  A leader counts while it says itself that it leads and a majority of all members, itself included, names it.
Systems are measured one after the other.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.errors import TransportError
from doyen.net.driver import boot_time_ns
from doyen.sim.links import Shape, cuts_of
from doyen_lab.contest import etcd, ours, zookeeper
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.figures import MeasuredProcess
from doyen_lab.contest.trial import measured_process
from doyen_lab.netns import Namespaces

Case = Literal["star", "chain", "one-way-star", "leader-dead-star"]
CASES: Final[tuple[Case, ...]] = ("star", "chain", "one-way-star", "leader-dead-star")
OURS: Final = {"quorum": "voters", "hybrid": "gossip", "announce": "unicast", "spanning": "spanning"}  # By their ways.
PEERS: Final = {"etcd": etcd.EtcdServers, "zookeeper": zookeeper.PartialEnsemble}
NEED: Final = {"etcd": etcd.PACKAGES, "zookeeper": zookeeper.PACKAGES}
ENTRANTS: Final = (*OURS, *PEERS)
PATIENCE_S: Final = 90.0
LED_WITHIN_S: Final = 5.0  # What a quorum of ours must keep to, in every shape.


class Stretch(Struct, frozen=True):
    """One leader for a while; seconds since the links changed."""

    leader: str
    from_s: float
    to_s: float


class Led(Struct, frozen=True, kw_only=True):
    """The outcome of one shape."""

    case: Case
    hub: str
    before: str  # Who led when the links changed.
    leader: str | None = None  # Who leads in the end,
    after_s: float | None = None  # and since when, without a break.
    share: float = 0.0  # Of the watched time.
    stretches: list[Stretch] = []
    why: str = ""  # Why it was not measured.

    @classmethod
    def of(cls, stretches: list[Stretch], watched_s: float, *, case: Case, hub: str, before: str) -> "Led":
        last = stretches[-1] if stretches and stretches[-1].to_s >= watched_s else None
        return cls(
            case=case,
            hub=hub,
            before=before,
            leader=None if last is None else last.leader,
            after_s=None if last is None else last.from_s,
            share=sum(stretch.to_s - stretch.from_s for stretch in stretches) / watched_s,
            stretches=stretches,
        )


class Figures(Struct, frozen=True, kw_only=True):
    """One system."""

    system: str
    nodes: int
    cases: list[Led]
    processes: list[MeasuredProcess]


class Partial(Struct, frozen=True, kw_only=True):
    watched_s: float
    systems: list[Figures]
    absent: dict[str, str]  # Systems that could not be measured, and why.
    holds: bool


def entrant(system: str, size: int, folder: Path) -> Entrant:
    """Return that system with `size` members that elect among themselves, on a bridge of their own."""
    if system in OURS:
        return ours.on_bridge(f"doyen {system}", OURS[system], size, folder, key=True)
    return PEERS[system](system, Namespaces(size), folder)


async def measure(
    group: Entrant, cases: Sequence[Case], watched_s: float, on_step: Callable[[str], None] = lambda text: None
) -> Figures:
    """Start the group, and give its links each shape in turn; between two it may settle."""
    await group.start_all()
    found, processes = list[Led](), list[MeasuredProcess]()
    for case in cases:
        try:
            await group.settled(PATIENCE_S)
            processes = [measured_process(group, *entry) for entry in group.entries()]
            led = await _reshape(group, case, watched_s)
        except TransportError as error:
            led = Led(case=case, hub="", before="", why=str(error))
        found.append(led)
        on_step(f"{group.label}, {case}: {shown(led)}")
    return Figures(system=group.label, nodes=group.size, cases=found, processes=processes)


async def _reshape(group: Entrant, case: Case, watched_s: float) -> Led:
    leading = group.leader(group.names)
    if leading is None:
        raise TransportError(f"nobody leads: {group.who_names_whom()}")
    leader, network = leading[0], group.network
    assert isinstance(network, Namespaces), "links are cut on a bridge"
    hub = next(name for name in group.names if name != leader)
    shape: Shape = "star" if case == "leader-dead-star" else case
    pairs = [(group.names.index(a), group.names.index(b)) for a, b in cuts_of(shape, group.names, hub, lambda: 0.0)]
    async with group.watched():
        network.cut_links(pairs)
        if case == "leader-dead-star":
            await group.kill(leader)
        at = boot_time_ns()
        named = {name: group.ledger.named_by(name) for name in group.names}
        heard = len(group.ledger.log)
        await asyncio.sleep(watched_s)
    network.mend_links(pairs)
    if case == "leader-dead-star":
        await group.start_member(leader)
    stretches = led_by(group.names, named, group.ledger.log[heard:], at, watched_s)
    return Led.of(stretches, watched_s, case=case, hub=hub, before=leader)


def led_by(
    names: Sequence[str],
    named: dict[str, str | None],  # Whom each names at first.
    changes: Sequence[tuple[str, str | None, Instant]],
    at: Instant,
    watched_s: float,
) -> list[Stretch]:
    """Return who led from when to when: a leader names itself, and is named by most of the group."""
    named, found = dict(named), list[Stretch]()
    leader, since = _named_by_most(names, named), 0.0
    for member, said, when in sorted(changes, key=lambda change: change[2]):
        now_s = min(max((when - at) / 1e9, since), watched_s)
        named[member] = said
        new = _named_by_most(names, named)
        if new != leader:
            if leader is not None and now_s > since:
                found.append(Stretch(leader, since, now_s))
            leader, since = new, now_s
    if leader is not None and watched_s > since:
        found.append(Stretch(leader, since, watched_s))
    return found


def _named_by_most(names: Sequence[str], named: dict[str, str | None]) -> str | None:
    said = [named[name] for name in names]
    return next((name for name in names if named[name] == name and 2 * said.count(name) > len(names)), None)


def keeps(figures: Figures) -> bool:
    """Return whether somebody led in every shape soon enough, and went on to."""
    return all(led.after_s is not None and led.after_s <= LED_WITHIN_S for led in figures.cases)


def shown(led: Led) -> str:
    if led.why:
        return f"not measured: {led.why}"
    if led.after_s is None:
        return f"nobody led in the end; led {led.share:.0%} of the time"
    return f"{led.leader} led after {led.after_s:.1f} s, {led.share:.0%} of the time"
