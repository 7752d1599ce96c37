"""A fence in ZooKeeper: writes are one `multi` that checks the version of the node with the greatest term.

fence = ZooKeeper(client, "orders")          # a started kazoo.client.KazooClient
with fence(term) as writes:                  # a kazoo TransactionRequest
    writes.set_data("/orders/last", b"17")
"""

from typing import Any, Final

from doyen.errors import TransportError
from doyen.fence.base import Fence, judge, number_of

TRIES_MAX: Final = 100  # Each time somebody else wrote between the look and the write.


class ZooKeeper(Fence[Any]):
    """A fence in ZooKeeper, kept in the node /doyen/fence/NAME."""

    def __init__(self, client: Any, name: str) -> None:
        super().__init__(name)
        self._client, self._path = client, f"/doyen/fence/{self.name}"

    def check(self, term: Any) -> None:
        number = number_of(term)
        self.end(number, self.begin(number))

    def begin(self, number: int) -> Any:
        return self._client.transaction()

    def end(self, number: int, inside: Any) -> None:
        from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, RolledBackError

        wanted = list(inside.operations)
        for _ in range(TRIES_MAX):
            try:
                data, stat = self._client.get(self._path)
            except NoNodeError:
                self._client.ensure_path(self._path)
                continue
            seen = int(data or b"0")
            judge(self.name, number, seen)
            tried = self._client.transaction()
            if seen < number:
                tried.set_data(self._path, b"%d" % number, stat.version)
            else:
                tried.check(self._path, stat.version)
            tried.operations.extend(wanted)
            results = tried.commit()
            errors = [result for result in results if isinstance(result, Exception)]
            if not errors:
                return
            if isinstance(results[0], BadVersionError | NodeExistsError):
                self._client.sync(self._path)  # This server may be behind the others.
                continue
            raise next((error for error in errors if not isinstance(error, RolledBackError)), errors[0])
        raise TransportError(f"fence {self.name}: {TRIES_MAX} others wrote first; nothing was written")
