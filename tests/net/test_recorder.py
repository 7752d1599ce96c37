"""The flight recorder: what was recorded runs again to the last effect; what was tampered with is found out."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar, get_args

import msgspec
import pytest
from click.testing import CliRunner
from flights import QUICK, VOTERS, bodies_of, config, group, read, replay, rewritten, solo, write
from net_nodes import leave, until

from doyen import __version__
from doyen.cli import main
from doyen.cli.replay import command as replay_command
from doyen.core.clock import ms
from doyen.core.commands import Command, Resign
from doyen.core.ids import Address
from doyen.core.machine import Hears
from doyen.core.rank import ScoreWanted
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.engine.config import EngineConfig
from doyen.errors import ConfigError, TransportError
from doyen.membership.swim.config import SwimConfig
from doyen.net.keys import key_text, new_key, read_keys, write_keys
from doyen.net.recording import matching
from doyen.net.recording import recorder as recorder_module
from doyen.net.recording.effects import effect_text
from doyen.net.recording.format import (
    DATAGRAM_MAX,
    FRAME_BYTES,
    MAGIC,
    Added,
    Commanded,
    Durable,
    Effect,
    Header,
    Heard,
    Input,
    MayAct,
    Origin,
    Told,
    encode,
    identifier,
)
from doyen.net.recording.matching import matched
from doyen.net.recording.reader import Reader, segments
from doyen.net.recording.recorder import Recorder, older
from doyen.net.recording.replay import Diverged
from doyen.node.agent import Agent
from doyen.node.config import OracleKind
from doyen.node.registry import election_names, find_election
from doyen.testing.processes import multicast_on_loopback

SOURCE = Path(__file__).parents[2] / "src" / "doyen"
KINDS = [
    {"election": "announce"},
    {"election": "le-m"},
    {"election": "announce", "membership": "heartbeat"},
    {"election": "hybrid", "rank": "score"},
    {"election": "hybrid", "membership": "medley", "hops": ("n1=2",)},
    {"election": "optimistic", "elections": ("mail=le-s",)},
    {"election": "spanning"},
    {"election": "pole", "voters": ("n0", "n1", "n2"), "state": "state", "newcomer": True},
]


STORE = {"election": "engine", "shared": "etcd://ant:hush@127.0.0.1"}


class Register:
    """A store in memory."""

    def __init__(self) -> None:
        self.record: bytes | None = None

    def look(self) -> bytes | None:
        return self.record

    def swap(self, expected: bytes | None, wanted: bytes) -> tuple[bool, bytes | None]:
        done = self.record == expected
        self.record = wanted if done else self.record
        return done, self.record

    def close(self) -> None: ...


def named(given: dict[str, Any]) -> str:
    return "-".join(map(str, given.values()))


def with_disk(folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    return given | {"state": str(folder / "state")} if "state" in given else given


# Every stack.


@pytest.mark.parametrize("given", KINDS, ids=named)
def test_a_group_that_elects_and_loses_its_leader_runs_again_the_same(tmp_path: Path, given: dict[str, Any]) -> None:
    kinds: set[str] = set()
    for segment in group(tmp_path, **with_disk(tmp_path, given)):
        result = replay(segment)
        assert result.inputs > 5
        kinds |= set(result.kinds)
    assert {"message", "timer", "command", "start", "tell"} <= kinds
    assert "state" not in given or "durable" in kinds


@pytest.mark.parametrize(
    "given",
    [
        *({"election": kind} for kind in election_names() if kind not in ("pole", "directory", "engine")),
        STORE,
        *({"election": "none", "membership": kind} for kind in ("swim", "medley", "heartbeat", "ring")),
        *({"election": "hybrid", "membership": kind} for kind in ("swim", "medley", "heartbeat", "ring")),
        *({"election": kind, "rank": "score"} for kind in ("base", "optimistic", "preferred", "hybrid")),
        *({**VOTERS, "oracle": kind} for kind in get_args(OracleKind)),
    ],
    ids=named,
)
def test_whatever_an_agent_can_be_is_recorded(
    tmp_path: Path, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doyen.engines.half.opened", lambda address, key, timeout_s: Register())

    async def main() -> None:
        agent = Agent(config(tmp_path, **given))
        await agent.start()
        await asyncio.sleep(0.05)
        await leave(agent)

    asyncio.run(main())
    assert replay(tmp_path / "ant").inputs >= 1


def test_what_a_store_answers_is_recorded_as_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So replay needs no store, and the recording has no address of one, which may hold a password."""
    monkeypatch.setattr("doyen.engines.half.opened", lambda address, key, timeout_s: Register())
    quick = QUICK | {"engine": EngineConfig(lease=ms(400), renew_interval=ms(100), stand_time=ms(20))}
    path = solo(tmp_path, **STORE, tables=quick)
    monkeypatch.undo()
    assert replay(path).leaders == ["ant"]
    assert sum(isinstance(item.given, Told) and item.given.name == "answered" for item in read(path)[1]) > 2
    assert b"hush" not in path.read_bytes()


