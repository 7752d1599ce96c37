"""One register in ZooKeeper: a node, changed by a write of the version that was read."""

import logging
import threading
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError

from doyen.engines.url import Url
from doyen.errors import TransportError

SESSION_S = 30.0  # Pings are rare so; a connection that does not answer is given up sooner, by each request.
log = logging.getLogger("doyen.zookeeper")
log.setLevel(logging.CRITICAL)  # The election reports what fails.


class Register:
    """A node; over one session, whose timeout does not matter."""

    def __init__(self, url: Url, key: str, timeout_s: float) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._path = f"{url.path}/{key}"
        self._client: Any = None
        self._last: tuple[bytes, int] | None = None  # The data that this object wrote or read last, and its version.

    def look(self) -> bytes | None:
        self._ask(lambda client: client.sync_async(self._path))  # Its server may be behind the others.
        return self._read()

    def swap(self, expected: bytes | None, wanted: bytes) -> tuple[bool, bytes | None]:
        if expected is None:
            try:
                self._ask(lambda client: client.create_async(self._path, wanted, makepath=True))
            except NodeExistsError:
                return False, self.look()
            self._last = (wanted, 0)
            return True, wanted
        if self._last is None or self._last[0] != expected:
            now = self.look()
            if now != expected:
                return False, now
        assert self._last is not None
        version = self._last[1]
        try:
            stat = self._ask(lambda client: client.set_async(self._path, wanted, version))
        except (BadVersionError, NoNodeError):
            return False, self.look()
        self._last = (wanted, stat.version)
        return True, wanted

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            _end(client)

    def _read(self) -> bytes | None:
        try:
            data, stat = self._ask(lambda client: client.get_async(self._path))
        except NoNodeError:
            self._last = None
            return None
        self._last = (data, stat.version)
        return bytes(data)

    def _ask(self, act: Any) -> Any:
        """Ask, and wait for the answer; the errors that a swap expects pass."""
        try:
            if self._client is None:
                self._client = KazooClient(self._url.hosts, timeout=SESSION_S, logger=log)
                self._client.start_async().wait(self._timeout_s)
                if not self._client.connected:
                    raise KazooTimeoutError
            return act(self._client).get(timeout=self._timeout_s)
        except (NodeExistsError, BadVersionError, NoNodeError):
            raise
        except (KazooException, KazooTimeoutError) as error:
            self._last = None
            if self._client is not None:  # It may wait for the server, which is late already.
                threading.Thread(target=_end, args=(self._client,), daemon=True).start()
                self._client = None
            if isinstance(error, NoAuthError | AuthFailedError):
                raise TransportError(f"{self._url} denies access to {self._path}: see its ACL") from None
            late = isinstance(error, KazooTimeoutError)
            why = " in time" if late else f": {str(error) or type(error).__name__}"  # Most of them say nothing.
            raise TransportError(f"{self._url} did not answer{why}") from None


def _end(client: Any) -> None:
    with suppress(Exception):  # One that still waits for its server cannot be ended any better.
        client.stop()
        client.close()
