"""The flight recorder: what was recorded runs again to the last effect; what was tampered with is found out."""

import asyncio
import logging
import os
import pickle
import zlib
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
from net_nodes import Node, leave, until

from doyen.cli import main
from doyen.core.clock import ms
from doyen.core.ids import Address
from doyen.core.leadership import LeaderElected
from doyen.core.link import LinkBroken
from doyen.core.rank import ScoreGiven
from doyen.election.announce import AnnounceConfig
from doyen.errors import ConfigError, TransportError
from doyen.membership.swim import SwimConfig
from doyen.net.recorder import Recorder, older
from doyen.net.recording import FRAME_BYTES, MAGIC, dump, frames, read, undump
from doyen.net.replay import Diverged, Replayed, segments
from doyen.net.replay import replay as replay_any
from doyen.net.storage import Storage
from doyen.node.agent import Agent
from doyen.node.config import NodeConfig, OracleKind
from doyen.node.registry import election_names
from doyen.testing.processes import multicast_on_loopback

QUICK: Any = {
    "announce": AnnounceConfig(announce_interval=ms(30), listen_timeout=ms(120), suppress_interval=ms(20)),
    "swim": SwimConfig(period=ms(50), ack_timeout=ms(20)),
}


def replay(path: Path) -> Replayed:
    """Of a file that this very test wrote."""
    return replay_any(path, own=True)


async def agents(tmp_path: Path, count: int = 3, **config: Any) -> list[Agent]:
    """A recorded group."""
    made: list[Agent] = []
    flags = multicast_on_loopback()
    multicast = flags[flags.index("--multicast") + 1]
    for i in range(count):
        name = f"n{i}"
        agent = Agent(
            NodeConfig(
                group="recorded",
                name=name,
                multicast=multicast,
                record=str(tmp_path / name),
                standing=i,
                tables=QUICK,
                **config,
            )
        )
        await agent.start()
        made.append(agent)
    return made


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


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config["election"] + "-" + config.get("membership", ""))
def test_a_group_that_elects_and_loses_its_leader_runs_again_the_same(tmp_path: Path, config: dict[str, Any]) -> None:
    if "state" in config:
        config = config | {"state": str(tmp_path / "state")}

    async def main() -> None:
        made = await agents(tmp_path, **config)
        leaders = lambda: {agent.reign.leader for agent in made if agent.reign is not None}  # noqa: E731
        await until(lambda: len(leaders()) == 1 and None not in leaders(), 20)
        await asyncio.sleep(0.3)
        gone = next(agent for agent in made if agent.name in leaders())
        made.remove(gone)
        await leave(gone)
        await asyncio.sleep(0.5)
        for agent in made:
            agent.driver.tell(ScoreGiven(0, 5))
            await leave(agent)

    asyncio.run(main())
    kinds: set[str] = set()
    for name in ("n0", "n1", "n2"):
        results = [replay(segment) for segment in segments(tmp_path / name)]
        assert sum(result.inputs for result in results) > 5
        kinds |= {kind for result in results for kind in result.kinds}
    assert {"message", "timer", "command", "start", "tell"} <= kinds
    assert "state" not in config or "durable" in kinds


VOTERS: dict[str, Any] = {"election": "pole", "voters": ("ant",), "volatile": True}


@pytest.mark.parametrize(
    "config",
    [
        *({"election": kind} for kind in election_names() if kind != "pole"),
        *({"election": "hybrid", "membership": kind} for kind in ("swim", "medley", "heartbeat", "ring")),
        *({"election": kind, "rank": "score"} for kind in ("base", "optimistic", "preferred", "hybrid")),
        *({**VOTERS, "oracle": kind} for kind in get_args(OracleKind) if kind != "quality"),
    ],
    ids=lambda config: "-".join(map(str, config.values())),
)
def test_whatever_an_agent_can_be_is_recorded(tmp_path: Path, config: dict[str, Any]) -> None:
    async def main() -> None:
        agent = Agent(NodeConfig(group="recorded", name="ant", record=str(tmp_path / "flight"), tables=QUICK, **config))
        await agent.start()
        await leave(agent)

    asyncio.run(main())
    assert replay(tmp_path / "flight").inputs >= 1


