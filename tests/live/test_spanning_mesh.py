"""The spanning election among twelve real processes, each in a network namespace of its own.  [MADM §6.3]"""

import asyncio
import os

import pytest

from doyen_lab.iproute import existing_namespaces
from doyen_lab.spanning_mesh import run_mesh
from doyen_papers.papers.madm.chapter import GRAPHS, quality_of

ALL = ",".join(map(str, range(12)))
WITHOUT_10 = ALL.replace(",10", "")


@pytest.mark.alone
@pytest.mark.root
def test_twelve_processes_on_a_mesh_elect_through_failures_of_links_and_nodes() -> None:
    edges = GRAPHS["6.5"]
    result = asyncio.run(run_mesh(edges, quality_of("6.5"), parted=("5", "11")))
    assert [(step.what, step.leaders) for step in result.steps[1:]] == [
        ("elected", {ALL: "10"}),
        ("links cut", {ALL: "10"}),
        ("leader dead", {WITHOUT_10: "2"}),
        ("parted", {"0,1,2,3,4,6,7,8,9": "2", "5,11": "11"}),
        ("healed", {WITHOUT_10: "2"}),
        ("returned", {ALL: "2"}),  # A better one that returns adopts the leader.
    ]
    assert result.steps[0].what == "started"
    assert result.total == result.expected == 8 * 22 - 4 * 12 + 4
    assert len({host.pid for host in result.hosts}) == len({host.inode for host in result.hosts}) == 12
    assert os.stat("/proc/self/ns/net").st_ino not in {host.inode for host in result.hosts}
    assert all(host.tx_packets > 100 and host.rx_packets > 100 for host in result.hosts)
    assert set(result.link_packets) == {"-".join(sorted(edge, key=int)) for edge in edges}  # And on nothing else.
    assert not [name for name in existing_namespaces() if name.startswith(f"doyen{os.getpid()}-")]
