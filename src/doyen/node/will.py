"""Keeps a node's will: written anew whenever its lease is, and held by a process that outlives this one (decision 96).

Under `doyen run` the keeper is the shadow of the command's guard, which knows when everything that acted has ended.
A Python program has no such witness: `join(will=True)` gives it a keeper of its own, and the will holds only as long as
the program has never started another process, which could go on acting.  Python's audit events tell; what native code
starts is looked for at each renewal, but one that is gone from sight by then is not seen.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from doyen.core.clock import Duration, Instant, ms
from doyen.core.ids import NodeId
from doyen.errors import ConfigError
from doyen.net import will as _will
from doyen.net.sealed import WINDOW
from doyen.net.will import ROUNDS, Will
from doyen.node.agent import Agent

log = logging.getLogger("doyen")

LOOK_EVERY: Final[Duration] = ms(250)  # At least this often, and eight times per lease.
BEGINS: Final = frozenset(
    ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system", "doyen.begins")
)  # Audit events of processes that start others, or become another program.


class WillWriter:
    """Writes a node's will: its resignations from all that it leads, until it falls silent."""

    def __init__(
        self,
        agent: Agent,
        will: Will,
        *,
        elections: Collection[str] | None = None,  # By name; None: all of the node's.
        check: Callable[[], None] = lambda: None,  # Called before each writing; it may make the will void.
    ) -> None:
        self.will, self._agent, self._elections, self._check = will, agent, elections, check
        self._written: Any = None  # What the will was made from.
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Renew the will from now on, until the driver closes: then there is none."""
        self._agent.listeners.append(lambda event: self._look() if event.kind in ("elected", "lost") else None)
        self._agent.driver.on_close(self._end)
        reigns = self._agent.stack.reigns.values()
        leases = [reign.kind.lease(self._agent.config.table(reign.kind.table)) for reign in reigns]
        self._every_s = min([LOOK_EVERY, *(lease // 8 for lease in leases if lease is not None)]) / 1e9
        self._look()

    def renew(self) -> None:
        """Write the will anew if the lease, the term, the key or an address has changed; revoke that of a lost term."""
        driver = self._agent.driver
        led = [] if not driver.running else [*self._led()]
        if not led:
            self._written = None
            self.will.revoke()
            return
        book = [(voter, driver.addresses.reach(voter)) for *_, voters in led for voter in voters]
        if self._written == (led, self._sealing(), book):
            return
        self._check()
        rounds = [
            [
                (address.host, address.port, data)
                for _, channel, message, voters in led
                for address, data in driver.for_later(channel, message, voters)
            ]
            for _ in range(ROUNDS)  # Each has numbers of its own: a datagram that comes twice would be refused.
        ]
        self._written = (led, self._sealing(), book)
        source = driver.transport.address
        self.will.write(max(until for until, *_ in led), (source.host, source.port), rounds)

    def _led(self) -> Iterator[tuple[Instant, str, Any, list[NodeId]]]:
        """Yield the end of the lease, channel, resignation and voters of each election that this node leads."""
        for reign in self._agent.stack.reigns.values():
            machine, until = reign.machine, reign.lease_until()
            wanted = self._elections is None or reign.name in self._elections
            if machine is None or until is None or not wanted:
                continue
            message = machine.will()
            if message is not None:
                yield until, reign.channel, message, sorted(machine.will_goes_to)

    def _sealing(self) -> Any:
        """Return what a sealed datagram depends on: the key, and the numbers that are used up meanwhile."""
        seal = self._agent.driver.seal
        return None if seal is None else (seal.keyring.keys[0], seal.number // (WINDOW // 4))

    def _look(self) -> None:
        """Renew the will, and look again as long as this node leads: who follows is woken by its election alone."""
        self._look_no_more()
        self.renew()
        if self._agent.driver.running and any(reign.mine for reign in self._agent.stack.reigns.values()):
            self._timer = asyncio.get_running_loop().call_later(self._every_s, self._look)

    def _look_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._look_no_more()
        self.will.revoke()


class Keeper:
    """The process that keeps this one's will, and what makes it void."""

    def __init__(self, name: str) -> None:
        """Start the process; raise `ConfigError` where the kernel or this program cannot have one."""
        self._name, self._author, self._is_told = name, os.getpid(), False
        if "frozen" in vars(sys) or not sys.executable:
            raise ConfigError("True needs a Python interpreter to start, and this program has none", field="will")
        _starting.add(threading.get_ident())
        try:
            self.will = _watched()
            self.pid = _spawn((self.will.file, self.will.process))
            self._process = os.pidfd_open(self.pid)
        except (AttributeError, OSError) as error:
            raise ConfigError(
                f"True needs Linux 5.3 or later, and a process of its own: {error}", field="will"
            ) from None
        finally:
            _starting.discard(threading.get_ident())
        _keepers.add(self.pid)

    def check(self) -> None:
        """Make the will void if this process has a child that raised no audit event; log once that it is void."""
        if not self.will.is_void and children() - _keepers:
            self.will.void()
        if self.will.is_void and not self._is_told:
            self._is_told = True
            log.warning(
                "%s: this process has started another, which may go on when it dies: its will is void, and its lease "
                "will be waited out",
                self._name,
            )

    def end(self) -> None:
        """End the keeper, as this process lives on, and no longer leads."""
        if self._author != os.getpid():
            return  # A fork's: the parent's stays.
        self.will.revoke()
        with suppress(OSError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)
        with suppress(ChildProcessError):  # Somebody else has waited for all children.
            os.waitpid(self.pid, 0)
        _keepers.discard(self.pid)
        os.close(self._process)
        _spare.append(self.will)


def children() -> set[int]:
    """Return the children of this process that the kernel lists."""
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError), open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found.update(map(int, file.read().split()))
    return found


_wills: list[Will] = []  # All of this process; never closed, for any thread may be about to make them void.
_spare: list[Will] = []  # Those that no keeper has now.
_keepers: set[int] = set()  # Processes that are no children in that sense.
_starting: set[int] = set()  # Threads that start a keeper.
_is_watching = False


def _watched() -> Will:
    """Return a will that is made void before this process starts another."""
    global _is_watching
    if _spare:
        return _spare.pop()
    will = Will()
    _wills.append(will)
    if not _is_watching:
        _is_watching = True
        sys.addaudithook(_on_audit)
        os.register_at_fork(after_in_child=_forget)
        # multiprocessing's "spawn" and "forkserver" call this without an audit event.
        import _posixsubprocess

        fork_exec = _posixsubprocess.fork_exec

        def told(*arguments: Any) -> int:
            sys.audit("doyen.begins")
            return int(fork_exec(*arguments))

        _posixsubprocess.fork_exec = told
    return will


def _forget() -> None:
    """Leave, in a fork, the wills to the parent."""
    _wills.clear()
    _spare.clear()
    _keepers.clear()


def _on_audit(event: str, _: Any) -> None:
    if event in BEGINS and threading.get_ident() not in _starting:
        for will in _wills:
            will.void()


def _spawn(files: tuple[int, int]) -> int:
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    line = [sys.executable, "-I", "-S", str(Path(_will.__file__)), *map(str, files)]
    try:
        for file in files:
            os.set_inheritable(file, True)
        return os.posix_spawn(sys.executable, line, os.environ, file_actions=nothing)
    finally:
        for file in files:
            os.set_inheritable(file, False)
