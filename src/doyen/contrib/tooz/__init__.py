"""A driver for OpenStack's tooz that needs no server: `tooz.coordination.get_coordinator("doyen://", b"host-1")`.

    doyen://                          the processes of this user on this machine
    doyen://host-a,host-b/orders      a group named orders; one of these hosts that answers is enough
    doyen://…/orders?key=FILE         every argument of `doyen.join` may follow, by its name
    doyen://…?timeout=30              how long `start` waits for the group, in seconds

Processes find each other and elect one of themselves; that one keeps groups, members and locks in its memory.
When it is gone, the next one asks all others what they hold.  So everything lives as long as one process does.

Locks have the promise of the election.  With the default one they are *weak*: while the network is split, each side may
grant a lock.  With `election=quorum` (and `voters`, `name`, `state`) at most one process at a time grants locks, and
`lock.is_still_owner()` is false before anybody else can get one: ask it before each step that must not be done twice.
"""

import contextlib
import datetime
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final

import tooz
from tooz import coordination, locking, utils

from doyen.contrib.tooz import hub as hubs
from doyen.contrib.tooz.messages import (
    Acquire,
    Break,
    Create,
    Delete,
    Join,
    Leave,
    ListGroups,
    ListHolders,
    ListMembers,
    Release,
    Request,
    Update,
)
from doyen.contrib.tooz.registry import Refused
from doyen.errors import DoyenError

DEFAULT_GROUP: Final = "tooz"
SEVERAL: Final = ("voters", "elections", "hops", "attributes", "measures")  # Arguments of `join` that are lists.
NUMBERS: Final = ("expect", "group_size", "ttl")
TIMEOUT_S: Final = 5.0


