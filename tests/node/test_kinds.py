"""Every kind is one value in its own folder, registered by an entry point; what is asked of it is asked of it alone."""

import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from doyen.core.config import is_duration, options
from doyen.core.kinds import ALIASES, Choice, ElectionKind, MembershipKind, Time
from doyen.errors import ConfigError
from doyen.node.config import NodeConfig
from doyen.node.registry import (
    ELECTIONS,
    MEMBERSHIPS,
    ElectionName,
    MembershipName,
    find_election,
    find_membership,
    tables,
)

KINDS: list[ElectionKind | MembershipKind] = [*map(find_election, ELECTIONS), *map(find_membership, MEMBERSHIPS)]


def test_ours_are_registered_as_everybody_elses_are() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["doyen.elections"] == ELECTIONS
    assert project["entry-points"]["doyen.memberships"] == MEMBERSHIPS


def test_the_names_that_a_type_checker_knows_are_those_that_there_are() -> None:
    assert {*get_args(ElectionName)} == {*ALIASES, *ELECTIONS, "none"}
    assert {*get_args(MembershipName)} == {*MEMBERSHIPS, "auto", "none"}


def test_aliases_are_those_that_the_kinds_have_and_are_accepted_wherever_an_election_is_named() -> None:
    from doyen.node.layers import configure, from_tables

    found = {alias: name for name in ELECTIONS for alias in find_election(name).aliases}
    assert found == ALIASES == {"fast": "announce", "gossip": "hybrid", "quorum": "pole"}
    assert [find_election(alias).title for alias in ALIASES] == ["fast (announce)", "gossip (hybrid)", "quorum (pole)"]
    asked = {("group",): "g", ("election",): "gossip", ("elections",): ("mail=fast",)}
    config = configure(asked, environment={})
    assert config.election == "hybrid" and config.election_kinds()["mail"].name == "announce"
    assert configure({("group",): "g"}, environment={"DOYEN_ELECTION": "fast"}).election == "announce"
    assert from_tables({"group": "g", "election": "gossip"}).election == "hybrid"  # A file's, and a scenario's [node].
    with pytest.raises(ConfigError, match="election 'gosip' is not installed: do you mean gossip"):
        find_election("gosip")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_choice_has_the_fields_of_its_table_and_their_types(kind: ElectionKind | MembershipKind) -> None:
    assert kind.choice is not None and kind.choice.kind == kind.name
    fields = {option.name: option.type for option in options(kind.choice)}
    wanted = {option.name: option.type for option in options(kind.table.config)}
    on_node = {option.name: option.type for option in options(NodeConfig)}
    for name, there in kind.choice.on_node.items():
        assert name not in wanted
        wanted[name] = on_node[there]
    assert {*wanted} - {*kind.table.hidden} <= {*fields} <= {*wanted}
    for name, hint in fields.items():
        plain = wanted[name].__origin__ if hasattr(wanted[name], "__metadata__") else wanted[name]
        assert hint == (Time if is_duration(wanted[name]) else plain), name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_lives_in_one_folder(kind: ElectionKind | MembershipKind) -> None:
    folder = kind.choice.__module__.rpartition(".")[0]
    assert (ELECTIONS | MEMBERSHIPS)[kind.name].startswith(folder)


def test_a_name_that_is_not_there_is_answered_with_one_that_is() -> None:
    with pytest.raises(ConfigError, match="election 'hybird' is not installed: do you mean hybrid"):
        find_election("hybird")
    with pytest.raises(ConfigError, match="membership 'phone' is not installed: one of swim, medley, heartbeat, ring"):
        find_membership("phone")


def test_no_two_kinds_have_different_tables_of_one_name() -> None:
    by_name: dict[str, Any] = {}
    for kind in KINDS:
        assert by_name.setdefault(kind.table.name, kind.table) is kind.table
    assert by_name == tables(ours=True)


def test_what_is_not_given_is_not_said() -> None:
    import doyen

    assert doyen.Hybrid().given() == {}
    assert doyen.Hybrid(missing_max=3, final_timeout="9s").given() == {"missing_max": 3, "final_timeout": "9s"}
    assert repr(doyen.Hybrid(missing_max=3)) == "Hybrid(missing_max=3)"
    assert isinstance(doyen.Swim(), Choice)
    with pytest.raises(TypeError, match=r"Hybrid has no field 'mising_max': do you mean missing_max\?"):
        doyen.Hybrid(mising_max=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Pole has no field 'voters': .*; voters, .* are arguments of join itself"):
        doyen.Pole(voters=["ant"])  # type: ignore[call-arg]
