"""Finds the elections and memberships there are: ours, and those of packages that are installed beside it.

Each is registered by an entry point, ours included (pyproject.toml; a test holds the tables here equal to it).  The
tables save a node the search through everything that is installed; a name that they lack is looked for there.
"""

from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from doyen.core.config import nearest
from doyen.core.kinds import ALIASES, ElectionKind, MembershipKind, Table
from doyen.errors import ConfigError

ElectionName = Literal[
    "fast",
    "gossip",
    "quorum",
    "announce",
    "le-a",
    "le-s",
    "le-m",
    "base",
    "optimistic",
    "preferred",
    "hybrid",
    "local",
    "spanning",
    "pole",
    "by-key",
    "directory",
    "engine",
    "none",
]
MembershipName = Literal["auto", "none", "swim", "medley", "heartbeat", "ring"]

ELECTIONS: Final = {
    "announce": "doyen.election.announce.kind:ANNOUNCE",
    "le-a": "doyen.election.announce.kind:LE_A",
    "le-s": "doyen.election.announce.kind:LE_S",
    "le-m": "doyen.election.announce.kind:LE_M",
    "base": "doyen.election.churn.kind:BASE",
    "optimistic": "doyen.election.churn.kind:OPTIMISTIC",
    "preferred": "doyen.election.churn.kind:PREFERRED",
    "hybrid": "doyen.election.churn.kind:HYBRID",
    "local": "doyen.election.churn.kind:LOCAL",
    "spanning": "doyen.election.spanning.kind:SPANNING",
    "pole": "doyen.election.pole.kind:POLE",
    "by-key": "doyen.election.by_key.kind:BY_KEY",
    "directory": "doyen.election.directory.kind:DIRECTORY",
    "engine": "doyen.election.engine.kind:ENGINE",
}
MEMBERSHIPS: Final = {
    "swim": "doyen.membership.swim.kind:SWIM",
    "medley": "doyen.membership.medley.kind:MEDLEY",
    "heartbeat": "doyen.membership.heartbeat.kind:HEARTBEAT",
    "ring": "doyen.membership.ring.kind:RING",
}
_OURS: Final = {"election": ELECTIONS, "membership": MEMBERSHIPS}


def find_election(name: str) -> ElectionKind:
    """Return the election of that name or alias; raise `ConfigError` where there is none."""
    found: ElectionKind = _find(ElectionKind, "election", ALIASES.get(name, name))
    return found


def find_membership(name: str) -> MembershipKind:
    """Return the membership of that name; raise `ConfigError` where there is none."""
    found: MembershipKind = _find(MembershipKind, "membership", name)
    return found


def election_names() -> list[str]:
    """Return the name of every election that is installed, ours first."""
    return [*ELECTIONS, *further("election")]


def membership_names() -> list[str]:
    """Return the name of every membership that is installed, ours first."""
    return [*MEMBERSHIPS, *further("membership")]


def tables(*, ours: bool = False) -> dict[str, Table]:
    """Return the tables that a configuration may have, by name: of everything installed, or only ours."""
    elections = ELECTIONS if ours else election_names()
    memberships = MEMBERSHIPS if ours else membership_names()
    kinds: list[ElectionKind | MembershipKind] = [*map(find_election, elections), *map(find_membership, memberships)]
    return {kind.table.name: kind.table for kind in kinds}


def _find(kind: Any, what: str, name: str) -> Any:
    where = _OURS[what].get(name) or further(what).get(name)
    if where is None:
        known = [*(ALIASES if what == "election" else ()), *_OURS[what], *further(what)]
        near = nearest(name, known)
        advice = f"do you mean {near}?" if near else f"one of {', '.join(known)}"
        raise ConfigError(f"{name!r} is not installed: {advice}", field=what)
    return _load(kind, what, where)


@cache
def _load(kind: Any, what: str, where: str) -> Any:
    module, _, name = where.partition(":")
    try:
        found = vars(import_module(module)).get(name)
    except ImportError as error:
        raise ConfigError(f"cannot be loaded from {where}: {error}", field=what) from None
    if not isinstance(found, kind):
        raise ConfigError(f"cannot be loaded from {where}: it is no {what} kind", field=what)
    return found


@cache
def further(what: str) -> dict[str, str]:
    """Return what other packages register, by name; ours cannot be replaced."""
    from importlib.metadata import entry_points  # Most nodes run one of ours.

    found = entry_points(group=f"doyen.{what}s")
    return {point.name: point.value for point in found if point.name not in _OURS[what]}
