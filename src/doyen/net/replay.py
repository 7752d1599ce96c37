"""Runs a recording: the same machines, the same inputs, and every effect compared with the one recorded."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from doyen.core.clock import NEVER, Instant
from doyen.core.host import Host, Port, Verbs
from doyen.core.ids import NodeId
from doyen.core.machine import Machine
from doyen.errors import DoyenError, TransportError
from doyen.net.recorder import effect_text, older
from doyen.net.recording import Header, Input, Machines, read, undump


class Diverged(DoyenError):
    """The machines did something else than was recorded: another version, a damaged memory, or a bug in doyen."""

    def __init__(self, path: Path, input_no: int, what: str, recorded: str, replayed: str) -> None:
        super().__init__(
            f"{path}, input {input_no} ({what}): recorded {recorded or 'nothing more'}, "
            f"but replayed {replayed or 'nothing more'}"
        )
        self.input_no, self.recorded, self.replayed = input_no, recorded, replayed


class Replayed(Struct, frozen=True, kw_only=True):
    """What came of one segment."""

    path: str
    node: str
    group: str
    doyen: str
    inputs: int
    effects: int
    kinds: dict[str, int]
    began_at: float  # Wall clock, in seconds.
    lasted_s: float
    leaders: list[str]  # As the elections told them, in order.
    failure: str = ""  # What stopped the node, if it was stopped.


def segments(path: Path) -> list[Path]:
    return [segment for segment in (older(path), path) if segment.exists()] or [path]


def replay(path: Path, *, own: bool = False) -> Replayed:
    """One segment.  Raises `Diverged` at the first effect that differs, `TransportError` for a damaged file.

    Recordings of format 1 hold pickles, and reading a pickle can run code that its writer chose.  So they are refused,
    but for `own`: the caller's word that this very process wrote the file.  For tests, and for nobody else.
    """
    header, inputs = read(path)
    if not own:
        raise TransportError(
            f"{path} is a recording of format 1 (doyen {header.doyen}): it holds pickled machines, and reading those "
            "can run code of whoever made the file; replay is off until recordings are plain data"
        )
    world = _World(path, header)
    first: Instant | None = None
    last: Instant = 0
    for number, item in enumerate(inputs, start=1):
        first = item.now if first is None else first
        last = item.now
        world.run(number, item)
    return Replayed(
        path=str(path),
        node=header.node,
        group=header.group,
        doyen=header.doyen,
        inputs=sum(world.kinds.values()),
        effects=world.effect_count,
        kinds=dict(world.kinds),
        began_at=header.at,
        lasted_s=(last - (first or last)) / 1e9,
        leaders=world.leaders,
        failure=world.failure,
    )


class _Empty:
    """Holds a port's place until its machine is read."""

    MESSAGES: ClassVar[Any] = None

    def start(self, now: Instant) -> None: ...
    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None: ...
    def on_timer(self, timer: Any, now: Instant) -> None: ...


class _World:
    """The world of a host that is told what happened, and asked whether it would do the same again."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path, self.header = path, header
        self.kinds: Counter[str] = Counter()
        self.effect_count = 0
        self.leaders: list[str] = []
        self.failure = ""
        self._expected: Iterator[str] = iter(())
        self._seen = 0
        self._input: Input | None = None
        self._input_no = 0
        self.host = Host(NodeId(header.node), self)
        self._timers: dict[int, tuple[str, Any]] = {}
        self._restore()

    def _restore(self) -> None:
        """Two passes: the ports must be there before the machines that write to them."""
        ports: dict[str, Port] = {}

        def port_of(channel: str) -> Port:
            if channel not in ports:
                ports[channel] = self.host.add(channel, lambda port: _Empty())
            return ports[channel]

        machines = undump(self.header.machines, port_of)
        if not isinstance(machines, Machines):
            raise TransportError(f"{self.path} holds no machines")
        self.host.ports.clear()
        for channel, follows, machine in machines.channels:
            made = port_of(channel)
            self.host.ports[channel] = made  # In their order: facts are carried in it.
            made.follows = follows
            self._fill(made, machine)
        self._timers = {number: (channel, timer) for _, number, channel, timer in machines.timers}
        self._sequence = count(machines.next_timer_no)

    def _fill(self, port: Port, machine: Machine) -> None:
        port.machine = machine
        port.hear, port.fire = machine.on_message, machine.on_timer
        self.host._subscribers.clear()

    # Inputs.

    def run(self, number: int, item: Input) -> None:
        self._input, self._input_no = item, number
        self._expected, self._seen = iter(item.effects), 0
        self.kinds[item.kind] += 1
        details = undump(item.details)
        try:
            self._enter(item, details)
        except (DoyenError, AssertionError):
            raise
        except Exception as error:
            if not item.failure:
                raise Diverged(self.path, number, item.kind, "", f"{type(error).__name__}: {error}") from error
        self._check("")
        self.failure = item.failure or self.failure

    def _enter(self, item: Input, details: tuple[Any, ...]) -> None:
        host, now = self.host, item.now
        match item.kind:
            case "start":
                host.start(now)
            case "start late":
                host.start_late(host.ports[details[0]], now)
            case "message":
                channel, sender, message = details
                host.on_message(channel, sender, message, now)
            case "timer":
                channel, timer = self._timers.pop(details[0])
                host.on_timer(host.ports[channel], timer, now)
            case "durable":
                host.ports[details[0]].durable(now)
            case _:
                self._order(item.kind, details, now)

    def _order(self, kind: str, details: tuple[Any, ...], now: Instant) -> None:
        if kind == "command":
            channel, name, arguments = details
            if name.startswith("_"):
                raise TransportError(f"{self.path}: {name} is no command")
            self.host.command(channel, name, now, **arguments)
        elif kind == "tell":
            channel, fact = details
            self.host.tell(fact, now, channel=channel)
        else:
            raise TransportError(f"{self.path}: no input is called {kind!r}")

    # The world of the host.

    def verbs(self, port: Port) -> Verbs:
        return Verbs(
            partial(self._effect, port, "send"),
            partial(self._effect, port, "multicast"),
            partial(self._set_timer, port),
        )

    def persist(self, port: Port, record: Any) -> None:
        self._effect(port, "persist", record)

    def observe(self, port: Port, fact: Any, now: Instant) -> None:
        self._effect(port, "emit", fact)
        if type(fact).__name__ == "LeaderElected" and self.leaders[-1:] != [fact.term.leader]:
            self.leaders.append(fact.term.leader)
        assert self._input is not None
        for after, kind, details in self._input.nested:  # What the application did on hearing this.
            if after == self._seen:
                self._order(kind, undump(details), now)

    def _set_timer(self, port: Port, timer: Any, at: Instant) -> None:
        self._effect(port, "set timer", timer, at)
        if at < NEVER:
            self._timers[next(self._sequence)] = (port.channel, timer)

    def _effect(self, port: Port, verb: str, *what: Any) -> None:
        self._check(effect_text(port.channel, verb, *what))
        self._seen += 1
        self.effect_count += 1

    def _check(self, replayed: str) -> None:
        recorded = next(self._expected, "")
        if recorded != replayed:
            assert self._input is not None
            raise Diverged(self.path, self._input_no, self._input.kind, recorded, replayed)
