"""`doyen bench idle`: what a real group sends while nothing happens."""

import asyncio
import os
import sys

import click
from msgspec import Struct

from doyen.cli.output import print_json, progress
from doyen.core.clock import seconds
from doyen.election.announce import AnnounceConfig
from doyen.errors import InvariantViolated
from doyen.net.driver import boot_time_ns
from doyen.testing.processes import LocalCluster
from doyen_lab.cli.bench import run
from doyen_lab.cli.bench.shared import check_positive, print_verdict, table
from doyen_lab.netns import NODES_MAX, QUIET_AFTER_S, Counters, Namespace, Namespaces

BYTES_PER_S_MAX = 600  # What 16 nodes may send at T_A = 1 s.
ZOOKEEPER_BYTES_PER_S = 3570  # 16 servers, counted alike.  [design.md §7]
MULTICAST = "239.192.0.1:7600"  # Nobody else is in these namespaces.


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
    """What all members sent, by their own ends of their veth pairs: headers are included, a multicast counts once."""

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
    with Namespaces(nodes) as network:
        result = run(_measure(network, seconds_))
    if as_json:
        print_json(result)
    else:
        _print(result)
    if not result.holds:
        sys.exit(1)


async def _measure(network: Namespaces, seconds_: float) -> Idle:
    config = AnnounceConfig(announce_interval=seconds(1), group_size=len(network.nodes))
    hosts = {f"n{i:02}": host for i, host in enumerate(network.nodes, 1)}
    async with LocalCluster("idle", config, flags=["--multicast", MULTICAST]) as cluster:
        for name, host in hosts.items():
            await cluster.start(name, "--bind", f"{host.ipv4}:0", wrap=host.wrap)
        await cluster.until_started(20.0 + len(hosts))
        await cluster.agreement(30, on=max(hosts), unchanged_s=QUIET_AFTER_S)
        before, began = _count(hosts), boot_time_ns()
        await _wait(seconds_)
        after, ended = _count(hosts), boot_time_ns()
        if cluster.agreed() != max(hosts) or len(cluster.alive()) < len(hosts):
            raise InvariantViolated("the group was not idle: its leader changed while nothing happened to it")
        members = []
        for name, host in hosts.items():
            member, moved = cluster.members[name], after[name].since(before[name])
            members.append(
                IdleMember(
                    name=name,
                    pid=member.pid,
                    namespace=host.name,
                    namespace_inode=os.stat(f"/proc/{member.pid}/ns/net").st_ino,
                    interface=host.interface,
                    address=member.address or "",
                    tx_bytes=moved.tx_bytes,
                    tx_packets=moved.tx_packets,
                    rx_bytes=moved.rx_bytes,
                    rx_packets=moved.rx_packets,
                )
            )
    elapsed_s = (ended - began) / 1e9
    bytes_per_s = sum(member.tx_bytes for member in members) / elapsed_s
    return Idle(
        nodes=len(members),
        seconds=elapsed_s,
        leader=max(hosts),
        bytes_per_s=bytes_per_s,
        packets_per_s=sum(member.tx_packets for member in members) / elapsed_s,
        bytes_per_s_max=BYTES_PER_S_MAX,
        zookeeper_bytes_per_s=ZOOKEEPER_BYTES_PER_S,
        holds=bytes_per_s < BYTES_PER_S_MAX,
        members=members,
    )


def _count(hosts: dict[str, Namespace]) -> dict[str, Counters]:
    return {name: host.counters() for name, host in hosts.items()}


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
    print_verdict(result.holds)
