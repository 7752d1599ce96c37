"""The timers and options of elections by score, with a quorum of fixed voters; the same on every voter.  [POLE §3]"""

from typing import Annotated, TypeAlias

from msgspec import Meta

from doyen.core.clock import Duration, ms, seconds
from doyen.core.config import Amount, Config, Doc, Pause, Period, Timeout, Wait, need

Drift: TypeAlias = Annotated[float, Meta(ge=0, le=0.1)]


class PoleConfig(Config, frozen=True, kw_only=True):
    """The waits of an election, the leader's lease, and when a leader resigns."""

    election_timeout: Annotated[
        Period,
        Doc("How long proposals are collected (T): four of the longest round trips. Too short: a poor score wins."),
    ] = ms(200)
    retry_max: Annotated[
        Period, Doc("The longest wait before a proposal is repeated; the first is election_timeout, each doubles.")
    ] = seconds(1)
    score_timeout: Annotated[
        Pause, Doc("How long an election waits for the first score; then any measured one wins.")
    ] = seconds(1)
    lease: Annotated[
        Period, Doc("How long a leader acts after a majority has heard it. Too short: it is easily lost.")
    ] = seconds(2)
    heartbeat_interval: Annotated[
        Period, Doc("The time between two heartbeats of the leader; never more than two fifths of lease.")
    ] = ms(800)
    drift_max: Annotated[
        Drift, Doc("How far the rates of two clocks may differ. Beyond it two could lead at once.")
    ] = 0.001
    resign_interval: Annotated[
        Timeout, Doc("The time between the leader's comparisons of scores; inf: it never compares them.")
    ] = seconds(5)
    resign_margin: Annotated[Amount, Doc("By which part of the leader's own score another must be better.")] = 0.1
    resign_rounds: Annotated[
        int, Meta(ge=1, le=1000), Doc("In how many comparisons in a row another must be better.")
    ] = 3
    cool_down: Annotated[Wait, Doc("The shortest time that a leader leads before it may resign by itself.")] = seconds(
        60
    )
    connected: Annotated[
        bool, Doc("Only voters that exchange messages with a majority stand; false: any, as [POLE] has it.")
    ] = True

    def check(self) -> None:
        need(self.retry_max >= self.election_timeout, "retry_max", "must not be less than election_timeout")

    @property
    def beat_interval(self) -> Duration:
        """Return the time between two heartbeats.

        One that is not answered is repeated every T: three in a row may be lost with every preset (decision 35).  Where
        nothing is asked for again, two may.
        """
        return min(self.heartbeat_interval, 2 * self.lease // 5 if self.connected else self.lease // 3)

    @property
    def guard(self) -> Duration:
        """Return how long a voter is bound to a leader: the lease, by the slowest against the fastest clock.

        A leader's lease lasts at most lease/(1−ρ) of true time, a voter's wait at least guard/(1+ρ).
        """
        return int(self.lease * (1.0 + self.drift_max) / (1.0 - self.drift_max)) + 1

    @property
    def claim_timeout(self) -> Duration:
        """Return the longest wait for a majority of grants: voters may still be bound to another for a whole guard."""
        return self.guard + self.election_timeout

    @property
    def answer_timeout(self) -> Duration:
        """Return how long a claim waits for a first answer, and a voter for the claim of its choice."""
        return 3 * self.election_timeout

    @property
    def patience(self) -> Duration:
        """Return for how long a leader may be silent before a voter gives it up."""
        return self.guard

    @property
    def window(self) -> Duration:
        """Return for how long a message shows that its link works: two repetitions may be lost."""
        return 2 * (self.retry_max + self.election_timeout)

    @property
    def doubt(self) -> Duration:
        """Return for how long a leader may be silent before a voter asks it: the next heartbeat may just be late."""
        return 3 * self.beat_interval // 2

    @property
    def ask_interval(self) -> Duration:
        """Return the time between two questions for a leader that is not heard."""
        return self.lease // 8

    @property
    def settle_max(self) -> Duration:
        """Return the longest time from the end of all faults until all know one leader, where some voter and a
        majority hear each other (decision 33).

        A dead leader is given up, and voters are free, after a guard; links of before the last fault count for a
        window; proposals are repeated (retry); the greatest candidate may be gone, so that its claim is waited for in
        vain (4T); then the next election is held (6T).
        """
        return self.guard + self.window + self.retry_max + 10 * self.election_timeout + self.score_timeout

    @classmethod
    def lan(cls, group_size: int) -> "PoleConfig":
        return cls(
            election_timeout=ms(100),
            lease=seconds(2),
            heartbeat_interval=ms(800),
            retry_max=ms(300),
            score_timeout=ms(500),
        )

    @classmethod
    def wan(cls, group_size: int) -> "PoleConfig":
        """Return the preset for round trips of 300 ms and a few percent of loss."""
        return cls(
            election_timeout=ms(800),
            lease=seconds(4),
            heartbeat_interval=ms(1600),
            retry_max=ms(1600),
            score_timeout=seconds(5),
        )
