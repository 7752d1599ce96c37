"""Recordings of real processes under real faults are what the specification of POLE allows."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from doyen.audit.audit import audit
from doyen_lab.proving.combination import COMBINATIONS
from doyen_lab.proving.runner import prove
from doyen_lab.proving.scenarios import SCENARIOS

pytestmark = [pytest.mark.alone, pytest.mark.soak]


@pytest.mark.root
@pytest.mark.parametrize("scenario", ["kill-leader", "pause-leader", "cut-leader", "rolling-restart", "replace-voter"])
def test_a_run_of_the_proving_ground_is_allowed(scenario: str, tell: Callable[[str], None]) -> None:
    result = asyncio.run(prove(SCENARIOS[scenario], COMBINATIONS["pole"], keep=True))
    try:
        found = audit(sorted(Path(result.histories).glob("*.rec")))
        assert found.refused is None
        assert len(found.terms) > 1 and found.missing == []
        tell(
            f"audit of {scenario}: {sum(found.steps.values()):,} steps of {len(found.nodes)} nodes, "
            f"{found.trusted} on trust"
        )
    finally:
        shutil.rmtree(result.histories)
