"""The election that a store decides, as a kind: doyen ranks, the store decides."""

from collections.abc import Callable
from typing import Any

from doyen.core import kinds
from doyen.core.clock import ms, seconds
from doyen.core.effects import Out
from doyen.core.kinds import PRESET, Place, Time, presets
from doyen.core.outside import OtherHalf
from doyen.election import claims
from doyen.election.engine.config import EngineConfig


class Engine(kinds.ElectionChoice, frozen=True):
    """A store that you have decides: `Engine("etcd://10.0.0.1:2379")`; never two leaders at once, with two hosts."""

    kind = "engine"
    on_node = {"url": "shared"}

    url: str = PRESET
    """The store's address: etcd://, postgresql://, redis:// or zookeeper://."""
    lease: Time = PRESET
    """How long a leader acts after it asked the store. Too short: one slow answer costs leadership."""
    renew_interval: Time = PRESET
    """The time between two renewals of the leader in the store; at most half a lease."""
    stand_time: Time = PRESET
    """How long candidates wait for each other, so that the best score claims; some round trips."""
    drift_max: float = PRESET
    """How far the rates of two clocks may differ. Beyond it two could lead at once."""


preset = presets(
    EngineConfig,
    local=lambda size: EngineConfig(lease=seconds(1), renew_interval=ms(300), stand_time=ms(40)),
    iot=lambda size: EngineConfig(lease=seconds(30), renew_interval=seconds(10), stand_time=seconds(2)),
)


class Claimed(claims.Claimed):
    """The leader claimed its epoch in the store."""

    place = "the store"


def build(place: Place) -> Callable[[Out], Any]:
    from doyen.election.engine.machine import Engine as Machine

    return lambda out: Machine(place.node, place.incarnation, place.config, out, stands=place.eligible)


def other_half() -> OtherHalf:
    from doyen.engines.half import Stores

    return Stores()


def guarantee(address: str) -> str:
    """Return what the store gives, in words; raise `ConfigError` where the address is none."""
    from doyen.engines.url import guarantee as given

    return given(address)


def worst_case(config: EngineConfig, around: kinds.Around) -> kinds.WorstCase:
    guard, slow = config.guard(config.lease), 8 * around.delay  # Two questions to the store, and what members hear.
    return kinds.WorstCase(
        detection=guard + slow,
        failover=guard + slow + 4 * config.stand_time + 2 * config.renew_interval + slow,
        settling=config.settle_max + 16 * around.delay,
        because="a guard since the last renewal, candidates wait for each other, and the claim; sooner with a will",
    )


ENGINE = kinds.ElectionKind(
    name="engine",
    about="A store that you have decides (etcd, PostgreSQL, Redis, ZooKeeper): never two leaders, with two hosts.",
    table=kinds.Table(name="engine", about="Elections by a store", config=EngineConfig, preset=preset),
    choice=Engine,
    needs=kinds.Needs(members=True, shared=True, why="it learns from the list who is dead: give swim"),
    build=build,
    promise=lambda config, rank: kinds.Promise(
        sort="quorum",
        in_short="never two leaders at once, and never two of one term, while clocks run at the same rate within "
        "drift_max and the store keeps what it confirmed; without it nobody leads.",
        because="it claimed the highest epoch in the store; of those that stood, the best score goes first",
    ),
    worst_case=worst_case,
    account=Claimed,
    lease=lambda config: int(config.lease),
    other_half=other_half,
    store=guarantee,
)
