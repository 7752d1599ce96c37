"""Churn-tolerant elections as kinds: base, optimistic, preferred, hybrid; and local, without messages.  [CTOL §IV]"""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import replace

from doyen.core import kinds
from doyen.core.clock import ms, seconds
from doyen.core.effects import Out
from doyen.core.ids import NodeId, Term
from doyen.core.kinds import ADVICE, PRESET, Place, Time, presets, weak
from doyen.core.reasons import Account, Reasons, Remark, first
from doyen.election.churn.config import CTolerantConfig, DeadLeader, Exclusion, TimeoutFrom, Variant

Rank: TypeAlias = Callable[[NodeId], Any]
MISSING: Final = "missing"  # The channel of the machine that estimates c.


class _Churn(kinds.ElectionChoice, frozen=True, kw_only=True):
    missing_max: int | Literal["auto"] = PRESET
    """How many members a list may lack (c). Too low: a wrong leader. With auto it is estimated."""
    failure_max: int = PRESET
    """How many listed members may be dead (f). Too low: slow elections; each costs 2 messages."""
    candidate_count: int = PRESET
    """How many candidates an answer names (x). Too low: none of them may be healthy."""
    unhealthy_count: int = PRESET
    """How many unhealthy members an answer names (y). Too low: one of them may lead."""
    exclusion: Exclusion = PRESET
    """Who is passed over: all on any list of the unhealthy, or those suspected most (top)."""
    response_timeout: Time = PRESET
    """How long answers are waited for: some round trips (TIMEOUT). Too long: slow retries."""
    timeout: TimeoutFrom = PRESET
    """Whether response_timeout is as configured, or twice the measured round trip (auto)."""
    notify_retry_max: int = PRESET
    """How often NOTIFYLEADER is repeated before the election begins anew; 0: never."""
    resend_interval: Time = PRESET
    """The time before a LEADER that is not acknowledged is repeated: about a round trip."""
    fan_out: int = PRESET
    """To how many members each receiver of LEADER passes it on; 0: its sender notifies all."""
    dead_leader: DeadLeader = PRESET
    """What to do if a named leader is believed dead: ask it, or begin the next term."""
    resign_cool_down: Time = PRESET
    """How long a member that has resigned is passed over."""
    final_timeout: Time = PRESET
    """How long a final result (LEADER) is waited for. Too short: rival elections."""
    begin_spread: Time = PRESET
    """A member without a leader begins within this time, at random. Too short: rivals."""
    back_off_max: Time = PRESET
    """The longest wait between two attempts while too few members are known."""
    ask_interval: Time = PRESET
    """The time between two questions to one member for its leader; inf: it is not asked."""
    better_by: float = PRESET
    """By what share of the larger score another must be better before the leader hands over."""
    better_for: Time = PRESET
    """How long another must be better before the leader hands over. Too short: noise; inf: never."""
    bootstrap_after: Time = PRESET
    """How long a member waits for a leader before it begins the first election; inf: forever."""


class Base(_Churn, frozen=True, kw_only=True):
    """Churn-tolerant: decides when c+1 answers are in.  [CTOL]"""

    kind = "base"


class Optimistic(_Churn, frozen=True, kw_only=True):
    """Churn-tolerant: names a leader early, then confirms."""

    kind = "optimistic"


class Preferred(_Churn, frozen=True, kw_only=True):
    """Churn-tolerant: avoids the unhealthy."""

    kind = "preferred"


class Hybrid(_Churn, frozen=True, kw_only=True):
    """Churn-tolerant: early, and avoids the unhealthy."""

    kind = "hybrid"


class Local(_Churn, frozen=True, kw_only=True):
    """Everybody takes the lowest hash of its own view: no messages, and no agreement either."""

    kind = "local"


preset = presets(
    CTolerantConfig,
    local=lambda size: CTolerantConfig(
        response_timeout=ms(50),
        resend_interval=ms(50),
        final_timeout=seconds(1),
        begin_spread=ms(50),
        bootstrap_after=ms(500),
        ask_interval=seconds(5),
        better_for=seconds(5),
    ),
    iot=lambda size: CTolerantConfig(
        response_timeout=seconds(2),
        resend_interval=seconds(1),
        final_timeout=seconds(30),
        begin_spread=seconds(2),
        bootstrap_after=seconds(10),
        better_for=seconds(60),
    ),
)


