"""Whole agents, as processes: sealed packets and the hold on the leader as a user gets them, by flags."""

import asyncio
from pathlib import Path

import pytest

from doyen.core.clock import ms, seconds
from doyen.election.announce import AnnounceConfig
from doyen.lab.local import LocalCluster, multicast_on_loopback
from doyen.net.keys import write_keys

pytestmark = pytest.mark.live

PATIENT = AnnounceConfig(announce_interval=ms(200), listen_timeout=seconds(60), suppress_interval=ms(150), group_size=3)


@pytest.mark.parametrize("with_key", [False, True])
def test_a_killed_leader_is_replaced_long_before_its_silence_would_be_noticed(tmp_path: Path, with_key: bool) -> None:
    write_keys(tmp_path / "keys", [bytes(32)])
    flags = ["--key-file", str(tmp_path / "keys")] if with_key else []

    async def main() -> None:
        async with LocalCluster("link", PATIENT, flags=[*multicast_on_loopback(), *flags]) as cluster:
            for name in ("a", "b", "c"):
                await cluster.start(name)
            await cluster.until_started()
            await cluster.agreement(10, on="c", unchanged_s=1.0)
            at = cluster.kill("c")
            since = await cluster.agreement(10, on="b", unchanged_s=0.4)
            assert since - at < seconds(5)

    asyncio.run(main())
