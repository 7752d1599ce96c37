"""A node that rates itself: said by flags, environment or file; and the oracle alone decides who leads by it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from doyen.core.clock import ms
from doyen.core.rank import ScoreGiven
from doyen.election.pole.config import PoleConfig
from doyen.errors import ConfigError
from doyen.node.agent import Agent
from doyen.node.config import NodeConfig
from doyen.node.layers import by_path, configure
from doyen.node.node import Node
from doyen.score import rating
from doyen.score.probes import Unmeasured, load_per_core
from doyen.score.rating import rating_of


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


NAMES = ("ant", "bee", "cat")
POLE: dict[str, Any] = {"group": "g", "election": "pole", "voters": NAMES, "volatile": True}
SECURITY = ("security:0:10:1",)


def test_a_file_the_environment_and_flags_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('oracle = "quality"\nattributes = ["security:0:10:1"]\nmeasures = ["security=7"]\n')
    rated = {"oracle": "quality", "attributes": SECURITY, "measures": ("security=7",)}
    said = {"DOYEN_ORACLE": "quality", "DOYEN_ATTRIBUTE": "security:0:10:1", "DOYEN_MEASURE": "security=7"}
    wanted = NodeConfig(**POLE, **rated)
    for made in (
        configure(by_path(POLE), file=file, environment={}),
        configure(by_path(POLE), environment=said),
        configure(by_path(POLE | rated), environment={}),
    ):
        assert (made.oracle, made.attributes, made.measures) == (wanted.oracle, wanted.attributes, wanted.measures)


def test_what_is_measured_without_being_told() -> None:
    values, missing = rating_of((), ()).measure()
    assert set(values) == {"cpu", "memory", "load", "battery"} and "memory" not in missing
    assert 0 <= rating_of((), ())() <= 1
    assert rating_of((), ("memory=64",))() > rating_of((), ("memory=0",))()


def test_load_is_per_core_and_may_be_unknown(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("3.00 1.00 1.00 1/100 4\n")
    assert load_per_core(tmp_path) == 3
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nprocessor\t: 1\n")
    assert load_per_core(tmp_path) == 1.5
    with pytest.raises(Unmeasured):
        load_per_core(tmp_path / "none")


@pytest.mark.parametrize(
    ("attributes", "measures", "complaint"),
    [
        (("security:0:10:1",), (), "'security' cannot be measured here"),
        (("memory:0:64",), (), "is not name:min:max:weight"),
        (("memory:0:64:1:benfit",), (), "is not name:min:max:weight"),
        (("memory:64:0:1",), (), "must be less than max"),
        (("memory:0:64:0.5",), (), r"add up to 0\.5, not to 1"),
        (("memory:0:64:0.5", "memory:0:64:0.5"), (), "is there twice"),
        (("memory:0:64:1",), ("battery=1",), "'battery' is no attribute: one of memory"),
        (("memory:0:64:1",), ("memory=much",), "is not name=number"),
    ],
)
def test_what_makes_no_rating_is_refused(
    attributes: tuple[str, ...], measures: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        NodeConfig(**POLE, attributes=attributes, measures=measures)


def test_a_machine_is_measured_when_asked_and_what_was_given_is_kept_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements reach the election as inputs, so that they can be recorded: the machine itself reads nothing."""
    free_gib = [8.0]
    monkeypatch.setattr(rating, "PROBES", {"memory": lambda: free_gib[0]})
    given: list[tuple[int, float]] = []

    async def main() -> None:
        agent = Agent(
            NodeConfig(
                **POLE | {"voters": ("ant",), "tables": {"pole": PoleConfig(resign_interval=ms(20))}},
                name="ant",
                oracle="quality",
                attributes=("memory:0:16:1",),
            )
        )
        await agent.start()
        election: Any = agent.driver.host.ports["election"].machine
        tell = agent.driver.tell

        def listen(fact: Any, *, channel: str | None = None) -> None:
            if isinstance(fact, ScoreGiven):
                given.append((fact.number, fact.value))
            tell(fact, channel=channel)

        monkeypatch.setattr(agent.driver, "tell", listen)
        assert election.scores.look(1, None) == (0.5,)  # It was asked at the start.
        agent.give_score("election", 0, 99.0)  # The oracle alone decides.
        await asyncio.sleep(0.06)
        assert given == []  # Nothing has changed.
        free_gib[0] = 4.0
        await until(lambda: bool(given))
        assert given == [(0, 0.25)] and election.scores.look(1, None) == (0.25,)
        await agent.leave()

    asyncio.run(main())


@pytest.mark.live
@pytest.mark.parametrize(("oracle", "leader"), [("score", "ant"), ("quality", "bee")])
def test_the_oracle_alone_decides_who_leads(
    oracle: str, leader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    standing = {"ant": 9.0, "bee": 1.0, "cat": 2.0}
    security = {"ant": 1, "bee": 9, "cat": 3}

    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes: list[Node] = []
            for name in NAMES:
                given = POLE | {
                    "name": name,
                    "preset": "local",
                    "seeds": tuple(node.address for node in nodes),
                    "standing": standing[name],
                    "attributes": SECURITY,
                    "measures": (f"security={security[name]}",),
                    "oracle": oracle,
                }
                made = Node(configure(by_path(given), environment={}), leave_on_sigterm=False)
                nodes.append(await stack.enter_async_context(made))
            async with asyncio.timeout(20):
                while {node.leader and node.leader.name for node in nodes} != {leader}:
                    await asyncio.sleep(0.02)

    asyncio.run(main())
