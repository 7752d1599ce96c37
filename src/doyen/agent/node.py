"""One process of a group: its machines, a driver, and what it tells the outside.

This is the agent's first shape: one announce-listen election.  It tells every fact as one JSON line.
"""

import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.codec import Codec
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.rank import Standing
from doyen.election.announce import STANDING_MAX, Announce, AnnounceConfig
from doyen.errors import ConfigError
from doyen.net.driver import Driver
from doyen.net.storage import Storage
from doyen.net.udp import UdpConfig, UdpTransport

CHANNEL = "election"


class AgentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: str
    name: NodeId
    udp: UdpConfig
    election: AnnounceConfig
    seeds: tuple[Address, ...] = ()  # Whom to tell where there is no multicast.
    standing: Standing = 0
    state: Path | None = None  # Where to keep terms over restarts; None: a restart begins anew.

    def __post_init__(self) -> None:
        if not -STANDING_MAX <= self.standing <= STANDING_MAX:  # Also false for nan.
            raise ConfigError(f"{self.standing} is not a standing: give a finite number", field="standing")
        for seed in self.seeds:
            self.udp.check_peer(seed)


class Told(Struct, frozen=True, omit_defaults=True):
    """One line of what an agent tells."""

    event: str  # started, elected, lost, status, stopped
    name: str
    at: float  # Wall clock, in seconds.
    clock: int  # CLOCK_BOOTTIME in nanoseconds: the same for all processes of one machine.
    pid: int | None = None
    leader: str | None = None
    term: int | None = None
    reason: str | None = None
    address: str | None = None
    sent: int = 0
    received: int = 0
    refused: dict[str, int] = {}
    status: str = ""


class Agent:
    """A running node.  `tell` gets a `Told` for everything worth knowing."""

    def __init__(self, config: AgentConfig, tell: Callable[[Told], None]) -> None:
        self.config, self._tell = config, tell
        incarnation = Incarnation(time.time_ns())  # Grows from start to start, unless the wall clock is set back.
        self.driver = Driver(
            config.name,
            incarnation,
            Codec(config.group),
            UdpTransport(config.udp),
            peers=config.seeds,
            storage=None if config.state is None else Storage(config.state / config.name),
            observer=self._on_fact,
        )
        self.election: Announce = self.driver.add(
            CHANNEL,
            lambda port: Announce(
                config.name, config.election, port, Random(), standing=config.standing, restored=self._restored()
            ),
        )

    def _restored(self) -> int | None:
        return None if self.config.state is None else self.driver.restored(CHANNEL, Announce.RECORD) or 0

    async def start(self) -> None:
        await self.driver.start()

    def status(self) -> None:
        self.told("status", leader=self.election.leader, term=self.election.term_number)

    def leave(self) -> None:
        """In order: Bye if it leads, then silence."""
        if self.driver.failure is None:
            self.driver.command(CHANNEL, "leave")
        self.driver.close()

    def told(self, event: str, **fields: Any) -> None:
        self._tell(
            Told(
                event,
                self.config.name,
                time.time(),
                self.driver.clock(),
                status=self.election.status.value,
                sent=self.driver.transport.sent_count,
                received=self.driver.received_count,
                refused=dict(self.driver.refused),
                **fields,
            )
        )

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        match fact:
            case LeaderElected(term):
                self.told("elected", leader=term.leader, term=term.number)
            case LeaderLost(term, reason):
                self.told("lost", leader=term.leader, term=term.number, reason=reason)


def encode_told(told: Told) -> bytes:
    return msgspec.json.encode(told) + b"\n"
