"""Reads from the kernel and the logs that processes were real and apart, and what they complained of."""

import os
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from doyen_lab.switch import Switch

TROUBLE: Final = re.compile(r"Traceback|never retrieved|never awaited|\bstops: |Exception ignored|[Ff]atal|failed on")


class Host(Struct, frozen=True):
    """One namespace of the run, and the processes that the kernel saw in it."""

    namespace: str
    inode: int
    pids: tuple[int, ...]  # Of all that ran there, each seen inside by the kernel's word.
    tx_packets: int
    rx_packets: int


def hosts_of(network: Switch, pids: dict[int, list[int]]) -> tuple[list[Host], list[str]]:
    """Return the hosts by the kernel's counters, and what is wrong: each must have its own namespace, and have sent."""
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


def complaints(log: Path) -> list[str]:
    """Return the lines of a log that are no JSON: what its process wrote to its standard error."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("{")]


def trouble(folder: Path) -> list[str]:
    """Return the lines in the logs that tell of an error which nobody handled."""
    found = []
    for log in sorted(folder.glob("*.log")):
        lines = [line for line in complaints(log) if TROUBLE.search(line)]
        found += [f"{log.stem}: {line[:200]}" for line in lines[:3]]
    return found
