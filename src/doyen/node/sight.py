"""Sight: a look at the other members before the first act, at those that answer, are silent, or run something else."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from doyen.core.clock import Duration, seconds
from doyen.core.ids import Address, NodeId, parse_address
from doyen.core.view import Status
from doyen.net.own_address import is_ours, is_wildcard
from doyen.node.config import ANSWERS_WITHIN, DEFAULT_PORT
from doyen.node.gate import Seen
from doyen.node.registration import Entry

if TYPE_CHECKING:
    from doyen.node.agent import Agent

MET_MAX: Final = 4096  # Names that are kept of those who answered.
# Whoever was not heard for `alone_after` is gone, and not let act first; within these, and at once where that is 0.
AHEAD_MIN: Final[Duration] = seconds(3)
AHEAD_MAX: Final[Duration] = seconds(60)
_KEYS: Final = {
    "clear": "has no key, this node has one",
    "key": "has another key than this node",
    "": "has a key, this node has none",
}


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
        here = {entry.name for entry in usable}
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
        return Seen(
            present_count=len(alive | {agent.name}),
            silent_seeds=() if self._seed_answered else tuple(others),
            silent_here=tuple(sorted(here - self._met)),
            met_others=bool(self._met),
            namesake=driver.has_namesake(),
            calls=bool(config.multicast),
            acting=(*map(str, acting), *self._unread(usable, given, within)),
            earlier=tuple(map(str, earlier)),
        )

    def silent_seeds(self) -> tuple[str, ...]:
        """Return the seeds given, if none has answered."""
        return self.seen().silent_seeds

    def unresolved_seeds(self) -> tuple[str, ...]:
        """Return the seeds given whose names have no address now."""
        return tuple(text for text, found in self._seeds_given().items() if not found)

    def _unread(self, here: Iterable[Entry], given: Iterable[Address], within: Duration) -> Iterator[str]:
        """Yield who lately sent what only another key opens, or none, and is therefore let act first (decision 174).

        Such packets can be forged.  So a node that has a key goes by nodes of this machine alone, whose addresses only
        its own user can register; of these the one that registered first acts.
        """
        driver, registration = self._agent.driver, self._agent.registration
        unread = driver.addresses.unread
        if not unread:
            return
        local = {parse_address(entry.address): entry for entry in here}
        hosts = set() if driver.seal is not None else {address.host for address in given}
        for address, (reason, at) in unread.items():
            entry = local.get(address)
            if driver.clock() - at >= within or (entry is None and address.host not in hosts):
                continue
            if entry is not None and registration and entry.registered_at > registration.entry.registered_at:
                continue
            who = f"seed {address}" if entry is None else f"{entry.name} on this machine"
            differs = _KEYS[reason if driver.seal is not None else ""]
            yield f"{who} {differs}: give all members the same key file (key_file=, --key-file)"

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