class Counted(Account):
    """The initiator counts answers; the other members rely on it."""

    def note(self, fact: Any) -> Remark | None:
        from doyen.election.churn.messages import AttemptBegan, CannotElect, LeaderHeld, ResponseCounted

        match fact:
            case AttemptBegan():
                self.answered, self.candidates, self.excluded = (), (), ()
                self.initiator = fact.election.initiator
                return Remark("begun", f"election of term {fact.election.number} begun here")
            case ResponseCounted():
                self.answered = tuple(dict.fromkeys((*self.answered, fact.sender)))
                self.excluded, self.candidates = fact.excluded, fact.candidates
            case LeaderHeld():
                if fact.record.election.initiator != self.initiator:  # What was counted here was for an earlier one.
                    self.answered, self.candidates, self.excluded = (), (), ()
                self.initiator = fact.record.election.initiator
                self.final = str(fact.record.term) if fact.record.final else self.final
            case CannotElect():
                return Remark("shortage", str(fact))
        return None

    def reasons(self, machine: Any, term: Term) -> Reasons:
        record = machine.held
        initiator = "" if record is None else record.election.initiator
        how = "" if record is None or record.final else " (not final yet)"
        handed = machine.point.handed_over
        if record is not None and handed is not None and handed.election == record.election:
            return Reasons(f"{initiator} handed over: {handed.because}")
        if initiator != machine.me or not self.candidates:
            return Reasons(f"{initiator or term.leader} counted the answers and announced it{how}")
        excluded = {name: f"excluded, suspected {count} times" for name, count in self.excluded}
        names = [NodeId(name) for name in self.candidates if name not in excluded]
        count = len(self.answered)
        text = f"best rank of the candidates of {count} answer{'s' * (count != 1)}{how}"
        compared = ranks(machine.point.rank, machine.point.tie, names)
        if next(iter(compared), term.leader) != term.leader:  # Scores have changed since, or came later.
            text += ", as they were then"
            others = [name for name in compared if name != term.leader]
            compared = {str(term.leader): "best"} | dict.fromkeys(others, "no better")
        return Reasons(text, first(compared | excluded))

    def tolerance(self, machine: Any) -> str:
        given, point = machine.config.missing_max, machine.point
        how = f"estimated, {100 * point.confidence:.0f} % sure" if given == "auto" else "as configured"
        return f" (c+1 = {point.missing_max() + 1}; c = {point.missing_max()} {how})"


class Hashed(Account):
    """Each member takes the lowest hash of its own view."""

    def reasons(self, machine: Any, term: Term) -> Reasons:
        return Reasons("lowest hash in this node's view", ranks(machine.rank, None, sorted(machine.considered)))


def ranks(rank: Rank, tie: Rank | None, names: list[NodeId]) -> dict[str, str]:
    """Return the scores as they were given, the best first; where the best ones are equal, the hash that decides, too.

    The hash is shown as its first digits; alone, where nobody has a score.
    """
    tie = tie or rank
    ordered = sorted((rank(name), tie(name), name) for name in names)
    if not any(isinstance(value, float) and value for value, _, _ in ordered):
        return {name: f"#{other:016x}"[:9] for _, other, name in ordered}
    equals = {name for value, _, name in ordered if value == ordered[0][0]}
    return {
        name: f"{0.0 - value:g}" + (f" #{other:016x}"[:10] if name in equals and len(equals) > 1 else "")
        for value, other, name in ordered
    }


