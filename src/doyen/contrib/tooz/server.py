"""Serves the registry while this process leads: connections of all processes of the group, its own included."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from doyen.contrib.tooz.messages import (
    Answered,
    Asked,
    Beat,
    Beaten,
    Declared,
    Farewell,
    ToProcess,
    ToRegistry,
    Welcome,
)
from doyen.contrib.tooz.registry import Refused, Registry
from doyen.contrib.tooz.wire import Wire
from doyen.errors import RemoteProtocolError
from doyen.net.driver import plain_record
from doyen.net.keys import Keyring

log = logging.getLogger("doyen.tooz")
log.addFilter(plain_record)  # Processes choose their names.

HOLD_S: Final = 4.0  # A process that no registry has confirmed for this long holds no lock any more.
FORGET_S: Final = 5.0  # A registry forgets a process after this long; longer than HOLD_S, for clocks differ.
DECLARE_S: Final = 1.5  # How long a new registry waits for members that are present and have declared nothing.
HELLO_S: Final = 2.0
CONNECTED_MAX: Final = 4096
ASKED_MAX: Final = 256  # Requests of one process that wait; it is not read further until some are answered.


class Server:
    """One listening socket for the life of a node; a registry for each leadership."""

    def __init__(
        self, keyring: Keyring | None, group: str, *, strong: bool, states: Callable[[], dict[str, str]]
    ) -> None:
        """`states` returns the state of each member, by its name, as the node sees it."""
        self._keyring, self._group, self._strong, self._states = keyring, group, strong, states
        self._registry: Registry | None = None
        self._leads: Callable[[], bool] = lambda: False
        self._settled = asyncio.Event()
        self._wires: dict[str, Wire] = {}
        self._nodes: dict[str, str] = {}  # The node of each process that has declared.
        self._gone_at: dict[str, float] = {}  # When a process was last heard whose connection has ended.
        self._connected: set[asyncio.Task[None]] = set()
        self._stirred = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        self._server = await asyncio.start_server(self._on_connection, host, port)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def lead(self, leads: Callable[[], bool]) -> None:
        """Serve until cancelled.  `leads` says at any instant whether this process may still act."""
        self._registry, self._leads = Registry(self._tell), leads
        try:
            await self._settle()
            self._settled.set()
            await self._watch(self._registry)
        finally:
            self._registry, self._leads = None, lambda: False
            self._settled.clear()
            self._nodes.clear()
            self._gone_at.clear()
            for task in self._connected:
                task.cancel()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connected:
            task.cancel()
        await asyncio.gather(*self._connected, return_exceptions=True)

    async def _settle(self) -> None:
        """Wait until the processes have declared what they hold, before anything is granted or answered."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (FORGET_S if self._strong else DECLARE_S)
        while loop.time() < until and (self._strong or not self._present() <= {*self._nodes.values()}):
            await self._stir(min(0.02, until - loop.time()))

    def _present(self) -> set[str]:
        return {name for name, state in self._states().items() if state in ("alive", "suspected")}

    def _is_gone(self, process: str) -> bool:
        return self._states().get(self._nodes.get(process, "")) in ("failed", "left")

    async def _watch(self, registry: Registry) -> None:
        """Refuse those that waited too long for a lock, and forget processes that are gone."""
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            next_at = min(registry.tick(now), now + 60)
            for process, gone_at in list(self._gone_at.items()):
                if now - gone_at >= FORGET_S or (not self._strong and self._is_gone(process)):
                    del self._gone_at[process]
                    log.info("%s: %s is gone: what it held is free", self._group, process)
                    registry.forget(process)
            if self._gone_at:
                next_at = min(next_at, now + 0.02)
            await self._stir(max(next_at - loop.time(), 0.001))

    async def _stir(self, seconds: float) -> None:
        self._stirred.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        except TimeoutError:
            pass

    # One connection.

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        wire = Wire(reader, writer, self._keyring, self._group)
        if len(self._connected) >= CONNECTED_MAX or self._registry is None:
            wire.close()
            return
        self._connected.add(task)
        try:
            await self._serve(wire, self._registry)
        except (OSError, EOFError, TimeoutError):
            pass
        except RemoteProtocolError as error:
            log.warning("%s: dropped a connection: %s", self._group, error)
        except asyncio.CancelledError:
            pass  # This process no longer leads, or leaves.
        finally:
            self._connected.discard(task)
            wire.close()

    async def _serve(self, wire: Wire, registry: Registry) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(HELLO_S):
            await wire.greet(registry=True)
            said = await wire.read(ToRegistry)
        if not isinstance(said, Declared) or registry is not self._registry:
            raise RemoteProtocolError("malformed", "a connection that does not begin with what it holds")
        process = said.process
        before = self._wires.pop(process, None)
        if before is not None:
            before.close()
        self._gone_at.pop(process, None)
        lost = registry.declare(said)
        wire.send(Welcome(registry.groups, tuple(lost)))
        self._wires[process], self._nodes[process] = wire, said.node
        self._stirred.set()
        asked: asyncio.Queue[Asked] = asyncio.Queue(ASKED_MAX)
        answering = asyncio.create_task(self._answer_all(wire, registry, process, asked))
        bye, heard_at = False, loop.time()
        try:
            while not bye:
                async with asyncio.timeout(FORGET_S):  # It beats, unless it is stopped or cut off.
                    message = await wire.read(ToRegistry)
                heard_at = loop.time()
                if isinstance(message, Beat) and self._leads():
                    wire.send(Beaten(message.number))
                elif isinstance(message, Asked):
                    await asked.put(message)
                bye = isinstance(message, Farewell)
        finally:
            answering.cancel()
            if self._wires.get(process) is wire:
                del self._wires[process]
                if registry is self._registry:
                    if bye:
                        registry.forget(process)
                    else:
                        self._gone_at[process] = heard_at
                    self._stirred.set()

    async def _answer_all(self, wire: Wire, registry: Registry, process: str, asked: "asyncio.Queue[Asked]") -> None:
        loop = asyncio.get_running_loop()
        while True:
            message = await asked.get()
            await self._settled.wait()
            if not self._leads():
                wire.close()  # The next registry will be asked.
                return

            def answer(value: Any, number: int = message.number) -> None:
                wire.send(Answered(number, "", value))

            try:
                registry.ask(process, message.request, loop.time(), time.time(), answer)
                self._stirred.set()
            except Refused as refused:
                wire.send(Answered(message.number, refused.reason, None))

    def _tell(self, process: str, message: ToProcess) -> None:
        for name, wire in self._wires.items():
            if process in ("", name):
                wire.send(message)
