"""Asks members for their tallies, and answers them, for `doyen advise --measure`.  Loaded when somebody asks.

    bee ──Ask 7──▶ ant
        ◀─Told 7: its clock, and all that it has counted──

An answer is one datagram, and few are given in a second.  It carries the sender's clock, so two of them, a while apart,
show by how much the rates of two clocks differ: a round trip is the most that either reading can be wrong by.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from doyen.core.clock import Instant, seconds
from doyen.core.ids import NodeId
from doyen.errors import RemoteProtocolError
from doyen.net.driver import Driver
from doyen.net.tallies import Snapshot

if TYPE_CHECKING:
    from doyen.node.node import Node

CHANNEL: Final = "tallies"
ANSWERS_MAX: Final = 20  # Answers in one second, to whomever.
ASKED_MAX: Final = 256  # Members that one inquiry asks.
ROUNDS: Final = 5  # How often a member is asked that does not answer,
ROUND_S: Final = 0.6  # and the pause between two requests.

Count: Any = Annotated[int, Meta(ge=0, le=2**40)]


class Ask(Struct, frozen=True, array_like=True, tag="?"):
    """Asks for the receiver's tallies."""

    number: Count


class Told(Struct, frozen=True, array_like=True, tag="!"):
    """The answer."""

    number: Count
    tallies: Snapshot


class Reading(Struct, frozen=True):
    """One member's tallies, and when it was asked and heard, by this node's clock."""

    asked_at: Instant
    heard_at: Instant
    tallies: Snapshot


_decode = msgspec.msgpack.Decoder(Ask | Told).decode


class Inquiry:
    """The questions of one node to the others, and its answers to theirs."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._number = 0
        self._asked: dict[int, tuple[NodeId, Instant]] = {}
        self._heard: dict[NodeId, Reading] = {}
        self._second, self._answer_count = 0, 0

    def own(self, now: Instant) -> Snapshot:
        """Return this node's tallies."""
        driver = self._driver
        writes = None if driver.storage is None else driver.storage.writes
        return driver.tallies.snapshot(now, writes, driver.transport.sent_bytes)

    def ask(self, names: list[NodeId], now: Instant) -> None:
        """Ask these members."""
        for name in names:
            self._number += 1
            self._asked[self._number] = (name, now)
            self._driver.ask(CHANNEL, name, Ask(self._number))

    def on_message(self, sender: NodeId, data: bytes, now: Instant) -> list[Any]:
        """Return what the sender is to be told."""
        try:
            message = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError("message", f"on {CHANNEL!r}: {error}") from None
        if isinstance(message, Told):
            self._on_told(sender, message, now)
            return []
        if now // seconds(1) != self._second:
            self._second, self._answer_count = now // seconds(1), 0
        self._answer_count += 1
        return [Told(message.number, self.own(now))] if self._answer_count <= ANSWERS_MAX else []

    def _on_told(self, sender: NodeId, told: Told, now: Instant) -> None:
        name, asked_at = self._asked.pop(told.number, (None, 0))
        if name == sender:
            self._heard[sender] = Reading(asked_at, now, told.tallies)

    async def gather(self, names: list[NodeId]) -> dict[NodeId, Reading]:
        """Ask all, and those again that do not answer; return the answers."""
        self._asked.clear()
        heard: dict[NodeId, Reading] = {}
        self._heard = heard
        for _ in range(ROUNDS):
            missing = [name for name in names if name not in heard]
            self.ask(missing, self._driver.clock())
            for _ in range(20):
                if len(heard) == len(names):
                    return heard
                await asyncio.sleep(ROUND_S / 20)
        return heard


async def measured(node: "Node") -> dict[str, Any]:
    """Return the tallies of this node and of all members that answer, with what runs here."""
    from doyen.node.rebuilt import plain_config

    agent = node.agent
    driver = agent.driver
    present = [NodeId(member.name) for member in node.members() if member.state in ("alive", "suspected")]
    names = [name for name in dict.fromkeys((*present, *driver.addresses.heard_from())) if name != node.name]
    heard = await agent.inquiry.gather(names[:ASKED_MAX])
    own = agent.stack.reigns.get("")
    return {
        "group": node.group,
        "node": node.name,
        "names": sorted({str(node.name), *names}),
        "silent": sorted(set(names) - heard.keys()),
        "kind": None if own is None else own.kind.name,
        "membership": node.config.membership_name(),
        "config": plain_config(node.config, durable=driver.storage is not None),
        "own": msgspec.to_builtins(agent.inquiry.own(driver.clock()), str_keys=True),
        "others": {
            name: {
                "asked_at": reading.asked_at,
                "heard_at": reading.heard_at,
                "tallies": msgspec.to_builtins(reading.tallies, str_keys=True),
            }
            for name, reading in sorted(heard.items())
        },
    }
