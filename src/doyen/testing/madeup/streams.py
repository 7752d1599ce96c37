"""Streams between made-up machines: what TCP makes of the simulator's network.

Bytes arrive in order or wait until they can, and the end of a stream is heard by the other side only if the network
carries it.  Simplified: no window but the write buffer's, no slow start, one retransmission timer that doubles from
200 ms to 60 s.
"""

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from doyen.core.clock import Duration, Instant, ms
from doyen.sim.node import SimNode

if TYPE_CHECKING:
    from doyen.testing.madeup.loop import MadeUpLoop
    from doyen.testing.madeup.wires import Wires

RETRY_FIRST: Final[Duration] = ms(200)
RETRY_MAX: Final[Duration] = ms(60_000)
GIVE_UP: Final[Duration] = ms(900_000)  # After about fifteen minutes, as Linux does.
BUFFER_MAX: Final = 65_536


def delay_between(node: SimNode, receiver: SimNode) -> Duration | None:
    """Return how long one packet takes, or None if it is lost."""
    if node is receiver:
        return 0
    _, delays, _ = node.sim.network.route(node.index, receiver.index, node.sim.now)
    return delays[0] if delays else None


class Server(asyncio.AbstractServer):
    """A made-up listening socket."""

    def __init__(self, loop: "MadeUpLoop", factory: Callable[[], Any], port: int) -> None:
        self.loop, self.factory = loop, factory
        self.wires, self.node = loop.process.wires, loop.node
        self.port = self.wires.free_port(self.node, port, self.wires.servers)
        self.connections: dict[Connection, None] = {}
        self._closed = loop.create_future()

    @property
    def sockets(self) -> tuple[Any, ...]:
        return () if self._closed.done() else (Socket((self.wires.host(self.node), self.port), None),)

    def get_loop(self) -> "MadeUpLoop":
        return self.loop

    def is_serving(self) -> bool:
        return self.wires.servers.get((self.node.index, self.port)) is self

    async def start_serving(self) -> None:
        self.wires.servers[self.node.index, self.port] = self

    async def serve_forever(self) -> None:
        await self.start_serving()
        try:
            await self.loop.create_future()
        finally:
            self.close()

    def close(self) -> None:
        if self.is_serving():
            del self.wires.servers[self.node.index, self.port]
        if not self._closed.done():
            self._closed.set_result(None)

    async def wait_closed(self) -> None:
        await self._closed

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()
        await self.wait_closed()


class Socket:
    """The part of a socket that protocols ask for."""

    family, type, proto = socket.AF_INET, socket.SOCK_STREAM, 6

    def __init__(self, own: tuple[str, int], other: tuple[str, int] | None) -> None:
        self._own, self._other = own, other

    def getsockname(self) -> tuple[str, int]:
        return self._own

    def getpeername(self) -> tuple[str, int] | None:
        return self._other

    def setsockopt(self, *given: Any) -> None: ...

    def fileno(self) -> int:
        return -1


