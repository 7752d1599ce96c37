"""Every kind is one value in its own folder, registered by an entry point; what is asked of it is asked of it alone."""

import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from doyen.core.config import is_duration, options
from doyen.core.kinds import Choice, ElectionKind, MembershipKind, Time
from doyen.errors import ConfigError
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
    assert {*get_args(ElectionName)} == {*ELECTIONS, "none"}
    assert {*get_args(MembershipName)} == {*MEMBERSHIPS, "auto", "none"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_choice_has_the_fields_of_its_table_and_their_types(kind: ElectionKind | MembershipKind) -> None:
    assert kind.choice is not None and kind.choice.kind == kind.name
    fields = {option.name: option.type for option in options(kind.choice)}
    wanted = {option.name: option.type for option in options(kind.table.config)}
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
    with pytest.raises(TypeError, match="mising_max"):
        doyen.Hybrid(mising_max=3)  # type: ignore[call-arg]
