"""Presets keep their values, and kinds the times that they promise: whoever upgrades without reading sees no change.

`presets.json` has one line for each table, network and size: the fields that the preset sets otherwise than the
defaults, which docs/reference/configuration.md has.  Further lines have the times of each kind's worst case, in ns.

    pytest tests/holds/test_presets.py                       compare with what is kept
    HOLDS_REWRITE=1 pytest tests/holds/test_presets.py       write it anew, additions included
"""

import json
from typing import Any, Final, get_args

import golden
import msgspec
import pytest

from doyen.core.clock import ms
from doyen.core.kinds import Around, Network, Table
from doyen.node.registry import ELECTIONS, MEMBERSHIPS, find_election, find_membership

FILE: Final = "presets.json"
NETWORKS: Final = get_args(Network)
SIZES: Final = (1, 5, 50)


def unusual(config: Any, table: Table) -> dict[str, Any]:
    usual = table.config()
    return {
        name: value for name in config.__struct_fields__ if (value := getattr(config, name)) != getattr(usual, name)
    }


def presets() -> dict[str, Any]:
    found: dict[str, Any] = {}
    kinds = [*map(find_election, ELECTIONS), *map(find_membership, MEMBERSHIPS)]
    for table in {kind.table.name: kind.table for kind in kinds if kind.table is not None}.values():
        for network in NETWORKS:
            for size in SIZES:
                found[f"{table.name} {network} {size}"] = unusual(table.preset(network, size), table)
        if hasattr(table.config, "paper"):
            found[f"{table.name} paper"] = unusual(table.config.paper(), table)
    return found


def times() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for size in SIZES:
        for name in MEMBERSHIPS:
            kind = find_membership(name)
            seen = kind.detection(kind.table.preset("lan", size), size)
            found[f"detection {name} {size}"] = [seen.duration, seen.merging, seen.of_leader, seen.spreading]
        for name in ELECTIONS:
            members = find_membership("ring" if name == "by-key" else "swim")
            noticed = members.detection(members.table.preset("lan", size), size)
            around = Around(delay=ms(5), group_size=size, detection=noticed)
            election = find_election(name)
            worst = election.worst_case(election.table.preset("lan", size), around)
            found[f"worst case {name} {size}"] = [worst.detection, worst.failover, worst.settling]
    return found


def all_found() -> dict[str, Any]:
    return json.loads(msgspec.json.encode(presets() | times()))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    if golden.REWRITE:
        golden.write(FILE, all_found())
    return golden.read(FILE)


def test_presets_and_promised_times_are_what_they_were(kept: dict[str, Any]) -> None:
    found = all_found()
    assert {name: found.get(name) for name in kept} == kept  # New ones may come.
    assert len(kept) >= 100
