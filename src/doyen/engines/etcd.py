"""etcd by the JSON gateway that its servers have built in, from version 3.4 on: no client is needed."""

import http.client
import json
import ssl
from base64 import b64decode, b64encode
from typing import Any, Final

from doyen.engines.quiet import has_ended
from doyen.engines.url import Url
from doyen.errors import TransportError

TOO_OLD: Final = "is no etcd, or one before 3.4: doyen asks its JSON gateway at /v3"


class Gateway:
    """The servers of one etcd, over one connection at a time; not for several threads at once."""

    def __init__(self, url: Url, timeout_s: float) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._next = 0  # The server that is asked.
        self._connection: http.client.HTTPConnection | None = None
        self._token = ""

    def txn(self, compare: list[Any], success: list[Any], failure: list[Any]) -> tuple[bool, list[Any]]:
        """Do a transaction; return whether its comparison held, and the responses."""
        done = self.ask("/v3/kv/txn", {"compare": compare, "success": success, "failure": failure})
        return bool(done.get("succeeded")), list(done.get("responses", ()))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        """Return what a server answers to this call of its gateway.  Raises `TransportError`."""
        if self._url.user and not self._token:
            said = self._ask("/v3/auth/authenticate", {"name": self._url.user, "password": self._url.password})
            self._token = said["token"]
        return self._ask(path, body)

    def text(self, path: str) -> str:
        """Return a page of a server, such as its metrics."""
        return self._exchange("GET", path, None).decode(errors="replace")

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        host, port = self._url.servers[self._next % len(self._url.servers)]
        said = self._exchange("POST", path, json.dumps(body))
        try:
            return json.loads(said)
        except ValueError:
            self._turn_away()
            raise TransportError(f"{self._url}: {host}:{port} {TOO_OLD}") from None

    def _exchange(self, method: str, path: str, body: str | None) -> bytes:
        """Ask one server.  What was sent may have been done, whatever fails after: so nothing is sent twice."""
        connection = self._connected()
        host, port = self._url.servers[self._next % len(self._url.servers)]
        headers = {"Content-Type": "application/json"} | ({"Authorization": self._token} if self._token else {})
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._turn_away()
            raise TransportError(f"{self._url}: {host}:{port} did not answer: {_words(error)}") from None
        if status == 404:
            self.close()
            raise TransportError(f"{self._url}: {host}:{port} {TOO_OLD}")
        if status != 200:
            self._token = ""  # It may have expired.
            self._turn_away()  # Another may know a leader.
            raise TransportError(f"{self._url}: {host}:{port} refuses: {_refusal(text) or status}")
        return text

    def _connected(self) -> http.client.HTTPConnection:
        """Return a connection that is open; of several servers, the first that takes one."""
        error: OSError | None = None
        if self._connection is not None and self._connection.sock and has_ended(self._connection.sock.fileno()):
            self.close()
        for _ in self._url.servers:
            if self._connection is not None:
                return self._connection
            host, port = self._url.servers[self._next % len(self._url.servers)]
            if self._url.scheme == "etcds":
                context = self._tls()
                made: http.client.HTTPConnection = http.client.HTTPSConnection(
                    host, port, timeout=self._timeout_s, context=context
                )
            else:
                made = http.client.HTTPConnection(host, port, timeout=self._timeout_s)
            try:
                made.connect()
            except OSError as failed:
                error, self._next = failed, self._next + 1
                continue
            self._connection = made
        if self._connection is None:
            raise TransportError(f"{self._url} cannot be reached: {_words(error)}") from None
        return self._connection

    def _tls(self) -> ssl.SSLContext:
        options = self._url.options
        try:
            context = ssl.create_default_context(cafile=options.get("ca"))
            if "cert" in options:
                context.load_cert_chain(options["cert"], options.get("key"))
        except OSError as error:
            given = ", ".join(f"{name}={options[name]}" for name in ("ca", "cert", "key") if name in options)
            raise TransportError(f"{self._url} cannot be used with {given}: {_words(error)}") from None
        return context

    def _turn_away(self) -> None:
        self.close()
        self._next += 1


def bits(text: bytes | str) -> str:
    """Return bytes as the gateway takes them."""
    return b64encode(text.encode() if isinstance(text, str) else text).decode()


def compared(key: str, target: str, result: str, value: str) -> dict[str, Any]:
    """Return a comparison of a transaction: VALUE, or CREATE (0: there is no such key)."""
    field = {"VALUE": "value", "CREATE": "create_revision"}[target]
    return {"key": bits(key), "target": target, "result": result, field: value}


def put(key: str, value: bytes | str) -> dict[str, Any]:
    return {"request_put": {"key": bits(key), "value": bits(value)}}


def get(key: str) -> dict[str, Any]:
    return {"request_range": {"key": bits(key)}}


def delete(key: str) -> dict[str, Any]:
    return {"request_delete_range": {"key": bits(key)}}


def read(response: Any) -> bytes | None:
    """Return the value of the key that a response of `get` has; None: there is none."""
    found = response.get("response_range", {}).get("kvs") or ()
    return b64decode(found[0].get("value", "")) if found else None


def _refusal(text: bytes) -> str:
    """Return why a server refuses, in its own words; nothing where it does not say."""
    try:
        said = json.loads(text)
    except ValueError:
        return ""
    return str(said.get("error") or said.get("message") or "") if isinstance(said, dict) else ""


def _words(error: BaseException | None) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or repr(error)


class Register:
    """One key."""

    def __init__(self, url: Url, key: str, timeout_s: float) -> None:
        self._gateway, self._key = Gateway(url, timeout_s), f"{url.path.lstrip('/')}{'/' if url.path else ''}{key}"

    def look(self) -> bytes | None:
        return read(self._gateway.txn([], [get(self._key)], [])[1][0])

    def swap(self, expected: bytes | None, wanted: bytes) -> tuple[bool, bytes | None]:
        is_new = compared(self._key, "CREATE", "EQUAL", "0")
        same = is_new if expected is None else compared(self._key, "VALUE", "EQUAL", bits(expected))
        done, said = self._gateway.txn([same], [put(self._key, wanted)], [get(self._key)])
        return (True, wanted) if done else (False, read(said[0]))

    def close(self) -> None:
        self._gateway.close()
