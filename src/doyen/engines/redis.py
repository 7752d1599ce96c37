"""One register in Redis or Valkey: a key, changed by a script.  A failover may lose what it confirmed."""

from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from doyen.engines.url import Url
from doyen.errors import ConfigError, TransportError

SWAP: Final = """
local now = redis.call('GET', KEYS[1])
if (now or '') ~= ARGV[1] then return {0, now} end
redis.call('SET', KEYS[1], ARGV[2])
return {1, ARGV[2]}
"""
TOO_OLD: Final = ": doyen needs scripts, which Redis has from 2.6 on"


class Register:
    """A key."""

    def __init__(self, url: Url, address: str, key: str, timeout_s: float) -> None:
        self._url, self._key = url, key
        # What was sent may have been done: nothing is sent twice.
        self._client: Any = _client(
            address,
            protocol=2,  # Every server speaks it.
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
        )

    def look(self) -> bytes | None:
        found: bytes | None = self._ask("GET", self._key)
        return found

    def swap(self, expected: bytes | None, wanted: bytes) -> tuple[bool, bytes | None]:
        done, now = self._ask("EVAL", SWAP, 1, self._key, expected or b"", wanted)
        return bool(done), now

    def close(self) -> None:
        self._client.close()

    def _ask(self, *command: Any) -> Any:
        try:
            return self._client.execute_command(*command)
        except redis.RedisError as error:
            too_old = str(error).lower().startswith("unknown command")
            raise TransportError(f"{self._url}: {error}{TOO_OLD if too_old else ''}") from None


def refuse_options(url: Url, address: str) -> None:
    """Raise `ConfigError` where the address has an option that the client does not take."""
    try:
        _client(address).connection_pool.make_connection()  # This does not connect yet.
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{url} has an option that redis-py does not take: {error}", field="shared") from None


def _client(address: str, **more: Any) -> Any:
    known = address.replace("valkey", "redis", 1) if address.startswith("valkey") else address
    return redis.Redis.from_url(known, **more)
