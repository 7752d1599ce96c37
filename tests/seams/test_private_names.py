"""Tests speak to the product by public names: inputs, effects, facts, properties, a transport, a client."""

from collections import Counter
from pathlib import Path

import pytest
from layers import PACKAGES, ROOT
from private import defined, reaches, reaches_across

ALLOWED = {  # By file: how many, and why no public seam will do.
    "papers/test_arb.py": (3, "bugs in the middle of a step: a monitor that does not notice, a lock that is not kept"),
    "sim/test_ring_storm.py": (1, "a bug in the middle of a step: a member is voted out and stays"),
}


def test_no_test_reaches_into_a_private_name_but_those_listed() -> None:
    private = defined(PACKAGES)
    assert len(private) > 500
    found = reaches(ROOT / "tests", private)
    counts = Counter(reach.path for reach in found)
    listed = {path: count for path, (count, _) in ALLOWED.items()}
    others = [str(reach) for reach in found if counts[reach.path] != listed.get(reach.path)]
    assert counts == listed, "\n".join(["more or fewer than listed:", *others])


def test_no_module_reaches_into_a_private_name_of_another() -> None:
    found = {f"{reach.path} {reach.name}" for reach in reaches_across(PACKAGES, defined(PACKAGES))}
    assert found == {"doyen_lab/simulators/simpy_bare.py _queue"}, "SimPy's own heap, and none of ours"


@pytest.mark.parametrize(
    "text",
    [
        "machine._heard.clear()",
        "node.driver._heard = 1",
        "from doyen.core.made_up import _heard",
        "import doyen\nx = doyen.core._heard",
        "monkeypatch.setattr(Swim, '_heard', None)",
        "monkeypatch.setattr('doyen.core.made_up._heard', None)",
        "getattr(machine, '_heard')",
        "from doyen.core import Swim\nclass Mutant(Swim):\n    def _heard(self): ...",
        "from doyen.core import Swim\nclass Mutant(Swim):\n    def start(self):\n        self._heard = 1",
        "from doyen import core\nclass Mutant(core.Swim):\n    def start(self):\n        super()._heard()",
    ],
)
def test_a_reach_is_seen(text: str, tmp_path: Path) -> None:
    (tmp_path / "product").mkdir()
    (tmp_path / "product" / "made_up.py").write_text("class Swim:\n    def __init__(self):\n        self._heard = {}\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(text)
    private = defined({"doyen": tmp_path / "product"})
    assert [reach.name for reach in reaches(tmp_path / "tests", private)] == ["_heard"]


def test_a_tests_own_names_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "class Told:\n    def _put(self): self._heard = 1\n    def __init__(self): self._put()\n"
    )
    assert reaches(tmp_path, {"_heard", "_put"}) == []
