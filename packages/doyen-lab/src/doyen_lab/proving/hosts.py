"""That processes were real, and apart: by the kernel's own word."""

import os

from msgspec import Struct

from doyen_lab.switch import Switch


class Host(Struct, frozen=True):
    """One namespace of the run: that processes were real, and apart, can be looked up."""

    namespace: str
    inode: int
    pids: tuple[int, ...]  # Of all that ran there, each seen inside by the kernel's word.
    tx_packets: int
    rx_packets: int


def hosts_of(network: Switch, pids: dict[int, list[int]]) -> tuple[list[Host], list[str]]:
    """By the kernel's own counters; and what is wrong: each must be a namespace of its own, and have spoken."""
    found, wrong = [], []
    for index, ran in sorted(pids.items()):
        node, counters = network.nodes[index], network.nodes[index].counters()
        found.append(Host(node.name, node.inode, tuple(ran), counters.tx_packets, counters.rx_packets))
        if not counters.tx_packets:
            wrong.append(f"nothing was ever sent by {node.name}")
    apart = {os.stat("/proc/self/ns/net").st_ino, *(host.inode for host in found)}
    every_pid = [pid for host in found for pid in host.pids]
    if len(apart) <= len(found) or len(set(every_pid)) < len(every_pid):
        wrong.append("processes or namespaces are shared")
    return found, wrong
