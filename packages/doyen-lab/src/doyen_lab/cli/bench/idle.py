"""`doyen bench idle`: what a real group sends while nothing happens."""

import asyncio
import os
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import asdict

from doyen.cli.local import table
from doyen.cli.output import progress
from doyen.core.clock import seconds
from doyen.election.announce.config import AnnounceConfig
from doyen.errors import InvariantViolated
from doyen.net.driver import boot_time_ns
from doyen.testing.processes import config_flags
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import check_positive, report
from doyen_lab.contest.entrant import Entrant
from doyen_lab.contest.ours import MULTICAST, PORT, Ours, reach
from doyen_lab.contest.trial import with_groups
from doyen_lab.netns import NODES_MAX, Counters, Namespaces

BYTES_PER_S_MAX = 600  # What 16 nodes may send at T_A = 1 s.
# 16 idle ZooKeeper 3.8 servers on one bridge without loss, counted in the same way; measured once.
ZOOKEEPER_BYTES_PER_S = 3570
PATIENCE_S = 50.0
QUIET_AFTER_S = 12.0  # The kernel asks again for the addresses of those that it spoke with at the start.


class IdleMember(Struct, frozen=True, kw_only=True):
    """One process, alone in its namespace; counters are of the measured time only."""

    name: str
    pid: int
    namespace: str
    namespace_inode: int  # Of /proc/PID/ns/net.
    interface: str
    address: str
    tx_bytes: int
    tx_packets: int
    rx_bytes: int
    rx_packets: int


class Idle(Struct, frozen=True, kw_only=True):
    """The traffic of all members, by their own ends of their veth pairs: headers included, a multicast once."""

    nodes: int
    seconds: float  # As measured.
    leader: str
    bytes_per_s: float
    packets_per_s: float
    bytes_per_s_max: float
    zookeeper_bytes_per_s: float
    holds: bool
    members: list[IdleMember]


@click.command("idle", help="What a settled group sends, each process in a network namespace of its own (root).")
@click.option("--nodes", type=click.IntRange(2, NODES_MAX), default=16, show_default=True, help="How many processes.")
@click.option("--seconds", "seconds_", type=float, default=60, show_default=True, help="How long to count.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every member.")
def command(nodes: int, seconds_: float, as_json: bool) -> None:
    check_positive("--seconds", seconds_)
    report(
        run(with_groups(lambda folder: [_group(nodes, folder)], lambda groups: _measure(groups[0], seconds_))),
        as_json,
        _print,
    )


def _group(nodes: int, folder: Path) -> Ours:
    network, names = Namespaces(nodes), [f"n{i:02}" for i in range(1, nodes + 1)]
    config = AnnounceConfig(announce_interval=seconds(1), group_size=nodes)
    flags = ["--group", "idle", "--election", "announce", *config_flags(config), "--multicast", MULTICAST]
    return Ours("idle", network, folder, flags, lambda i: reach(network, i, ()), names=names)


async def _measure(group: Entrant, seconds_: float) -> Idle:
    best = max(group.names)
    await group.start_all()
    await group.settled(PATIENCE_S + group.size, QUIET_AFTER_S)
    before, began = _count(group), boot_time_ns()
    await _wait(seconds_)
    after, ended = _count(group), boot_time_ns()
    named = group.ledger.known(group.names)
    if named is None or named[0] != best or named[1] > began or len(group.processes.alive()) < group.size:
        raise InvariantViolated("the group was not idle: its leader changed while nothing happened to it")
    members = [
        IdleMember(
            name=name,
            pid=pid,
            namespace=host.name,
            namespace_inode=os.stat(f"/proc/{pid}/ns/net").st_ino,
            interface=host.interface,
            address=f"{host.ipv4}:{PORT}",
            **asdict(after[name].since(before[name])),
        )
        for name, pid, host in group.entries()
    ]
    elapsed_s = (ended - began) / 1e9
    bytes_per_s = sum(member.tx_bytes for member in members) / elapsed_s
    return Idle(
        nodes=len(members),
        seconds=elapsed_s,
        leader=best,
        bytes_per_s=bytes_per_s,
        packets_per_s=sum(member.tx_packets for member in members) / elapsed_s,
        bytes_per_s_max=BYTES_PER_S_MAX,
        zookeeper_bytes_per_s=ZOOKEEPER_BYTES_PER_S,
        holds=bytes_per_s < BYTES_PER_S_MAX,
        members=members,
    )


def _count(group: Entrant) -> dict[str, Counters]:
    return {name: host.counters() for name, host in group.hosts.items()}


async def _wait(seconds_: float) -> None:
    with progress("idle", int(seconds_)) as advance:
        for _ in range(int(seconds_)):
            await asyncio.sleep(1)
            advance(1)
        await asyncio.sleep(seconds_ % 1)


def _print(result: Idle) -> None:
    rows = [["MEMBER", "PID", "NAMESPACE", "INODE", "INTERFACE", "TX BYTES", "TX", "RX BYTES", "RX"]]
    for m in result.members:
        name = f"{m.name} ★" if m.name == result.leader else m.name
        figures = [str(value) for value in (m.tx_bytes, m.tx_packets, m.rx_bytes, m.rx_packets)]
        rows.append([name, str(m.pid), m.namespace, str(m.namespace_inode), m.interface, *figures])
    table(rows)
    click.echo(
        f"{result.nodes} processes, idle for {result.seconds:.1f} s: {result.bytes_per_s:.1f} B/s, "
        f"{result.packets_per_s:.2f} packets/s, all together, headers included · must be below "
        f"{result.bytes_per_s_max:g} B/s · ZooKeeper's 16 servers: {result.zookeeper_bytes_per_s:,} B/s"
    )
