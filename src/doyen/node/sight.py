"""Sight: a look at the other members before the first act, at those that answer, are silent, or run something else."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from doyen.core.clock import Duration, seconds
from doyen.core.ids import Address, NodeId
from doyen.core.view import Status
from doyen.net.own_address import is_ours, is_wildcard
from doyen.node.config import ANSWERS_WITHIN, DEFAULT_PORT
from doyen.node.gate import Seen
from doyen.node.registration import Entry

if TYPE_CHECKING:
    from doyen.node.agent import Agent

MET_MAX: Final = 4096  # Names that are kept of those who answered.
# A member that was not heard for `alone_after` is gone; that time is taken within these limits, unless it is 0.
AHEAD_MIN: Final[Duration] = seconds(3)
AHEAD_MAX: Final[Duration] = seconds(60)
CLEAR: Final = ("clear",)  # The keys of a node that has none.
SAME_KEY: Final = "give all members the same key file (key_file=, --key-file)"


class Sight:
    """The members that one node has seen so far."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._met: set[NodeId] = set()  # Who has ever answered, while the first act waits.
        self._seed_answered = False

    def seen(self, election: str = "") -> Seen:
        """Return what this node sees of the others in that election."""
        agent, config, view = self._agent, self._agent.config, self._agent.stack.view
        driver = agent.driver
        heard = driver.addresses.heard_from()
        if view is not None:
            alive = {name for name in view.members if view[name].status is Status.ALIVE}
        elif config.expect > 1:
            alive = driver.addresses.heard_since(driver.clock() - ANSWERS_WITHIN[config.preset])
        else:
            alive = set(heard)
        registered = agent.registration.others() if agent.registration is not None and config.find_local else []
        usable = [entry for entry in registered if is_usable(entry.address, agent.udp.bind)]
        barred = [entry for entry in usable if agent.registration and not entry.shares_key(agent.registration.entry)]
        here = {entry.name for entry in usable if entry not in barred}
        seeds = self._seeds_given()
        given = {address for addresses in seeds.values() for address in addresses}
        self._seed_answered |= any(name not in here for name in heard) or not given.isdisjoint(heard.values())
        if len(self._met) < MET_MAX:
            self._met |= alive - {agent.name} | heard.keys()  # Those that have left since have answered all the same.
        others = [text for text, found in seeds.items() if not found or not all(map(self._is_own, found))]
        if config.seeds_file and not seeds:  # Its writer has not begun.
            others = [config.seeds_file]
        within = min(max(config.alone_after, AHEAD_MIN), AHEAD_MAX) if config.alone_after else 0
        acting, earlier = driver.ahead(election, within)
        elder, younger = self._by_age(barred)
        return Seen(
            present_count=len(alive | {agent.name}),
            silent_seeds=() if self._seed_answered else tuple(others),
            silent_here=tuple(sorted(here - self._met)),
            met_others=bool(self._met),
            namesake=driver.has_namesake(),
            calls=bool(config.multicast),
            acting=(*map(str, acting), *(elder if within else ()), *self._unread(usable, given, within)),
            barred=younger,
            earlier=tuple(map(str, earlier)),
        )

    def silent_seeds(self) -> tuple[str, ...]:
        """Return the seeds given, if none has answered."""
        return self.seen().silent_seeds

    def unresolved_seeds(self) -> tuple[str, ...]:
        """Return the seeds given whose names have no address now."""
        return tuple(text for text, found in self._seeds_given().items() if not found)

    def _by_age(self, barred: Iterable[Entry]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the nodes of this machine that have another key: those that registered before this one, and later.

        Of all of them the first acts, and the others wait for as long as it lives (decision 174).  No packet is needed
        for that, and none can pretend it: only this user can register a node where it is looked for.
        """
        if self._agent.registration is None:
            return (), ()
        mine = self._agent.registration.entry
        elder: list[str] = []
        younger: list[str] = []
        for entry in barred:
            is_elder = (entry.registered_at, entry.name) < (mine.registered_at, mine.name)
            text = f"{entry.name} on this machine {_differs(mine.keys, entry.keys)}: {SAME_KEY}"
            (elder if is_elder else younger).append(text)
        return tuple(elder), tuple(younger)

    def _unread(self, here: Iterable[Entry], given: Iterable[Address], within: Duration) -> Iterator[str]:
        """Yield the seeds that lately sent what a key seals, which this node has not: they are let act first.

        Such packets can be forged, so a node that has a key does not go by them (decision 174).  Of nodes that are
        registered here the first acts, and what they send counts for nothing: else two might wait for each other.
        """
        driver = self._agent.driver
        if driver.seal is None and driver.addresses.unread:
            hosts, registered = {address.host for address in given}, {entry.address for entry in here}
            for address, (_, at) in driver.addresses.unread.items():
                if driver.clock() - at < within and address.host in hosts and str(address) not in registered:
                    yield f"seed {address} has a key, this node has none: {SAME_KEY}"

    def _seeds_given(self) -> Mapping[str, Sequence[Address]]:
        agent = self._agent
        if agent.attached.discovery is not None:
            given: Mapping[str, Sequence[Address]] = agent.attached.discovery.given()
            return given
        seeds = zip(agent.config.seeds, agent.config.seed_addresses(), strict=True)
        return {text: (seed,) if seed.is_numeric else () for text, seed in seeds}

    def _is_own(self, address: Address) -> bool:
        """Return whether that address is this node's own."""
        bound, udp = self._agent.driver.transport.address, self._agent.udp
        if address in (bound, self._agent.address):
            return True
        ports = (address.port, udp.else_port if address.port == DEFAULT_PORT else address.port)
        return bound.port in ports and (
            address.host == bound.host or (is_wildcard(bound.host) and is_ours(address.host))
        )


def is_usable(address: str, bind: Address) -> bool:
    """Return whether a node of this machine that listens there can be reached from a node that is bound like that."""
    return bool(address) and ("[" in address) == (":" in bind.host)


def _differs(mine: tuple[str, ...], theirs: tuple[str, ...]) -> str:
    if theirs == CLEAR:
        return "has no key, this node has one"
    return "has a key, this node has none" if mine == CLEAR else "has another key than this node"
