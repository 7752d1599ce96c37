"""One register in PostgreSQL: a row of the table doyen_engine."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import errors

from doyen.engines.quiet import has_ended
from doyen.engines.url import Url
from doyen.errors import TransportError

TABLE: Final = "CREATE TABLE IF NOT EXISTS doyen_engine (key text PRIMARY KEY, record text NOT NULL)"
OLDEST: Final = 90500  # The first that has ON CONFLICT: 9.5.
READ: Final = "SELECT record FROM doyen_engine WHERE key = %s"
#: What the server answers to those who create the table at the same instant; a table is also a type.
MADE_BY_ANOTHER: Final = (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject)


class Register:
    """A row; over one connection, to the server of several that takes writes."""

    def __init__(self, url: Url, address: str, key: str, timeout_s: float) -> None:
        self._url, self._address, self._key, self._timeout_s = url, address, key, timeout_s
        self._connection: psycopg.Connection[Any] | None = None

    def look(self) -> bytes | None:
        found: bytes | None = self._ask(self._read)
        return found

    def swap(self, expected: bytes | None, wanted: bytes) -> tuple[bool, bytes | None]:
        def act(connection: "psycopg.Connection[Any]") -> tuple[bool, bytes | None]:
            if expected is None:
                sql, values = "INSERT INTO doyen_engine VALUES (%s, %s) ON CONFLICT DO NOTHING", (wanted.decode(),)
                done = connection.execute(sql, (self._key, *values))
            else:
                sql = "UPDATE doyen_engine SET record = %s WHERE key = %s AND record = %s"
                done = connection.execute(sql, (wanted.decode(), self._key, expected.decode()))
            return (True, wanted) if done.rowcount == 1 else (False, self._read(connection))

        done: tuple[bool, bytes | None] = self._ask(act)
        return done

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, connection: "psycopg.Connection[Any]") -> bytes | None:
        row = connection.execute(READ, (self._key,)).fetchone()
        return None if row is None else str(row[0]).encode()

    def _ask(self, act: Any) -> Any:
        try:
            if self._connection is not None and has_ended(self._connection.fileno()):
                self.close()
            if self._connection is None:
                self._connection = self._connect()
            with _answering(self._connection, self._timeout_s):
                return act(self._connection)
        except psycopg.Error as error:
            self.close()
            words = str(error).strip().splitlines()
            raise TransportError(f"{self._url}: {words[0] if words else repr(error)}") from None

    def _connect(self) -> "psycopg.Connection[Any]":
        limit = max(1, int(self._timeout_s * 1000))
        try:
            connection = self._opened(limit, options=f"-c statement_timeout={limit}")
        except psycopg.OperationalError as error:
            if "unsupported startup parameter" not in str(error):
                raise
            connection = self._opened(limit)  # PgBouncer: the server keeps a time of its own.
        try:
            if connection.info.server_version < OLDEST:
                told = connection.info.parameter_status("server_version")
                raise psycopg.NotSupportedError(f"the server is PostgreSQL {told}: doyen needs 9.5 or later")
            with _answering(connection, self._timeout_s):
                self._make_table(connection)
        except psycopg.Error:
            connection.close()
            raise
        return connection

    def _opened(self, limit: int, options: str | None = None) -> "psycopg.Connection[Any]":
        return psycopg.connect(
            self._address,
            autocommit=True,
            prepare_threshold=None,  # Behind PgBouncer, requests of one connection reach different sessions.
            connect_timeout=max(2, round(self._timeout_s)),
            target_session_attrs="read-write",
            keepalives_idle=max(1, round(self._timeout_s)),
            keepalives_interval=1,
            keepalives_count=2,
            tcp_user_timeout=limit,
            application_name="doyen",
            options=options,
        )

    def _make_table(self, connection: "psycopg.Connection[Any]") -> None:
        try:
            connection.execute(READ, (self._key,))
        except errors.UndefinedTable:
            with suppress(*MADE_BY_ANOTHER):
                connection.execute(TABLE)


@contextmanager
def _answering(connection: "psycopg.Connection[Any]", timeout_s: float) -> Iterator[None]:
    """End the connection if the server does not answer at all: libpq would wait without end."""
    own = socket.socket(fileno=os.dup(connection.fileno()))
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError):
            own.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(1.5 * timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except psycopg.Error:
        if late.is_set():
            raise psycopg.OperationalError("no answer in time") from None
        raise
    finally:
        timer.cancel()
        timer.join()
        own.close()
