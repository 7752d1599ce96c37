"""A relay before a server: it counts what clients send, and can be cut: connections stay, and nothing passes.

It can also spoil the answers on the connections that are open, or end these: later ones are sound.
"""

import socket
import threading
import time
from contextlib import suppress


class Relay:
    """Forwards connections to a port of this machine, in threads."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open = threading.Event()
        self._open.set()
        self._spoiled = threading.Event()  # Of the connections that are made now.
        self._late_s = -1.0
        self._closed = False
        self.asked = 0  # Pieces of data that clients have sent: one per request, for requests that are small.
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def spoil(self, late_s: float = -1.0) -> None:
        """Let each answer on these connections come so late; below 0: a connection ends in the place of its answer."""
        self._late_s = late_s
        self._spoiled.set()
        self._spoiled = threading.Event()

    def end(self) -> None:
        """End the connections, as proxies do with those that are idle."""
        for each in self._sockets[1:]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed = True
        self._open.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._closed:
                client, _ = self._listener.accept()
                self._open.wait()
                try:
                    server = socket.create_connection(("127.0.0.1", self._to), 5)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                self._sockets += [client, server]
                for one, other in ((client, server), (server, client)):
                    asks = one is client
                    threading.Thread(target=self._pass, args=(one, other, asks), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, asks: bool) -> None:
        spoiled = self._spoiled
        with suppress(OSError):
            while data := one.recv(65536):
                self.asked += asks
                if spoiled.is_set() and not asks:
                    if self._late_s < 0:
                        break
                    time.sleep(self._late_s)
                self._open.wait()
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