class Connection(asyncio.Transport):
    """One end of a made-up TCP connection."""

    def __init__(self, loop: "MadeUpLoop", wires: "Wires", node: SimNode, port: int) -> None:
        super().__init__()
        self.loop, self.wires, self.node, self.port = loop, wires, node, port
        self.peer: Connection | None = None
        self.is_gone = False  # Its process is gone, or it was closed and all was sent.
        self._protocol: Any = None
        self._closing = self._lost = self._reading_paused = self._writing_paused = False
        self._outgoing: deque[bytes | None] = deque()  # None: the end.
        self._outgoing_bytes = 0
        self._is_sending = False
        self._sending_since: Instant = 0
        self._arrived: deque[bytes | None] = deque()  # While reading is paused.
        self._high, self._low = BUFFER_MAX, BUFFER_MAX // 4

    def begin(self, factory: Callable[[], Any], made: "asyncio.Future[Connection] | None" = None) -> None:
        def opened() -> None:
            self._protocol = factory()
            self._protocol.connection_made(self)
            if made is not None and not made.done():
                made.set_result(self)

        self.loop.call_soon(opened)

    # What a program asks.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        own = (self.wires.host(self.node), self.port)
        other = None if self.peer is None else (self.wires.host(self.peer.node), self.peer.port)
        return {"sockname": own, "peername": other, "socket": Socket(own, other)}.get(name, default)

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        while self._arrived and not self._reading_paused:
            self.loop.call_soon(self._take, self._arrived.popleft())

    def get_write_buffer_size(self) -> int:
        return self._outgoing_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = BUFFER_MAX if high is None else high
        self._low = self._high // 4 if low is None else low

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: Any) -> None:
        if data and not self._closing and None not in self._outgoing:
            self._outgoing.append(bytes(data))
            self._outgoing_bytes += len(data)
            if self._outgoing_bytes > self._high and not self._writing_paused:
                self._writing_paused = True
                self._protocol.pause_writing()
            self._pump()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if None not in self._outgoing:
            self._outgoing.append(None)
            self._pump()

    def close(self) -> None:
        """Send what is left, then the end."""
        if not self._closing:
            self._closing = True
            if None not in self._outgoing:
                self._outgoing.append(None)
            self._pump()
            self.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        if not self._lost:
            self._closing = True
            self._outgoing.clear()
            if self.peer is not None:
                self.peer.hear_end(ConnectionResetError(errno.ECONNRESET, "connection reset by the other end"))
            self.loop.call_soon(self._lose, None)

    # On the way.

    def _pump(self) -> None:
        """Send the next piece, once the one before has arrived: bytes keep their order."""
        if self._outgoing and not self._is_sending and self.peer is not None:
            self._is_sending, self._sending_since = True, self.node.sim.now
            self._try(RETRY_FIRST)

    def _try(self, wait: Duration) -> None:
        sim, peer = self.node.sim, self.peer
        assert peer is not None
        if not self._outgoing or (self.loop.is_dead and self.is_gone):
            self._is_sending = False
            return
        delay = None if peer.node.host is None else delay_between(self.node, peer.node)
        if delay is not None:
            sim.at(sim.now + delay, partial(self._deliver, wait), f"{self.node.name} ⇒ {peer.node.name}")
        elif sim.now - self._sending_since > GIVE_UP:
            self._is_sending = False
            self._end(TimeoutError(errno.ETIMEDOUT, f"{peer.node.name} does not answer"))
        else:
            sim.at(sim.now + wait, partial(self._try, min(wait * 2, RETRY_MAX)), f"{self.node.name} sends again")

    def _deliver(self, wait: Duration) -> None:
        peer, network = self.peer, self.node.sim.network
        assert peer is not None
        if not self._outgoing:
            self._is_sending = False
            return
        if peer.node.host is None or (
            peer.node is not self.node and network.cut_since(self.node.index, peer.node.index, [])
        ):
            self._try(wait)
            return
        if peer.is_gone:  # Its machine is back, its process is not: the kernel answers with a reset.
            self._is_sending = False
            self._end(ConnectionResetError(errno.ECONNRESET, "connection reset: the other process is gone"))
            return
        pieces: list[bytes | None] = [*self._outgoing]  # All that has been written meanwhile travels together.
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self._is_sending = False
        data = b"".join(piece for piece in pieces if piece is not None)
        if data:
            peer.hear(data)
        if None in pieces:
            peer.hear(None)
        if self._writing_paused and not self.loop.is_dead:
            self._writing_paused = False
            self.loop.call_soon(self._protocol.resume_writing)

    def hear(self, data: bytes | None) -> None:
        if self._reading_paused:
            self._arrived.append(data)
        else:
            self.loop.call_soon(self._take, data)

    def _take(self, data: bytes | None) -> None:
        if self._lost or self._closing:
            return
        if data is not None:
            self._protocol.data_received(data)
        elif not self._protocol.eof_received():
            self.close()

    def hear_end(self, error: OSError) -> None:
        """Learn of a reset, as soon as the network carries it."""
        peer = self.peer
        assert peer is not None
        if self.node.host is not None and not self.is_gone:
            delay = delay_between(peer.node, self.node)
            if delay is not None:  # A lost reset is not sent again; the next segment gets another one.
                sim = self.node.sim
                sim.at(sim.now + delay, partial(self._end, error), f"{peer.node.name} resets {self.node.name}")

    def _end(self, error: OSError | None) -> None:
        if not self.loop.is_dead and not self._lost:
            self._closing = True
            self.loop.call_soon(self._lose, error)

    def forget(self) -> None:
        """Be closed for good: nothing hears of it."""
        self._closing = self._lost = True

    def _lose(self, error: OSError | None) -> None:
        if not self._lost:
            self._lost = True
            if not self._outgoing:
                self.is_gone = True
            self.wires.connections.get(self.node, {}).pop(self, None)
            if self._protocol is not None:
                self._protocol.connection_lost(error)
