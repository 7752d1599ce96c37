"""An asyncio event loop whose time is the simulator's: one for each made-up process.

The loop has no selector.  Whatever is ready runs when the simulator gets to it, through `SimNode.enter`: so a process
that is paused, slow or down runs late or never, as its machines would in the simulator.
Tasks and futures hash by their number, so that sets of them have the same order in every run.
"""

import asyncio
import asyncio.events
import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from doyen.core.clock import FOREVER, Instant
from doyen.node.premises import Premised
from doyen.testing.madeup import refusal
from doyen.testing.madeup.refusal import refuse
from doyen.testing.madeup.streams import Connection, Server
from doyen.testing.madeup.wires import Endpoint

if TYPE_CHECKING:
    from doyen.testing.madeup.process import Process

SPINS_MAX: Final = 20_000  # Turns of one loop at one instant.


class _Task(asyncio.Task[Any]):
    def __init__(self, number: int, coroutine: Any, **named: Any) -> None:
        self._number = number
        super().__init__(coroutine, **named)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    def __init__(self, number: int, **named: Any) -> None:
        self._number = number
        super().__init__(**named)

    def __hash__(self) -> int:
        return self._number


class MadeUpLoop(asyncio.BaseEventLoop, Premised):
    """The event loop of one made-up process."""

    def __init__(self, process: "Process") -> None:
        super().__init__()
        self.process, self.node, self.sim = process, process.node, process.node.sim
        self.premises = process
        self._clock_resolution = 1e-9
        self._selector = self
        self._numbers = count(1)
        self._plan_no = 0
        self._planned_at: Instant = FOREVER
        self._stepping = self.is_dead = False
        self._spun_at: Instant = -1
        self._spins = 0
        self.set_task_factory(self._make_task)

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> _Task:
        return _Task(next(self._numbers), coroutine, loop=loop, **named)

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), loop=self)

    # Time.

    def time(self) -> float:
        return self.node.now() / 1e9

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        if not self._stepping:
            self._plan(self.sim.now)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        if not self._stepping:
            self._plan_timers()
        return handle

    def _plan_timers(self) -> None:
        scheduled = self._scheduled  # type: ignore[attr-defined]
        if scheduled:
            local = int(scheduled[0]._when * 1e9) + 1
            true = local if self.node.clock is None else self.node.clock.true(local)
            self._plan(max(true, self.sim.now) + self.process.lateness())

    def _plan(self, at: Instant) -> None:
        """Have the loop run at that instant, unless it will before."""
        if at < self._planned_at and not self.is_dead:
            self._planned_at = at
            self._plan_no += 1
            self.sim.at(at, partial(self._wake, self._plan_no), f"{self.node.name} runs")

    def _wake(self, number: int) -> None:
        if number == self._plan_no and not self.is_dead:
            self._planned_at = FOREVER
            self.node.enter(self._step)

    def _step(self, now: Instant) -> None:
        if self.is_dead:
            return
        if self.sim.now != self._spun_at:
            self._spun_at, self._spins = self.sim.now, 0
        self._spins += 1
        if self._spins > SPINS_MAX:
            raise AssertionError(f"{self.node.name} runs forever without time passing: {self.busy()}")
        self._stepping = True
        before = refusal.enter(self.process)
        try:
            self.turn()
        finally:
            refusal.enter(before)
            self._stepping = False
        if self._ready:  # type: ignore[attr-defined]
            self._plan(self.sim.now)
        else:
            self._plan_timers()

    def turn(self) -> None:
        """Run what is ready, and what is due."""
        hooks, outer = sys.get_asyncgen_hooks(), asyncio.events._get_running_loop()
        self._thread_id = threading.get_ident()
        sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)  # type: ignore[attr-defined]
        asyncio.events._set_running_loop(None)
        asyncio.events._set_running_loop(self)
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            self._thread_id = None  # type: ignore[assignment]
            asyncio.events._set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)

    def busy(self) -> str:
        """Return what the tasks of this loop do, for a message."""
        return ", ".join(sorted(str(task.get_coro()) for task in asyncio.all_tasks(self)))

    def select(self, timeout: float | None) -> list[Any]:
        return []  # Whatever arrives is called by the simulator.

    def _process_events(self, events: list[Any]) -> None: ...

    def __del__(self) -> None: ...  # It holds nothing that would have to be closed.

    # The network.

    async def create_datagram_endpoint(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        local_addr: tuple[str, int] | None = None,
        remote_addr: tuple[str, int] | None = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        if options.get("sock") is not None:
            refuse("a real socket", "give local_addr and remote_addr, not sock")
        protocol = protocol_factory()
        endpoint = Endpoint(self, protocol, local_addr, remote_addr)
        self.call_soon(protocol.connection_made, endpoint)
        await asyncio.sleep(0)
        return endpoint, protocol

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: int | None = None,
        *,
        start_serving: bool = True,
        ssl: Any = None,
        sock: Any = None,
        **options: Any,
    ) -> Server:
        if ssl is not None or sock is not None:
            refuse("TLS" if sock is None else "a real socket", "serve in the clear, by host and port")
        server = Server(self, protocol_factory, port or 0)
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        if ssl is not None or sock is not None:
            refuse("TLS" if sock is None else "a real socket", "connect in the clear, by host and port")
        made: asyncio.Future[Connection] = self.create_future()
        self.process.wires.connect(self, host or "localhost", port or 0, protocol_factory, made)
        connection = await made
        return connection, connection.get_protocol()

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        return self.process.wires.look_up(self.node, host, port)

    # What would leave made-up time.

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        refuse("run_in_executor()", "await something in place of a thread, or pass the function in")

    def run_forever(self) -> None:
        refuse("run_forever()", "cluster.run_for(…) moves the time")

    def run_until_complete(self, future: Any) -> Any:
        refuse("run_until_complete()", "cluster.run(name, coroutine) moves the time")

    def _refused(self, *given: Any, **named: Any) -> Any:
        refuse("this call of the event loop", "there are tasks, and streams and datagrams between nodes")

    add_reader = add_writer = add_signal_handler = _refused  # type: ignore[assignment]
    sock_recv = sock_recv_into = sock_recvfrom = sock_sendall = sock_sendto = _refused
    sock_connect = sock_accept = sock_sendfile = connect_accepted_socket = _refused
    create_unix_connection = create_unix_server = start_tls = getnameinfo = _refused
    connect_read_pipe = connect_write_pipe = _refused
    subprocess_exec = subprocess_shell = _refused
