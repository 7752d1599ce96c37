"""Knows where others reach a node: at the address that it says first, and at another once its machine lost that."""

import asyncio
import logging
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from doyen.core.ids import Address, parse_address
from doyen.core.seeds import OwnAddressChanged
from doyen.errors import ConfigError
from doyen.net.own_address import family_of, is_loopback, is_ours, is_wildcard, own_address, own_addresses
from doyen.node.config import DEFAULT_PORT, NodeConfig

if TYPE_CHECKING:
    from doyen.node.agent import Agent

log = logging.getLogger("doyen")

ADDRESS_EVERY_S: Final = 1.0  # The time between two looks whether this machine still has its address.
LOOKUP_PATIENCE_S: Final = 1.0  # For a seed's name, where this machine has several addresses to choose from.


async def own_address_of(agent: "Agent") -> Address:
    """Return where others reach this process; one that listens everywhere finds it out by the way to its seeds."""
    heard, config = agent.driver.transport.address, agent.config
    if config.advertise:
        given = parse_address(config.advertise, default_port=heard.port)
        return Address(given.host, given.port or heard.port)
    if not is_wildcard(heard.host):
        return heard
    if config.multicast:
        ours = agent.udp.multicast_from()
        if is_loopback(ours):
            log.warning("%s: no interface but loopback is up: multicast only reaches this machine", agent.name)
        return Address(ours, heard.port)
    seeds = [*config.seed_addresses(), *listed_seeds(config)]
    towards = [seed.host for seed in seeds if seed.is_numeric]
    family = _family(agent, towards)
    towards = [host for host in towards if family_of(host) == family]
    if not towards and seeds and len(own_addresses(family)) > 1:
        towards = await _looked_up(seeds[0], family)
    ours = own_address(family, towards)
    if is_loopback(ours) and not all(map(is_loopback, towards)):
        log.warning("%s: no way to seed %s yet: it is looked for", agent.name, towards[0])
    return Address(ours, heard.port)


def follow_own_address(agent: "Agent") -> None:
    """Look whether this machine still has the address that others were told, and tell them of another.

    A node that was given its address keeps it, and one that is bound to an address hears at no other.
    """
    driver, bound = agent.driver, agent.driver.transport.address
    if not driver.running or agent.config.advertise or not is_wildcard(bound.host) or agent.address is None:
        return
    asyncio.get_running_loop().call_later(ADDRESS_EVERY_S, follow_own_address, agent)
    if is_ours(agent.address.host) and not is_loopback(agent.address.host):
        return
    others = [address.host for address in (*driver.addresses.heard_from().values(), *driver.addresses.seeds)]
    towards = [host for host in others if not is_loopback(host)]
    if is_loopback(agent.address.host) and not towards:
        return  # All others are on this machine.
    multicast = bool(agent.config.multicast)
    family = _family(agent, towards)
    towards = [host for host in towards if family_of(host) == family]
    found = own_address(family, towards, interface=agent.config.interface, multicast=multicast)
    if not is_loopback(found) and found != agent.address.host:
        log.info("%s: its address was %s and is %s now", agent.name, agent.address.host, found)
        agent.address = Address(found, bound.port)
        driver.tell(OwnAddressChanged(agent.address))


def _family(agent: "Agent", towards: Sequence[str]) -> socket.AddressFamily:
    """Return the IP version in which a node says where it is: where it speaks both, that of the others."""
    ours = family_of(agent.driver.transport.address.host)
    if not agent.udp.speaks_both:
        return ours
    if towards:
        return family_of(towards[0])
    return ours if own_addresses(ours) else socket.AF_INET


async def _looked_up(seed: Address, family: socket.AddressFamily) -> list[str]:
    """Return the addresses of a seed's name, unless a name server takes its time: the node must start without."""
    from doyen.net.discovery import resolve

    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def ask() -> None:
        found = []
        with suppress(OSError, ValueError):  # UnicodeError is a ValueError.
            found = [host for host in resolve(seed.host, seed.port, family) if not is_loopback(host)]
        with suppress(RuntimeError):  # The loop has closed meanwhile.
            loop.call_soon_threadsafe(lambda: None if answer.done() else answer.set_result(found))

    threading.Thread(target=ask, name="doyen-own-address", daemon=True).start()
    try:
        return await asyncio.wait_for(answer, LOOKUP_PATIENCE_S)
    except TimeoutError:
        return []


def listed_seeds(config: NodeConfig) -> list[Address]:
    """Return the seeds that the seeds file names now; discovery complains about what cannot be read there."""
    if not config.seeds_file:
        return []
    from doyen.net.discovery import seed_lines

    found = []
    with suppress(OSError):
        for _, text in seed_lines(Path(config.seeds_file)):
            with suppress(ConfigError):
                found.append(parse_address(text, default_port=DEFAULT_PORT))
    return found
