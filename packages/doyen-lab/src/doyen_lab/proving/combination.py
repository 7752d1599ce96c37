"""The combinations that are proved: an election, its timers, and what it promises."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, structs

from doyen.core.clock import Duration, parse_duration
from doyen.core.config import is_duration, options
from doyen.errors import ConfigError
from doyen.node.config import NodeConfig
from doyen.node.layers import configure, worst_case_of
from doyen.node.promises import promise_of

PORT: Final = 7600
MULTICAST: Final = "239.192.7.7:7600"
GROUP: Final = "proving"


class Combination(Struct, frozen=True, kw_only=True):
    """One election over one membership, as `doyen.join` is told it."""

    name: str
    election: str
    preset: str = "local"
    multicast: bool = False
    founded: bool = False  # The first member begins alone, and the others join it.
    timed: bool = False  # Never two at once while the machine keeps to its time bounds, and nobody is stopped.
    tables: dict[str, dict[str, Any]] = {}

    @property
    def strong(self) -> bool:
        """Never two at once; otherwise one leader per connected region."""
        return promise_of(self.election).strong

    @property
    def numbers_agree(self) -> bool:
        """Announce-listen agrees on the leader; the term's number is a label there, and may differ for a while."""
        return not self.multicast

    def with_preset(self, preset: str) -> "Combination":
        """The preset's own timers instead of the quick ones."""
        return structs.replace(self, preset=preset, tables={})

    def fields(self, names: list[str]) -> dict[str, Any]:
        """What every node of this group is told."""
        told: dict[str, Any] = {
            "group": GROUP,
            "election": self.election,
            "preset": self.preset,
            "group_size": len(names),
            **self.tables,
        }
        if self.strong:
            told["voters"] = names
        if self.multicast:
            told["multicast"] = MULTICAST
        return told

    def config(self, names: list[str]) -> NodeConfig:
        """Of one of its nodes; for the timers."""
        told = self.fields(names) | ({"volatile": True} if self.strong else {})
        return configure(_by_path(told), environment={}, called=lambda option: option.name)

    def failover(self, names: list[str]) -> Duration:
        """From a leader's end until the next one acts: as its preset states it, and for a quorum its settling time."""
        config = self.config(names)
        return config.pole.settle_max if self.strong else worst_case_of(config).failover

    def merging(self, names: list[str]) -> Duration:
        """From the end of a cut, or a start, until one leader is left."""
        config = self.config(names)
        if self.strong:
            return config.pole.settle_max
        if config.membership_kind() == "ring":  # Who was forced out tries again, ever later, and is let in.
            return int(config.ring.lease * 2**config.ring.backoff_max) + self.failover(names)
        if config.membership_kind() == "none":  # Two leaders hear each other; the lesser one yields.
            announce = config.announce
            return 2 * (announce.announce_interval + announce.suppress_interval) + self.failover(names)
        # Regions find each other when somebody tries a member that it holds failed: in three rounds all but surely.
        swim, elect = config.swim, config.ctolerant
        return 3 * swim.sync_interval + elect.bootstrap_after + elect.final_timeout + self.failover(names)

    def joining(self, names: list[str]) -> Duration:
        """Until all are in who begin at once.  A ring lets one in at a time; the others try again, ever later."""
        ring = self.config(names).ring
        return (len(names) - 1) * int(ring.lease * (2**ring.backoff_max + 1)) if self.timed else 0

    def lease(self, names: list[str]) -> Duration | None:
        """How long a leader may act after its last word from a majority."""
        return self.config(names).pole.lease if self.strong else None


COMBINATIONS: Final = {
    made.name: made
    for made in (
        Combination(
            name="pole",
            election="pole",
            tables={
                "pole": {
                    "lease": "1s",
                    "heartbeat_interval": "200ms",
                    "election_timeout": "100ms",
                    "retry_max": "1s",
                    "score_timeout": "500ms",
                }
            },
        ),
        Combination(
            name="hybrid",
            election="hybrid",
            tables={"swim": {"sync_interval": "1s", "suspicion_max_mult": 2.0}, "ctolerant": {"ask_interval": "1s"}},
        ),
        Combination(
            name="announce",
            election="le-s",
            multicast=True,
            tables={"announce": {"listen_timeout": "1s"}},
        ),
        Combination(
            name="ring",
            election="by-key",
            founded=True,
            timed=True,
            tables={"ring": {"lease": "1s", "arbitration": "500ms", "backoff_max": 2}},
        ),
    )
}


def chosen(names: tuple[str, ...]) -> list[Combination]:
    unknown = [name for name in names if name not in COMBINATIONS]
    if unknown:
        raise ConfigError(f"--election {unknown[0]!r} is not proved: one of {', '.join(COMBINATIONS)}")
    return [COMBINATIONS[name] for name in names or COMBINATIONS]


def _by_path(told: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    kinds = {option.path: option for option in options(NodeConfig)}
    found: dict[tuple[str, ...], Any] = {}
    for field, value in told.items():
        for name, leaf in value.items() if isinstance(value, Mapping) else [(None, value)]:
            path = (field,) if name is None else (field, name)
            text = is_duration(kinds[path].type) and isinstance(leaf, str)
            found[path] = parse_duration(leaf) if text else tuple(leaf) if isinstance(leaf, list) else leaf
    return found
