"""Bad datagrams through a real socket, at a live agent: it counts them and goes on leading."""

import asyncio
import socket
from collections import Counter
from random import Random

import msgspec
import pytest
from flooder import echo

from doyen.core.codec import DATAGRAM_MAX, VERSION
from doyen.core.ids import parse_address
from doyen.election.announce.config import AnnounceConfig
from doyen.testing.processes import LocalCluster

pytestmark = pytest.mark.live
COUNT, BATCH = 4_000, 100
WORST = [2**64 - 1, -1, float("nan"), float("inf"), None, "", "n" * 900, [[[[]]]], {"a": {}}]


def bad_datagram(rng: Random) -> bytes:
    """Never a valid one, so that each must be refused."""
    match rng.randrange(4):
        case 0:
            return b"\xc1" + rng.randbytes(rng.randrange(300))  # 0xc1 begins nothing in msgpack.
        case 1:
            return rng.randbytes(rng.randrange(DATAGRAM_MAX + 1, 3_000))
        case 2:
            return msgspec.msgpack.encode([VERSION, "bad", "peer", 5, "election", ["A", rng.choice(WORST), 0]])
        case _:
            fields: list[object] = [VERSION, "bad", "peer", 5, "election", ["A", 1, 0]]
            fields[rng.randrange(6)] = rng.choice(WORST)
            return msgspec.msgpack.encode(fields)


def test_a_live_agent_counts_bad_datagrams_by_reason_and_goes_on_leading(quick: AnnounceConfig) -> None:
    async def main() -> None:
        rng = Random(3)
        async with LocalCluster("bad", quick, flags=["--status-every", "0.02"]) as cluster:
            b = await cluster.start("b")
            await cluster.until_started()
            assert b.address is not None
            a = await cluster.start("a", "--seed", b.address)
            await cluster.until_started()
            await cluster.agreement(10, on="b", unchanged_s=0.4)
            where = parse_address(b.address)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
                attacker.connect((where.host, where.port))
                attacker.settimeout(10)
                strangers = b.refused.get("unproven", 0)  # The other agent was one, too.
                assert echo(attacker), "who has not echoed is not heard at all"
                await cluster.until(lambda: b.refused.get("unproven", 0) > strangers, 10)
                before = Counter(b.refused)
                for sent in range(BATCH, COUNT + 1, BATCH):
                    for _ in range(BATCH):
                        attacker.send(bad_datagram(rng))
                        await asyncio.sleep(0)
                    # No more than its socket holds at a time, so that none is lost on the way.
                    await cluster.until(lambda sent=sent: (Counter(b.refused) - before).total() >= sent, 10)  # type: ignore[misc]
            counted = Counter(b.refused) - before
            assert counted.total() == COUNT
            reasons = {"oversized", "malformed", "version", "group", "channel", "message"}
            # Bytes by chance may look like a sealed packet, or like a handshake; many in a second are a flood.
            assert reasons == set(counted) - {"key", "handshake", "flood"}
            assert a.leader == b.leader == "b"
            heard = a.received
            await cluster.until(lambda: a.received >= heard + 3, 10)  # It still announces,
            assert a.leader == b.leader == "b"
            assert b.alive  # and never lost its head.
            cluster.kill("b")
            await b.process.wait()
            await cluster.agreement(10, on="a")

    asyncio.run(main())
