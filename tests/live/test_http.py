"""HTTP of real agents, asked as Prometheus, a kubelet and a load balancer ask."""

import asyncio
import json
import socket
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from doyen.election.announce.config import AnnounceConfig
from doyen.testing.processes import LocalCluster

pytestmark = pytest.mark.live


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urlopen(Request(url, headers=headers), timeout=5) as reply:
            return reply.status, reply.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def samples(families: Any) -> dict[tuple[str, str], float]:
    """Return values by name and bucket; every sample must have the group's label."""
    found = {}
    for family in families:
        for sample in family.samples:
            assert sample.labels["group"] == "watched", sample
            found[sample.name, sample.labels.get("le", "")] = sample.value
    return found


def test_metrics_are_read_in_both_formats_and_count_a_takeover(quick: AnnounceConfig) -> None:
    async def main() -> None:
        async with LocalCluster("watched", quick) as cluster:
            seeds: list[str] = []
            places = {name: f"127.0.0.1:{free_port()}" for name in ("a", "b", "c")}
            for name, place in places.items():
                member = await cluster.start(name, *seeds, "--http", place)
                await cluster.until_started()
                seeds += ["--seed", member.address or ""]
            await cluster.agreement(10, on="c", unchanged_s=0.4)
            cluster.kill("c")
            await cluster.agreement(10, on="b", unchanged_s=0.4)
            for name in ("a", "b"):
                url = f"http://{places[name]}"
                assert json.loads(get(f"{url}/leader")[1])["leader"] == "b"
                assert get(f"{url}/livez")[0] == get(f"{url}/readyz")[0] == 200
                openmetrics = get(f"{url}/metrics", Accept="application/openmetrics-text; version=1.0.0")[1]
                as_text = samples(read_text(get(f"{url}/metrics")[1]))
                found = samples(read_openmetrics(openmetrics))
                assert found.keys() == as_text.keys()
                assert found["doyen_takeover_seconds_count", ""] == found["doyen_takeover_seconds_bucket", "10.0"] == 1
                assert 0 < found["doyen_takeover_seconds_sum", ""] < 10
                assert found["doyen_is_leader", ""] == (name == "b")

    asyncio.run(main())