def test_what_a_machine_measures_is_recorded_as_an_input(tmp_path: Path) -> None:
    """The quality oracle asks the world, which measures; so replay needs no machine of the same load."""
    path = solo(tmp_path, **VOTERS, oracle="quality")
    replay(path)
    _, items = read(path)
    asked = [i for i, item in enumerate(items) for effect in item.effects if is_a(effect, ScoreWanted)]
    answers = [order for i in asked for _, order in items[i].nested if isinstance(order, Told)]
    assert asked and {order.name for order in answers} <= {"score", "link broken"}
    assert any(order.name == "score" for order in answers)


def is_a(effect: Any, fact: type) -> bool:
    return effect.verb == "emit" and effect.what == fact.__name__


def test_a_node_that_finds_its_promises_on_the_disk_runs_again_the_same(tmp_path: Path) -> None:
    given = VOTERS | {"state": str(tmp_path / "state"), "volatile": False, "newcomer": True}
    solo(tmp_path, **given)
    path = solo(tmp_path, **given)  # Its second incarnation.
    header, items = read(path)
    assert header.origin.durable and set(header.restored) == {"election"}
    assert any(isinstance(item.given, Durable) for item in items)
    assert replay(path).inputs == len(items)
    assert replay(older(path)).inputs > 5  # The first one.
    forgotten = msgspec.structs.replace(header, restored={})
    bent = write(tmp_path / "bent", [encode(forgotten), *bodies_of(path)[1:]])
    with pytest.raises(Diverged):
        replay(bent)


def test_a_replay_does_not_depend_on_the_hashes_of_its_process(tmp_path: Path) -> None:
    recorded = [
        *group(tmp_path, election="spanning"),
        *group(tmp_path / made(tmp_path, "ring"), election="by-key", late="le-s"),
        *group(tmp_path / made(tmp_path, "hybrid"), election="hybrid", membership="heartbeat"),
    ]
    program = "import sys; from pathlib import Path; from flights import replay\nfor p in sys.argv[1:]: replay(Path(p))"
    for seed in ("0", "1", "4711"):
        subprocess.run(
            [sys.executable, "-c", program, *map(str, recorded)],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
        )


