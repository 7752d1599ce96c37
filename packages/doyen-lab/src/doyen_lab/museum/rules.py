"""A process under a flawed rule, and a store with one lock that such processes ask."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Literal

from msgspec import Struct, msgpack

PORT: Final = 6379
STORE: Final = "store"

Verb = Literal["take", "extend", "touch", "read", "write"]


class Ask(Struct, array_like=True):
    """A request: take the lock if it is free, extend one's own, touch anybody's, read or write a record."""

    verb: Verb
    owner: str
    ttl_s: float = 0.0
    record: Any = None  # write: what to write.
    seen: int = 0  # write: the version that was read; another one refuses.


class Answer(Struct, array_like=True):
    """An answer: whether it was done, and what is there."""

    done: bool
    record: Any = None
    version: int = 0


class Store:
    """One lock that expires, or ends with its session; and one record with a version.  As Redis, PostgreSQL, etcd."""

    def __init__(self, session_s: float | None = None) -> None:
        self.owner: str | None = None
        self.until_s = 0.0
        self.record: Any = None
        self.version = 0
        self._session_s = session_s  # A pool ends its connections after this time, and with them their locks.

    async def serve(self) -> None:
        async with await asyncio.start_server(self._answer, "0.0.0.0", PORT) as server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            size = int.from_bytes(await reader.readexactly(2), "big")
            asked = msgpack.decode(await reader.readexactly(size), type=Ask)
            writer.write(msgpack.encode(self._do(asked, asyncio.get_running_loop().time())))
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    def _do(self, asked: Ask, now_s: float) -> Answer:
        if self.owner is not None and now_s >= self.until_s:
            self.owner = None
        match asked.verb:
            case "take" if self.owner in (None, asked.owner):
                if self.owner is None or self._session_s is None:
                    self.until_s = now_s + (self._session_s or asked.ttl_s)
                self.owner = asked.owner
                return Answer(True)
            case "extend" if self.owner == asked.owner:
                self.until_s = self.until_s if self._session_s else now_s + asked.ttl_s
                return Answer(True)
            case "touch" if self.owner is not None:
                self.until_s = now_s + asked.ttl_s
                return Answer(True)
            case "read":
                return Answer(True, self.record, self.version)
            case "write" if asked.seen == self.version:
                self.record, self.version = asked.record, self.version + 1
                return Answer(True)
        return Answer(False)


class Rule:
    """One process under a rule; `leads` is what it believes of itself, and acts on."""

    session_s: ClassVar[float | None] = None  # The store's.
    patience_s: ClassVar[float] = 3.0  # For an answer of the store.

    def __init__(self, name: str, names: list[str]) -> None:
        self.name, self.names = name, names
        self.leads = False

    async def run(self) -> None:
        raise NotImplementedError

    @contextmanager
    def leading(self) -> Iterator[None]:
        self.leads = True
        try:
            yield
        finally:
            self.leads = False

    async def ask(self, verb: Verb, ttl_s: float = 0.0, **more: Any) -> Answer:
        """Ask the store; raise `OSError` (also `TimeoutError`) if it does not answer."""
        async with asyncio.timeout(self.patience_s):
            reader, writer = await asyncio.open_connection(STORE, PORT)
            try:
                data = msgpack.encode(Ask(verb, more.pop("owner", self.name), ttl_s, **more))
                writer.write(len(data).to_bytes(2, "big") + data)
                return msgpack.decode(await reader.read(), type=Answer)
            finally:
                writer.close()

    async def takes(self, ttl_s: float, every_s: float = 1.0, **more: Any) -> None:
        """Try until the lock is this process's; a store that does not answer is asked again."""
        while True:
            try:
                if (await self.ask("take", ttl_s, **more)).done:
                    return
            except OSError:
                pass
            await asyncio.sleep(every_s)
