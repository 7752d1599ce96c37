"""A fence in PostgreSQL: a row with the greatest term, read and locked in the transaction of the write.

    fence = Postgres(connection, "orders")
    fence.prepare()                                  # once; makes the table doyen_fence
    with fence(term):                                # a transaction
        connection.execute("UPDATE orders SET …")

The row is locked for sharing until the transaction ends: writers of one term do not wait for each other, and the first
write of a greater term waits until those of smaller ones are done.  A standby that is promoted must have the last
commits (`synchronous_commit`), or it may have forgotten a term.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from doyen.errors import ConfigError
from doyen.fence.base import judge, named, number_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager

    from psycopg import AsyncConnection, Connection

TABLE: Final = "CREATE TABLE IF NOT EXISTS doyen_fence (name text PRIMARY KEY, term bigint NOT NULL)"
LOCKED: Final = "SELECT term FROM doyen_fence WHERE name = %s FOR SHARE"
RAISED: Final = (
    "INSERT INTO doyen_fence AS kept (name, term) VALUES (%s, %s) "
    "ON CONFLICT (name) DO UPDATE SET term = excluded.term WHERE kept.term < excluded.term"
)
UNPREPARED: Final = "the database has no table doyen_fence: call fence.prepare() once"
Statement = tuple[str, tuple[Any, ...]]


def made_by_another() -> tuple[type[Exception], ...]:
    """Return the server's errors for a table that another session creates at the same instant; it is a type, too."""
    from psycopg.errors import DuplicateObject, DuplicateTable, UniqueViolation

    return (DuplicateObject, DuplicateTable, UniqueViolation)


class _Rules:
    """The statements of a check, for both sorts of connections."""

    def __init__(self, name: str) -> None:
        self.name = named(name)
        self._raised = 0  # The term that this object has raised the row to: then a look at the row is enough.

    def _statements(self, number: int) -> Generator[Statement, Any, None]:
        """Yield statements, each is sent its row; raise `TermRefused` if a greater term was seen."""
        row = (yield LOCKED, (self.name,)) if self._raised == number else None
        if row is None or row[0] < number:
            # This takes the lock of a writer at once: two that first share it, and then raise it, would block.
            yield RAISED, (self.name, number)
            row = yield LOCKED, (self.name,)
        judge(self.name, number, int(row[0]))
        self._raised = number


class Postgres(_Rules):
    """A fence for a `psycopg.Connection`."""

    def __init__(self, connection: "Connection[Any]", name: str) -> None:
        super().__init__(name)
        self._connection = connection

    def prepare(self) -> None:
        """Make the table, unless it is there."""
        with suppress(*made_by_another()), self._connection.transaction():
            self._connection.execute(TABLE)

    def check(self, term: Any) -> None:
        """Raise `TermRefused` if a greater term was seen; in a transaction, none is accepted until that ends."""
        from psycopg.errors import UndefinedTable

        steps = self._statements(number_of(term))
        result: Any = None
        try:
            while True:
                sql, values = steps.send(result)
                done = self._connection.execute(sql, values)
                result = done.fetchone() if done.description else None
        except StopIteration:
            return
        except UndefinedTable:
            raise ConfigError(UNPREPARED) from None

    def __call__(self, term: Any) -> "AbstractContextManager[Connection[Any]]":
        """Return a transaction in this term."""
        number = number_of(term)

        @contextmanager
        def guarded() -> "Iterator[Connection[Any]]":
            with self._connection.transaction():
                self.check(number)
                yield self._connection

        return guarded()


class AsyncPostgres(_Rules):
    """A fence for a `psycopg.AsyncConnection`."""

    def __init__(self, connection: "AsyncConnection[Any]", name: str) -> None:
        super().__init__(name)
        self._connection = connection

    async def prepare(self) -> None:
        """Make the table, unless it is there."""
        with suppress(*made_by_another()):
            async with self._connection.transaction():
                await self._connection.execute(TABLE)

    async def check(self, term: Any) -> None:
        """Raise `TermRefused` if a greater term was seen; in a transaction, none is accepted until that ends."""
        from psycopg.errors import UndefinedTable

        steps = self._statements(number_of(term))
        result: Any = None
        try:
            while True:
                sql, values = steps.send(result)
                done = await self._connection.execute(sql, values)
                result = await done.fetchone() if done.description else None
        except StopIteration:
            return
        except UndefinedTable:
            raise ConfigError(UNPREPARED) from None

    def __call__(self, term: Any) -> "AbstractAsyncContextManager[AsyncConnection[Any]]":
        """Return a transaction in this term."""
        number = number_of(term)

        @asynccontextmanager
        async def guarded() -> "AsyncIterator[AsyncConnection[Any]]":
            async with self._connection.transaction():
                await self.check(number)
                yield self._connection

        return guarded()
