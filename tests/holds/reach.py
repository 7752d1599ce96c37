"""Every reach of this folder into the inside of doyen.  When the inside moves, this file follows, and no other.

`listening` replaces `Host.add` while it lasts: each machine that is built gets an `Out` that writes to a tape before it
does what it was asked to, and its inputs (`start`, `on_message`, `on_timer`, the handlers of facts and commands) write
to the same tape before they run.  Only the outermost call counts, so that a machine which calls its own methods looks
the same as one that does not.
"""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec
from msgspec.structs import asdict
from tape import Tape

import doyen
from doyen.cli import main
from doyen.core.clock import format_duration, parse_duration
from doyen.core.commands import ChangeNote, Command, LeaveGroup, Resign, Stand
from doyen.core.config import is_duration, options
from doyen.core.host import Host, Port
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.link import LinkBroken
from doyen.core.seeds import SeedsChanged
from doyen.election.spanning.messages import LeaderUnreachable
from doyen.node.config import NodeConfig
from doyen.node.layers import configure
from doyen.node.registry import ELECTIONS, MEMBERSHIPS, find_election, find_membership
from doyen.testing import Cluster, RecordingOut

INPUTS: Final = ("start", "on_message", "on_timer")
ELECTION: Final = "election"

Tapes = dict[tuple[str, str], Tape]  # By node and channel.


class Tap:
    """The place between one machine and its port: it is the machine's `Out`."""

    def __init__(self, tape: Tape, port: Any) -> None:
        self.tape, self.port = tape, port
        self.machine: Any = None
        self.inside = False  # An input of the machine is being handled.

    def enter(self, take: Callable[[], Any]) -> Any:
        self.inside = True
        try:
            return take()
        finally:
            self.inside = False

    def send(self, to: Any, message: Any) -> None:
        self.tape.note("send", to, message)
        self.port.send(to, message)

    def multicast(self, message: Any) -> None:
        self.tape.note("multicast", message)
        self.port.multicast(message)

    def set_timer(self, timer: Any, at: int) -> None:
        self.tape.note("set_timer", at, timer)
        self.port.set_timer(timer, at)

    def emit(self, fact: Any) -> None:
        self.tape.note("emit", fact)
        self.port.emit(fact)

    def persist(self, record: Any) -> None:
        self.tape.note("persist", record)
        self.port.persist(record)


