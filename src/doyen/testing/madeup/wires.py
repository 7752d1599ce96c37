"""Datagrams and streams between made-up machines, over the simulator's network: its delays, losses and cuts.

Each node is a machine of its own, whose host name is the node's name.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from doyen.core.clock import Duration, Instant, ms
from doyen.sim.node import SimNode
from doyen.testing.madeup.streams import RETRY_FIRST, Connection, Server, delay_between

if TYPE_CHECKING:
    from doyen.testing.madeup.loop import MadeUpLoop

CONNECT_GIVE_UP: Final[Duration] = ms(127_000)
FIRST_PORT: Final = 7600

_OWN: Final = ("", "localhost", "127.0.0.1", "0.0.0.0", "::", "::1", None)


class Wires:
    """The network of all made-up processes of one run."""

    def __init__(self) -> None:
        self.endpoints: dict[tuple[int, int], Endpoint] = {}  # By node and port.
        self.servers: dict[tuple[int, int], Server] = {}
        self.connections: dict[SimNode, dict[Connection, None]] = {}
        self.groups: dict[tuple[str, int], dict[Endpoint, None]] = {}  # By multicast address: who hears it.

    def host(self, node: SimNode) -> str:
        """Return the made-up address of a node."""
        number = node.index + 1
        return f"127.1.{number >> 8}.{number & 255}"

    def find(self, host: Any, asker: SimNode) -> SimNode | None:
        """Return the node with that name or address, as `asker` sees it."""
        if host in _OWN:
            return asker
        nodes = asker.sim.nodes
        if host.startswith("127.1."):
            index = sum(int(part) << shift for part, shift in zip(host.split(".")[2:], (8, 0), strict=True)) - 1
            return nodes[index] if 0 <= index < len(nodes) else None
        return asker.sim.by_name.get(host)

    def look_up(self, asker: SimNode, host: Any, port: Any) -> list[Any]:
        node = self.find(host, asker)
        if node is None:
            raise socket.gaierror(socket.EAI_NONAME, f"no node is called {host!r}")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.host(node), int(port or 0)))]

    def free_port(self, node: SimNode, port: int, taken: dict[tuple[int, int], Any]) -> int:
        """Return that port, or for 0 any that is free; raise `OSError` if it is taken."""
        if port and (node.index, port) in taken:
            raise OSError(errno.EADDRINUSE, f"{node.name}: port {port} is taken")
        port = port or FIRST_PORT
        while (node.index, port) in taken:
            port += 1
        return port

    def forget(self, node: SimNode, *, killed: bool) -> None:
        """Take the sockets of a process that ended; the kernel of one that was killed tells the other ends."""
        for table in (self.endpoints, self.servers):
            for key in [key for key in table if key[0] == node.index]:
                del table[key]
        for hearers in self.groups.values():
            for endpoint in [endpoint for endpoint in hearers if endpoint.node is node]:
                del hearers[endpoint]
        for connection in self.connections.pop(node, {}):
            connection.is_gone = True
            connection.forget()
            if killed and connection.peer is not None:
                connection.peer.hear_end(ConnectionResetError(errno.ECONNRESET, "the other process ended"))

    # Datagrams.

    def send(self, source: "Endpoint", data: bytes, to: tuple[str, int]) -> None:
        hearers = self.groups.get((to[0], to[1]))
        if hearers is not None:
            for endpoint in [*hearers]:
                self._send(source, data, endpoint.node, endpoint.port, endpoint)
            return
        receiver = self.find(to[0], source.node)
        if receiver is None:
            source.node.sim.network.faults["unknown receiver"] += 1
        else:
            self._send(source, data, receiver, to[1])

    def _send(
        self, source: "Endpoint", data: bytes, receiver: SimNode, port: int, endpoint: "Endpoint | None" = None
    ) -> None:
        node, sim = source.node, source.node.sim
        path: list[tuple[int, int]] = []
        delays: list[Duration] = [0]
        if receiver is not node:
            _, delays, path = sim.network.route(node.index, receiver.index, sim.now)
        for delay in delays:
            arrive = partial(self._arrive, source, data, receiver, port, path, endpoint)
            sim.at(sim.now + delay, arrive, f"{node.name} → {receiver.name} {len(data)}")

    def _arrive(
        self,
        source: "Endpoint",
        data: bytes,
        receiver: SimNode,
        port: int,
        path: list[tuple[int, int]],
        endpoint: "Endpoint | None",
    ) -> None:
        network = receiver.sim.network
        if receiver.host is None:
            network.faults["receiver down"] += 1
        elif receiver is not source.node and network.cut_since(source.node.index, receiver.index, path):
            network.faults["cut in flight"] += 1
        else:
            heard = endpoint or self.endpoints.get((receiver.index, port))
            if heard is not None and not heard.is_closing():
                heard.hear(data, (self.host(source.node), source.port))

    # Streams.

    def connect(
        self,
        loop: "MadeUpLoop",
        host: str,
        port: int,
        factory: Callable[[], Any],
        made: "asyncio.Future[Connection]",
    ) -> None:
        """Call a server: set the future to the connection, or to the error that TCP would give."""
        receiver = self.find(host, loop.node)
        if receiver is None:
            made.set_exception(socket.gaierror(socket.EAI_NONAME, f"no node is called {host!r}"))
            return
        self._call(loop, receiver, port, factory, made, loop.sim.now, RETRY_FIRST * 5)

    def _call(
        self,
        loop: "MadeUpLoop",
        receiver: SimNode,
        port: int,
        factory: Callable[[], Any],
        made: "asyncio.Future[Connection]",
        began_at: Instant,
        wait: Duration,
    ) -> None:
        sim, node = loop.sim, loop.node
        if made.done() or loop.is_dead:
            return
        there = delay_between(node, receiver)
        back = delay_between(receiver, node)
        if receiver.host is None or there is None or back is None:
            if sim.now - began_at > CONNECT_GIVE_UP:
                made.set_exception(TimeoutError(errno.ETIMEDOUT, f"connecting to {receiver.name}:{port} timed out"))
                return
            again = partial(self._call, loop, receiver, port, factory, made, began_at, wait * 2)
            sim.at(sim.now + wait, again, f"{node.name} calls {receiver.name} again")
            return
        sim.at(
            sim.now + there,
            partial(self._called, loop, receiver, port, factory, made, back),
            f"{node.name} calls {receiver.name}",
        )

    def _called(
        self,
        loop: "MadeUpLoop",
        receiver: SimNode,
        port: int,
        factory: Callable[[], Any],
        made: "asyncio.Future[Connection]",
        back: Duration,
    ) -> None:
        server = None if receiver.host is None else self.servers.get((receiver.index, port))
        if receiver.host is None:
            self._call(loop, receiver, port, factory, made, loop.sim.now, RETRY_FIRST * 5)
            return
        theirs = None
        if server is not None:
            theirs = Connection(server.loop, self, receiver, port)
            self.connections.setdefault(receiver, {})[theirs] = None
        loop.sim.at(
            loop.sim.now + back,
            partial(self._answered, loop, receiver, port, factory, made, server, theirs),
            f"{receiver.name} answers {loop.node.name}",
        )

    def _answered(
        self,
        loop: "MadeUpLoop",
        receiver: SimNode,
        port: int,
        factory: Callable[[], Any],
        made: "asyncio.Future[Connection]",
        server: "Server | None",
        theirs: "Connection | None",
    ) -> None:
        if made.done() or loop.is_dead:
            if theirs is not None and server is not None and not theirs.is_gone:
                theirs.is_gone = True
            return
        if server is None or theirs is None or theirs.is_gone:
            refused = ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {receiver.name}:{port}")
            made.set_exception(refused)
            return
        ours = Connection(loop, self, loop.node, 40_000 + len(self.connections.get(loop.node, {})))
        self.connections.setdefault(loop.node, {})[ours] = None
        ours.peer, theirs.peer = theirs, ours
        theirs.begin(server.factory)
        server.connections[theirs] = None
        ours.begin(factory, made)


class Endpoint(asyncio.DatagramTransport):
    """A made-up datagram socket."""

    def __init__(self, loop: "MadeUpLoop", protocol: Any, local: Any, remote: Any) -> None:
        super().__init__()
        self.loop, self.node, self._protocol, self._remote = loop, loop.node, protocol, remote
        self.wires = loop.process.wires
        self.port = self.wires.free_port(self.node, local[1] if local else 0, self.wires.endpoints)
        self.wires.endpoints[self.node.index, self.port] = self
        self._closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.wires.host(self.node), self.port) if name == "sockname" else default

    def hear(self, data: bytes, source: tuple[str, int]) -> None:
        self.loop.call_soon(self._take, data, source)

    def _take(self, data: bytes, source: tuple[str, int]) -> None:
        if not self._closed:
            self._protocol.datagram_received(data, source)

    def sendto(self, data: Any, addr: Any = None) -> None:
        if not self._closed and not self.loop.is_dead:
            self.wires.send(self, bytes(data), addr or self._remote)

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.wires.endpoints.pop((self.node.index, self.port), None)
            if not self.loop.is_closed():  # Else its process is unwound after the world has ended.
                self.loop.call_soon(self._protocol.connection_lost, None)

    abort = close
