"""A fence in etcd: writes are one transaction that compares the greatest term.

fence = Etcd("etcd://10.0.0.1:2379,10.0.0.2:2379", "orders")
with fence(term) as writes:
    writes.put("orders/last", b"17")
    writes.delete("orders/open")             # both are done in this term, or neither
"""

import threading
from typing import Any

from doyen.engines import etcd
from doyen.engines.url import parse
from doyen.errors import ConfigError
from doyen.fence.base import DIGITS, Fence, judge, number_of


class Writes:
    """The writes of one transaction, in order."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def put(self, key: str, value: bytes | str) -> None:
        self.requests.append(etcd.put(key, value))

    def delete(self, key: str) -> None:
        self.requests.append(etcd.delete(key))


class Etcd(Fence[Writes]):
    """A fence in etcd, kept in the key doyen/fence/NAME."""

    def __init__(self, url: str, name: str, *, timeout_s: float = 5.0) -> None:
        super().__init__(name)
        where = parse(url)
        if where.scheme not in ("etcd", "etcds"):
            raise ConfigError(f"{where} is no etcd: begin with etcd:// or etcds://", field="url")
        self._key = f"doyen/fence/{self.name}"
        self._gateway = etcd.Gateway(where, timeout_s)
        self._lock = threading.Lock()

    def check(self, term: Any) -> None:
        self.end(number_of(term), Writes())

    def begin(self, number: int) -> Writes:
        return Writes()

    def end(self, number: int, inside: Writes) -> None:
        mine = f"{number:0{DIGITS}}"
        wanted = [etcd.put(self._key, mine), *inside.requests]
        # A key that is not there compares as false; so the first writer makes it.
        not_greater = etcd.compared(self._key, "VALUE", "LESS", etcd.bits(f"{number + 1:0{DIGITS}}"))
        is_new = etcd.compared(self._key, "CREATE", "EQUAL", "0")
        with self._lock:
            while True:
                for condition in (not_greater, is_new):
                    done, said = self._gateway.txn([condition], wanted, [etcd.get(self._key)])
                    if done:
                        return
                    seen = etcd.read(said[0])
                    if seen is not None:
                        judge(self.name, number, int(seen))

    def close(self) -> None:
        """Close its connection; it opens another when it is used again."""
        self._gateway.close()
