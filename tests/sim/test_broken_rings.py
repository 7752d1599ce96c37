"""Ring machines that are broken on purpose, one bug each, and the scenario that must catch it.  [ARB]"""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from doyen.core.clock import Instant
from doyen.membership.ring.admission import Admission
from doyen.membership.ring.arbitrator import Arbitrator, Judgement, Version
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name, Seat, neighbours
from doyen.membership.ring.machine import Arbitration
from doyen.membership.ring.messages import Verdict
from doyen.membership.ring.pair import Electorate, Pair
from doyen_papers.studies.arbitration import Build
from doyen_papers.studies.arbitration_scenarios import play

SEEDS: Final = range(1, 11)


class _HalfElects(Electorate):
    def is_majority(self, count: int, total: int) -> bool:
        return 2 * count >= total


class HalfIsEnough(Arbitration):
    ELECTORATE = _HalfElects


class OwnViewOfOthers(Arbitration):
    """Takes N_Q from P's own list."""

    def reflect(self, pair: Pair, version: int, members: tuple[Seat, ...]) -> None:
        known = {self.seat, *(other.seat for other in self.pairs.values())}
        super().reflect(pair, version, tuple(neighbours(pair.seat, known, self.config.neighbours)))


class _Gated(Arbitrator):
    booted_at: Instant | None = None

    def judge(self, asker: Name, suspect: Name, version: int, now: Instant) -> Judgement:
        self.booted_at = 0 if self.booted_at is None else self.booted_at
        if now - self.booted_at < self.config.recent:
            return Judgement(Verdict.REJECT)
        return super().judge(asker, suspect, version, now)


class GatedByUptime(Arbitration):
    ARBITRATOR = _Gated


class _OwnVersion(Arbitrator):
    def stale(self, asker: Name, suspect: Name, version: int, now: Instant) -> Version | None:
        return super().stale(suspect, asker, version, now)


class StaleByOwnVersion(Arbitration):
    ARBITRATOR = _OwnVersion


class NoRetransmission(Arbitration):
    def __init__(self, place: Seat, config: ArbitrationConfig, *arguments: Any, **more: Any) -> None:
        super().__init__(place, replace(config, resends=0), *arguments, **more)


class _NeverUnlocks(Admission):
    def locked_until(self, now: Instant) -> Instant:
        return now + 10**15


class UnboundedLock(Arbitration):
    ADMISSION = _NeverUnlocks


class AcksAfterSuspecting(Arbitration):
    def may_ack(self, pair: Pair) -> bool:
        return True


CAUGHT_BY: Final[dict[Build, str]] = {
    HalfIsEnough: "half-is-no-majority",
    OwnViewOfOthers: "crash-after-boot",
    GatedByUptime: "crash-after-boot",
    StaleByOwnVersion: "stale-request",
    NoRetransmission: "one-request-lost",
    UnboundedLock: "joiner-dies",
    AcksAfterSuspecting: "one-way-requests",
}


@pytest.mark.parametrize(("broken", "scenario"), CAUGHT_BY.items())
def test_a_broken_ring_is_caught(broken: Build, scenario: str) -> None:
    assert any(play(scenario, seed, broken) is not None for seed in SEEDS)