def made(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return name


# Segments.


@pytest.mark.parametrize(
    "given",
    [
        {"election": "announce", "late": "le-m"},
        pytest.param({"election": "hybrid", "late": "hybrid"}, marks=pytest.mark.soak),
        {"election": "hybrid", "membership": "medley", "rank": "score", "late": "spanning"},
        {"election": "spanning", "membership": "heartbeat", "late": "local"},
        {"election": "by-key", "late": "preferred"},
        {"election": "pole", "voters": ("n0", "n1", "n2"), "volatile": True, "oracle": "latency", "late": "le-a"},
    ],
    ids=named,
)
def test_a_segment_may_begin_after_any_input(
    tmp_path: Path, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machines are data then: state, random streams, timers, and what was added to the running node."""
    numbers = count(1)
    monkeypatch.setattr(recorder_module, "older", lambda path: path.with_name(f"{path.name}.{next(numbers)}"))
    monkeypatch.setattr(recorder_module, "SIZE_MIN", 0)
    monkeypatch.setattr("doyen.node.agent.check", lambda config: None)
    group(tmp_path, record_max=0, **given)
    results = [(path, replay(path)) for path in tmp_path.iterdir()]
    assert len(results) > 50
    assert sum(result.inputs for _, result in results) > len(results) / 2
    assert {"start", "start late", "message", "timer", "tell"} <= {kind for _, r in results for kind in r.kinds}
    late = [read(path)[0] for path, _ in results if read(path)[0].additions]
    assert late and all(header.state is not None for header in late)


def test_the_file_is_a_ring_of_two_segments_each_of_which_runs_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "ant"
    quick = AnnounceConfig(announce_interval=ms(1), listen_timeout=ms(100), suppress_interval=ms(1))

    async def main() -> None:
        agent = Agent(config(tmp_path, tables={"announce": quick}, seeds=("127.0.0.1:9",), record_max=64 << 10))
        await agent.start()
        begun = {path.stat().st_ino}
        while len(begun) < 5:
            await asyncio.sleep(0.01)
            begun.add(path.stat().st_ino)
        await leave(agent)

    asyncio.run(main())
    assert [p.name for p in segments(path)] == ["ant.1", "ant"]
    bodies = bodies_of(older(path))[-len(read(older(path))[1]) :]
    inputs = sum(FRAME_BYTES + len(body) for body in bodies)
    assert 32 << 10 < inputs < (32 << 10) + 1000  # Half of it, and the input that was one too many.
    assert sum(replay(segment).inputs for segment in segments(path)) > 100
    assert read(path)[0].state is not None


def test_a_machine_that_comes_late_is_an_input(tmp_path: Path) -> None:
    """An election that begins on a running node, and a beacon, with all that they missed."""
    flags = multicast_on_loopback()
    multicast = flags[flags.index("--multicast") + 1]
    paths = group(tmp_path, election="hybrid", bind="127.0.0.1:0", multicast=multicast, late="spanning")
    added = [item.given for item in read(tmp_path / "n0")[1] if isinstance(item.given, Added)]
    assert [sorted(given.what) for given in added] == [["asks", "beacon", "last"], ["election", "kind"]]
    assert len(added[0].instants) == 1 and len(added[1].instants) >= 3  # Links, the election; and what they missed.
    assert all(replay(path).kinds["start late"] for path in paths)


def test_that_a_node_may_act_is_recorded(tmp_path: Path) -> None:
    """What is judged of a recording, by audit and by postmortem, is who could act."""
    given = [item.given for item in read(solo(tmp_path))[1]]
    assert given.count(MayAct("")) == 1


def test_what_an_observer_does_while_facts_are_carried_is_run_in_its_place(tmp_path: Path) -> None:
    path = solo(tmp_path)
    assert any(item.nested for item in read(path)[1])
    result = replay(path)
    assert result.leaders == ["ant"] and result.node == "ant"


def test_a_machine_that_an_observer_adds_begins_another_segment(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent(config(tmp_path, find_local=False))
        added: list[Any] = []

        def observe(channel: str, fact: Any, now: int) -> None:
            if not added:
                added.append(agent.add_election("late", find_election("le-m")))

        agent.driver.watch(observe)
        await agent.start()
        await until(lambda: bool(added))
        await asyncio.sleep(0.2)
        await leave(agent)

    asyncio.run(main())
    header, items = read(tmp_path / "ant")
    assert header.additions == [{"election": "late", "kind": "le-m"}] and header.state is not None and items
    assert [replay(segment).inputs > 0 for segment in segments(tmp_path / "ant")] == [True, True]


def test_a_command_that_is_refused_is_part_of_the_recording(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent(config(tmp_path, **VOTERS))
        await agent.start()
        with pytest.raises(Exception, match="not another voter"):
            agent.driver.tell(Resign("nobody"), channel="election")
        with pytest.raises(ConfigError):
            agent.add_election("late", find_election("hybrid"))  # It has no list of members.
        await asyncio.sleep(0.1)
        await leave(agent)

    asyncio.run(main())
    assert [item.failure != "" for item in read(tmp_path / "ant")[1]].count(True) == 2
    assert replay(tmp_path / "ant").inputs > 3


# What differs.


def test_divergence_names_the_first_effect_that_differs(tmp_path: Path) -> None:
    path = solo(tmp_path, find_local=False)
    _, items = read(path)
    number = next(i for i, item in enumerate(items, start=1) if any(e.verb == "multicast" for e in item.effects))

    def change(items: list[Input]) -> None:
        effects = items[number - 1].effects
        at = next(i for i, effect in enumerate(effects) if effect.verb == "multicast")
        effects[at] = msgspec.structs.replace(effects[at], data=encode(["another"]))

    with pytest.raises(Diverged) as found:
        replay(rewritten(path, change))
    assert found.value.input_no == number
    assert "multicast ['another']" in found.value.recorded
    assert found.value.replayed.startswith("election: multicast [")
    assert f"input {number} (timer)" in str(found.value)


@pytest.mark.parametrize(
    "what", ["an effect less", "an effect more", "another instant", "another fact", "another failure", "another seed"]
)
def test_any_change_of_what_happened_is_found_out(tmp_path: Path, what: str) -> None:
    path = solo(tmp_path)

    def change(items: list[Input]) -> None:
        first = next(i for i, item in enumerate(items) if item.effects)
        if what == "an effect less":
            items[first].effects.pop()
        elif what == "an effect more":
            items[-1].effects.append(Effect("emit", "e", encode({}), "Nothing"))
        elif what == "another instant":
            items[first] = msgspec.structs.replace(items[first], now=items[first].now + 1)
        elif what == "another failure":
            items[first] = msgspec.structs.replace(items[first], failure="ValueError: no")
        else:
            nested = next(item for item in items if item.nested).nested
            after, _ = nested[0]
            nested[0] = (after, Commanded("election", "leave", encode({})))

    if what == "another seed":
        header, *rest = bodies_of(path)
        found = msgspec.msgpack.decode(header, type=Header)
        origin = msgspec.structs.replace(found.origin, random_seed="other")
        bent = write(tmp_path / "bent", [encode(msgspec.structs.replace(found, origin=origin)), *rest])
    else:
        bent = rewritten(path, change)
    with pytest.raises(Diverged):
        replay(bent)


def test_effects_are_shown_in_words_that_are_not_too_many() -> None:
    assert effect_text(None) == ""
    assert effect_text(Effect("multicast", "e", b"\xc1")) == "election: multicast b'\\xc1'"
    assert len(effect_text(Effect("multicast", "e", encode("x" * 10_000)))) < 1100


# Damage.


def test_a_flipped_bit_anywhere_is_detected(tmp_path: Path) -> None:
    path = solo(tmp_path, lasting_s=0.2)
    whole = path.read_bytes()
    rng = Random(6)
    bent_path = tmp_path / "bent"
    spots = {rng.randrange(len(whole)) for _ in range(300)} | set(range(len(MAGIC) + FRAME_BYTES + 2))
    for at in spots:
        bent = bytearray(whole)
        bent[at] ^= 1 << rng.randrange(8)
        bent_path.write_bytes(bytes(bent))
        with pytest.raises(TransportError, match=r"damaged|not a recording|reads format 2 only"):
            replay(bent_path)


def test_a_recording_that_was_cut_short_runs_as_far_as_it_goes(tmp_path: Path) -> None:
    """As SIGKILL leaves it."""
    path = solo(tmp_path)
    whole, inputs = path.read_bytes(), replay(path).inputs
    first = len(bodies_of(path)[0]) + FRAME_BYTES + len(MAGIC)
    for size in (first, first + 5, len(whole) - 1, len(whole) - 40):
        path.write_bytes(whole[:size])
        result = replay(path)
        assert result.inputs < inputs and (result.cut_off_bytes > 0) == (size != first)
    said = CliRunner().invoke(replay_command, [str(path)]).output
    assert said.startswith("the same:") and "  cut off  after these inputs: " in said
    path.write_bytes(whole[: first - 1])
    with pytest.raises(TransportError, match="nothing was recorded"):
        replay(path)


@pytest.mark.live
def test_a_killed_agent_leaves_segments_that_run(tmp_path: Path) -> None:
    """SIGKILL at some moment, within a rotation too: a segment takes its place once it is whole."""
    for i in range(5):
        path = tmp_path / f"flight{i}"
        flags = ["--election", "le-a", "--announce-interval", "1ms", "--listen-timeout", "20ms"]
        flags += ["--suppress-interval", "0", "--record", str(path), "--record-max", "65536"]
        doyen = [sys.executable, "-m", "doyen", "agent", "--group", "g", "--name", "ant", "--seed", "127.0.0.1:9"]
        agent = subprocess.Popen([*doyen, *flags], stdout=subprocess.DEVNULL)
        try:
            asyncio.run(until(older(path).exists, 20))
            asyncio.run(asyncio.sleep(0.05 * i))
        finally:
            agent.kill()
            agent.wait()
        assert sum(replay(segment).inputs for segment in segments(path)) > 100


# The recorder and the node.


def test_the_recorder_never_harms_the_node(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent(config(tmp_path, name="bee"))
        await agent.start()
        assert agent.recorder is not None
        full = os.open("/dev/full", os.O_WRONLY)
        file = next(fd for fd in os.listdir("/proc/self/fd") if links_to(fd, tmp_path / "bee"))
        os.dup2(full, int(file))
        os.close(full)
        await until(lambda: agent.reign is not None and agent.reign.mine is not None)
        await until(lambda: not links_to(file, Path("/dev/full")))  # It has stopped, and closed its file.
        await leave(agent)
        (tmp_path / "gone").mkdir()
        other = Agent(config(tmp_path / "gone", name="cat"))
        (tmp_path / "gone").rmdir()
        await other.start()
        assert other.recorder is not None and not records(tmp_path / "gone" / "cat")
        await until(lambda: other.reign is not None and other.reign.mine is not None)
        await leave(other)

    asyncio.run(main())
    with pytest.raises(ConfigError, match="too small"):
        Recorder(None, tmp_path, 10, None)  # type: ignore[arg-type]


def records(path: Path) -> bool:
    """Whether this process has a recording open."""
    return any(links_to(fd, path) for fd in os.listdir("/proc/self/fd"))


def links_to(fd: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == str(path)
    except OSError:
        return False


class Wave(Command, frozen=True): ...


@pytest.mark.parametrize("what", ["fact", "command", "machine"])
def test_what_is_not_declared_ends_the_recording_and_not_the_node(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Beacon:
        MESSAGES = ScoreWanted
        HEARS: ClassVar[Hears] = {}

        def start(self, now: int) -> None: ...
        def on_message(self, sender: str, message: Any, now: int) -> None: ...
        def on_timer(self, timer: Any, now: int) -> None: ...

    async def main() -> None:
        agent = Agent(config(tmp_path))
        await agent.start()
        driver = agent.driver
        if what == "fact":
            driver.tell(ScoreWanted(1))
        elif what == "command":
            monkeypatch.setitem(Announce.HEARS, Wave, lambda machine, command, now: None)
            driver.tell(Wave(), channel="election")
        else:
            driver.add("other", lambda port: Beacon())  # type: ignore[arg-type, return-value]
        assert agent.recorder is not None and not records(tmp_path / "ant")
        await until(lambda: agent.reign is not None and agent.reign.mine is not None)
        await leave(agent)

    with caplog.at_level(logging.ERROR, logger="doyen"):
        asyncio.run(main())
    wanted = {"fact": "ScoreWanted(number=1) is not declared", "command": "Wave() is not declared"}
    assert "nothing is recorded from here on" in caplog.text
    assert wanted.get(what, "how to build the machine on 'other' again") in caplog.text
    assert replay(tmp_path / "ant").inputs >= 1  # As far as it goes.


def test_what_cannot_be_kept_is_named_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Announce.__init__

    def odd(self: Any, *arguments: Any, **named: Any) -> None:
        build(self, *arguments, **named)
        self._heard = iter(())

    monkeypatch.setattr(Announce, "__init__", odd)

    async def main() -> None:
        agent = Agent(config(tmp_path))
        await agent.start()
        await leave(agent)

    with caplog.at_level(logging.ERROR, logger="doyen"):
        asyncio.run(main())
    assert "a machine cannot be kept: Announce._heard: tuple_iterator is no data" in caplog.text
    assert not (tmp_path / "ant").exists()


def test_a_recording_holds_no_secret(tmp_path: Path) -> None:
    key = tmp_path / "group.key"
    write_keys(key, [new_key()])
    path = solo(tmp_path, key_file=str(key), http="127.0.0.1:0", http_token="hush-hush-hush", state=str(tmp_path / "s"))
    data = path.read_bytes()
    for secret in (b"hush", str(tmp_path).encode(), read_keys(key)[0], key_text(read_keys(key)[0]).encode()):
        assert secret not in data
    assert path.stat().st_mode & 0o777 == 0o600
    assert replay(path).inputs > 5


# Several recordings.


@pytest.mark.parametrize("sealed", [False, True], ids=["clear", "sealed"])
def test_recordings_of_several_nodes_are_laid_side_by_side(tmp_path: Path, sealed: bool) -> None:
    key = tmp_path / "group.key"
    write_keys(key, [new_key()])
    (tmp_path / "flights").mkdir()
    given: dict[str, Any] = {"key_file": str(key)} if sealed else {}
    paths = group(tmp_path / "flights", election="hybrid", elections=("mail=le-s",), **given)
    passages = matched(paths)
    assert len(passages) > 50
    assert {passage.received.node for passage in passages} == {"n0", "n1", "n2"}
    inputs = {str(path): read(path)[1] for path in paths}
    for passage in passages:
        given = inputs[passage.received.path][passage.received.input_no - 1].given
        assert isinstance(given, Heard) and identifier(given.data) == passage.identifier
        assert passage.sent is not None
        assert passage.sent.at <= passage.received.at + 0.05 and passage.received.at - passage.sent.at < 5
    apart = [passage for passage in passages if passage.sent and passage.sent.node != passage.received.node]
    assert len({passage.identifier for passage in apart}) > 30
    assert any(passage.sent is None for passage in matched(paths[:1]))  # Alone, it knows only what it sent itself.


def test_of_messages_that_are_alike_the_latest_that_was_sent_before_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = group(tmp_path, election="hybrid")
    monkeypatch.setattr(matching, "identifier", lambda data: "alike")
    passages = matched(paths)
    sent_at = sorted({passage.sent.at for passage in passages if passage.sent})
    assert len(sent_at) > 10
    for passage in passages:
        assert passage.sent is not None
        later = [at for at in sent_at if passage.sent.at < at <= passage.received.at]
        assert not later, "another was sent between these"
        assert passage.sent.at <= passage.received.at or passage.sent.at == sent_at[0]


def test_what_was_too_large_to_be_sent_hides_nothing_that_the_same_step_sent(tmp_path: Path) -> None:
    paths = group(tmp_path, election="hybrid")
    large = msgspec.msgpack.encode(b"x" * DATAGRAM_MAX)

    def bend(inputs: list[Input]) -> None:
        """Have each step that sends begin with a message that is too large."""
        for item in inputs:
            first = next((effect for effect in item.effects if effect.verb in ("send", "multicast")), None)
            if first is not None:
                item.effects.insert(0, msgspec.structs.replace(first, data=large))

    bent = [rewritten(path, bend).rename(path.with_name(f"bent{i}")) for i, path in enumerate(paths)]

    def sent(paths: list[Path]) -> list[tuple[str, str, int] | None]:
        found = [(passage.identifier, passage.sent) for passage in matched(paths)]
        return [spot and (identifier, spot.node, spot.input_no) for identifier, spot in found]

    assert sent(bent) == sent(paths) and len(set(sent(paths))) > 50


# Versions, and the command.


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(["replay", *arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_doyen_replay_says_what_came_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = solo(tmp_path)
    code, out, _ = run(capsys, str(path))
    assert code == 0 and out.startswith("the same: ") and "ant" in out and "leaders  ant" in out
    code, out, _ = run(capsys, str(path), "--json")
    found = json.loads(out)
    assert code == 0 and found["same"] is True and found["inputs"] == sum(s["inputs"] for s in found["segments"])
    assert set(found["segments"][0]) == {
        *(
            "path",
            "node",
            "group",
            "doyen",
            "inputs",
            "effects",
            "kinds",
            "began_at",
            "lasted_s",
            "leaders",
            "cut_off_bytes",
            "failure",
        )
    }

    def change(items: list[Input]) -> None:
        items[-1].effects.append(Effect("emit", "e", encode({}), "Nothing"))

    code, out, err = run(capsys, str(rewritten(path, change)))
    assert (code, out) == (1, "") and "recorded election: emit Nothing(), but replayed nothing more" in err
    code, _, err = run(capsys, str(tmp_path / "nothing"))
    assert code == 2 and "FILE" in err


def test_other_formats_are_refused_with_their_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "flight"
    for number, why in (("1", "pickled"), ("3", "reads format 2 only")):
        path.write_bytes(f"DOYEN RECORDING {number}\n".encode() + b"cos\nsystem\n(S'true'\ntR.")
        code, out, err = run(capsys, str(path))
        assert (code, out) == (1, "") and f"format {number}" in err and why in err and __version__ in err


def test_another_version_is_replayed_if_its_machines_can_be_built(tmp_path: Path) -> None:
    path = solo(tmp_path)
    header, *rest = bodies_of(path)
    found = msgspec.msgpack.decode(header, type=Header)

    def written(**changes: Any) -> Path:
        return write(tmp_path / "bent", [encode(msgspec.structs.replace(found, doyen="7.1", **changes)), *rest])

    assert replay(written()).doyen == "7.1"
    odd = msgspec.structs.replace(found.origin, config=found.origin.config | {"colour": "green"})
    with pytest.raises(TransportError, match=r"recorded by doyen 7\.1, and doyen .* cannot build .*colour"):
        replay(written(origin=odd))
    with pytest.raises(TransportError, match="cannot build its machines"):
        replay(written(additions=[{"telephone": "1"}]))


# The source.


def test_nothing_is_pickled_and_nothing_goes_by_the_name_of_a_type() -> None:
    pickles = re.compile(r"^\s*(import|from)\s+(pickle|_pickle|marshal|shelve)\b", re.MULTILINE)
    asks = re.compile(r"match .*__name__|__name__\S*\s*([!=]=|in |not in )|==.*__name__")
    program = 'if __name__ == "__main__":'
    paths = list(SOURCE.rglob("*.py"))
    assert len(paths) > 100
    for path in paths:
        text = path.read_text()
        if path != SOURCE / "check" / "frozen.py":  # It copies nodes within one process, and reads no file.
            assert not pickles.search(text), path
        assert not path.is_relative_to(SOURCE / "net") or not asks.search(text.replace(program, "")), path


def test_an_origin_has_only_what_machines_are_built_from(tmp_path: Path) -> None:
    path = solo(tmp_path, election="hybrid", standing=3, seeds=("127.0.0.1:9",), lasting_s=0.0)
    origin = read(path)[0].origin
    assert isinstance(origin, Origin)
    assert (origin.node, origin.group, origin.seeds) == ("ant", "recorded", (Address("127.0.0.1", 9),))
    assert origin.config["standing"] == 3 and origin.config["record"] == "" and len(origin.random_seed) == 64
    assert msgspec.convert(origin.config["tables"]["swim"], SwimConfig) == QUICK["swim"]


def test_nothing_is_cut_off_of_a_whole_recording(tmp_path: Path) -> None:
    assert replay(solo(tmp_path, lasting_s=0.0)).cut_off_bytes == 0


def test_a_pipe_is_no_recording_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.rec")
    for path in (tmp_path / "pipe.rec", tmp_path):
        with pytest.raises(TransportError, match="is no file"):
            Reader(path)
