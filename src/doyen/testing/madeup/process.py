"""One made-up process: its event loop, its tasks, and what its nodes take from the made-up machine."""

import asyncio
from collections.abc import Coroutine, Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from doyen.core.clock import Duration, Instant
from doyen.core.ids import Address, parse_address
from doyen.net.storage import Storage
from doyen.net.udp import Heard, UdpConfig, UdpTransport
from doyen.node.config import DEFAULT_PORT, NodeConfig
from doyen.node.node import Node
from doyen.node.premises import Premises
from doyen.node.registration import Entry, Registration
from doyen.sim.node import SimNode
from doyen.sim.world import DISK
from doyen.testing.madeup.loop import MadeUpLoop
from doyen.testing.madeup.refusal import EPOCH_NS
from doyen.testing.madeup.wires import Endpoint

if TYPE_CHECKING:
    from doyen.testing.madeup.world import Programs

_UNWIND_MAX: Final = 1000  # Turns that an ended run gives to `finally` clauses.


class Process(Premises):
    """A process on a made-up machine, from its start to its end; after a restart it is another one."""

    has_users = False

    def __init__(self, world: "Programs", node: SimNode) -> None:
        self.world, self.node, self.wires = world, node, world.wires
        self.shows_wall_clock, self.escapes = world.shows_wall_clock, world.escapes
        self.chance = node.rng("program")
        self._lateness = node.rng("lateness")
        self.nodes: list[Node] = []  # Those that have joined, in order.
        self.neighbours: list[_Neighbour] = []
        self.loop = MadeUpLoop(self)
        self._tasks: dict[asyncio.Task[object], None] = {}

    # Life.

    def run(self, coroutine: Coroutine[Any, Any, object], *, is_main: bool = False) -> asyncio.Task[object]:
        """Begin a task of this process; with its main task the process ends."""
        task = self.loop.create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._on_main if is_main else self._on_task)
        return task

    def _on_task(self, task: asyncio.Task[object]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.fail(self.node, error)

    def _on_main(self, task: asyncio.Task[object]) -> None:
        self._on_task(task)
        self.world.on_exit(self)

    def die(self) -> None:
        """Stop at once: nothing of this process runs again, not even what is in `finally`."""
        self.loop.is_dead = True
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._tasks[task] = None  # Kept: the end of a coroutine would run its `finally`.

    def unwind(self) -> None:
        """End what is left of this process once the run is over, so that nothing warns about it."""
        self.loop.is_dead = True
        self.loop.set_exception_handler(lambda loop, context: None)
        for task in [*asyncio.all_tasks(self.loop)]:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.cancel()
        for _ in range(_UNWIND_MAX):
            if not self.loop._ready:  # type: ignore[attr-defined]
                break
            self.loop.turn()
        self.wires.forget(self.node, killed=False)
        self.loop.close()

    # Time.

    def now(self) -> Instant:
        return self.node.now()

    clock = now

    def wall_ns(self) -> int:
        return EPOCH_NS + self.node.now() + self.world.wall_offsets.get(self.node.index, 0)

    def lateness(self) -> Duration:
        """Return by how much the next timer is late."""
        most = self.world.lateness_max
        return int(self._lateness.random() * most) if most else 0

    # What its nodes take.

    def fit(self, config: NodeConfig, node: "Node | None" = None) -> NodeConfig:
        bind = config.bind_address()
        seeds = []
        for text in config.seeds:
            given = parse_address(text, default_port=DEFAULT_PORT)
            found = self.wires.find(given.host, self.node)
            seeds.append(text if found is None else str(Address(self.wires.host(found), given.port)))
        if node is not None:
            self.nodes.append(node)
            node.listeners.append(partial(self.world.on_event, self.node))
        bound = str(Address(self.wires.host(self.node), bind.port))
        name = config.name or self.name()
        return msgspec.structs.replace(config, name=name, seeds=tuple(seeds), bind=bound, advertise="", seeds_file="")

    def name(self) -> str:
        return str(self.node.name)

    def transport(self, config: UdpConfig) -> UdpTransport:
        return _Datagrams(config, self)

    def storage(self, directory: Path) -> Storage:
        return _Disk(directory, self)

    def rng(self, channel: str) -> Random:
        return self.node.rng(channel)

    def register(self, group: str, name: str, address: str, seeds: Iterable[str], keys: Iterable[str]) -> Registration:
        entry = Entry(
            group=group,
            name=name,
            pid=self.node.index,
            network="made-up",
            registered_at=self.node.sim.now,
            address=address,
            seeds=tuple(seeds),
            keys=tuple(keys),
        )
        made = _Neighbour(entry, self.world)
        self.neighbours.append(made)
        return made


class _Neighbour(Registration):
    """The entry of a node in a made-up runtime directory, which all processes of the run share."""

    def __init__(self, entry: Entry, world: "Programs") -> None:
        self.entry, self._world, self._closed = entry, world, False

    def others(self, *, anew: bool = True) -> list[Entry]:
        found = [other for process in self._world.alive() for other in process.neighbours if not other._closed]
        return [other.entry for other in found if other is not self and other.entry.group == self.entry.group]

    def earlier(self) -> list[Entry]:
        return [entry for entry in self.others() if entry.registered_at < self.entry.registered_at]

    def tell_keys(self, keys: Iterable[str]) -> None:
        self.entry = msgspec.structs.replace(self.entry, keys=tuple(keys))

    def close(self) -> None:
        self._closed = True


class _Disk(Storage):
    """A node's records on its made-up disk, which a crash leaves as it is, or takes."""

    def __init__(self, directory: Path, process: Process) -> None:
        self.directory, self._process = directory, process
        self._identity = None

    def _key(self, channel: str) -> str:
        return channel if str(self.directory.parent) == DISK else f"{self.directory}/{channel}"

    def _take(self) -> None: ...

    def _was_begun(self) -> bool:
        return False

    def _note_begun(self) -> None: ...

    def close(self) -> None: ...

    def _read(self, channel: str) -> bytes | None:
        return self._process.node.disk.get(self._key(channel))

    def _exists(self, channel: str) -> bool:
        return self._key(channel) in self._process.node.disk

    def _write(self, channel: str, data: bytes) -> None:
        self._process.node.disk[self._key(channel)] = data

    def save_soon(self, channel: str, data: bytes) -> "asyncio.Future[None]":
        loop = self._process.loop
        written: asyncio.Future[None] = loop.create_future()

        def durable() -> None:
            self.save(channel, data)
            written.set_result(None)

        loop.call_later(self._process.node.sim.disk_delay / 1e9, durable)
        return written


class _Datagrams(UdpTransport):
    """A node's datagrams on the made-up network."""

    def __init__(self, config: UdpConfig, process: Process) -> None:
        super().__init__(config)
        self._process = process

    async def open(self, heard: Heard) -> None:
        loop = self._process.loop
        bound = (self.config.bind.host, self.config.bind.port)
        endpoint, _ = await loop.create_datagram_endpoint(lambda: _Ear(heard), local_addr=bound)
        assert isinstance(endpoint, Endpoint)
        self._endpoints.append(endpoint)
        self.address = Address(bound[0], endpoint.port)
        if self.config.multicast is not None:
            group = (self.config.multicast.host, self.config.multicast.port)
            self._process.wires.groups.setdefault(group, {})[endpoint] = None
            self._group = group

    def send(self, data: bytes, to: Address) -> None:
        self._send(data, (to.host, to.port) if to.is_numeric else None)


class _Ear(asyncio.DatagramProtocol):
    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._heard(data, Address(*addr))
