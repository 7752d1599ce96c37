"""Agents on a lossy mesh elect over a weak membership, and elect again after a kill and after a silent cut."""

import asyncio
import shutil

import pytest

from doyen.core.clock import ms
from doyen_lab.beside import Ours
from doyen_lab.mesh import Mesh
from doyen_lab.ours import MeshGroup, Setting

pytestmark = [
    pytest.mark.alone,
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("iptables") is None, reason="the mesh needs iptables"),
]
QUICK = Setting(
    missing_max=1, period=ms(400), ack_timeout=ms(150), suspicion_timeout=ms(1500), response_timeout=ms(100)
)


def test_a_group_on_a_lossy_mesh_gets_its_next_leader_after_a_kill_and_after_a_silent_cut() -> None:
    async def main() -> tuple[float, float]:
        with Mesh(2, 3, drop=0.03) as mesh:
            async with MeshGroup(mesh, "doyen", QUICK) as group:
                system = Ours(group)
                await system.start()
                await system.settled()
                inodes = {inode for _, _, host in system.processes() for inode in [host.inode]}
                assert len(inodes) == len({pid for _, pid, _ in system.processes()}) == 6
                return await system.takeover("kill"), await system.takeover("cut")

    kill_s, cut_s = asyncio.run(main())
    assert 0 < kill_s < 10  # A kill is known by the end of a connection, a cut by silence.
    assert 0.5 < cut_s < 30
