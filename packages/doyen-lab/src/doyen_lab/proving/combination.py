"""A combination is what the proving ground proves: an election, its timers, and what follows from them.

Four combinations have names of their own and quick timers.  Every other election that is installed is proved by its
own name, with the timers of the preset `local`; what it promises, needs and waits for is asked of its kind.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from msgspec import Struct, structs

from doyen.core.clock import Duration
from doyen.core.kinds import ElectionKind, Promise
from doyen.errors import ConfigError
from doyen.node.config import NodeConfig
from doyen.node.layers import by_path, configure
from doyen.node.registry import find_election

PORT: Final = 7600
MULTICAST: Final = "239.192.7.7:7600"
GROUP: Final = "proving"


class Combination(Struct, frozen=True, kw_only=True, dict=True):
    """One election over one membership, as it is given to `doyen.join`."""

    name: str
    election: str
    preset: str = "local"
    tables: dict[str, Any] = {}

    @cached_property
    def kind(self) -> ElectionKind:
        return find_election(self.election)

    @cached_property
    def promise(self) -> Promise:
        return self.config(["n0"]).promise(self.kind)

    @property
    def strong(self) -> bool:
        """Return whether two never act at once; otherwise there is one leader per connected region."""
        return self.promise.strong

    @property
    def timed(self) -> bool:
        """Return whether two never act at once while the machine keeps to its time bounds, and nobody is stopped.

        Such a group is a ring: its first member begins alone, the others join it, and it collapses rather than split.
        """
        return self.promise.sort == "timed"

    @cached_property
    def multicast(self) -> bool:
        """Return whether members find each other by multicast: there is neither a membership nor a list of voters."""
        return self.config(["n0"]).membership_kind() is None and not self.kind.needs.voters

    @property
    def relays(self) -> bool:
        """Return whether it is a weak election whose members ask each other through a third."""
        return self.promise.sort == "weak" and not self.multicast

    @property
    def numbers_agree(self) -> bool:
        """Return whether all name the same term; in announce-listen its number is a label and may differ."""
        return not self.multicast

    @property
    def like(self) -> str:
        """Return the named combination whose scenarios this one is run with."""
        if self.name in COMBINATIONS:
            return self.name
        by_promise = {"quorum": "pole", "timed": "ring", "weak": "announce" if self.multicast else "hybrid"}
        return by_promise[self.promise.sort]

    def with_preset(self, preset: str) -> "Combination":
        """Return the same election with the preset's own timers instead of the quick ones."""
        return structs.replace(self, preset=preset, tables={})

    def fields(self, names: list[str]) -> dict[str, Any]:
        """Return the arguments of `doyen.join` that all nodes of this group have in common."""
        found: dict[str, Any] = {"group": GROUP, "election": self.election, "preset": self.preset}
        found |= {"group_size": len(names), **self.tables}
        return found | ({"voters": names} if self.kind.needs.voters else {})

    def config(self, names: list[str]) -> NodeConfig:
        """Return the configuration of one of its nodes, for the timers."""
        given = self.fields(names) | ({"volatile": True} if self.kind.needs.voters else {})
        return configure(by_path(given), environment={})

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


_POLE: Final = {
    "lease": "1s",
    "heartbeat_interval": "200ms",
    "election_timeout": "100ms",
    "retry_max": "1s",
    "score_timeout": "500ms",
}
_HYBRID: Final = {"swim": {"sync_interval": "1s", "suspicion_max_mult": 2.0}, "ctolerant": {"ask_interval": "1s"}}
_RING: Final = {"lease": "1s", "arbitration": "500ms", "backoff_max": 2}
COMBINATIONS: Final = {
    made.name: made
    for made in (
        Combination(name="pole", election="pole", tables={"pole": _POLE}),
        Combination(name="hybrid", election="hybrid", tables=_HYBRID),
        Combination(name="announce", election="le-s", tables={"announce": {"listen_timeout": "1s"}}),
        Combination(name="ring", election="by-key", tables={"ring": _RING}),
    )
}


def chosen(names: Sequence[str]) -> list[Combination]:
    """Return the combinations of these names, or all that have names of their own."""
    return [find_combination(name) for name in names or COMBINATIONS]


def find_combination(name: str) -> Combination:
    """Return the combination of that name, or any election that is installed, with the timers of its preset."""
    if name not in COMBINATIONS:
        try:
            find_election(name)
        except ConfigError as error:
            known = ", ".join(COMBINATIONS)
            raise ConfigError(f"--election {error.complaint}; of its own timers: {known}") from None
    return COMBINATIONS.get(name) or Combination(name=name, election=name)
