"""Gives a node what it needs of its place: a clock, sockets, a disk, random streams, and neighbours on one machine.

An event loop may bring premises of its own, as that of `doyen.testing` does: so the same `Node` runs in made-up time.
"""

import asyncio
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.net.driver import boot_time_ns
from doyen.net.storage import Storage
from doyen.net.udp import UdpConfig, UdpTransport
from doyen.node.config import NodeConfig
from doyen.node.registration import Registration

if TYPE_CHECKING:
    from doyen.node.node import Node


class Premises:
    """This machine, and this process in it."""

    has_users = True  # Commands may ask the node over a socket, and signals end it.

    def fit(self, config: NodeConfig, node: "Node | None" = None) -> NodeConfig:
        """Return the configuration as it can be had here; called once by each node that joins."""
        return config

    def name(self) -> str:
        """Return a name that no other process of this network has."""
        return f"{socket.gethostname()[:40]}-{os.getpid()}"

    def clock(self) -> Instant:
        return boot_time_ns()

    def transport(self, config: UdpConfig) -> UdpTransport:
        return UdpTransport(config)

    def storage(self, directory: Path) -> Storage:
        return Storage(directory)

    def rng(self, channel: str) -> Random:
        return Random()

    def register(self, group: str, name: str, address: str, seeds: Iterable[str], keys: Iterable[str]) -> Registration:
        """Note where a node is, for commands and for others of this machine.  Raises `OSError` if that cannot be."""
        return Registration.make(group, name, address, seeds, keys)


HERE = Premises()


class Premised:
    """An event loop that brings premises of its own."""

    premises: Premises


def premises() -> Premises:
    """Return the premises of the running event loop, by default this machine."""
    loop: object = asyncio.get_running_loop()
    return loop.premises if isinstance(loop, Premised) else HERE
