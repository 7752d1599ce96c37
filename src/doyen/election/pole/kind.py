"""POLE as a kind: a quorum of fixed voters elects by score.  [POLE §3]"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from doyen.core import kinds
from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.effects import Out
from doyen.core.ids import Term
from doyen.core.kinds import PRESET, Place, Time, presets
from doyen.core.reasons import Account, Reasons, Remark, first
from doyen.election.pole.config import PoleConfig


class Pole(kinds.ElectionChoice, frozen=True, kw_only=True):
    """A quorum of fixed voters, by score: never two leaders at once.  [POLE]"""

    kind = "pole"

    election_timeout: Time = PRESET
    """How long proposals are collected (T): four of the longest round trips. Too short: a poor score wins."""
    retry_max: Time = PRESET
    """The longest wait before a proposal is repeated; the first is election_timeout, each doubles."""
    score_timeout: Time = PRESET
    """How long an election waits for the first score; then any measured one wins."""
    lease: Time = PRESET
    """How long a leader acts after a majority has heard it. Too short: it is easily lost."""
    heartbeat_interval: Time = PRESET
    """The time between two heartbeats of the leader; never more than two fifths of lease."""
    drift_max: float = PRESET
    """How far the rates of two clocks may differ. Beyond it two could lead at once."""
    resign_interval: Time = PRESET
    """The time between the leader's comparisons of scores; inf: it never compares them."""
    resign_margin: float = PRESET
    """By which part of the leader's own score another must be better."""
    resign_rounds: int = PRESET
    """In how many comparisons in a row another must be better."""
    cool_down: Time = PRESET
    """The shortest time that a leader leads before it may resign by itself."""


preset = presets(
    PoleConfig,
    local=lambda size: PoleConfig(
        election_timeout=ms(50), lease=ms(500), heartbeat_interval=ms(100), retry_max=ms(200), score_timeout=ms(500)
    ),
    iot=lambda size: PoleConfig(
        election_timeout=seconds(2),
        lease=seconds(15),
        heartbeat_interval=seconds(6),
        retry_max=seconds(4),
        score_timeout=seconds(5),
    ),
)


class Granted(Account):
    """A majority grants the epoch; the proposers are known where the choice was made."""

    def note(self, fact: Any) -> Remark | None:
        from doyen.election.pole.messages import ElectionBegun, NotAVoter, NotVoting, Selected

        match fact:
            case Selected():
                self.candidates = tuple(fact.proposers)
                who = ", ".join(fact.proposers)
                return Remark("chosen", f"epoch {fact.epoch}: {fact.leader} chosen from {who}")
            case ElectionBegun():
                self.candidates = ()  # Those of an earlier epoch.
                return Remark("begun", f"epoch {fact.epoch} begun")
            case NotVoting() | NotAVoter():  # Only a person can end it.
                return Remark("shortage", str(fact), needs_a_person=True)
        return None

    def reasons(self, machine: Any, term: Term) -> Reasons:
        ballot = machine.ballot
        best = ballot.best if ballot.epoch <= term.number else None  # It may have taken a higher one since.
        if best is None and machine.inherited_in == term.number:
            return Reasons("handed over by the leader before it", {term.leader: "the best score that it knew"})
        if best is None or best[1] != term.leader or not self.candidates:
            return Reasons(f"{term.leader} leads epoch {term.number} by the word of a majority")
        score = "/".join(f"{part:g}" for part in best[0])
        others = {name: "no better, or later" for name in sorted(self.candidates) if name != term.leader}
        return Reasons("best score of those that proposed", first({term.leader: score} | others))


def build(place: Place) -> Callable[[Out], Any]:
    from doyen.election.pole.machine import Pole as Machine
    from doyen.election.pole.promise import VoterRecord as Record

    restored = place.restore(Record) if place.durable else None
    score = place.scorer()
    return lambda out: Machine(
        place.node,
        place.config,
        out,
        place.rng(place.channel),
        voters=place.voters,
        score=score,
        restored=restored,
        newcomer=restored is None and (place.newcomer or not place.durable),
        durable=place.durable,
        stands=place.eligible,
    )


def first_record() -> Any:
    from doyen.election.pole.promise import VoterRecord

    return VoterRecord(0)


def worst_case(config: PoleConfig, around: kinds.Around) -> kinds.WorstCase:
    return kinds.WorstCase(
        detection=config.guard + around.delay,
        failover=2 * config.guard + config.election_timeout + 6 * around.delay + 2 * around.disk,
        settling=config.settle_max + 2 * around.disk,
        because="a delay of its last word, a guard until silence counts, T to elect, a guard until voters are "
        "free, five delays, two writes to disk",
    )


POLE = kinds.ElectionKind(
    name="pole",
    aliases=("quorum",),
    about="A quorum of fixed voters, by score: never two leaders at once.",
    table=kinds.Table(name="pole", about="Pole elections", config=PoleConfig, preset=preset, hidden=("connected",)),
    choice=Pole,
    needs=kinds.Needs(voters=True, disk=True),
    build=build,
    promise=lambda config, rank: kinds.Promise(
        sort="quorum",
        in_short="never two leaders at once, and never two of one term, while clocks run at the same rate within "
        "drift_max; without a majority of the voters nobody leads.",
        because="it has the best score of those that took part (ties: the greatest name), and a majority granted it",
    ),
    worst_case=worst_case,
    account=Granted,
    lease=lambda config: int(config.lease),
    stay_put=lambda config: replace(config, resign_interval=FOREVER),
    compares_every=lambda config: int(config.resign_interval),
    asks_oracle=True,
    first_record=first_record,
)
