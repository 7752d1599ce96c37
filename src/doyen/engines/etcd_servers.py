"""The servers of an etcd as they see each other: who leads, round trips, requests; and its transfer of leadership.

Each server measures its round trips to the others, every half a minute, and counts what clients ask of it: its
`/metrics` say both.  So nothing runs beside them.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from doyen.engines.etcd import Gateway
from doyen.engines.steering import Look
from doyen.engines.url import Url
from doyen.errors import TransportError

_SAMPLE: Final = re.compile(r"^(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
ROUND_TRIP: Final = "etcd_network_peer_round_trip_time_seconds"
REQUESTS: Final = "grpc_server_started_total"
METHODS: Final = ("Put", "Txn", "DeleteRange", "Range")


class Servers:
    """All servers of one etcd; each is asked by a connection of its own."""

    def __init__(self, url: Url, timeout_s: float) -> None:
        self._url = url
        self._gateways = [Gateway(replace(url, servers=(server,)), timeout_s) for server in url.servers]
        self._asked: dict[
            str, tuple[float, float]
        ] = {}  # When each server was asked last, and its requests until then.
        self._trips: dict[tuple[str, str], tuple[float, float, float]] = {}  # Sum, count and mean, at the last look.
        self._ids: dict[str, int] = {}  # Of the servers that answered, by name.
        self._by_id: dict[int, Gateway] = {}

    def look(self, now_s: float) -> tuple[Look, dict[str, str]]:
        """Return what the servers say, and for those that do not answer why.

        Raises `TransportError` if none answers.
        """
        silent: dict[str, str] = {}
        status: dict[int, tuple[int, str]] = {}  # The leader and the metrics that each answering server names.
        names: dict[int, str] = {}
        for gateway, (host, port) in zip(self._gateways, self._url.servers, strict=True):
            try:
                said = gateway.ask("/v3/maintenance/status", {})
                own, leader = int(said["header"]["member_id"]), int(said.get("leader", 0))
                for member in gateway.ask("/v3/cluster/member/list", {})["members"]:
                    names[int(member["ID"])] = member.get("name") or member["ID"]
                status[own] = leader, gateway.text("/metrics")
                self._by_id[own] = gateway
            except (TransportError, KeyError, ValueError) as error:
                silent[f"{host}:{port}"] = str(error)
        if not status:
            raise TransportError("; ".join(silent.values()))
        self._ids = {name: own for own, name in names.items()}
        return self._read(names, status, now_s), silent

    def move(self, leader: str, to: str) -> None:
        """Ask the leader to hand over.  Raises `TransportError` where it refuses, or is none."""
        if self._ids[leader] not in self._by_id:
            raise TransportError(f"{self._url}: {leader} leads, and none of the addresses given is its own")
        self._by_id[self._ids[leader]].ask("/v3/maintenance/transfer-leadership", {"targetID": str(self._ids[to])})

    def close(self) -> None:
        for gateway in self._gateways:
            gateway.close()

    def _rate(self, name: str, count: float, now_s: float) -> float:
        """Return a server's requests per second since the last look; at the first one, all until now."""
        before = self._asked.get(name)
        self._asked[name] = now_s, count
        if before is None or count < before[1]:  # The first look, or it was started again.
            return count
        return (count - before[1]) / max(now_s - before[0], 0.001)

    def _trip(self, name: str, to: str, total_s: float, count: float) -> float:
        """Return a round trip in ms: the mean of what was measured since the last look, or of all before.

        A server's estimate begins at 0 when it starts, so what is old says too little.
        """
        before = self._trips.get((name, to))
        if before is None or count < before[1]:
            mean = total_s / count
        elif count > before[1]:
            mean = (total_s - before[0]) / (count - before[1])
        else:
            mean = before[2]
        self._trips[name, to] = total_s, count, mean
        return 1000 * mean

    def _read(self, names: Mapping[int, str], status: Mapping[int, tuple[int, str]], now_s: float) -> Look:
        led = [leader for leader, _ in status.values() if leader in names]
        leader = max(set(led), key=led.count) if led else None
        rtt: dict[str, dict[str, float]] = {}
        rates: dict[str, float] = {}
        for own, (_, metrics) in status.items():
            name, sums, counts, requests = names[own], dict[str, float](), dict[str, float](), 0.0
            for sample, labels, value in _SAMPLE.findall(metrics):
                given = dict(_LABEL.findall(labels))
                if sample == f"{ROUND_TRIP}_sum":
                    sums[given["To"]] = float(value)
                elif sample == f"{ROUND_TRIP}_count":
                    counts[given["To"]] = float(value)
                elif sample == REQUESTS and given.get("grpc_method") in METHODS:
                    requests += float(value)
            rtt[name] = {
                names[int(to, 16)]: self._trip(name, to, sums[to], count)
                for to, count in counts.items()
                if count and int(to, 16) in names
            }
            rates[name] = self._rate(name, requests, now_s)
        return Look(
            leader=None if leader is None else names[leader],
            servers=tuple(sorted(names.values())),
            rtt_ms=rtt,
            rates=rates,
        )