class DoyenDriver(coordination.CoordinationDriverCachedRunWatchers):
    """tooz's interface over one hub per process and URL."""

    CHARACTERISTICS = (
        coordination.Characteristics.NON_TIMEOUT_BASED,
        coordination.Characteristics.DISTRIBUTED_ACROSS_THREADS,
        coordination.Characteristics.DISTRIBUTED_ACROSS_PROCESSES,
        coordination.Characteristics.DISTRIBUTED_ACROSS_HOSTS,
    )

    def __init__(self, member_id: bytes, parsed_url: Any, options: dict[str, Any]) -> None:
        super().__init__(utils.to_binary(member_id, encoding="utf-8"), parsed_url, options)
        given = utils.collapse(options)
        self._timeout_s = float(given.pop("timeout", TIMEOUT_S))
        self._port = int(given.pop("port", 0))
        self._arguments = _arguments(parsed_url, given)
        self._url = repr((sorted(self._arguments.items()), self._port))
        self._hub: hubs.Hub | None = None
        self._locks: set[DoyenLock] = set()  # Those that are held.
        self._leads: dict[bytes, DoyenLock] = {}
        self._attempts = itertools.count()

    # Life.

    def _start(self) -> None:
        super()._start()
        try:
            self._hub = hubs.take(self._url, self._arguments, self._port, self._timeout_s)
        except (DoyenError, OSError) as error:  # `TimeoutError` is one.
            raise coordination.ToozConnectionError(f"doyen: {error}") from error

    def _stop(self) -> None:
        assert self._hub is not None
        for lock in list(self._locks):
            with contextlib.suppress(tooz.ToozError):
                lock.release_all()
        self._leads.clear()
        hub, self._hub = self._hub, None
        hubs.give_back(self._url, hub)
        super()._stop()

    # Groups.

    def create_group(self, group_id: bytes) -> coordination.CoordAsyncResult[None]:
        return self.ask(Create(_name(group_id), self.attempt()), group_id)

    def delete_group(self, group_id: bytes) -> coordination.CoordAsyncResult[None]:
        return self.ask(Delete(_name(group_id)), group_id)

    def get_groups(self) -> coordination.CoordAsyncResult[list[bytes]]:
        return self.ask(ListGroups(), b"", then=list)

    def join_group(
        self, group_id: bytes, capabilities: coordination.Capabilities | None = None
    ) -> coordination.CoordAsyncResult[None]:
        joining = Join(_name(group_id), self._member_id, self.attempt(), utils.dumps(capabilities))
        return self.ask(joining, group_id, then=lambda at: self._joined_groups.add(group_id))

    def leave_group(self, group_id: bytes) -> coordination.CoordAsyncResult[None]:
        leaving = Leave(_name(group_id), self._member_id)
        return self.ask(leaving, group_id, then=lambda nothing: self._joined_groups.discard(group_id))

    def update_capabilities(
        self, group_id: bytes, capabilities: coordination.Capabilities
    ) -> coordination.CoordAsyncResult[None]:
        update = Update(_name(group_id), self._member_id, utils.dumps(capabilities))
        return self.ask(update, group_id, then=lambda at: None)

    def get_members(self, group_id: bytes) -> coordination.CoordAsyncResult[set[bytes]]:
        return self.ask(ListMembers(_name(group_id)), group_id, then=lambda found: {member for member, *_ in found})

    def get_members_with_capabilities(
        self, group_id: bytes
    ) -> coordination.CoordAsyncResult[dict[bytes, coordination.Capabilities | None]]:
        return self.ask(
            ListMembers(_name(group_id)),
            group_id,
            then=lambda found: {member: utils.loads(capabilities) for member, capabilities, *_ in found},
        )

    def get_member_capabilities(
        self, group_id: bytes, member_id: bytes
    ) -> coordination.CoordAsyncResult[coordination.Capabilities | None]:
        return self._of_member(group_id, member_id, lambda info: info["capabilities"])

    def get_member_info(self, group_id: bytes, member_id: bytes) -> coordination.CoordAsyncResult[dict[str, Any]]:
        return self._of_member(group_id, member_id, lambda info: info)

    def _of_member(
        self, group_id: bytes, member_id: bytes, then: Callable[[dict[str, Any]], Any]
    ) -> coordination.CoordAsyncResult[Any]:
        def find(found: list[tuple[bytes, bytes, float, float]]) -> Any:
            for member, capabilities, created_at, updated_at in found:
                if member == _name(member_id):
                    return then(
                        {
                            "capabilities": utils.loads(capabilities),
                            "created_at": _date(created_at),
                            "updated_at": _date(updated_at),
                        }
                    )
            raise coordination.MemberNotJoined(group_id, member_id)

        return self.ask(ListMembers(_name(group_id)), group_id, then=find)

    # Leaders.

    def get_leader(self, group_id: bytes) -> coordination.CoordAsyncResult[bytes]:
        return self.ask(
            ListHolders(b"leader " + _name(group_id)), group_id, then=lambda found: found[0] if found else None
        )

    def stand_down_group_leader(self, group_id: bytes) -> bool:
        lock = self._leads.pop(group_id, None)
        return lock is not None and lock.release()

    def run_elect_coordinator(self) -> None:
        for group_id, hooks in list(self._hooks_elected_leader.items()):
            lock = self._leads.get(group_id)
            if lock is not None and lock.is_still_owner():
                continue
            lock = DoyenLock(_name(group_id), self, b"leader ")
            if lock.acquire(blocking=False):
                self._leads[group_id] = lock
                hooks.run(coordination.LeaderElected(group_id, self._member_id))

    def run_watchers(self, timeout: float | None = None) -> list[Any]:
        results = super().run_watchers(timeout)
        self.run_elect_coordinator()
        return results

    # Locks.

    def get_lock(self, name: bytes) -> "DoyenLock":
        return DoyenLock(name, self, b"lock ")

    # For this module.

    def ask(self, request: Request, group_id: bytes = b"", then: Callable[[Any], Any] | None = None) -> "_Result":
        return _Result(self._begin(request), then or (lambda value: value), group_id, self._member_id)

    def _begin(self, request: Request) -> "Future[Any]":
        if self._hub is None:
            raise tooz.ToozError("this coordinator has not started, or has stopped: call start()")
        return self._hub.ask(request)

    def attempt(self) -> bytes:
        return os.urandom(12) + next(self._attempts).to_bytes(4, "big")

    def keep(self, lock: "DoyenLock", held: bool) -> None:
        """Note whether a lock is held, to release it when this coordinator stops."""
        (self._locks.add if held else self._locks.discard)(lock)

    def still_holds(self, token: bytes) -> bool:
        return self._hub is not None and self._hub.holds(token)

    @property
    def member_id(self) -> bytes:
        return self._member_id


