"""The folder tree is the architecture: `layers.py` says what each folder may use, and nothing else is used."""

from pathlib import Path

import pytest
from layers import FILES, LAYERS, PACKAGES, Extra, Layer, check
from reader import cycles, uses


def test_every_use_is_allowed_and_every_allowance_used() -> None:
    found = uses(PACKAGES)
    assert len(found) > 3000
    breaches, unused = check(found, LAYERS, FILES)
    first = {(use.layer, use.sort, use.name): str(use) for use in reversed(breaches)}
    assert not breaches, "\n".join(sorted(first.values()))
    assert not unused, "\n".join(unused)


def test_no_two_modules_import_each_other_while_they_are_imported() -> None:
    assert not cycles(PACKAGES)


def plant(root: Path, **texts: str) -> dict[str, Path]:
    """A made-up tree: `core__x="…"` is the text of doyen/core/x.py."""
    for name in ("core", "membership", "election", "net", "node", "sim"):
        (root / name).mkdir()
        (root / name / "__init__.py").touch()
    (root / "__init__.py").touch()
    (root / "net" / "udp.py").touch()
    for name, text in texts.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return {"doyen": root}


@pytest.mark.parametrize(
    ("text", "seen"),
    {
        "an import": ("from doyen.net.udp import Udp", "ours doyen.net"),
        "a whole module": ("import doyen.net.udp as udp", "ours doyen.net"),
        "a folder out of the package": ("from doyen import net", "ours doyen.net"),
        "a relative import": ("from ..net import udp", "ours doyen.net"),
        "a relative import of the package": ("from .. import net", "ours doyen.net"),
        "within a function": ("def f():\n    from doyen.net import udp", "ours doyen.net"),
        "for a type checker": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from doyen.net import udp",
            "typing doyen.net",
        ),
        "import_module": ("import importlib as i\ni.import_module('doyen.net.udp')", "ours doyen.net"),
        "import_module by its name": (
            "from importlib import import_module as load\nload(f'doyen.net.{x}')",
            "ours doyen.net",
        ),
        "import_module of a variable": ("from importlib import import_module\nimport_module(name)", "world dynamic"),
        "import_module of a table": (
            "from importlib import import_module\nT = {'a': 'doyen.net.udp'}\nimport_module(T[x])",
            "ours doyen.net",
        ),
        "__import__": ("s = __import__('socket')", "outside socket"),
        "exec": ("exec(text)", "world dynamic"),
        "open": ("def f(path):\n    return open(path).read()", "world files"),
        "io.open": ("import io\nio.open('x')", "world files"),
        "a path of somebody else": ("def f(path):\n    return path.read_text()", "world files"),
        "bytes to a path": ("def f(path):\n    path.parent.write_bytes(b'')", "world files"),
        "opening a path": ("def f(path):\n    with path.open('rb') as file: ...", "world files"),
        "pathlib": ("from pathlib import Path", "outside pathlib"),
        "a clock": ("import time as t\nnow = t.monotonic()", "world clock"),
        "a clock by its name": ("from time import time\nnow = time()", "world clock"),
        "a date": ("from datetime import datetime\nnow = datetime.now()", "world clock"),
        "global randomness": ("import random\nrandom.shuffle(x)", "world chance"),
        "global randomness by its name": ("from random import choice", "outside random"),
        "a random stream without a seed": ("from random import Random\nr = Random()", "world chance"),
        "a socket": ("import socket", "outside socket"),
        "asyncio": ("import asyncio.events", "outside asyncio"),
        "a thread": ("from threading import Thread", "outside threading"),
        "a process": ("from subprocess import run", "outside subprocess"),
        "the environment": ("import os\nx = os.environ.get('HOME')", "world environment"),
        "the environment by its name": ("from os import getenv", "world environment"),
        "the console": ("print('hello')", "world console"),
        "a package of others": ("import numpy as np", "outside numpy"),
        "a module that nobody has thought of": ("import ftplib", "outside ftplib"),
    }.values(),
)
def test_a_breach_in_a_machine_is_seen(text: str, seen: str, tmp_path: Path) -> None:
    breaches, _ = check(uses(plant(tmp_path, election__planted=text)), LAYERS, FILES)
    assert seen in {f"{use.sort} {use.name}" for use in breaches}, breaches
    assert {use.path for use in breaches} == {"doyen/election/planted.py"}


@pytest.mark.parametrize(
    "text",
    [
        "from doyen.core import x\nfrom ..core import x\nfrom . import planted\nfrom doyen.membership import y",
        "from random import Random\ndef f(rng: Random): return Random(7), rng.random()",
        "import math, msgspec\nfrom collections.abc import Callable",
        "requests.open(pair, now)\nnode.time()\nself.now()",
    ],
)
def test_an_innocent_machine_is_not_accused(text: str, tmp_path: Path) -> None:
    assert check(uses(plant(tmp_path, election__planted=text)), LAYERS, FILES)[0] == []


def test_a_folder_that_the_table_does_not_know_is_refused(tmp_path: Path) -> None:
    breaches, _ = check(uses(plant(tmp_path, web__app="import math")), LAYERS, FILES)
    assert [use.layer for use in breaches] == ["doyen.web"]


def test_an_allowance_of_one_file_is_not_its_neighbours(tmp_path: Path) -> None:
    text = "def f(path): return path.read_text()"
    roots = plant(tmp_path, core__config=text, core__codec=text)
    files = {"doyen/core/config.py": Extra(Layer(world="files"), "made up")}
    assert [use.path for use in check(uses(roots), LAYERS, files)[0]] == ["doyen/core/codec.py"]


def test_an_allowance_that_nothing_uses_is_refused(tmp_path: Path) -> None:
    found = uses(plant(tmp_path, core__clock="import msgspec"))
    layers = {name: Layer() for name in ("doyen", "doyen.core")} | {
        "doyen.core": Layer("doyen.errors", "msgspec", "clock", typing="doyen.net"),
        "doyen.gone": Layer(outside="socket"),
    }
    files = {"doyen/core/old.py": Extra(Layer(world="files"), "it was renamed")}
    breaches, unused = check(found, layers, files)
    assert not breaches
    assert [entry for entry in unused if not entry.startswith("PURE")] == [
        "doyen.core ours doyen.errors",
        "doyen.core world clock",
        "doyen.core typing doyen.net",
        "doyen.gone outside socket",
        "doyen/core/old.py world files",
        "doyen.gone: no such folder",
    ]
    assert "PURE math" in unused


def test_a_cycle_is_seen_where_modules_are_imported_and_not_where_functions_run(tmp_path: Path) -> None:
    roots = plant(
        tmp_path,
        core__a="from doyen.core import b",
        core__b="class B:\n    from .c import x",
        core__c="import doyen.core.a",
        net__a="from doyen.net import b",
        net__b="def f():\n    from doyen.net import a",
    )
    assert cycles(roots) == [["doyen.core.a", "doyen.core.b", "doyen.core.c"]]
