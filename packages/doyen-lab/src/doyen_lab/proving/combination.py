"""The combinations that are proved: an election, its timers, and what it promises."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, structs

from doyen.core.clock import Duration
from doyen.core.kinds import ElectionKind
from doyen.errors import ConfigError
from doyen.node.config import NodeConfig
from doyen.node.layers import by_path, configure
from doyen.node.registry import find_election

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
        return self.kind.promise(self.kind.table.config(), "hash").strong

    @property
    def kind(self) -> ElectionKind:
        return find_election(self.election)

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
        return configure(by_path(told), environment={})

    def failover(self, names: list[str]) -> Duration:
        """Return the time from a leader's end until the next one acts; for a quorum its settling time."""
        worst = self.config(names).worst_case(self.kind)
        return worst.settling if self.strong else worst.failover

    def merging(self, names: list[str]) -> Duration:
        """Return the time from the end of a cut, or a start, until one leader is left."""
        return self.config(names).worst_case(self.kind).settling

    def joining(self, names: list[str]) -> Duration:
        """Return the time until all are in that begin at once."""
        return self.config(names).detection().joining

    def lease(self, names: list[str]) -> Duration | None:
        """Return how long a leader may act after it last heard a majority."""
        return self.kind.lease(self.config(names).table(self.kind.table))


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


def chosen(names: Sequence[str]) -> list[Combination]:
    unknown = [name for name in names if name not in COMBINATIONS]
    if unknown:
        raise ConfigError(f"--election {unknown[0]!r} is not proved: one of {', '.join(COMBINATIONS)}")
    return [COMBINATIONS[name] for name in names or COMBINATIONS]
