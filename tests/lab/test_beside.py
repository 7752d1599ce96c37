"""Two systems on one mesh, of which one may never agree on a leader."""

import asyncio
from typing import Any

import pytest

from doyen.errors import TransportError
from doyen_lab.contest.beside_zookeeper import settle


class Trial:
    def __init__(self, settles: bool) -> None:
        self.settles, self.samples, self.steps = settles, 0, list[str]()

    async def settled(self) -> int:
        if not self.settles:
            raise TransportError("not settled within 90 s: 16 name nobody")
        return 0

    def step(self, text: str) -> None:
        self.steps.append(text)

    def sample(self) -> None:
        self.samples += 1


def test_a_system_that_does_not_settle_is_named_and_the_other_is_measured() -> None:
    trials: Any = {"doyen": Trial(True), "zookeeper": Trial(False)}
    why = {"zookeeper": "zookeeper: not settled within 90 s: 16 name nobody"}
    assert asyncio.run(settle(trials)) == why
    assert [trial.samples for trial in trials.values()] == [1, 1]  # Both wait for the end of the same time.
    assert trials["zookeeper"].steps == [*why.values()] and trials["doyen"].steps == []


def test_nothing_is_measured_where_no_system_settles() -> None:
    trials: Any = {"doyen": Trial(False), "zookeeper": Trial(False)}
    with pytest.raises(TransportError, match=r"doyen: not settled .*; zookeeper: not settled"):
        asyncio.run(settle(trials))
