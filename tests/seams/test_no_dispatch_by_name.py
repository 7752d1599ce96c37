"""Nothing in doyen is chosen by the name of a class or of an attribute, but where a command line makes it so."""

import ast
from collections.abc import Iterator

import pytest
from layers import PACKAGES

ROOT = PACKAGES["doyen"]
LOOKUPS = {"getattr", "hasattr", "setattr", "delattr", "getattr_static", "attrgetter", "methodcaller"}
CHECKS = ("__post_init__", "check")  # Methods in which a Struct checks its own fields.
FIELDS = "reads the fields of a Struct, whose names it has from the Struct or from a table beside it"
REPLACES = "replaces clocks and locks of the standard library in any user's program"
ALLOWED = {  # By module and function, with the reason.  An entry that nothing needs fails, too.
    "__init__.__getattr__": "a public name loads its module when it is used",
    "check.case._shown": "is a text",
    "check.explore.left_of": FIELDS,
    "check.frozen._attributes": "walks through any machine's state",
    "check.frozen.of": "walks through any machine's state",
    "core.config._limited": "reads the limits in a field's type",
    "core.config.is_duration": "reads what a type says of its unit",
    "fence.__init__.__getattr__": "a public name loads its module when it is used",
    "net.aead.load": "asks a C library whether it is recent enough",
    "net.leaderlink._establish": "asks the platform whether it has this option of sockets",
    "net.recording.built": "names the plain containers, as a file has them",
    "net.recording.built._parts": "walks through any machine's state",
    "net.recording.built.attributes_of": "walks through any machine's state",
    "net.recording.built.settable": "asks which names of a class are methods",
    "net.recording.effects._without_type": "is a text",
    "net.recording.effects.observe": "is a text",
    "net.recording.effects.persist": "is a text",
    "net.recording.effects.set_timer": "is a text",
    "net.recording.loader._fill": "puts any machine's state back",
    "net.recording.snapshot._write": "walks through any machine's state",
    "sim.channel.size_max": "asks whether a message is a Struct",
    "sim.scenario.shrink._with": FIELDS,
    "sim.scenario.text._table": FIELDS,
    "testing.__init__.__getattr__": "a public name loads its module when it is used",
    "testing.madeup.doubles._libraries": "ctypes makes a class for each C library",
    "testing.madeup.doubles.pairs": "asks the platform and the release of Python what they have",
    "testing.madeup.doubles.standing_in": REPLACES,
    "testing.madeup.refusal": "a class that stands for another bears its name",
    "testing.madeup.swap": REPLACES,
    "testing.madeup.swap._fake_of": REPLACES,
    "testing.madeup.swap._imported": REPLACES,
    "testing.madeup.swap._is_users": "asks a module for its file",
    "testing.madeup.swap.execute": REPLACES,
    "testing.madeup.swap.holds": REPLACES,
    "testing.madeup.swap.put": REPLACES,
}


def _asks_itself(node: ast.AST) -> bool:
    match node:
        case ast.Call(args=[ast.Name(id="self"), *_]):
            return True
    return False


def lookups(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Yield (module and function, what) for each lookup by name.

    What a Struct asks of itself when it checks itself are its own fields, and a name within an f-string is a text.
    """

    def walk(node: ast.AST, where: str, within: tuple[ast.AST, ...]) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            inner = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = child.name
                if child.name in ("__getattr__", "__getattribute__") and isinstance(node, ast.ClassDef):
                    yield f"{module}.{node.name}", child.name
            match child:
                case ast.Name(id=name) | ast.Attribute(attr=name) if name in LOOKUPS:
                    if not (where in CHECKS and _asks_itself(node)):
                        yield f"{module}.{where}".rstrip("."), name
                case ast.Attribute(attr="__name__" | "__qualname__" as name):
                    if not any(isinstance(outer, ast.JoinedStr) for outer in within):
                        yield f"{module}.{where}".rstrip("."), name
            yield from walk(child, inner, (*within, child))

    yield from walk(tree, "", ())


def test_nothing_is_found_by_the_name_of_a_class_or_an_attribute() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        if relative.parts[0] != "cli":
            module = ".".join(relative.with_suffix("").parts)
            for where, what in lookups(ast.parse(path.read_text()), module):
                found.setdefault(where, set()).add(what)
    assert {where: what for where, what in found.items() if where not in ALLOWED} == {}
    assert ALLOWED.keys() - found.keys() == set(), "these need no leave any more"


@pytest.mark.parametrize(
    "breach",
    [
        'def tell(fact): getattr(machine, "on_" + fact)(fact)',
        'if hasattr(machine, "leave"): machine.leave()',
        "def on(fact): HANDLERS[type(fact).__name__](fact)",
        "ACKS = {kind.__qualname__ for kind in KINDS}",
        "operator.methodcaller(name)(machine)",
        "values = map(getattr, machines, names)",
        "class Overheard:\n  def __getattr__(self, name): return self.machine[name]",
        'class Machine:\n  def resign(self): getattr(self, "stop")()',
        'class Config:\n  def __post_init__(self): getattr(other, "stop")()',
        "builtins.getattr(machine, name)",
    ],
)
def test_each_kind_of_breach_is_seen(breach: str) -> None:
    assert len([*lookups(ast.parse(breach), "m")]) == 1


@pytest.mark.parametrize(
    "text",
    [
        'raise ValueError(f"{type(error).__name__}: {error}")',
        "class Config:\n  def __post_init__(self):\n    for name in NAMES: check(getattr(self, name))",
        "log = getLogger(__name__)",
    ],
)
def test_texts_and_checks_of_own_fields_are_no_dispatch(text: str) -> None:
    assert [*lookups(ast.parse(text), "m")] == []
