"""The registry: groups, their members and locks, in the memory of the process that leads.  It does no IO.

Nothing of it is on a disk: a new leader begins with what the processes declare.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from doyen.contrib.tooz.messages import (
    Acquire,
    Break,
    Broken,
    Create,
    Declared,
    Delete,
    Dropped,
    Groups,
    Join,
    Leave,
    ListGroups,
    ListHolders,
    ListMembers,
    Release,
    Request,
    ToProcess,
    Update,
)


class Refused(Exception):
    """A request that cannot be done; `reason` is the name of tooz's exception."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Member(Struct):
    process: str
    attempt: bytes
    capabilities: bytes
    created_at: float
    updated_at: float


class _Hold(Struct):
    process: str
    label: bytes
    shared: bool


class _Waiter(Struct):
    process: str
    wanted: Acquire
    until: float
    answer: Callable[[bool], None]


class _Group(Struct):
    attempt: bytes
    members: dict[bytes, _Member]


class _Lock(Struct):
    holds: dict[bytes, _Hold]  # By token.
    waiters: list[_Waiter]

    def admits(self, shared: bool) -> bool:
        return not self.holds or (shared and all(hold.shared for hold in self.holds.values()))


class Registry:
    """Answers requests.  `tell` carries what concerns another process; "" means all of them."""

    def __init__(self, tell: Callable[[str, ToProcess], None]) -> None:
        self._tell = tell
        self._groups: dict[bytes, _Group] = {}
        self._locks: dict[bytes, _Lock] = {}

    @property
    def groups(self) -> tuple[bytes, ...]:
        return tuple(sorted(self._groups))

    def declare(self, said: Declared) -> list[bytes]:
        """Take what a process holds; return the tokens of locks that somebody else holds."""
        self._drop(
            said.process,
            tokens={held.token for held in said.holds},
            members={(each.group, each.member) for each in said.members},
        )
        before = len(self._groups)
        for name in said.groups:
            self._groups.setdefault(name, _Group(b"", {}))
        for each in said.members:
            members = self._groups.setdefault(each.group, _Group(b"", {})).members
            if each.member not in members:
                members[each.member] = _Member(
                    said.process, each.attempt, each.capabilities, each.created_at, each.updated_at
                )
        lost = []
        for held in said.holds:
            lock = self._locks.setdefault(held.lock, _Lock({}, []))
            if held.token in lock.holds or lock.admits(held.shared):
                lock.holds[held.token] = _Hold(said.process, held.label, held.shared)
            else:
                lost.append(held.token)
        if len(self._groups) != before:
            self._tell("", Groups(self.groups))
        return lost

    def forget(self, process: str) -> None:
        """Drop all that a process held: it has left, or is gone."""
        self._drop(process, tokens=set(), members=set())

    def ask(self, process: str, request: Request, now: float, date: float, answer: Callable[[Any], None]) -> None:
        """Do a request; `answer` gets the result, for a lock possibly later.  Raises `Refused`.

        `now` is a clock that never goes back; `date` is what people read.
        """
        match request:
            case Create(name, attempt):
                found = self._groups.get(name)
                if found is not None and found.attempt != attempt:
                    raise Refused("GroupAlreadyExist")
                self._groups[name] = found or _Group(attempt, {})
                self._tell("", Groups(self.groups))
                answer(None)
            case Delete(name):
                if self._group(name).members:
                    raise Refused("GroupNotEmpty")
                del self._groups[name]
                self._tell("", Groups(self.groups))
                answer(None)
            case ListGroups():
                answer(self.groups)
            case Join(group=name, member=member, attempt=attempt, capabilities=capabilities):
                members = self._group(name).members
                if member in members and members[member].attempt != attempt:
                    raise Refused("MemberAlreadyExist")
                members[member] = _Member(process, attempt, capabilities, date, date)
                answer(date)
            case Update(name, member, capabilities):
                known = self._member(name, member)
                known.capabilities, known.updated_at = capabilities, date
                answer(date)
            case Leave(name, member):
                known = self._member(name, member)
                del self._groups[name].members[member]
                if known.process != process:
                    self._tell(known.process, Dropped(name, member))
                answer(None)
            case ListMembers(name):
                answer(
                    [
                        (member, known.capabilities, known.created_at, known.updated_at)
                        for member, known in self._group(name).members.items()
                    ]
                )
            case Acquire(lock=name):
                self._acquire(process, name, request, now, answer)
            case Release(name, token):
                answer(self._release(name, [token]))
            case Break(name):
                held = self._locks.get(name, _Lock({}, [])).holds.copy()
                answer(self._release(name, held))
                for token, hold in held.items():
                    self._tell(hold.process, Broken(token))
            case ListHolders(name):
                lock = self._locks.get(name)
                answer([hold.label for hold in lock.holds.values()] if lock else [])

    def tick(self, now: float) -> float:
        """Refuse those that have waited for long enough; return when the next one will have."""
        for name, lock in list(self._locks.items()):
            late = [waiter for waiter in lock.waiters if waiter.until <= now]
            if late:
                lock.waiters = [waiter for waiter in lock.waiters if waiter.until > now]
                for waiter in late:
                    waiter.answer(False)
                self._grant(name, lock)  # A reader may have waited behind a writer that has given up.
        return min((waiter.until for lock in self._locks.values() for waiter in lock.waiters), default=float("inf"))

    # Steps.

    def _group(self, name: bytes) -> _Group:
        if name not in self._groups:
            raise Refused("GroupNotCreated")
        return self._groups[name]

    def _member(self, name: bytes, member: bytes) -> _Member:
        members = self._group(name).members
        if member not in members:
            raise Refused("MemberNotJoined")
        return members[member]

    def _acquire(self, process: str, name: bytes, wanted: Acquire, now: float, answer: Callable[[Any], None]) -> None:
        lock = self._locks.setdefault(name, _Lock({}, []))
        if wanted.token in lock.holds:  # Sent again.
            answer(True)
        elif lock.admits(wanted.shared) and not lock.waiters:
            lock.holds[wanted.token] = _Hold(process, wanted.label, wanted.shared)
            answer(True)
        elif wanted.wait_s <= 0:
            answer(False)
        else:
            lock.waiters.append(_Waiter(process, wanted, now + wanted.wait_s, answer))

    def _release(self, name: bytes, tokens: Iterable[bytes]) -> bool:
        lock = self._locks.get(name, _Lock({}, []))
        released = [token for token in tokens if lock.holds.pop(token, None) is not None]
        if released:
            self._grant(name, lock)
        return bool(released)

    def _grant(self, name: bytes, lock: _Lock) -> None:
        """Give a lock to those that have waited longest, in their order."""
        while lock.waiters and lock.admits(lock.waiters[0].wanted.shared):
            first = lock.waiters.pop(0)
            lock.holds[first.wanted.token] = _Hold(first.process, first.wanted.label, first.wanted.shared)
            first.answer(True)
        if not lock.holds and not lock.waiters:
            self._locks.pop(name, None)

    def _drop(self, process: str, *, tokens: set[bytes], members: set[tuple[bytes, bytes]]) -> None:
        """Drop what a process holds and waits for, but for these tokens and these members."""
        for group, known in self._groups.items():
            for name, each in list(known.members.items()):
                if each.process == process and (group, name) not in members:
                    del known.members[name]
        for name, lock in list(self._locks.items()):
            lock.waiters = [waiter for waiter in lock.waiters if waiter.process != process]
            gone = [t for t, hold in lock.holds.items() if hold.process == process and t not in tokens]
            for token in gone:
                del lock.holds[token]
            self._grant(name, lock)
