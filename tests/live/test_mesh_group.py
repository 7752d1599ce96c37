"""Agents on a lossy mesh elect over a weak membership, and elect again after a kill and after a silent cut."""

import asyncio
import shutil
from pathlib import Path

import pytest

from doyen.core.clock import ms
from doyen_lab.contest.ours import MeshTimers, on_mesh
from doyen_lab.contest.trial import Lost, Trial
from doyen_lab.mesh import Mesh

pytestmark = [
    pytest.mark.alone,
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("iptables") is None, reason="the mesh needs iptables"),
]
QUICK = MeshTimers(
    missing_max=1, period=ms(400), ack_timeout=ms(150), suspicion_timeout=ms(1500), response_timeout=ms(100)
)


def test_a_group_on_a_lossy_mesh_gets_its_next_leader_after_a_kill_and_after_a_silent_cut(tmp_path: Path) -> None:
    async def main() -> tuple[Lost, Lost]:
        with Mesh(2, 3, drop=0.03) as mesh:
            async with on_mesh(mesh, "doyen", QUICK, tmp_path) as group:
                trial = Trial(group, patience_s=90)
                await group.form(90)
                assert len({host.inode for _, _, host in group.entries()}) == 6
                assert len({pid for _, pid, _ in group.entries()}) == 6
                await trial.settled()
                killed = await trial.lose_leader("kill")
                await trial.settled()
                return killed, await trial.lose_leader("cut")

    killed, cut = asyncio.run(main())
    kill_s, cut_s = killed.after_s(killed.known_at), cut.after_s(cut.known_at)
    assert kill_s is not None and 0 < kill_s < 10  # A kill is known by the end of a connection, a cut by silence.
    assert cut_s is not None and 0.5 < cut_s < 30
    assert killed.known not in (None, killed.member) and cut.known not in (None, cut.member)
    assert killed.settled_at is not None and cut.settled_at is not None
