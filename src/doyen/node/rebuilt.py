"""Turns what a node's machines are built from into data, and builds the same machines from that data."""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from doyen.core.clock import Instant, parse_duration
from doyen.core.ids import Address, parse_address
from doyen.core.view import ViewChanged
from doyen.errors import ConfigError
from doyen.net.driver import Driver
from doyen.net.recording.format import Origin
from doyen.net.recording.replay import Foundation
from doyen.node.config import NodeConfig
from doyen.node.registry import find_election, tables
from doyen.node.stack import Site, Stack

C = TypeVar("C", bound=Struct)


def origin_of(driver: Driver, config: NodeConfig, address: Address | None, seeds: tuple[Address, ...]) -> Origin:
    """Return what the machines are built from.  Paths and secrets of this machine are no part of it."""
    durable = driver.storage is not None
    return Origin(
        node=driver.host.node,
        incarnation=driver.incarnation,
        group=config.group,
        address=address,
        seeds=seeds,
        durable=durable,
        random_seed=os.urandom(32).hex(),
        config=plain_config(config, durable=durable),
    )


def plain_config(config: NodeConfig, *, durable: bool) -> dict[str, Any]:
    """Return a configuration as data, without the paths and secrets of this machine; `config_from` reads it."""
    plain = replace(
        config,
        http="",
        http_token="",
        key_file="",
        seeds_file="",
        record="",
        state="kept" if durable else "",
        shared="shared" if config.shared else "",
    )
    data: dict[str, Any] = msgspec.to_builtins(plain)
    return data


class Rebuilt:
    """The machines of a recorded node, for `replay`."""

    def __init__(
        self,
        origin: Origin,
        site: Foundation,
        *,
        wall: Callable[[], float] = time.time,
        change: Callable[[NodeConfig], NodeConfig] = lambda config: config,
    ) -> None:
        self._site = site
        self.stack = Stack(
            change(config_from(origin.config)),
            Site(
                node=origin.node,
                incarnation=origin.incarnation,
                address=origin.address,
                seeds=origin.seeds,
                add=site.add,
                rng=origin.rng,
                restored=site.restored,
                durable=origin.durable,
                tell=site.tell,
                wall=wall,
            ),
        )

    @property
    def view(self) -> Any:
        return self.stack.view

    @view.setter
    def view(self, view: Any) -> None:
        self.stack.view = view

    def observe(self, channel: str, fact: Any, now: Instant) -> None:
        """Take note of a fact that the machines emitted."""
        if isinstance(fact, ViewChanged):
            self.stack.view = fact.view

    def add(self, what: dict[str, str]) -> None:
        """Add machines that were added to the running node."""
        match what:
            case {"election": name, "kind": kind}:
                self.stack.add_election(name, find_election(kind))
            case {"occasion": key, "epoch": epoch}:
                self.stack.add_occasions(key, int(epoch))
            case {"beacon": address, "last": last, "asks": asks, **more}:
                from doyen.net.beacon import CHANNEL, Beacon
                from doyen.net.discovery import DiscoveryConfig

                within = parse_duration(more.get("within", "3s"))
                config = DiscoveryConfig(beacon_last=parse_duration(last), answers_within=within)
                self._site.add(
                    CHANNEL,
                    lambda port: Beacon(
                        self.stack.site.node,
                        parse_address(address),
                        config,
                        port,
                        wants_answers=asks == "True",
                        introduces=more.get("introduces") == "True",
                        expect=int(more.get("expect", "0")),
                    ),
                )
            case _:
                raise ConfigError(f"{what} cannot be added to a node")


def config_from(data: dict[str, Any]) -> NodeConfig:
    """Return the configuration that `plain_config` wrote; each table is read by the Struct of its own protocol."""
    given = data.get("tables")
    if not isinstance(given, dict):
        raise ConfigError("a recording must say its tables")
    ours = tables(ours=True)
    known = ours if given.keys() <= ours.keys() else tables()
    made: dict[str, Any] = {}
    for name, values in given.items():
        if name not in known or not isinstance(values, dict):
            raise ConfigError(f"the table {name!r} of this recording belongs to no protocol that is installed")
        made[name] = _as_given(msgspec.convert(values, known[name].config), values)
    return _as_given(msgspec.convert(data | {"tables": made}, NodeConfig), data)


def _as_given(config: C, given: dict[str, Any]) -> C:
    """Return a configuration with whole numbers where they were given for fractions: they differ on the wire."""
    changed: dict[str, Any] = {}
    values = asdict(config)
    for field in values:
        before = given.get(field)
        if isinstance(values[field], float) and isinstance(before, int):
            changed[field] = before
    return replace(config, **changed)