class _Result(coordination.CoordAsyncResult[Any]):
    """An answer of the registry, as tooz wants it."""

    def __init__(self, future: "Future[Any]", then: Callable[[Any], Any], group_id: bytes, member_id: bytes) -> None:
        self._future, self._then, self._group_id, self._member_id = future, then, group_id, member_id

    def get(self, timeout: float | None = None) -> Any:
        with _translated(self._group_id, self._member_id):
            return self._then(self._future.result(timeout))

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> None:
        self._future.cancel()


@contextlib.contextmanager
def _translated(group_id: bytes, member_id: bytes) -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        raise _REFUSALS[refused.reason](group_id, member_id) from None
    except TimeoutError as late:
        raise coordination.OperationTimedOut("doyen: no leader has answered yet") from late
    except OSError as gone:
        raise coordination.ToozConnectionError(f"doyen: {gone}") from gone


_REFUSALS: Final[dict[str, Callable[[bytes, bytes], tooz.ToozError]]] = {
    "GroupNotCreated": lambda group, member: coordination.GroupNotCreated(group),
    "GroupAlreadyExist": lambda group, member: coordination.GroupAlreadyExist(group),
    "GroupNotEmpty": lambda group, member: coordination.GroupNotEmpty(group),
    "MemberAlreadyExist": coordination.MemberAlreadyExist,
    "MemberNotJoined": coordination.MemberNotJoined,
}


class DoyenLock(locking.Lock):
    """A lock that the leading process grants; `shared` ones are held by many.  Its promise is the election's."""

    def __init__(self, name: bytes, driver: DoyenDriver, kind: bytes) -> None:
        super().__init__(name)
        self._driver, self._key = driver, kind + _name(name)
        self._tokens: list[bytes] = []  # One for each time that it is held: several only if shared.

    @property
    def acquired(self) -> bool:
        return bool(self._tokens)

    def acquire(self, blocking: bool | float = True, shared: bool = False, timeout: float | None = None) -> bool:
        blocking, timeout = utils.convert_blocking(blocking, timeout)
        wait_s = 0.0 if not blocking else float("inf") if timeout is None else float(timeout)
        token = self._driver.attempt()
        asked = self._driver.ask(Acquire(self._key, token, self._driver.member_id, shared, wait_s))
        try:
            acquired: bool = asked.get()
        except BaseException:
            asked.cancel()
            raise
        if acquired:
            self._tokens.append(token)
            self._driver.keep(self, True)
        return acquired

    def release(self) -> bool:
        if not self._tokens:
            return False
        released: bool = self._driver.ask(Release(self._key, self._tokens.pop())).get()
        self._driver.keep(self, bool(self._tokens))
        return released

    def release_all(self) -> None:
        while self._tokens:
            self.release()

    def break_(self) -> bool:
        broken: bool = self._driver.ask(Break(self._key)).get()
        return broken

    def is_still_owner(self) -> bool:
        """Return whether this process still holds the lock.

        With a quorum nobody else can hold it at that instant; with a weak election somebody else may.
        """
        return any(map(self._driver.still_holds, self._tokens))


def _name(text: bytes | str) -> bytes:
    name: bytes = utils.to_binary(text, encoding="utf-8")
    return name


def _date(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds)


def _arguments(parsed_url: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `doyen.join` that a URL stands for."""
    seeds = [seed for seed in parsed_url.netloc.split(",") if seed]
    given: dict[str, Any] = {"group": parsed_url.path.strip("/") or DEFAULT_GROUP}
    if seeds:
        given |= {"seeds": seeds, "alone_after": "inf"}
    else:
        given["preset"] = "local"
    for name, value in options.items():
        if name in SEVERAL:
            value = str(value).split(",")
        elif name in NUMBERS:
            value = int(value)
        elif value in ("true", "false"):
            value = value == "true"
        given[name] = value
    return given


__all__ = ["DoyenDriver", "DoyenLock"]
