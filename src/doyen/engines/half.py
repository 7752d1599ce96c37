"""The other half of elections by a store: one record, read and swapped; each client loads when it is used."""

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from doyen.core.outside import Outside, Verdict, Work
from doyen.election.engine.messages import Found, Record, ToStore
from doyen.engines.url import Url, parse, usable
from doyen.errors import ConfigError, TransportError


class Store(Protocol):
    """One register in a store.  Raises `TransportError` where it cannot be asked, or did not answer."""

    def look(self) -> bytes | None:
        """Return the record; None: there is none."""

    def swap(self, expected: bytes | None, wanted: bytes) -> tuple[bool, bytes | None]:
        """Put a record in the place of that one; return whether it was done, and the record as it is now."""

    def close(self) -> None: ...


def opened(address: str, key: str, timeout_s: float) -> Store:
    """Return the register of that name.  Raises `ConfigError` where the address or the client is missing."""
    url, scheme = usable(address)
    if scheme == "etcd":
        from doyen.engines.etcd import Register as Etcd

        return Etcd(url, key, timeout_s)
    if scheme == "postgresql":
        from doyen.engines.postgresql import Register as Postgres

        return Postgres(url, address, key, timeout_s)
    if scheme == "redis":
        from doyen.engines.redis import Register as Redis

        return Redis(url, address, key, timeout_s)
    from doyen.engines.zookeeper import Register as ZooKeeper

    return ZooKeeper(url, key, timeout_s)


class Stores:
    """The other half of elections by a store (`core.outside.OtherHalf`)."""

    def work(self, outside: Outside) -> Work:
        store = _store(outside)

        def work(request: ToStore) -> bytes:
            try:
                return msgspec.msgpack.encode(answer(store, request))
            except TransportError as error:
                raise OSError(str(error)) from None

        return Work(work, store.close)

    def prepare(self, outside: Outside) -> bool:
        """Look at the store: there is nothing to be made."""
        store = _store(outside)
        try:
            store.look()
        except TransportError as error:
            raise ConfigError(str(error), field="shared") from None
        finally:
            store.close()
        return False

    def examine(self, outside: Outside, pause: Callable[[float], None]) -> Iterator[tuple[Verdict, str, str]]:
        url: Url = parse(outside.shared)
        store = _store(outside)
        try:
            record = _record(store.look())
        except TransportError as error:
            yield "wrong", str(error), "see that the server runs, and that this user may use it"
            return
        finally:
            store.close()
        held = "no epoch was claimed yet" if record is None else f"epoch {record.epoch}, {record.node}"
        yield "ok", f"store {url}: {held}", ""


def answer(store: Store, request: ToStore) -> Found:
    """Do a request."""
    if request.wanted is None:
        return Found(False, _record(store.look()))
    expected = None if request.expected is None else msgspec.json.encode(request.expected)
    swapped, now = store.swap(expected, msgspec.json.encode(request.wanted))
    return Found(True, request.wanted) if swapped else Found(False, _record(now))


def _store(outside: Outside) -> Store:
    key = f"doyen/engine/{outside.group}/{outside.name or '-'}"
    return opened(outside.shared, key, outside.config.lease / 2e9)


def _record(data: bytes | None) -> Record | None:
    try:
        return None if data is None else msgspec.json.decode(data, type=Record)
    except msgspec.MsgspecError as error:
        raise TransportError(f"the record in the store is not this election's ({error}): remove it") from None