def without_self(handle: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *arguments: handle(*arguments)


def note_fact(tape: Tape, fact: Any, now: int) -> None:
    """Write a fact; a command as its name and what it gives, as it was written when it was a method."""
    match fact:
        case Resign(to):
            tape.note("command", now, tape.ordinal("resign"), to)
        case Stand():
            tape.note("command", now, tape.ordinal("stand"))
        case LeaveGroup():
            tape.note("command", now, tape.ordinal("leave"))
        case ChangeNote(score):
            tape.note("command", now, tape.ordinal("say"), score)
        case Command():
            pass  # The commands of studies (`Initiate`, `Request` …) were not written when they were methods.
        case _:
            tape.note("fact", now, fact)


@contextmanager
def listening(tapes: Tapes, *, verbose: bool = False) -> Iterator[None]:
    """Write the inputs and effects of all machines that are built meanwhile to `tapes`."""
    taps: dict[int, Tap] = {}  # By the identity of the machine, which is kept alive by its tap.
    ports: dict[int, Tap] = {}
    tapped: dict[type, type] = {}
    add, durable = Host.add, Port.durable

    def input_of(name: str, handle: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: Any, *arguments: Any) -> Any:
            tap = taps.get(id(self))
            if tap is None or tap.inside:  # It is under construction, or calls itself.
                return handle(self, *arguments)
            *values, now = arguments
            tap.tape.note(name.removeprefix("on_"), now, *values)
            return tap.enter(lambda: handle(self, *arguments))

        return noted

    def handler_of(handle: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: Any, fact: Any, now: int) -> None:
            note_fact(taps[id(self)].tape, fact, now)
            taps[id(self)].enter(lambda: handle(self, fact, now))

        return noted

    def tapped_class(kind: type) -> type:
        """Return a subclass of the same layout whose inputs are noted."""
        if kind not in tapped:
            inputs = {name: input_of(name, getattr(kind, name)) for name in INPUTS if name in dir(kind)}
            heard = {fact: handler_of(handle) for fact, handle in kind.HEARS.items()}  # type: ignore[attr-defined]
            own = {"__slots__": (), "__module__": kind.__module__, "HEARS": heard}
            tapped[kind] = type(kind.__name__, (kind,), own | inputs)
        return tapped[kind]

    def noting_add(self: Host, channel: str, build: Callable[[Any], Any], **named: Any) -> Any:
        if channel.partition("/")[0] == "leader":  # Came later; its messages would take others' turns at being lost.
            return add(self, channel, lambda port: build(RecordingOut()), **named)

        def build_tapped(port: Any) -> Any:
            key = (str(self.node), channel)
            tap = Tap(tapes.setdefault(key, Tape(verbose=verbose)), port)
            tap.machine = machine = build(tap)
            machine.__class__ = tapped_class(type(machine))
            for name, held in vars(machine).items() if hasattr(machine, "__dict__") else ():
                if name in INPUTS:  # The machine gives the input of a part of it for its own.
                    vars(machine)[name] = partial(input_of(name, without_self(held)), machine)
            taps[id(machine)] = ports[id(port)] = tap
            return machine

        return add(self, channel, build_tapped, **named)

    def noting_durable(self: Port, now: int) -> None:
        if id(self) in ports:
            ports[id(self)].tape.note("durable", now)
        durable(self, now)

    Host.add, Port.durable = noting_add, noting_durable  # type: ignore[method-assign]
    try:
        with mock.patch("doyen.node.stack.__version__", "0.1.0"):  # Members tell it; a new version is no change.
            yield
    finally:
        Host.add, Port.durable = add, durable  # type: ignore[method-assign]


# What a cluster cannot do by itself.


def stand(cluster: Cluster, name: str) -> None:
    """Take a resignation back."""
    cluster.sim.tell(cluster.sim.by_name[NodeId(name)], Stand(), channel=ELECTION)


def set_disk_delay(cluster: Cluster, delay: str) -> None:
    """Make every record that is written from now on take as long as `delay`."""
    cluster.sim.disk_delay = parse_duration(delay)


def break_link(cluster: Cluster, at: str, member: str, *, gone: bool) -> None:
    """Notify a node that its standing connection with a member broke."""
    life = Incarnation(cluster.sim.by_name[NodeId(member)].incarnation)
    cluster.sim.tell(cluster.sim.by_name[NodeId(at)], LinkBroken(NodeId(member), life, gone))


def change_seeds(cluster: Cluster, at: str, *seeds: str) -> None:
    """Notify a node that the seeds have changed."""
    addresses = tuple(Address(NodeId(seed), 0) for seed in seeds)
    cluster.sim.tell(cluster.sim.by_name[NodeId(at)], SeedsChanged(addresses))


def unreachable(cluster: Cluster, at: str, leader: str) -> None:
    """Notify a node of a spanning election that its leader cannot be reached."""
    cluster.sim.tell(cluster.sim.by_name[NodeId(at)], LeaderUnreachable(NodeId(leader)))


def keep_number(cluster: Cluster, name: str, number: int) -> None:
    """Put the number that an election keeps on the disk of a node that is down."""
    cluster.sim.by_name[NodeId(name)].disk[ELECTION] = msgspec.msgpack.encode(number)


def fired(cluster: Cluster) -> dict[str, int]:
    """Return how often the network and the nodes did harm, by the kind of harm."""
    return {kind: count for kind, count in sorted(cluster.sim.network.faults.items()) if count}


# The configuration.


def node_fields() -> dict[str, Any]:
    """Return every field of a node's configuration by its dotted name, with a value that it takes."""
    given: dict[tuple[str, ...], Any] = {("group",): "g", ("name",): "a", ("election",): "hybrid"}
    config = configure(given, environment={})
    own = [(option, asdict(config)[option.name]) for option in options(NodeConfig) if option.name != "tables"]
    below = [
        (option, asdict(table)[option.path[1]])
        for name, table in config.tables.items()
        for option in options(type(table), (name,))
    ]
    return {
        option.name: format_duration(value) if is_duration(option.type) else value for option, value in [*own, *below]
    }


def choices() -> dict[str, str]:
    """Return the table of fields of each choice, by the name of its class."""
    kinds: list[Any] = [*map(find_election, ELECTIONS), *map(find_membership, MEMBERSHIPS)]
    return {kind.choice.__name__: kind.table.name for kind in kinds if kind.choice.__name__ in doyen.__all__}


# Commands.


def command_tree() -> Any:
    """Return click's command of `doyen` itself."""
    from doyen.cli.entry import app

    return app


def shut_off(patch: Any, folder: Path) -> None:
    """Let commands see no node, no key and no setting but those of this folder."""
    for name in [name for name in os.environ if name.startswith("DOYEN_")]:
        patch.delenv(name)
    patch.setenv("DOYEN_RUNTIME_DIR", str(folder / "runtime"))
    patch.chdir(folder)


def command(*arguments: str) -> tuple[int, str, str]:
    """Run a command line of `doyen` in this process; return its exit code, standard output and standard error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: Any = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as end:
            code = end.code
    return code if isinstance(code, int) else 0, written(out), written(err)


def written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
