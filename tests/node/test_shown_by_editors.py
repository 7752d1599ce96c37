"""What an editor or a prompt shows of the public names: a docstring for each, and a `repr` that helps."""

import ast
import asyncio
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct

import doyen
import doyen.sync
import doyen.testing
from doyen.core.config import field_docs
from doyen.core.kinds import Choice
from doyen.node.config import NodeConfig
from doyen.node.registry import election_names, find_election, find_membership, membership_names

MODULES = ("doyen", "doyen.sync", "doyen.testing")
KINDS = [*map(find_election, election_names()), *map(find_membership, membership_names())]


def written(kind: type) -> dict[str, str]:
    """Return the texts that stand below the fields of a class, in its source or its parents'."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("doyen"):
            body = ast.parse(inspect.getsource(base)).body[0]
            assert isinstance(body, ast.ClassDef)
            for field, text in zip(body.body, body.body[1:], strict=False):
                is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
                    found[field.target.id] = str(ast.literal_eval(text.value))  # type: ignore[attr-defined]
    return found


def undocumented() -> Iterator[str]:
    for module in MODULES:
        there = importlib.import_module(module)
        for name in there.__all__:
            value, path = getattr(there, name), f"{module}.{name}"
            if inspect.isclass(value):
                yield from undocumented_of(value, path)
            elif not isinstance(value, str) and not inspect.getdoc(value):
                yield path


def undocumented_of(kind: type, path: str) -> Iterator[str]:
    if not kind.__dict__.get("__doc__"):
        yield path
    for base in kind.__mro__:
        for name, member in vars(base).items() if base.__module__.startswith("doyen") else ():
            plain = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(plain) and not inspect.getdoc(getattr(kind, name)):
                yield f"{path}.{name}"
    if issubclass(kind, Struct) and not issubclass(kind, Exception):
        texts = written(kind)
        yield from (f"{path}.{field}" for field in kind.__struct_fields__ if not texts.get(field))


def test_every_public_name_has_a_docstring() -> None:
    assert [*undocumented()] == []


def test_a_class_without_a_docstring_is_found() -> None:
    class Bare:
        def act(self) -> None: ...

    Bare.__module__ = "doyen.testing"
    assert {*undocumented_of(Bare, "Bare")} == {"Bare", "Bare.act"}


def test_join_says_what_each_argument_is() -> None:
    text = inspect.getdoc(doyen.join) or ""
    arguments = [name for name in inspect.signature(doyen.join).parameters if name != "fields"]
    assert [name for name in arguments if f"\n{name}: " not in text] == []
    assert (inspect.getdoc(doyen.sync.join) or "").partition("Every")[2] == text.partition("Every")[2]
    fields = field_docs(NodeConfig)
    assert [name for name in NodeConfig.__struct_fields__ if name != "tables" and not fields.get(name)] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_fields_of_a_choice_are_described_as_those_of_its_table(kind: Any) -> None:
    if kind.choice is not None:
        docs, texts = field_docs(kind.table.config), written(kind.choice)
        assert issubclass(kind.choice, Choice)
        fields = [name for name in kind.choice.__struct_fields__ if name not in kind.choice.on_node]
        assert {name: texts.get(name) for name in fields} == {name: docs[name] for name in fields}
        assert all(texts.get(name) for name in kind.choice.on_node)  # The node's text speaks of other elections too.


def test_a_repr_says_who_where_and_who_leads() -> None:
    async def main() -> None:
        node = doyen.join(
            "shown", name="ant", preset="local", elections=["mail"], leave_on_sigterm=False, find_local=False
        )
        assert repr(node) == "<doyen.Node in 'shown': not joined>"
        async with node:
            assert repr(node) == f"<doyen.Node 'ant' at {node.address} in 'shown': nobody leads>"
            async with node.lead(timeout="10s") as term:
                where = f"<doyen.Node 'ant' at {node.address} in 'shown': "
                assert repr(node) == f"{where}this node leads, term {term.number}>"
                assert repr(term) == f"Term({term.number}, 'ant')"
            info = await node.wait_for_leader("10s")
            assert repr(info) == (
                f"LeaderInfo(name='ant', address='{node.address}', meta={{}}, term={info.term}, since={info.since!r})"
            )
            async with node.election("mail").lead(timeout="10s") as term:
                said = f"<doyen.Campaign 'mail' of 'ant': this node leads, term {term.number}>"
                assert repr(node.election("mail")) == said
            (member,) = node.members()
            assert repr(member).startswith(f"MemberInfo(name='ant', address='{node.address}', since_s=")
            assert "suspected_by" not in repr(member)
        assert repr(node) == f"{where}ended>"

    asyncio.run(main())
    with doyen.sync.join("shown", name="bee", preset="local", find_local=False) as node:
        with node.lead(timeout="10s") as term:
            assert (
                repr(node)
                == f"<doyen.sync.Node 'bee' at {node.address} in 'shown': this node leads, term {term.number}>"
            )
            assert repr(term) == f"Term({term.number}, 'bee')"
        node.election("mail").wait_for_leader("10s")
        assert repr(node.election("mail")).startswith("<doyen.sync.Campaign 'mail' of 'bee': ")


def test_join_for_threads_is_shown_with_its_own_node_and_without_async() -> None:
    assert inspect.signature(doyen.sync.join).return_annotation is doyen.sync.Node
    assert "`async with`" not in (inspect.getdoc(doyen.sync.join) or "`async with`")
    assert "`async with`" in (inspect.getdoc(doyen.join) or "")