def worst_case(config: CTolerantConfig, around: kinds.Around) -> kinds.WorstCase:
    """Return the sums; an answer and a LEADER may be lost once each."""
    found = around.detection
    election = config.begin_spread + 4 * around.delay + config.response_timeout + config.resend_interval
    detection, because = found.duration, found.because
    if found.of_leader is not None:
        detection, because = found.of_leader + 2 * around.delay, found.of_leader_because
    return kinds.WorstCase(
        detection=detection,
        failover=detection + election,
        settling=found.merging + config.bootstrap_after + config.final_timeout + found.duration + election,
        because=f"{because}; then begin_spread, and QUERY, RESPONSE, NOTIFYLEADER, LEADER, two of them repeated",
    )


TABLE = kinds.Table(
    name="ctolerant",
    about="Churn-tolerant elections",
    config=CTolerantConfig,
    preset=preset,
    hidden=("variant",),  # The election's name says it.
)
NEEDS = kinds.Needs(
    members=True,
    why="it elects from a list of members, so give one that keeps a list (swim, medley, heartbeat), or an election "
    "that needs none (fast)",
)


def _kind(choice: type[_Churn], variant: Variant, about: str, among: str, *aliases: str) -> kinds.ElectionKind:
    def build(place: Place) -> Callable[[Out], Any]:
        from doyen.election.churn.machine import CTolerant
        from doyen.election.churn.messages import Memory
        from doyen.election.churn.standpoint import salted
        from doyen.membership.missing import MissingConfig, MissingEstimator

        if place.config.missing_max == "auto":
            quiet = MissingConfig.quiet()
            place.companion(MISSING, lambda out: MissingEstimator(place.node, quiet, out, place.rng(MISSING)))
        restored = place.restore(Memory) if place.durable else None
        tie = salted(place.group, place.name)

        def made(out: Out) -> CTolerant:
            machine = CTolerant(
                place.node,
                place.incarnation,
                replace(place.config, variant=variant),
                out,
                place.rng(place.channel),
                rank=place.rank or tie,
                tie=tie,
                ranks_differ=place.rank is not None,
                restored=restored,
                durable=place.durable,
            )
            machine.point.eligible = place.eligible
            return machine

        return made

    def promise(config: CTolerantConfig, rank: str) -> kinds.Promise:
        what, ties = ("best score", " (of equals, the lowest hash)") if rank == "score" else ("lowest hash", "")
        return weak(f"it has the {what} of {among} that took part{ties}")

    return kinds.ElectionKind(
        name=variant,
        aliases=aliases,
        about=about,
        table=TABLE,
        choice=choice,
        needs=NEEDS,
        build=build,
        promise=promise,
        worst_case=worst_case,
        account=Counted,
        keeps_cool_down=True,
        heeds_score=lambda config, rank: rank == "score",
    )


BASE = _kind(Base, "base", "Churn-tolerant, decides when c+1 answers are in.", "those")
OPTIMISTIC = _kind(Optimistic, "optimistic", "Churn-tolerant, names a leader early, then confirms.", "those")
PREFERRED = _kind(Preferred, "preferred", "Churn-tolerant, avoids the unhealthy.", "the healthy members")
HYBRID = _kind(Hybrid, "hybrid", "Churn-tolerant, early, and avoids the unhealthy.", "the healthy members", "gossip")


def _build_local(place: Place) -> Callable[[Out], Any]:
    from doyen.election.churn.local import Local as Machine
    from doyen.election.churn.standpoint import salted

    return lambda out: Machine(place.node, out, rank=salted(place.group, place.name))


LOCAL = kinds.ElectionKind(
    name="local",
    about="The lowest hash of each member's own view: no messages, no agreement.",
    table=TABLE,
    choice=Local,
    needs=NEEDS,
    build=_build_local,
    promise=lambda config, rank: kinds.Promise(
        in_short=f"none: each member takes the lowest hash of its own view, and views may differ. {ADVICE}",
        because="it has the lowest hash in this member's view",
    ),
    worst_case=lambda config, around: kinds.WorstCase(
        detection=around.detection.of_leader_by_all()[0],
        failover=around.detection.of_leader_by_all()[0],
        settling=around.detection.duration + around.detection.merging,
        because=around.detection.of_leader_by_all()[1],
    ),
    account=Hashed,
    resigns=False,
    heeds_eligible=False,
    heeds_score=lambda config, rank: False,
)
