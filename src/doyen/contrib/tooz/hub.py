"""One process in its group, for all coordinators of that process: a node, its registry, and the way to the leader's."""

import asyncio
import atexit
import itertools
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

import doyen
from doyen.contrib.tooz.messages import (
    Acquire,
    Answered,
    Asked,
    Beat,
    Beaten,
    Break,
    Broken,
    Declared,
    Dropped,
    Farewell,
    Groups,
    Join,
    Leave,
    Release,
    Request,
    ToProcess,
    Update,
    Welcome,
)
from doyen.contrib.tooz.registry import Refused
from doyen.contrib.tooz.server import HELLO_S, HOLD_S, Server
from doyen.contrib.tooz.wire import Wire
from doyen.errors import RemoteProtocolError
from doyen.net.keys import load_keyring

log = logging.getLogger("doyen.tooz")

LOOK_S: Final = 0.1  # How often a process looks who leads.
BEAT_EVERY: Final = 10  # Looks between two beats.
RETRY_S: Final = 0.05
LEAVE_S: Final = 8.0  # How long a process may take to leave its group.
PORT: Final = "tooz"  # The word under which a node says where its registry listens.

_hubs: dict[tuple[int, str], "Hub"] = {}
_taking = threading.Lock()


def take(url: str, arguments: Mapping[str, Any], port: int, timeout_s: float) -> "Hub":
    """Return this process's hub for that URL, and begin it if it is the first; raises `TimeoutError`."""
    with _taking:
        key = (os.getpid(), url)
        hub = _hubs.get(key)
        if hub is None:
            hub = Hub(arguments, port)
            hub.begin(timeout_s)
            _hubs[key] = hub
        hub.users += 1
        return hub


def give_back(url: str, hub: "Hub") -> None:
    """End a hub with its last coordinator."""
    with _taking:
        hub.users -= 1
        if hub.users == 0:
            _hubs.pop((os.getpid(), url), None)
            hub.end()


def _end_all() -> None:
    for (pid, _), hub in list(_hubs.items()):
        if pid == os.getpid():
            hub.end()


atexit.register(_end_all)


