"""The election by a shared directory as a kind: the member that claimed the highest epoch there leads."""

from collections.abc import Callable
from typing import Any

from doyen.core import kinds
from doyen.core.clock import ms, seconds
from doyen.core.effects import Out
from doyen.core.kinds import PRESET, Place, Time, presets
from doyen.core.outside import OtherHalf
from doyen.election import claims
from doyen.election.directory.config import DirectoryConfig


class Directory(kinds.ElectionChoice, frozen=True, kw_only=True):
    """A directory that all members reach: never two leaders at once, with two hosts."""

    kind = "directory"

    lease: Time = PRESET
    """How long a leader acts after it began to look at the directory. Too short: it is easily lost."""
    renew_interval: Time = PRESET
    """The time between two renewals of the leader, and two looks of the others; at most half a lease."""
    stand_time: Time = PRESET
    """How long candidates wait for each other, so that the best score claims; above renew_interval."""
    drift_max: float = PRESET
    """How far the rates of two clocks may differ. Beyond it two could lead at once."""


preset = presets(
    DirectoryConfig,
    local=lambda size: DirectoryConfig(lease=seconds(1), renew_interval=ms(200), stand_time=ms(250)),
    iot=lambda size: DirectoryConfig(lease=seconds(30), renew_interval=seconds(6), stand_time=seconds(8)),
)


class Claimed(claims.Claimed):
    """The leader claimed its epoch in the directory."""

    place = "the directory"


def build(place: Place) -> Callable[[Out], Any]:
    from doyen.election.directory.machine import Directory as Machine

    return lambda out: Machine(place.node, place.incarnation, place.config, out, stands=place.eligible)


def other_half() -> OtherHalf:
    from doyen.election.directory.files import Files

    return Files()


def worst_case(config: DirectoryConfig, around: kinds.Around) -> kinds.WorstCase:
    guard, slow = config.guard(config.lease), 4 * around.delay  # A request is a handful of operations.
    detection = guard + 2 * config.renew_interval + slow
    return kinds.WorstCase(
        detection=detection,
        failover=detection + 2 * config.stand_time + guard + config.renew_interval + 4 * slow,
        settling=config.settle_max + 16 * around.delay,
        because="a guard and two looks until silence counts, candidates wait for each other, a guard after the claim, "
        "and a look",
    )


DIRECTORY = kinds.ElectionKind(
    name="directory",
    about="A directory that all members reach, e.g. on NFS: never two leaders at once, with two hosts.",
    table=kinds.Table(name="directory", about="Elections by a directory", config=DirectoryConfig, preset=preset),
    choice=Directory,
    needs=kinds.Needs(shared=True),
    build=build,
    promise=lambda config, rank: kinds.Promise(
        sort="quorum",
        in_short="never two leaders at once, and never two of one term, while clocks run at the same rate within "
        "drift_max and every host sees at once what another wrote to the directory; without it nobody leads.",
        because="it claimed the highest epoch in the directory; of those that stood, the best score goes first",
    ),
    worst_case=worst_case,
    account=Claimed,
    lease=lambda config: int(config.lease),
    other_half=other_half,
)