def test_what_cannot_be_recorded_is_said_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a probe measures comes from the machine itself, so no recording could run again."""

    async def main() -> None:
        config = {**VOTERS, "oracle": "quality"}
        agent = Agent(NodeConfig(group="recorded", name="ant", record=str(tmp_path / "flight"), tables=QUICK, **config))
        await agent.start()
        assert agent.driver.running
        await leave(agent)

    with caplog.at_level(logging.ERROR, logger="doyen"):
        asyncio.run(main())
    assert "nothing is recorded from here on: a machine cannot be kept" in caplog.text
    assert not (tmp_path / "flight").exists()


def recorded(tmp_path: Path, *, size_max: int = 1 << 20, lasting_s: float = 0.6, **options: Any) -> Path:
    """One node that leads alone, and is told things by its observer while facts are carried."""
    path = tmp_path / "flight"

    async def main() -> None:
        node = Node("ant", config=QUICK["announce"], **options)

        def observe(channel: str, fact: Any, now: int) -> None:
            if isinstance(fact, LeaderElected):
                node.driver.tell(ScoreGiven(0, 7))
                node.driver.tell(LinkBroken(fact.term.leader, node.driver.incarnation))

        node.driver.watch(observe)
        Recorder.attach(node.driver, path, size_max)
        await node.driver.start()
        await until(lambda: node.election.is_leader)
        await asyncio.sleep(lasting_s)
        node.driver.command("election", "leave")
        node.driver.close()

    asyncio.run(main())
    return path


def test_what_an_observer_does_while_facts_are_carried_is_run_in_its_place(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    assert any(item.nested for item in read(path)[1])
    result = replay(path)
    assert result.leaders == ["ant"] and result.node == "ant"


def test_the_file_is_a_ring_of_two_segments_each_of_which_runs_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "flight"
    quick = AnnounceConfig(announce_interval=ms(1), listen_timeout=ms(100), suppress_interval=ms(1))

    async def main() -> None:
        node = Node("ant", config=quick, seeds=(Address("127.0.0.1", 9),))
        recorder = Recorder.attach(node.driver, path, 64 << 10)
        await node.driver.start()
        await until(lambda: recorder.segment_count == 5, 20)
        assert recorder.input_count > 300
        node.driver.close()

    asyncio.run(main())
    assert [p.name for p in segments(path)] == ["flight.1", "flight"]
    assert sum(p.stat().st_size for p in segments(path)) <= (64 << 10) + 20_000  # And the machines themselves, twice.
    assert sum(replay(segment).inputs for segment in segments(path)) > 100


def rewritten(path: Path, change: Any) -> Path:
    """A recording with one input changed, its checksums made right."""
    from doyen.net.recorder import _encode
    from doyen.net.recording import frame

    header, inputs = read(path)
    items = list(inputs)
    change(items)
    bent = path.with_name("bent")
    bent.write_bytes(MAGIC + b"".join(frame(_encode(part)) for part in (header, *items)))
    return bent


def test_divergence_names_the_first_effect_that_differs(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    _, inputs = read(path)
    number = next(i for i, item in enumerate(inputs, start=1) if any("multicast" in text for text in item.effects))

    def change(items: list[Any]) -> None:
        effects = items[number - 1].effects
        at = next(i for i, text in enumerate(effects) if "multicast" in text)
        effects[at] = effects[at].replace("term=1", "term=2")

    with pytest.raises(Diverged) as found:
        replay(rewritten(path, change))
    assert found.value.input_no == number
    assert "term=2" in found.value.recorded and "term=1" in found.value.replayed
    assert f"input {number} (timer)" in str(found.value)


@pytest.mark.parametrize("what", ["an effect less", "an effect more", "another instant", "another fact"])
def test_any_change_of_what_happened_is_found_out(tmp_path: Path, what: str) -> None:
    path = recorded(tmp_path)

    def change(items: list[Any]) -> None:
        if what == "an effect less":
            next(item for item in items if item.effects).effects.pop()
        elif what == "an effect more":
            items[-1].effects.append("election: emit Nothing()")
        elif what == "another instant":
            next(item for item in items if item.effects).now += 1
        else:
            first = next(item for item in items if item.nested)
            after, kind, _ = first.nested[0]
            first.nested[0] = (after, kind, dump((None, ScoreGiven(0, 8))))

    with pytest.raises(Diverged):
        replay(rewritten(path, change))


def test_a_flipped_bit_anywhere_is_detected(tmp_path: Path) -> None:
    path = recorded(tmp_path, lasting_s=0.2)
    whole = path.read_bytes()
    rng = Random(6)
    bent_path = tmp_path / "bent"
    spots = {rng.randrange(len(whole)) for _ in range(300)} | set(range(len(MAGIC) + FRAME_BYTES + 2))
    for at in spots:
        bent = bytearray(whole)
        bent[at] ^= 1 << rng.randrange(8)
        bent_path.write_bytes(bytes(bent))
        with pytest.raises(TransportError, match=r"damaged|not a recording"):
            replay(bent_path)


def test_a_recording_that_was_cut_short_runs_as_far_as_it_goes(tmp_path: Path) -> None:
    """As SIGKILL leaves it."""
    path = recorded(tmp_path)
    whole, inputs = path.read_bytes(), replay(path).inputs
    with open(path, "rb") as file:
        first = len(next(frames(file, path))) + FRAME_BYTES + len(MAGIC)
    for size in (first, first + 5, len(whole) - 1, len(whole) - 40):
        path.write_bytes(whole[:size])
        assert replay(path).inputs < inputs
    path.write_bytes(whole[: first - 1])
    with pytest.raises(TransportError, match="nothing was recorded"):
        replay(path)


def test_a_recording_from_a_stranger_can_do_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "owned",))

    for evil in (Evil(), zlib.crc32, main, Storage, type(tmp_path)):
        with pytest.raises(TransportError, match="must not hold"):
            undump(pickle.dumps(evil))
    with pytest.raises(TransportError, match=r"cannot be read|must not"):
        undump(b"cbuiltins\ngetattr\n(cdoyen.core.clock\nms\nS'__globals__'\ntR.")
    for hidden in (b"cdoyen.core.config\ntomllib.loads\n.", b"cdoyen.net.discovery\nos.popen\n.", b"cos\nsystem\n."):
        with pytest.raises(TransportError, match="must not hold"):
            undump(hidden)
    with pytest.raises(TransportError, match="cannot be read"):
        undump(b"nonsense")
    assert not (tmp_path / "owned").exists()


def test_the_recorder_never_harms_the_node(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node("ant", config=QUICK["announce"])
        recorder = Recorder.attach(node.driver, tmp_path / "no such folder" / "flight")
        await node.driver.start()
        await until(lambda: node.election.is_leader)
        assert recorder._file is None
        node.driver.close()
        other = Node("bee", config=QUICK["announce"])
        recorder = Recorder.attach(other.driver, tmp_path / "flight")
        await other.driver.start()
        assert recorder._file is not None
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, recorder._file)
        os.close(full)
        await until(lambda: other.election.is_leader and recorder._file is None)
        other.driver.close()

    asyncio.run(main())
    with pytest.raises(ConfigError, match="too small"):
        Recorder(None, tmp_path, 10)  # type: ignore[arg-type]


def test_doyen_replay_refuses_pickles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["replay", *arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    code, out, err = run(str(path))
    assert (code, out) == (1, "") and "format 1" in err and "run code" in err
    code, _, err = run(str(tmp_path / "nothing"))
    assert code == 2 and "FILE" in err
    assert older(path).name == "flight.1"
