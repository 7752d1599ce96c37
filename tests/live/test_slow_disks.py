"""Voters whose disks are slow, as processes: an election is slower, and never stuck."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doyen.core.clock import to_seconds
from doyen.election.pole.config import PoleConfig
from doyen_lab.contest.ours import Ours
from doyen_lab.contest.trial import Trial
from doyen_lab.switch import Loopback

pytestmark = [pytest.mark.alone]

PROGRAM = Path(__file__).parents[1] / "helpers/slow_disk.py"
FLUSHES = 2  # Of one write: the file, and its directory.
STALL_S = 3.0  # The machine may be busy with something else.


class SlowDisks(Ours):
    """Three voters, of which two flush slowly."""

    def __init__(self, folder: Path, flush_s: float) -> None:
        super().__init__("slow", Loopback(3), folder, ())
        self._flush_s = flush_s

    def command(self, name: str) -> list[str]:
        i = self.names.index(name)
        given: dict[str, Any] = {"group": "slow", "name": name, "election": "pole", "voters": self.names}
        given |= {"bind": f"{self.hosts[name].ipv4}:7600", "seeds": [f"{self.hosts[self.names[0]].ipv4}:7600"]}
        given |= {"newcomer": True, "preset": "lan", "state": str(self.folder / "state")}
        return [sys.executable, str(PROGRAM), f"{self._flush_s if i else 0}", msgspec.json.encode(given).decode()]


@pytest.mark.parametrize(
    "flush_s", [0.3, *(pytest.param(slow, marks=pytest.mark.soak) for slow in (0.0, 0.1, 1.0))], ids=str
)
def test_a_slow_disk_makes_an_election_slower_and_never_stuck(
    flush_s: float, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    write_s = FLUSHES * flush_s
    bound_s = to_seconds(PoleConfig.lan(3).settle_max) + 2 * write_s + STALL_S

    async def measure() -> tuple[float, float | None]:
        async with SlowDisks(tmp_path, flush_s) as group:
            # A new voter makes two directories, and writes who it is, its first record, and that it has one.
            formed_s = await group.form(bound_s + 2 * flush_s + 3 * write_s)
            lost = await Trial(group, patience_s=bound_s).lose_leader("kill")
            return formed_s, lost.after_s(lost.acts_at)

    formed_s, acts_s = asyncio.run(measure())
    assert acts_s is not None and acts_s <= bound_s
    tell(f"a flush of {flush_s:g} s: first leader after {formed_s:.1f} s, the next {acts_s:.1f} s after a kill")