class _Pending:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Hub:
    """Runs in a thread of its own; coordinators ask it from any thread."""

    def __init__(self, arguments: Mapping[str, Any], port: int) -> None:
        self.users = 0
        unique = f"{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(2).hex()}"
        self._arguments, self._port = {"name": unique, **arguments}, port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="doyen-tooz", daemon=True)
        self._joined: Future[None] = Future()
        self._over = asyncio.Event()
        self._process = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._wire: Wire | None = None
        self._place: tuple[str, int] | None = None
        self._groups: tuple[bytes, ...] = ()
        self._members: dict[tuple[bytes, bytes], Join] = {}
        self._holds: dict[bytes, Acquire] = {}
        self._beats: dict[int, float] = {}
        self._confirmed_at = 0.0
        self._why = "no leader is known"

    # For coordinators, on their threads.

    def begin(self, timeout_s: float) -> None:
        self._thread.start()
        try:
            self._joined.result(timeout_s)
        except TimeoutError:
            self.end()
            raise TimeoutError(f"no answer within {timeout_s:g} s: {self._why}") from None

    def end(self) -> None:
        """Leave the group; whatever waits for an answer gets an error."""
        with suppress(RuntimeError):  # It has ended by itself.
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(LEAVE_S)

    def ask(self, request: Request) -> "Future[Any]":
        """Ask the registry; the answer comes from whichever process leads then."""
        return asyncio.run_coroutine_threadsafe(self._ask(request), self._loop)

    def holds(self, token: bytes) -> bool:
        """Return whether a lock is still held: a registry has confirmed it within `HOLD_S`."""
        return token in self._holds and time.monotonic() - self._confirmed_at < HOLD_S

    # In the loop.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        except BaseException as error:
            if not self._joined.done():
                self._joined.set_exception(error)
            else:
                log.exception("this process left its group")
        finally:
            for pending in self._pending.values():
                pending.result.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    async def _live(self) -> None:
        async with doyen.join(**self._arguments, leave_on_sigterm=False, control=False) as node:
            config = node.config
            keyring = load_keyring(Path(config.key_file)) if config.key_file else None
            strong = config.promise(config.election_kinds()[""]).strong
            server = Server(
                keyring, node.group, strong=strong, states=lambda: {each.name: each.state for each in node.members()}
            )
            host = node.address.rpartition(":")[0].strip("[]")
            port = await server.listen(host, self._port)
            await node.tell({PORT: str(port)})
            parts = [self._lead(node, server), self._follow(node, keyring), self._beat(node)]
            tasks = [asyncio.create_task(part) for part in parts]
            over = asyncio.create_task(self._over.wait())
            try:
                done, _ = await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                if self._wire is not None:
                    self._wire.send(Farewell())
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await server.close()

    def _stop(self) -> None:
        self._over.set()
        for pending in self._pending.values():
            if not pending.result.done():
                pending.result.set_exception(ConnectionError("this coordinator has stopped"))

    async def _lead(self, node: doyen.Node, server: Server) -> None:
        async for term in node.terms():
            async with term:
                await server.lead(partial(_holds_on, term))

    async def _follow(self, node: doyen.Node, keyring: Any) -> None:
        """Keep a connection to the registry of the leader."""
        while True:
            place = _registry_of(node)
            if isinstance(place, str):
                self._why = place
            else:
                try:
                    await self._converse(place, node, keyring)
                except (OSError, EOFError, TimeoutError) as error:
                    self._why = f"the registry at {place[0]}:{place[1]}: {error or type(error).__name__}"
                except RemoteProtocolError as error:
                    self._why = f"the registry at {place[0]}:{place[1]}: {error}"
                    log.warning("%s: %s", node.group, self._why)
            await asyncio.sleep(RETRY_S)

    async def _converse(self, place: tuple[str, int], node: doyen.Node, keyring: Any) -> None:
        async with asyncio.timeout(HELLO_S):
            reader, writer = await asyncio.open_connection(*place)
        wire = Wire(reader, writer, keyring, node.group)
        try:
            began_at = time.monotonic()
            async with asyncio.timeout(HELLO_S):
                await wire.greet(registry=False)
                members, holds = tuple(self._members.values()), tuple(self._holds.values())
                wire.send(Declared(self._process, node.name, self._groups, members, holds))
                welcome = await wire.read(ToProcess)
            if not isinstance(welcome, Welcome):
                raise RemoteProtocolError("malformed", "no welcome")
            self._groups, self._confirmed_at = welcome.groups, began_at
            for token in welcome.lost:
                self._lose(token)
            self._wire, self._place = wire, place
            for number, pending in self._pending.items():
                wire.send(Asked(number, pending.request))
            if not self._joined.done():
                self._joined.set_result(None)
            while True:
                async with asyncio.timeout(HOLD_S):  # Beats are answered, unless it is stopped or cut off.
                    message = await wire.read(ToProcess)
                self._on_message(message)
        finally:
            self._wire = None
            self._beats.clear()
            wire.close()

    def _on_message(self, message: ToProcess) -> None:
        match message:
            case Answered(number, error, value):
                pending = self._pending.pop(number, None)
                if pending is None or pending.result.done():
                    if pending is None or not isinstance(pending.request, Acquire):
                        return
                    if value is True:  # The caller has given up: nobody would release it.
                        self._abandon(pending.request)
                elif error:
                    pending.result.set_exception(Refused(error))
                else:
                    self._note(pending.request, value)
                    pending.result.set_result(value)
            case Beaten(number):
                self._confirmed_at = max(self._confirmed_at, self._beats.pop(number, 0.0))
            case Groups(groups):
                self._groups = groups
            case Dropped(group, member):
                self._members.pop((group, member), None)
            case Broken(token):
                self._lose(token)

    def _note(self, request: Request, value: Any) -> None:
        """Remember what this process holds now: a new leader will ask for it."""
        match request:
            case Join(group=group, member=member):
                self._members[group, member] = replace(request, created_at=value, updated_at=value)
            case Update(group, member, capabilities) if (group, member) in self._members:
                known = self._members[group, member]
                self._members[group, member] = replace(known, capabilities=capabilities, updated_at=value)
            case Leave(group, member):
                self._members.pop((group, member), None)
            case Acquire(token=token) if value:
                self._holds[token] = request
            case Release(_, token):
                self._holds.pop(token, None)
            case Break():
                pass  # The registry tells those that held it, this process too.

    def _lose(self, token: bytes) -> None:
        held = self._holds.pop(token, None)
        if held is not None:
            log.warning("lock %r is lost: it was broken, or somebody else holds it", held.lock)

    def _abandon(self, request: Acquire) -> None:
        if self._wire is not None:
            self._wire.send(Asked(next(self._numbers), Release(request.lock, request.token)))

    async def _ask(self, request: Request) -> Any:
        pending, number = _Pending(request), next(self._numbers)
        self._pending[number] = pending
        if self._wire is not None:
            self._wire.send(Asked(number, request))
        return await pending.result

    async def _beat(self, node: doyen.Node) -> None:
        """Have the registry confirm this process from time to time; leave a registry that no longer leads.

        A process that is stopped keeps its connections, so the end of a connection does not tell all.
        """
        for count in itertools.count():
            if self._wire is not None and count % BEAT_EVERY == 0:
                number = next(self._numbers)
                self._beats[number] = time.monotonic()
                self._wire.send(Beat(number))
            place = _registry_of(node)
            if self._wire is not None and not isinstance(place, str) and place != self._place:
                self._wire.close()
            await asyncio.sleep(LOOK_S)


def _registry_of(node: doyen.Node) -> tuple[str, int] | str:
    """Return where the leader's registry listens, or why that is not known."""
    leader = node.leader
    if leader is None:
        silent = node.agent.sight.silent_seeds()
        return f"no answer from {', '.join(silent)}" if silent else "no leader is known"
    if leader.address is None or PORT not in leader.meta:
        return f"{leader.name} leads, and does not say that it is a coordinator of tooz"
    if leader.name == node.name:
        return _own_host(node), int(leader.meta[PORT])
    return leader.address.rpartition(":")[0].strip("[]"), int(leader.meta[PORT])


def _holds_on(term: doyen.Term) -> bool:
    return not term.lost


def _own_host(node: doyen.Node) -> str:
    host = node.address.rpartition(":")[0].strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
