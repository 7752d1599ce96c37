"""A fence in Redis or Valkey: writes are one script that compares the greatest term.

    fence = Redis(client, "orders")              # of redis.Redis, redis.asyncio.Redis or the same of valkey
    with fence(term) as writes:                  # an asyncio client: async with
        writes("SET", "orders:last", "17")
        writes("DEL", "orders:open")

A failover may lose it: a replica that is promoted may not have the last term, and then accepts an older one.  So may
a server that restarts without `appendfsync always`.  Where that must not be, fence in another store.
A command that fails ends the script; Redis keeps what the commands before it did.
"""

import inspect
from typing import Any, Final

from doyen.errors import LocalProtocolError
from doyen.fence.base import DIGITS, Fence, Guarded, judge, number_of

SCRIPT: Final = """
local seen = redis.call('GET', KEYS[1])
if seen and seen > ARGV[1] then return {1, seen} end
if seen ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[1]) end
local results, at = {}, 2
while ARGV[at] do
  local count, command = tonumber(ARGV[at]), {}
  for i = 1, count do command[i] = ARGV[at + i] end
  results[#results + 1] = redis.call(unpack(command))
  at = at + count + 1
end
return {0, results}
"""


class Writes:
    """The commands of one script, in order; `results` are their answers once they are done."""

    def __init__(self) -> None:
        self.commands: list[tuple[Any, ...]] = []
        self.results: list[Any] = []

    def __call__(self, *command: Any) -> None:
        self.commands.append(command)

    def arguments(self) -> list[Any]:
        return [part for command in self.commands for part in (len(command), *command)]


class Redis(Fence[Writes]):
    """A fence in Redis or Valkey, kept in the key doyen:fence:NAME."""

    def __init__(self, client: Any, name: str) -> None:
        super().__init__(name)
        self._client, self._key = client, f"doyen:fence:{self.name}"
        self._is_async = inspect.iscoroutinefunction(client.execute_command)

    def __call__(self, term: Any) -> Guarded[Writes]:
        return _AsyncGuarded(self, number_of(term)) if self._is_async else super().__call__(term)

    def check(self, term: Any) -> Any:
        """Raise `TermRefused` if a greater term was seen; of an asyncio client, await it."""
        number = number_of(term)
        return self.end_soon(number, Writes()) if self._is_async else self.end(number, Writes())

    def begin(self, number: int) -> Writes:
        return Writes()

    def end(self, number: int, inside: Writes) -> None:
        if self._is_async:
            raise LocalProtocolError("the client is an asyncio one: use `async with fence(term)`")
        self._judge(number, inside, self._ask(number, inside))

    async def end_soon(self, number: int, inside: Writes) -> None:
        self._judge(number, inside, await self._ask(number, inside))

    def _ask(self, number: int, inside: Writes) -> Any:
        return self._client.eval(SCRIPT, 1, self._key, f"{number:0{DIGITS}}", *inside.arguments())

    def _judge(self, number: int, inside: Writes, said: Any) -> None:
        refused, what = said
        if refused:
            judge(self.name, number, int(what))
        inside.results = list(what)


class _AsyncGuarded(Guarded[Writes]):
    """One use of a fence whose client is an asyncio one."""

    async def __aenter__(self) -> Writes:
        return self.__enter__()

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            fence = self._fence
            assert isinstance(fence, Redis)
            await fence.end_soon(self._number, self._inside)
