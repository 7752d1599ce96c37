"""Two of one name that never hear each other: whoever hears both tells the later one, and it gives up."""

import asyncio
from pathlib import Path

import pytest

import doyen
from doyen.net import namesakes

pytestmark = pytest.mark.live


def test_a_second_process_that_has_the_first_as_its_seed_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first knows nobody, so of itself it says nothing that the second could hear."""
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(namesakes, "GIVES_UP_AFTER", 100_000_000)
    monkeypatch.setattr(namesakes, "NOTIFY_EVERY", 50_000_000)

    async def main() -> None:
        async with (
            doyen.join("pair", name="ant", preset="local") as first,
            doyen.join("pair", name="ant", preset="local", seeds=[first.address]) as second,
        ):
            async with asyncio.timeout(20):
                await second.ended.wait()
            assert "is called 'ant' too: rename one" in str(second.failure)
            assert first.running

    asyncio.run(main())


@pytest.mark.parametrize("election", ["hybrid"])
def test_namesakes_that_never_hear_each_other(election: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))

    def made(name: str, *seeds: str) -> doyen.Node:
        return doyen.join(
            "twins", name=name, bind="127.0.0.1:0", preset="local", election=election, seeds=seeds, link=False
        )

    async def main() -> None:
        async with made("ant") as ant, made("bee", ant.address) as first:
            async with asyncio.timeout(20):
                while not (ant.term == first.term is not None):
                    await asyncio.sleep(0.02)
            async with made("bee", ant.address) as second:
                async with asyncio.timeout(30):
                    await second.ended.wait()
                assert "is called 'bee' too: rename one" in str(second.failure)
                assert first.address in str(second.failure)
            assert ant.agent.driver.refused["rival"] > 0
            async with asyncio.timeout(30):  # Until the rival is forgotten; then nobody flaps.
                settled: set[object] = set()
                while len(settled) != 1 or None in settled:
                    settled = {ant.term, first.term}
                    await asyncio.sleep(1.0)
                    settled |= {ant.term, first.term}
            assert first.running and first.failure is None

    asyncio.run(main())
